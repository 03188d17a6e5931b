//! Which era a server spoke when it was last asked, kept on disk, so that a later start need not ask again.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use regrow_protocol::version::Era;

use crate::folder::{Folder, cache_folder, cached};

/// More servers than this are not remembered.
const MAX_SERVERS: usize = 1000;
/// A larger file is none of ours.
const MAX_BYTES: u64 = 1 << 20;

/// A file of eras. It holds fingerprints of addresses rather than addresses, which may contain secrets.
///
/// What cannot be read or written is not remembered, and no reason to fail.
#[derive(Clone, Debug)]
pub struct EraFile {
    path: PathBuf,
}

impl EraFile {
    /// The file at this path, which need not exist yet.
    pub fn at(path: impl Into<PathBuf>) -> EraFile {
        EraFile { path: path.into() }
    }

    /// The file in the user's cache folder; none where there is no such folder.
    pub fn of_user() -> Option<EraFile> {
        cache_folder().map(|folder| EraFile::at(folder.join("eras.json")))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What is wrong with the file, if something is. There is nothing wrong with one that does not exist yet.
    pub fn problem(&self) -> Option<String> {
        match self.text() {
            Ok(text) if parse(&text).is_some() => None,
            Ok(_) => Some("it is not what Regrow wrote".into()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => Some(error.to_string()),
        }
    }

    /// The era that this server spoke.
    pub(crate) fn recall(&self, server: &str) -> Option<Era> {
        match cached(&self.path, self.read())?.get(&fingerprint(server))?.as_str() {
            "legacy" => Some(Era::Legacy),
            "modern" => Some(Era::Modern),
            _ => None,
        }
    }

    /// Keeps in mind which era this server speaks.
    pub(crate) fn remember(&self, server: &str, modern: bool) {
        let era = if modern { "modern" } else { "legacy" };
        self.change(|eras| {
            if eras.len() >= MAX_SERVERS {
                eras.clear(); // They are detected again when they are needed.
            }
            eras.insert(fingerprint(server), era.to_owned()).as_deref() != Some(era)
        });
    }

    /// What we remembered has proved wrong.
    pub(crate) fn forget(&self, server: &str) {
        self.change(|eras| eras.remove(&fingerprint(server)).is_some());
    }

    fn change(&self, change: impl FnOnce(&mut BTreeMap<String, String>) -> bool) {
        let mut eras = self.read().unwrap_or_default(); // What cannot be read is replaced.
        if change(&mut eras)
            && let Err(error) = self.write(&eras)
        {
            tracing::debug!(path = %self.path.display(), %error, "cannot save the protocol era of the server");
        }
    }

    fn read(&self) -> io::Result<BTreeMap<String, String>> {
        Ok(parse(&self.text()?).unwrap_or_default()) // A broken file is replaced.
    }

    fn text(&self) -> io::Result<Vec<u8>> {
        let (_, text) = Folder::open(self.folder())?.read(self.name(), MAX_BYTES)?;
        Ok(text)
    }

    fn write(&self, eras: &BTreeMap<String, String>) -> io::Result<()> {
        let text = serde_json::to_vec(eras)?;
        Folder::create(self.folder())?.replace(self.name(), |file| file.write_all(&text)).map(drop)
    }

    fn folder(&self) -> &Path {
        self.path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
    }

    fn name(&self) -> &OsStr {
        self.path.file_name().unwrap_or_default()
    }
}

fn parse(text: &[u8]) -> Option<BTreeMap<String, String>> {
    serde_json::from_slice(text).ok()
}

/// The same on every machine and in every version (FNV-1a).
fn fingerprint(server: &str) -> String {
    let hash = server.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    format!("{hash:016x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_era_is_remembered_over_starts_until_it_is_forgotten_and_names_no_address() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("cache/eras.json");
        EraFile::at(&path).remember("http://host/secret", true);
        EraFile::at(&path).remember("http://other/", false);
        assert_eq!(EraFile::at(&path).recall("http://host/secret"), Some(Era::Modern));
        assert_eq!(EraFile::at(&path).recall("http://other/"), Some(Era::Legacy));
        assert!(!std::fs::read_to_string(&path).unwrap().contains("secret"));
        EraFile::at(&path).forget("http://host/secret");
        assert_eq!(EraFile::at(&path).recall("http://host/secret"), None);
        assert_eq!(EraFile::at(&path).recall("http://other/"), Some(Era::Legacy));
    }

    #[test]
    fn a_file_that_is_not_ours_is_no_reason_to_fail() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("eras.json");
        std::fs::write(&path, "not json").unwrap();
        let file = EraFile::at(&path);
        assert_eq!(file.recall("http://host/"), None);
        assert_eq!(file.problem().as_deref(), Some("it is not what Regrow wrote"));
        file.remember("http://host/", true);
        assert_eq!(file.problem(), None);
        assert_eq!(EraFile::at(folder.path().join("none.json")).problem(), None);
        assert_eq!(file.recall("http://host/"), Some(Era::Modern));
        EraFile::at("/proc/nowhere/eras.json").remember("http://host/", true);
    }
}
