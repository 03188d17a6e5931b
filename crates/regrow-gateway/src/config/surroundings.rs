//! What a configuration may refer to: the environment, the home folder, the working directory.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

/// What the files are read in the light of.
#[derive(Clone, Default)]
pub struct Surroundings {
    /// The variables that `${VAR}` stands for.
    pub variables: BTreeMap<String, String>,
    /// The user's home folder.
    pub home: Option<PathBuf>,
    /// The working directory.
    pub directory: PathBuf,
}

impl Surroundings {
    /// Those of this process. Variables that are no Unicode are left out: no file could name what they hold.
    pub fn of_process() -> Surroundings {
        let text = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        };
        let home = std::env::var_os("HOME").map(PathBuf::from).filter(|home| home.is_absolute());
        Surroundings {
            variables: std::env::vars_os().filter_map(text).collect(),
            home,
            directory: std::env::current_dir().unwrap_or_else(|_| PathBuf::from("/")),
        }
    }

    /// A variable, if it is set.
    pub(super) fn variable(&self, name: &str) -> Option<&str> {
        self.variables.get(name).map(String::as_str)
    }

    /// Whether this is the project that we work in.
    pub(super) fn is_project(&self, folder: &str) -> bool {
        self.directory == Path::new(folder)
    }
}

/// Without the values of variables, which may be secrets.
impl fmt::Debug for Surroundings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Surroundings")
            .field("home", &self.home)
            .field("directory", &self.directory)
            .finish_non_exhaustive()
    }
}
