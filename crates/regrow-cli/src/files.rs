//! Which configuration files are read, and what is said about that.

use std::path::{Path, PathBuf};

use regrow_gateway::config::{Config, Problems, Surroundings, discover};

/// The files of a configuration.
pub(crate) struct Files {
    pub(crate) paths: Vec<PathBuf>,
    surroundings: Surroundings,
}

impl Files {
    /// Those that were named, or the one that is found; then it is said which. None where nothing is found.
    pub(crate) fn find(named: impl IntoIterator<Item = PathBuf>) -> Option<Files> {
        let surroundings = Surroundings::of_process();
        let paths: Vec<PathBuf> = named.into_iter().collect();
        if !paths.is_empty() {
            return Some(Files { paths, surroundings });
        }
        let found = discover(&surroundings)?;
        eprintln!("regrow: using {}", shown(&found.taken));
        for other in &found.others {
            eprintln!("regrow: not using {}; name it to use it", shown(other));
        }
        Some(Files { paths: vec![found.taken], surroundings })
    }

    /// What they say together. Remarks go to standard error.
    pub(crate) fn read(&self) -> Result<Config, Problems> {
        let config = Config::read(&self.paths, &self.surroundings)?;
        for remark in &config.remarks {
            eprintln!("{remark}");
        }
        Ok(config)
    }
}

pub(crate) fn shown(path: &Path) -> String {
    path.to_string_lossy().escape_debug().to_string()
}
