//! Catalogs on disk, so that a client's first question is answered while slow servers still start.

mod files;
mod record;

use std::collections::HashMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use ring::digest::{SHA256, digest};
use tokio::sync::watch;

use super::Catalog;
use files::CatalogFiles;

/// At most this many catalogs wait to be written.
const MAX_WAITING: usize = 1000;

/// A folder with a file for each server, named by a hash.
///
/// The files hold what servers said and nothing of the configuration. What servers say may be anything, so only the user may
/// read them (mode 0600). What cannot be read or written is not remembered, and no reason to fail. Clones share it.
#[derive(Clone, Debug)]
pub struct Store {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    files: CatalogFiles,
    /// What is to be written: of each server only the newest. None while nobody writes.
    waiting: Mutex<Option<HashMap<StoreKey, Arc<Catalog>>>>,
    is_idle: watch::Sender<bool>,
}

/// Which server: a hash of what identifies it in the configuration, which may contain secrets.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct StoreKey([u8; 32]);

impl StoreKey {
    /// The key of the server that is identified so: all that decides whom we talk to, and as whom.
    pub fn of(identity: &[u8]) -> StoreKey {
        let hash = digest(&SHA256, &[b"regrow catalog\0", identity].concat());
        let mut key = [0; 32];
        key.copy_from_slice(hash.as_ref());
        StoreKey(key)
    }
}

impl fmt::Display for StoreKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for StoreKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StoreKey({self})")
    }
}

impl Store {
    /// The store inside of this folder, which need not exist yet. What was not used for 90 days is removed.
    pub fn open(cache: impl Into<PathBuf>, now: SystemTime) -> Store {
        let files = CatalogFiles::inside(cache.into());
        files.tidy(now);
        let (waiting, is_idle) = (Mutex::new(None), watch::Sender::new(true));
        Store { shared: Arc::new(Shared { files, waiting, is_idle }) }
    }

    /// Where it is.
    pub fn folder(&self) -> &Path {
        self.shared.files.path()
    }

    /// What this server last offered; its lists are stale until they are confirmed. Reads a file.
    pub fn recall(&self, key: StoreKey, now: SystemTime) -> Option<Catalog> {
        record::read(&self.shared.files.read(key, now)?)
    }

    /// Keeps what this server offers. Written on a thread that may wait for disks, one catalog after the other; of many that come
    /// meanwhile the newest.
    ///
    /// Must be called inside a tokio runtime.
    pub fn keep(&self, key: StoreKey, catalog: Arc<Catalog>) {
        let mut waiting = self.shared.waiting();
        let is_first = waiting.is_none();
        let catalogs = waiting.get_or_insert_default();
        if catalogs.len() >= MAX_WAITING && !catalogs.contains_key(&key) {
            tracing::debug!(%key, "too many catalogs are waiting to be written; this one is not cached");
            return;
        }
        catalogs.insert(key, catalog);
        if is_first {
            self.shared.is_idle.send_replace(false);
            let shared = self.shared.clone();
            tokio::task::spawn_blocking(move || shared.write_all());
        }
    }

    /// Waits until everything is written that was to be kept.
    pub async fn settled(&self) {
        // The sender is ours, so it is there.
        let _ = self.shared.is_idle.subscribe().wait_for(|is_idle| *is_idle).await;
    }
}

impl Shared {
    fn waiting(&self) -> MutexGuard<'_, Option<HashMap<StoreKey, Arc<Catalog>>>> {
        // Nothing that panics is done under it.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write_all(&self) {
        while let Some(catalogs) = self.next() {
            for (key, catalog) in catalogs {
                self.files.write(key, &record::write(&catalog));
            }
        }
    }

    /// What is to be written now; none when there is nothing left, and the next to come starts a new writer.
    fn next(&self) -> Option<HashMap<StoreKey, Arc<Catalog>>> {
        let mut waiting = self.waiting();
        let catalogs = std::mem::take(waiting.as_mut()?);
        if catalogs.is_empty() {
            *waiting = None;
            self.is_idle.send_replace(true); // Under the lock, so that it is not said after somebody came.
            return None;
        }
        Some(catalogs)
    }
}

#[cfg(test)]
mod tests;
