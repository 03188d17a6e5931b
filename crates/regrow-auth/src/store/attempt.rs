//! When Regrow last opened a browser for an account on its own. All processes respect it.

use std::io::Write;

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
}

fn read(folder: &Folder, key: &AccountKey) -> Option<Attempt> {
    let (_, text) = folder.read(file_name(key), MAX_BYTES).ok()?;
    serde_json::from_slice(&text).ok()
}

impl Locked {
    /// The same, and no other process changes it meanwhile.
    pub fn attempt(&self) -> Option<Attempt> {
        read(&self.folder, &self.key)
    }

    /// Forgets the attempt: somebody has signed in, or out.
    pub(super) fn remove_attempt(&self) {
        // One that stays counts for ten minutes at most.
        let _ = self.folder.remove(file_name(&self.key));
    }

    /// Remembers an attempt for all processes.
    pub fn write_attempt(&self, attempt: Attempt) -> Result<(), StoreError> {
        let name = file_name(&self.key);
        let written = serde_json::to_vec(&attempt)
            .map_err(std::io::Error::from)
            .and_then(|text| self.folder.replace(&name, |file| file.write_all(&text)));
        written.map(drop).map_err(|error| StoreError::new(self.store.folder.join(name), error))
    }
}

fn file_name(key: &AccountKey) -> String {
    format!("{}.attempt", key.hash())
}
