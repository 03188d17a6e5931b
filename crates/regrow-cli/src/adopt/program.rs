//! What a configuration calls our executable, so that it still holds tomorrow.

use std::path::{Component, Path, PathBuf};

const NAME: &str = "regrow";

/// Where apps look that are started from a desktop.
pub(crate) const OF_DESKTOP: &[&str] =
    if cfg!(target_os = "macos") { &["/usr/bin", "/bin"] } else { &["/usr/local/bin", "/usr/bin", "/bin"] };

/// What is known about our executable.
pub(crate) struct Program {
    /// What the user wants to be written.
    given: Option<String>,
    /// Where we are.
    ours: PathBuf,
    /// The folders of `PATH`.
    folders: Vec<PathBuf>,
}

impl Program {
    pub(crate) fn find(given: Option<&str>) -> Result<Program, String> {
        if given.is_some_and(|given| Path::new(given).file_name().is_none_or(|name| name != NAME)) {
            return Err(format!("--path must end in {NAME}, or --undo would not know it again"));
        }
        let ours =
            std::env::current_exe().map_err(|error| format!("the path of regrow is not known: {error}"))?;
        if !ours.is_file() {
            return Err("regrow was replaced while it ran; start it again".into());
        }
        let folders = std::env::var_os("PATH").map(|path| std::env::split_paths(&path).collect());
        Ok(Program { given: given.map(str::to_owned), ours, folders: folders.unwrap_or_default() })
    }

    /// What to write for a host: the name if the host will find us by it, otherwise an absolute path. Apps that are started from a desktop
    /// lack the user's `PATH`.
    pub(crate) fn for_host(&self, is_desktop: bool) -> Result<String, String> {
        if let Some(given) = &self.given {
            return Ok(given.clone());
        }
        // Of an executable that may vanish, any other that is installed takes the place.
        let is_suitable = |candidate: &Path| match is_in_cache(&self.ours) {
            true => candidate.is_file() && !is_in_cache(candidate),
            false => is_same(candidate, &self.ours),
        };
        let find = |folders: &[PathBuf]| {
            let candidates = folders.iter().filter(|folder| folder.is_absolute()).map(|it| it.join(NAME));
            candidates.into_iter().find(|candidate| is_suitable(candidate))
        };
        let of_host: Vec<PathBuf> = match is_desktop {
            true => OF_DESKTOP.iter().map(PathBuf::from).collect(),
            false => self.folders.clone(),
        };
        if find(&of_host).is_some() {
            return Ok(NAME.into());
        }
        // The one in `PATH` stays when a package manager puts the next version elsewhere.
        let path = find(&self.folders).or_else(|| Some(self.ours.clone()).filter(|ours| !is_in_cache(ours)));
        let path = path.ok_or(
            "regrow runs from the cache of a package manager, which may be emptied; \
             install it (`npm install -g regrow`, `uv tool install regrow`), or say where it will be with --path",
        )?;
        path.into_os_string()
            .into_string()
            .map_err(|_| "the path of regrow is not valid Unicode, as a configuration must be".into())
    }
}

pub(crate) fn is_same(one: &Path, other: &Path) -> bool {
    one.canonicalize().is_ok_and(|one| other.canonicalize().is_ok_and(|other| one == other))
}

/// Whether npx, uvx or a program like these has put it there, for one run.
pub(crate) fn is_in_cache(path: &Path) -> bool {
    let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    path.components().any(|component| match component {
        Component::Normal(name) => {
            let name = name.to_string_lossy();
            [".cache", "Caches", "_npx", "dlx", "archive-v0"].contains(&&*name) || name.starts_with("bunx-")
        }
        _ => false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    /// An executable in a folder of this name.
    fn executable(folder: &Path, name: &str) -> PathBuf {
        let folder = folder.join(name);
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join(NAME), name).unwrap();
        folder.join(NAME)
    }

    #[test]
    fn the_name_is_written_where_the_host_finds_us_by_it_and_else_a_path_that_lasts() {
        let folder = tempfile::tempdir().unwrap();
        let (real, other) = (executable(folder.path(), "1.0"), executable(folder.path(), "0.9"));
        let bin = folder.path().join("bin");
        fs::create_dir(&bin).unwrap();
        symlink(&real, bin.join(NAME)).unwrap();
        let relative = PathBuf::from("relative");
        let folders = vec![relative, other.parent().unwrap().to_owned(), bin.clone()];
        let program = Program { given: None, ours: real.clone(), folders };
        assert_eq!(program.for_host(false).unwrap(), "regrow");
        assert_eq!(program.for_host(true).unwrap(), bin.join(NAME).to_str().unwrap());
        let alone = Program { folders: vec![], ..program };
        assert_eq!(alone.for_host(false).unwrap(), real.to_str().unwrap());
        let given = Program { given: Some("/x/regrow".into()), ..alone };
        assert_eq!(given.for_host(true).unwrap(), "/x/regrow");
    }

    #[test]
    fn a_path_in_the_cache_of_a_package_manager_is_never_written() {
        let folder = tempfile::tempdir().unwrap();
        let installed = executable(folder.path(), "bin");
        for cache in [".npm/_npx/1f/node_modules/x", ".cache/uv/archive-v0/x/bin", "Library/Caches/x"] {
            let ours = executable(folder.path(), cache);
            let folders = vec![ours.parent().unwrap().to_owned()];
            let program = Program { given: None, ours: ours.clone(), folders };
            assert!(program.for_host(false).unwrap_err().contains("install it"));
            let folders = vec![ours.parent().unwrap().to_owned(), installed.parent().unwrap().to_owned()];
            let program = Program { folders, ..program };
            assert_eq!(program.for_host(false).unwrap(), "regrow");
        }
    }
}
