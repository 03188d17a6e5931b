//! The lock of an account: one process at a time changes it.
//!
//! The lock file is never deleted, so that all processes lock the same one. The system releases it when its holder dies.

use std::fs::{File, TryLockError};
use std::io;
use std::time::Duration;

use regrow::folder::Folder;
use tokio::time::{Instant, sleep};

use super::{Locked, Store, StoreError};
use crate::account::AccountKey;

/// Nobody holds a lock for longer than this.
pub const HELD_AT_MOST: Duration = Duration::from_secs(45);
/// Somebody else may be before us.
const WAIT: Duration = Duration::from_secs(60);
/// The pauses between two looks become longer, up to this.
const LONGEST_PAUSE: Duration = Duration::from_millis(200);

impl Store {
    /// Waits until no other process works on this account, at most a minute. Release it within [`HELD_AT_MOST`].
    pub async fn lock(&self, key: &AccountKey) -> Result<Locked, StoreError> {
        self.lock_within(key, WAIT).await
    }

    pub(super) async fn lock_within(&self, key: &AccountKey, wait: Duration) -> Result<Locked, StoreError> {
        let (folder, lock) = self.lock_file(format!("{}.lock", key.hash()), wait).await?;
        Ok(Locked { store: self.clone(), key: key.clone(), folder, _lock: lock })
    }

    /// Waits until no other process has this file locked. Closing it releases it.
    pub(super) async fn lock_file(&self, name: String, wait: Duration) -> Result<(Folder, File), StoreError> {
        let path = self.folder.join(&name);
        let failed = |error| StoreError::new(path.clone(), error);
        let folder = Folder::create(&self.folder).and_then(Folder::require_private).map_err(failed)?;
        let file = open(&folder, &name).map_err(failed)?;
        let (until, mut pause) = (Instant::now() + wait, Duration::from_millis(5));
        loop {
            // No thread waits in the kernel for it: that could not be given up.
            match file.try_lock() {
                Ok(()) => return Ok((folder, file)),
                Err(TryLockError::Error(error)) => return Err(failed(error)),
                Err(TryLockError::WouldBlock) if Instant::now() < until => {}
                Err(TryLockError::WouldBlock) => return Err(StoreError::Busy { path }),
            }
            sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }
}

/// A lock needs no permission to write: an account on a read-only disk can still be used.
fn open(folder: &Folder, name: &str) -> io::Result<File> {
    match folder.open_file(name) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        opened => return opened,
    }
    match folder.create_file(name, |_| Ok(())) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => folder.open_file(name),
        created => created,
    }
}
