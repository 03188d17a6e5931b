//! Which environment a server gets.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};

/// The exact environment of a server: nothing is added but the mark by which we find its helpers again.
pub type Environment = BTreeMap<OsString, OsString>;

/// Names that a program needs to find its way, and that hold no secrets. A `*` at the end stands for any ending.
const ALLOWED: [&str; 15] = [
    "HOME",
    "LANG",
    "LANGUAGE",
    "LC_*",
    "LOGNAME",
    "PATH",
    "SHELL",
    "TEMP",
    "TERM",
    "TMP",
    "TMPDIR",
    "TZ",
    "USER",
    "XDG_*",
    "__CF_USER_TEXT_ENCODING", // macOS: without it some programs ask the directory service at each start.
];

/// Our own environment, as our host chose it.
pub fn inherited() -> Environment {
    std::env::vars_os().collect()
}

/// The part of our own environment that every program needs: home, path, language, temporary files; no secrets.
pub fn clean() -> Environment {
    std::env::vars_os().filter(|(name, _)| is_allowed(name)).collect()
}

fn is_allowed(name: &OsStr) -> bool {
    let name = name.as_encoded_bytes();
    ALLOWED.iter().any(|allowed| match allowed.strip_suffix('*') {
        Some(start) => name.starts_with(start.as_bytes()),
        None => name == allowed.as_bytes(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clean_environment_keeps_the_way_and_leaves_the_secrets() {
        for name in ["PATH", "HOME", "LC_ALL", "XDG_RUNTIME_DIR"] {
            assert!(is_allowed(OsStr::new(name)), "{name}");
        }
        for name in ["GITHUB_TOKEN", "PATHS", "AWS_SECRET_ACCESS_KEY", "LD_PRELOAD", ""] {
            assert!(!is_allowed(OsStr::new(name)), "{name}");
        }
    }
}
