//! When Regrow last opened a browser for an account on its own. All processes respect it.

use std::fs::File;
use std::io::Write;
use std::time::Duration;

use regrow::folder::Folder;
use serde::{Deserialize, Serialize};

use super::{Locked, MAX_BYTES, Store, StoreError};
use crate::account::AccountKey;

/// A sign-in that Regrow began on its own. It is forgotten when somebody has signed in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attempt {
    /// When, in seconds since 1970.
    pub at: u64,
    /// Nobody waits for it any more: it failed.
    pub is_over: bool,
}

impl Store {
    /// The last attempt that did not succeed. One that cannot be read is none.
    pub fn attempt(&self, key: &AccountKey) -> Option<Attempt> {
        read(&self.open().ok()?, key)
    }

    /// Waits, at most this long, until no other process decides whether to open a browser for this account. That is not the lock of the
    /// account: a refresh may hold that for long, and its end is not what a client waits for.
    pub(crate) async fn lock_attempt(
        &self,
        key: &AccountKey,
        wait: Duration,
    ) -> Result<LockedAttempt, StoreError> {
        let (folder, lock) = self.lock_file(format!("{}.asking", key.hash()), wait).await?;
        Ok(LockedAttempt { store: self.clone(), key: key.clone(), folder, _lock: lock })
    }
}

fn read(folder: &Folder, key: &AccountKey) -> Option<Attempt> {
    let (_, text) = folder.read(file_name(key), MAX_BYTES).ok()?;
    serde_json::from_slice(&text).ok()
}

/// The attempt of an account. No other process begins one meanwhile, or marks it as failed.
#[derive(Debug)]
pub(crate) struct LockedAttempt {
    store: Store,
    key: AccountKey,
    folder: Folder,
    /// Releases the lock when it is closed.
    _lock: File,
}

impl LockedAttempt {
    /// The last attempt that did not succeed.
    pub(crate) fn read(&self) -> Option<Attempt> {
        read(&self.folder, &self.key)
    }

    /// Remembers an attempt for all processes.
    pub(crate) fn write(&self, attempt: Attempt) -> Result<(), StoreError> {
        let name = file_name(&self.key);
        let written = serde_json::to_vec(&attempt)
            .map_err(std::io::Error::from)
            .and_then(|text| self.folder.replace(&name, |file| file.write_all(&text)));
        written.map(drop).map_err(|error| StoreError::new(self.store.folder.join(name), error))
    }
}

impl Locked {
    /// Forgets the attempt: somebody has signed in, or out.
    pub(super) fn remove_attempt(&self) {
        // One that stays counts for ten minutes at most.
        let _ = self.folder.remove(file_name(&self.key));
    }
}

fn file_name(key: &AccountKey) -> String {
    format!("{}.attempt", key.hash())
}
