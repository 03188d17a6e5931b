//! Where our own executable is, in the way that still holds tomorrow.

use std::path::{Path, PathBuf};

/// The path to write into a configuration: absolute, since hosts with a window lack the user's `PATH`.
///
/// The one in `PATH`, if that is us: it stays when a package manager puts the next version elsewhere.
pub(super) fn path() -> Result<String, String> {
    let ours =
        std::env::current_exe().map_err(|error| format!("the path of regrow is not known: {error}"))?;
    let found = std::env::var_os("PATH").and_then(|path| in_path(std::env::split_paths(&path), &ours));
    let path = found.unwrap_or(ours);
    let text = path.to_str().ok_or("the path of regrow is not valid Unicode, as a configuration must be")?;
    match path.is_file() {
        true => Ok(text.to_owned()),
        false => Err("regrow was replaced while it ran; start it again".into()),
    }
}

fn in_path(folders: impl Iterator<Item = PathBuf>, ours: &Path) -> Option<PathBuf> {
    let same = ours.canonicalize().ok()?;
    let mut candidates = folders.filter(|folder| folder.is_absolute()).map(|folder| folder.join("regrow"));
    candidates.find(|candidate| candidate.canonicalize().is_ok_and(|path| path == same))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_in_the_path_is_taken_if_it_leads_to_us() {
        let folder = tempfile::tempdir().unwrap();
        let (real, other, link) =
            (folder.path().join("1.0"), folder.path().join("0.9"), folder.path().join("bin"));
        for path in [&real, &other, &link] {
            std::fs::create_dir(path).unwrap();
        }
        std::fs::write(real.join("regrow"), "new").unwrap();
        std::fs::write(other.join("regrow"), "old").unwrap();
        std::os::unix::fs::symlink(real.join("regrow"), link.join("regrow")).unwrap();
        let folders = [PathBuf::from("relative"), other, link.clone()];
        assert_eq!(in_path(folders.into_iter(), &real.join("regrow")), Some(link.join("regrow")));
        assert_eq!(in_path([folder.path().to_owned()].into_iter(), &real.join("regrow")), None);
    }
}
