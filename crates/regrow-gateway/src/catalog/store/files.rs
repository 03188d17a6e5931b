//! The files of the store: of the user alone, removed after 90 days without use.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use regrow::folder::{Folder, cached};

use super::StoreKey;

/// A larger file is not read, and a larger catalog not written.
const MAX_BYTES: u64 = 64 << 20;
const UNUSED: Duration = Duration::from_secs(90 * 86_400);
/// More files are not looked at.
const MAX_FILES: usize = 10_000;
/// Inside of our part of the user's cache folder.
const NAME: &str = "catalogs";

#[derive(Debug)]
pub(super) struct CatalogFiles {
    cache: PathBuf,
    path: PathBuf,
}

impl CatalogFiles {
    pub(super) fn inside(cache: PathBuf) -> CatalogFiles {
        CatalogFiles { path: cache.join(NAME), cache }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    fn open(&self) -> io::Result<Folder> {
        Folder::open(&self.cache)?.open_folder(NAME)
    }

    /// The file of this server, which is used from now on for another while.
    pub(super) fn read(&self, key: StoreKey, now: SystemTime) -> Option<Vec<u8>> {
        let read = self.open().and_then(|folder| folder.read(name(key), MAX_BYTES));
        let (file, bytes) = cached(&self.path.join(name(key)), read)?;
        if let Err(error) = file.set_modified(now) {
            // It is then removed after 90 days although it is used, and written again.
            tracing::debug!(path = %self.path.display(), %error, "a cached catalog could not be marked as used");
        }
        Some(bytes)
    }

    pub(super) fn write(&self, key: StoreKey, bytes: &[u8]) {
        if let Err(error) = self.replace(key, bytes) {
            tracing::debug!(path = %self.path.display(), %error, "cannot cache the catalog of a server");
        }
    }

    fn replace(&self, key: StoreKey, bytes: &[u8]) -> io::Result<()> {
        if bytes.len() as u64 > MAX_BYTES {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        let folder = Folder::create(&self.cache)?.create_folder(NAME)?;
        folder.replace(name(key), |file| file.write_all(bytes)).map(drop)
    }

    /// Removes files of ours that were not used for long, and no others.
    pub(super) fn tidy(&self, now: SystemTime) {
        let Ok(folder) = self.open() else { return }; // There is nothing yet, or nothing to be trusted.
        for name in folder.names(MAX_FILES).iter().filter(|name| is_ours(name)) {
            let modified = folder.open_file(name).and_then(|file| file.metadata()?.modified());
            let is_old = modified.is_ok_and(|time| now.duration_since(time).is_ok_and(|age| age > UNUSED));
            if is_old && let Err(error) = folder.remove(name) {
                tracing::debug!(path = %self.path.display(), name, %error, "an old catalog could not be removed");
            }
        }
    }
}

fn name(key: StoreKey) -> String {
    format!("{key}.json")
}

/// A key, and what we write behind one.
fn is_ours(name: &str) -> bool {
    let (key, rest) = name.split_once('.').unwrap_or_default();
    let is_key = key.len() == 64 && key.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_key && (rest == "json" || rest.ends_with(".new"))
}
