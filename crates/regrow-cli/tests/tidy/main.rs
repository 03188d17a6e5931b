//! The shape of the source: who may import whom, how long a file may be, and which words people never read.

#![allow(clippy::unwrap_used)] // This is a test.

mod imports;
mod source;
mod words;

use std::collections::{BTreeMap, BTreeSet};

use source::{Source, examples, sources};

/// No file has more lines of code than this; comments, blank lines and unit tests do not count.
const LONGEST_FILE: usize = 400;

#[test]
fn no_file_is_too_long() {
    let long: Vec<String> = sources()
        .iter()
        .map(|source| (source.code_lines(), &source.path))
        .filter(|(lines, _)| *lines > LONGEST_FILE)
        .map(|(lines, path)| format!("{path}: {lines} lines of code"))
        .collect();
    assert!(long.is_empty(), "split the state, not only the file:\n{}", long.join("\n"));
}

#[test]
fn files_import_each_other_in_one_direction() {
    let sources: Vec<Source> = sources().into_iter().chain(examples()).collect();
    let cycles = imports::cycles(&imports::between(&sources));
    assert!(cycles.is_empty(), "import cycles:\n{}", cycles.join("\n"));
}

/// The map in ARCHITECTURE.md has a line `crate: crate, crate` for each crate and what it may import.
#[test]
fn crates_import_what_the_map_allows() {
    let map = imports::map(&source::read("ARCHITECTURE.md"));
    let mut found: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for Source { krate, text, .. } in &sources() {
        let known = map.keys().filter(|name| *name != krate);
        let used = known.filter(|name| text.contains(&format!("{}::", name.replace('-', "_"))));
        found.entry(krate.clone()).or_default().extend(used.cloned());
    }
    for (krate, used) in found {
        let allowed = map.get(&krate).unwrap_or_else(|| panic!("{krate} is not in the map"));
        let not_allowed: Vec<_> = used.difference(allowed).collect();
        assert!(not_allowed.is_empty(), "{krate} imports {not_allowed:?}, which the map does not allow");
    }
}

#[test]
fn the_tests_that_the_security_document_names_exist() {
    let (document, code) = (source::read("docs/security.md"), source::all_code());
    let is_name =
        |text: &&str| text.contains('_') && text.chars().all(|c| c == '_' || c.is_ascii_alphanumeric());
    let named: Vec<&str> = document.split('`').skip(1).step_by(2).filter(is_name).collect();
    assert!(named.len() > 27, "{named:?}");
    let missing: Vec<_> = named.iter().filter(|name| !code.contains(&format!("fn {name}("))).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn people_read_plain_words() {
    let mut found: Vec<String> = vec![];
    for source in sources() {
        found.extend(words::in_strings(&source));
        found.extend(words::in_comments(&source));
    }
    for path in source::documents() {
        found.extend(words::in_document(&path, &source::read(&path)));
    }
    assert!(found.is_empty(), "{} places:\n{}", found.len(), found.join("\n"));
}
