//! `regrow trust`: allows a configuration that came with a folder to run.

use crate::arguments::Trust;
use crate::files::Files;
use crate::folder_config::FolderConfig;
use crate::{DONE, USAGE, WE_FAILED};

pub(crate) fn run(options: Trust) -> u8 {
    let Some(files) = Files::find(options.file) else {
        eprintln!("regrow: there is no .mcp.json here; name a file: regrow trust FILE");
        return USAGE;
    };
    let config = match files.read_untrusted() {
        Ok(config) => config,
        Err(problems) => {
            eprintln!("{problems}");
            return USAGE;
        }
    };
    let [path] = &files.paths[..] else { return USAGE }; // One is named, or one is found.
    let config = FolderConfig::of(path, &config);
    eprint!("{}", config.description());
    match config.trust() {
        Ok(()) => {
            eprintln!("regrow: trusted {} as it is now", config.shown());
            DONE
        }
        Err(error) => {
            eprintln!("regrow: cannot remember that: {error}");
            WE_FAILED
        }
    }
}
