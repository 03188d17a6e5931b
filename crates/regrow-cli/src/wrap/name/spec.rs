//! Names from packages, images, modules and paths.

/// What a script may be called.
const EXTENSIONS: [&str; 19] = [
    "sh", "bash", "py", "pyz", "js", "mjs", "cjs", "ts", "mts", "cts", "tsx", "jar", "rb", "php", "pl",
    "exe", "cmd", "bat", "dll",
];
/// A file of such a name says nothing; its folder does.
const VAGUE_FILES: [&str; 8] = ["index", "main", "__main__", "mod", "cli", "run", "start", "app"];
/// Nor does such a folder.
const VAGUE_FOLDERS: [&str; 12] =
    ["dist", "build", "lib", "src", "out", "bin", "esm", "cjs", "target", "release", "debug", "."];
/// Such a part at the end of a module's name says nothing.
const VAGUE_PARTS: [&str; 6] = ["server", "main", "__main__", "cli", "app", "mcp"];

/// The name of a program: without its folder, and without the extensions of Windows.
pub(super) fn program(word: &str) -> String {
    let name = parts(word).last().copied().unwrap_or_default();
    let lowered = name.to_ascii_lowercase();
    let is_windows = [".exe", ".cmd", ".bat"].iter().any(|extension| lowered.ends_with(extension));
    if is_windows { stem(name).to_owned() } else { name.to_owned() }
}

/// The name of a script, or of its folder where that says more. Relative paths start in `folder`.
pub(super) fn path(script: &str, folder: Option<&str>) -> String {
    let script = script.split(['?', '#']).next().unwrap_or_default();
    let parts = parts(script);
    let Some((file, folders)) = parts.split_last() else { return String::new() };
    let name = stem(file);
    // A program without an extension is called what it is called.
    if name == *file || !VAGUE_FILES.contains(&name) {
        return name.to_owned();
    }
    let outer = folder.map(self::parts).unwrap_or_default();
    let mut folders = outer.into_iter().chain(folders.iter().copied()).rev();
    let telling = folders.find(|folder| !VAGUE_FOLDERS.contains(folder) && *folder != "..");
    telling.filter(|folder| !folder.ends_with(':')).unwrap_or(name).to_owned()
}

/// `@scope/package@1.2.3`, `package[extra]==1.2`, `git+https://host/o/repo.git@main`, `registry/image:tag`: without all of that.
pub(super) fn package(spec: &str) -> String {
    let spec = spec.split(['?', '#', '[', '=', '<', '>', '~', '!', ';', ' ']).next().unwrap_or_default();
    let after_scope = spec.strip_prefix('@').and_then(|scoped| scoped.split_once('/')).map(|(_, rest)| rest);
    // `name@npm:other`: an alias.
    let bare = after_scope.unwrap_or(spec);
    let bare = match bare.find('@') {
        Some(at) if !bare[..at].contains("://") && at > 0 => &bare[..at],
        _ => bare,
    };
    let last = parts(bare).last().copied().unwrap_or_default();
    let last = last.split('@').find(|part| !part.is_empty()).unwrap_or_default();
    let last = last.split(':').next().unwrap_or_default();
    let last = [".git", ".tgz", ".whl"].iter().find_map(|end| last.strip_suffix(end)).unwrap_or(last);
    stem(last).to_owned()
}

/// The name of an image: without its registry, its tag and its digest.
pub(super) fn image(reference: &str) -> String {
    let last = reference.rsplit('/').next().unwrap_or_default();
    last.split(['@', ':']).next().unwrap_or_default().to_owned()
}

/// The part of a module's name that says most.
pub(super) fn module(name: &str) -> String {
    let parts: Vec<&str> = name.split('.').filter(|part| !part.is_empty()).collect();
    let telling = parts.iter().rev().find(|part| !VAGUE_PARTS.contains(part));
    telling.or(parts.first()).copied().unwrap_or_default().to_owned()
}

fn stem(file: &str) -> &str {
    match file.rsplit_once('.') {
        Some((stem, extension)) if !stem.is_empty() => {
            let known = EXTENSIONS.iter().any(|known| extension.eq_ignore_ascii_case(known));
            if known { stem } else { file }
        }
        _ => file,
    }
}

fn parts(path: &str) -> Vec<&str> {
    path.split(['/', '\\']).filter(|part| !part.is_empty()).collect()
}
