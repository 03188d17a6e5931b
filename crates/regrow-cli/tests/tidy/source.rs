//! The source files of all crates, and the documents.

use std::fs;
use std::path::{Path, PathBuf};

/// One file of a crate's `src`.
pub(crate) struct Source {
    /// From the root of the repository.
    pub(crate) path: String,
    pub(crate) krate: String,
    /// Its place in the crate: `["transport", "http"]` for `src/transport/http.rs`.
    pub(crate) module: Vec<String>,
    pub(crate) text: String,
}

impl Source {
    /// Lines that are neither blank, nor comments, nor of a unit test at the end of the file.
    pub(crate) fn code_lines(&self) -> usize {
        let code = self.text.split("\n#[cfg(test)]\nmod ").next().unwrap_or_default();
        let is_code = |line: &&str| !line.trim().is_empty() && !line.trim_start().starts_with("//");
        code.lines().filter(is_code).count()
    }
}

/// Every source file, except those of unit tests.
pub(crate) fn sources() -> Vec<Source> {
    let mut found = vec![];
    for folder in ["crates", "tools"] {
        for krate in entries(&root().join(folder)) {
            collect(&krate.join("src"), &krate.join("src"), &name(&krate), &mut found);
        }
    }
    let bench = root().join("bench");
    collect(&bench.join("src"), &bench.join("src"), "bench", &mut found);
    assert!(found.len() > 100, "the sources are where this test looks for them");
    found
}

/// Those of the examples, each of which is a crate of its own.
pub(crate) fn examples() -> Vec<Source> {
    let mut found = vec![];
    for krate in entries(&root().join("crates")) {
        for example in entries(&krate.join("examples")).iter().filter(|path| path.is_dir()) {
            collect(example, example, &format!("example {}", name(example)), &mut found);
        }
    }
    assert!(!found.is_empty(), "the examples are where this test looks for them");
    found
}

/// The files in a folder of the crate whose root module is in `top`.
fn collect(folder: &Path, top: &Path, krate: &str, found: &mut Vec<Source>) {
    for path in entries(folder) {
        let name = name(&path);
        if path.is_dir() && name != "tests" {
            collect(&path, top, krate, found);
        } else if name.ends_with(".rs") && name != "tests.rs" {
            let inside = path.strip_prefix(top).unwrap().with_extension("");
            let mut module: Vec<String> =
                inside.components().map(|part| part.as_os_str().to_str().unwrap().to_owned()).collect();
            if module == ["lib"] || module == ["main"] {
                module.clear();
            }
            found.push(Source {
                path: path.strip_prefix(root()).unwrap().to_str().unwrap().to_owned(),
                krate: krate.to_owned(),
                module,
                text: fs::read_to_string(&path).unwrap(),
            });
        }
    }
}

/// All code of all crates, with the tests.
pub(crate) fn all_code() -> String {
    fn add(folder: &Path, code: &mut String) {
        for path in entries(folder) {
            if path.is_dir() {
                add(&path, code);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                code.push_str(&fs::read_to_string(path).unwrap());
            }
        }
    }
    let mut code = String::new();
    add(&root().join("crates"), &mut code);
    code
}

/// The documents that users read.
pub(crate) fn documents() -> Vec<String> {
    let mut found = vec![
        "README.md".to_owned(),
        "ARCHITECTURE.md".to_owned(),
        "CONTRIBUTING.md".to_owned(),
        "SECURITY.md".to_owned(),
    ];
    for path in entries(&root().join("docs")) {
        if path.extension().is_some_and(|extension| extension == "md") {
            found.push(format!("docs/{}", path.file_name().unwrap().to_str().unwrap()));
        }
    }
    found
}

pub(crate) fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap()
}

fn root() -> PathBuf {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).canonicalize().unwrap()
}

fn name(path: &Path) -> String {
    path.file_name().unwrap().to_str().unwrap().to_owned()
}

/// In order; none if there is no such folder.
fn entries(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else { return vec![] };
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths
}
