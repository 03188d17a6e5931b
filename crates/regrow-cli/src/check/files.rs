//! Which files are read, and what is said about that.

use std::path::{Path, PathBuf};

use regrow_gateway::config::{Config, Message, Place, Problems, Surroundings, discover};

use crate::arguments::Check;

/// Reads the files that were named, or the one that is found. Remarks go to standard error.
pub(super) fn read(options: &Check) -> Result<Config, Problems> {
    let surroundings = Surroundings::of_process();
    let named: Vec<PathBuf> = options.file.iter().chain(&options.config).cloned().collect();
    let paths = if named.is_empty() { vec![found(&surroundings)?] } else { named };
    let config = Config::read(&paths, &surroundings)?;
    for remark in &config.remarks {
        eprintln!("{remark}");
    }
    Ok(config)
}

/// The file that is found, after saying so.
fn found(surroundings: &Surroundings) -> Result<PathBuf, Problems> {
    let Some(found) = discover(surroundings) else {
        let place = Place { file: ".mcp.json".into(), line: 0, column: 0 };
        let text = "there is no such file here, and none of a host that we know; write it, or name another";
        return Err(Problems(vec![Message { place, server: None, field: None, text: text.into() }]));
    };
    eprintln!("regrow: taking {}", shown(&found.taken));
    for other in &found.others {
        eprintln!("regrow: not taking {}; name it to take it", shown(other));
    }
    Ok(found.taken)
}

fn shown(path: &Path) -> String {
    path.to_string_lossy().escape_debug().to_string()
}
