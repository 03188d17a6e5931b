//! Which configuration files are read, and what is said about that.

use std::path::{Path, PathBuf};

use regrow_gateway::config::{Config, Problems, Surroundings, discover};

use crate::ask::can_ask;
use crate::folder_config::FolderConfig;

/// The files of a configuration.
pub(crate) struct Files {
    pub(crate) paths: Vec<PathBuf>,
    surroundings: Surroundings,
    /// Nobody named it, and it came with the folder: nothing in it runs before it is trusted.
    pub(crate) needs_trust: bool,
}

/// Why a configuration is not used.
pub(crate) enum Unusable {
    /// It has problems.
    Problems(Problems),
    /// It came with its folder, and is not trusted as it is now.
    Untrusted(FolderConfig),
}

impl Unusable {
    pub(crate) fn problems(self) -> Problems {
        match self {
            Unusable::Problems(problems) => problems,
            Unusable::Untrusted(config) => config.refusal(),
        }
    }
}

impl Files {
    /// Those that were named, or the one that is found; then it is said which. None where nothing is found.
    pub(crate) fn find(named: impl IntoIterator<Item = PathBuf>) -> Option<Files> {
        let surroundings = Surroundings::of_process();
        let paths: Vec<PathBuf> = named.into_iter().collect();
        if !paths.is_empty() {
            return Some(Files { paths, surroundings, needs_trust: false });
        }
        let found = discover(&surroundings)?;
        eprintln!("regrow: using {}", shown(&found.taken));
        for other in &found.others {
            eprintln!("regrow: not using {}; name it to use it", shown(other));
        }
        Some(Files { paths: vec![found.taken], surroundings, needs_trust: found.is_of_folder })
    }

    /// What they say together, if it may run. Where `may_ask`, a person who can be asked decides about what is not trusted yet.
    pub(crate) fn read_or_ask(&self, may_ask: bool) -> Result<Config, Unusable> {
        let config = self.read_untrusted().map_err(Unusable::Problems)?;
        // Nothing would run.
        if !self.needs_trust || config.servers.is_empty() {
            return Ok(config);
        }
        let folder_config = FolderConfig::of(self.paths.first().map_or(Path::new(""), |path| path), &config);
        let is_allowed =
            folder_config.is_trusted() || may_ask && can_ask() && folder_config.ask().unwrap_or(false);
        if is_allowed { Ok(config) } else { Err(Unusable::Untrusted(folder_config)) }
    }

    /// What they say together, whether or not it may run. Remarks go to standard error.
    pub(crate) fn read_untrusted(&self) -> Result<Config, Problems> {
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
