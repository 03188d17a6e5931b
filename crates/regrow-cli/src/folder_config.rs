//! A configuration that came with a folder. Its user trusts it once per content, and Regrow remembers that.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use regrow::folder::Folder;
use regrow_gateway::config::{Config, Message, Place, Problems};
use regrow_protocol::text::escape;
use serde::{Deserialize, Serialize};

use crate::ask::ask;

/// No file of ours is longer.
const MAX_BYTES: u64 = 1 << 20;

/// The folder in the user's cache folder that holds what is trusted; none where there is no such folder.
pub(crate) fn folder() -> Option<PathBuf> {
    regrow::cache_folder().map(|folder| folder.join("trust"))
}

/// A configuration of a folder, as it was read.
#[derive(Debug)]
pub(crate) struct FolderConfig {
    /// Absolute, and the same through whichever link its folder was reached: a relative command depends on it.
    path: PathBuf,
    content: [u8; 32],
    written: Vec<(String, Vec<String>)>,
}

/// The folders in which a content is trusted. The file has the hash of the content as its name.
#[derive(Default, Serialize, Deserialize)]
struct Record {
    paths: Vec<String>,
}

impl FolderConfig {
    pub(crate) fn of(path: &Path, config: &Config) -> FolderConfig {
        let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let folder = absolute.parent().and_then(|folder| folder.canonicalize().ok());
        let path = match (folder, absolute.file_name()) {
            (Some(folder), Some(name)) => folder.join(name),
            _ => absolute,
        };
        FolderConfig { path, content: config.content, written: config.written.clone() }
    }

    /// Whether its user has trusted it as it is. What cannot be read is not trusted.
    pub(crate) fn is_trusted(&self) -> bool {
        let folder = folder().and_then(|path| Folder::open(&path).and_then(Folder::require_private).ok());
        folder.is_some_and(|folder| self.record(&folder).paths.contains(&self.key()))
    }

    /// Remembers that its user has trusted it as it is.
    pub(crate) fn trust(&self) -> io::Result<()> {
        let path = folder().ok_or_else(|| io::Error::other("there is no home folder"))?;
        let folder = Folder::create(&path)?.require_private()?;
        let mut record = self.record(&folder);
        if !record.paths.contains(&self.key()) {
            record.paths.push(self.key());
        }
        let record = serde_json::to_vec(&record)?;
        folder
            .replace(self.file_name(), |file| file.write_all(&record).and_then(|()| file.sync_all()))
            .map(drop)
    }

    /// What would run, for a person at a terminal: as it is written, so secrets that stand in the file are shown to its reader.
    pub(crate) fn description(&self) -> String {
        let mut text = format!("{} runs:\n", self.shown());
        for (name, lines) in &self.written {
            text.push_str(&format!("  {name}\n"));
            lines.iter().for_each(|line| text.push_str(&format!("    {line}\n")));
        }
        text
    }

    /// Asks the person at the terminal, and remembers if the answer is yes.
    pub(crate) fn ask(&self) -> io::Result<bool> {
        let is_yes = ask(&format!("{}Nobody has allowed this yet. Run it? [y/N] ", self.description()))?;
        if is_yes && let Err(error) = self.trust() {
            eprintln!("regrow: cannot remember that; Regrow asks again next time: {error}");
        }
        Ok(is_yes)
    }

    /// Its path, safe to print.
    pub(crate) fn shown(&self) -> String {
        escape(&self.path.to_string_lossy())
    }

    /// Why it does not run, and the command that allows it.
    pub(crate) fn refusal(&self) -> Problems {
        let place = Place { file: self.shown().into(), line: 0, column: 0 };
        let text =
            format!("the file came with its folder and is not trusted as it is now; {}", self.advice());
        Problems(vec![Message { place, server: None, field: None, text }])
    }

    /// What to do, for logs and status.
    pub(crate) fn advice(&self) -> String {
        format!("to see what it runs and allow it: regrow trust {}", quoted(&self.path))
    }

    fn record(&self, folder: &Folder) -> Record {
        let read = folder.read(self.file_name(), MAX_BYTES).ok(); // What cannot be read is not trusted.
        read.and_then(|(_, text)| serde_json::from_slice(&text).ok()).unwrap_or_default()
    }

    fn file_name(&self) -> String {
        let hex: String = self.content.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("{hex}.json")
    }

    /// Its path in a form that is never the same for two.
    fn key(&self) -> String {
        format!("{:?}", self.path)
    }
}

/// As a shell takes it.
pub(crate) fn quoted(path: &Path) -> String {
    let text = path.to_string_lossy();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+@:,".contains(c);
    match text.chars().all(is_plain) {
        true => text.into_owned(),
        false => escape(&format!("'{}'", text.replace('\'', r"'\''"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_quoted_for_a_shell() {
        assert_eq!(quoted(Path::new("/home/me/a-b/.mcp.json")), "/home/me/a-b/.mcp.json");
        assert_eq!(quoted(Path::new("/a b/it's; rm")), r"'/a b/it'\''s; rm'");
    }
}
