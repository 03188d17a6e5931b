//! Accounts on disk: one private file for each, which several processes share.
//!
//! Everybody may read. To write, a process holds the account's lock ([`Store::lock`]).

mod attempt;
mod lock;

pub use attempt::Attempt;
pub use lock::HELD_AT_MOST;

use std::cmp::Ordering;
use std::fs::File;
use std::io::{self, Seek, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use regrow::folder::{Folder, state_folder};
use serde::{Deserialize, Serialize};

use crate::account::{Account, AccountKey};
use crate::login::SignedIn;
use crate::settings::Settings;
use crate::token::now;

/// The format of the files. A larger number is a newer Regrow's.
const FORMAT: u64 = 1;
/// A larger file is none of ours.
const MAX_BYTES: u64 = 1 << 20;
/// More files than this are not listed. An account has up to six: `.json`, `.lock`, `.pending`, `.attempt`, `.asking` and `.new`.
const MAX_FILES: usize = 6 * 10_000;
/// What is reserved for new tokens before the old ones are given up.
const RESERVED: usize = 64 * 1024;

/// Why an account could not be read or written. What was stored stays as it was.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The file is there, but it is not one of ours, or not a whole one.
    #[error("the account file {path:?} is damaged: {reason}; delete it, or run: regrow logout URL")]
    Damaged {
        /// Where.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A newer version of Regrow wrote the file.
    #[error(
        "the account file {path:?} was written by a newer version of Regrow (format {format}); update Regrow"
    )]
    Newer {
        /// Where.
        path: PathBuf,
        /// The format in the file.
        format: u64,
    },
    /// There is no space left.
    #[error("the disk is full: {path:?} cannot be written")]
    Full {
        /// Where.
        path: PathBuf,
    },
    /// The user may not write there, or nobody may.
    #[error("{path:?} cannot be written: {error}")]
    ReadOnly {
        /// Where.
        path: PathBuf,
        /// What the operating system says.
        error: io::Error,
    },
    /// Another process works on the account and does not finish.
    #[error("another process holds the lock {path:?}")]
    Busy {
        /// Where.
        path: PathBuf,
    },
    /// Something else.
    #[error("{path:?} cannot be used: {error}")]
    Io {
        /// Where.
        path: PathBuf,
        /// What the operating system says.
        error: io::Error,
    },
}

impl StoreError {
    fn new(path: PathBuf, error: io::Error) -> StoreError {
        use io::ErrorKind::*;
        match error.kind() {
            StorageFull | QuotaExceeded | FileTooLarge => StoreError::Full { path },
            ReadOnlyFilesystem | PermissionDenied => StoreError::ReadOnly { path, error },
            _ => StoreError::Io { path, error },
        }
    }
}

/// The accounts of a user. Clones are the same folder.
#[derive(Clone, Debug)]
pub struct Store {
    folder: PathBuf,
}

/// By what a change of an account is noticed without reading it.
pub type Stamp = (u64, i64, i64, u64);

/// What a file contains.
#[derive(Serialize, Deserialize)]
struct Contents<A> {
    format: u64,
    #[serde(flatten)]
    account: A,
}

/// A server that waits for a sign-in, or did once. Unlike an account it can be lost without harm.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pending {
    /// The server's name in messages.
    pub name: String,
    /// The account that is needed.
    pub key: AccountKey,
    /// How to sign in there.
    #[serde(default)]
    pub settings: Settings,
}

/// What all formats have in common.
#[derive(Deserialize)]
struct AnyFormat {
    format: u64,
}

impl Store {
    /// The store in this folder, which need not exist yet.
    pub fn at(folder: impl Into<PathBuf>) -> Store {
        Store { folder: folder.into() }
    }

    /// The store in the user's state folder; none where there is no such folder.
    pub fn of_user() -> Option<Store> {
        state_folder().map(|folder| Store::at(folder.join("accounts")))
    }

    /// Where the account is stored, if it is.
    pub fn path(&self, key: &AccountKey) -> PathBuf {
        self.folder.join(file_name(&key.hash()))
    }

    /// The account; none if there is none.
    pub fn read(&self, key: &AccountKey) -> Result<Option<Account>, StoreError> {
        let Some(account) = self.read_file(&file_name(&key.hash()))? else { return Ok(None) };
        match account.key == *key {
            true => Ok(Some(account)),
            false => Err(self.damaged(&file_name(&key.hash()), "it belongs to another account")),
        }
    }

    /// All accounts, and what cannot be read.
    pub fn list(&self) -> Result<Vec<Result<Account, StoreError>>, StoreError> {
        let folder = match self.open() {
            Ok(folder) => folder,
            Err(StoreError::Io { error, .. }) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(vec![]);
            }
            Err(error) => return Err(error),
        };
        let names = folder.names(MAX_FILES).into_iter().filter(|name| name.ends_with(".json"));
        Ok(names.filter_map(|name| self.read_file(&name).transpose()).collect())
    }

    /// What changes whenever the account does. One look at the disk.
    pub fn stamp(&self, key: &AccountKey) -> Option<Stamp> {
        let found = std::fs::symlink_metadata(self.path(key)).ok()?;
        Some((found.ino(), found.mtime(), found.mtime_nsec(), found.len()))
    }

    /// Remembers that somebody should sign in at a server, for [`Store::pending`].
    pub fn set_pending(&self, pending: &Pending) -> Result<(), StoreError> {
        let file = format!("{}.pending", pending.key.hash());
        let written = Folder::create(&self.folder).and_then(Folder::require_private).and_then(|folder| {
            let text = serde_json::to_vec(pending)?;
            match folder.read(&file, MAX_BYTES).is_ok_and(|(_, old)| old == text) {
                true => Ok(()),
                false => folder.replace(&file, |file| file.write_all(&text)).map(drop),
            }
        });
        written.map_err(|error| StoreError::new(self.folder.join(file), error))
    }

    /// The servers that wait for a sign-in, or did once, with the names that they have in messages.
    pub fn pending(&self) -> Vec<Pending> {
        let Ok(folder) = self.open() else { return vec![] };
        let names = folder.names(MAX_FILES).into_iter().filter(|name| name.ends_with(".pending"));
        let read = names.filter_map(|name| folder.read(name, MAX_BYTES).ok());
        read.filter_map(|(_, text)| serde_json::from_slice(&text).ok()).collect()
    }

    /// Stores what a sign-in yields, in the place of what was there.
    pub async fn sign_in(&self, key: &AccountKey, signed_in: SignedIn) -> Result<Account, StoreError> {
        let locked = self.lock(key).await?;
        let before = locked.read()?;
        let account = Account::signed_in(key.clone(), signed_in, before.as_ref(), now());
        locked.reserve()?.commit_sign_in(&account)?;
        Ok(account)
    }

    /// Stores the result of asking for these scopes in addition to those of the account: new tokens, or none if they were refused. Returns
    /// false if there is no such account: the user has signed out meanwhile.
    pub async fn step_up(
        &self,
        key: &AccountKey,
        signed_in: Option<SignedIn>,
        asked: &[String],
    ) -> Result<bool, StoreError> {
        let locked = self.lock(key).await?;
        let Some(before) = locked.read()? else { return Ok(false) };
        match signed_in {
            Some(signed_in) => {
                let account = Account::signed_in(key.clone(), signed_in, Some(&before), now());
                locked.reserve()?.commit_sign_in(&account.stepped_up(&before, asked))?;
            }
            None => locked.write(&before.clone().stepped_up(&before, asked))?,
        }
        Ok(true)
    }

    fn open(&self) -> Result<Folder, StoreError> {
        let folder = Folder::open(&self.folder).and_then(Folder::require_private);
        folder.map_err(|error| StoreError::new(self.folder.clone(), error))
    }

    fn read_file(&self, name: &str) -> Result<Option<Account>, StoreError> {
        let read = Folder::open(&self.folder)
            .and_then(Folder::require_private)
            .and_then(|f| f.read(name, MAX_BYTES));
        let text = match read {
            Ok((_, text)) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(StoreError::Io { path: self.folder.join(name), error }),
        };
        // The parser's own words could quote a secret.
        let AnyFormat { format } =
            serde_json::from_slice(&text).map_err(|_| self.damaged(name, "it is not an account"))?;
        match format.cmp(&FORMAT) {
            Ordering::Equal => {}
            Ordering::Greater => return Err(StoreError::Newer { path: self.folder.join(name), format }),
            Ordering::Less => return Err(self.damaged(name, "its format is unknown")),
        }
        let read: Result<Contents<Account>, _> = serde_json::from_slice(&text);
        let contents = read.map_err(|_| self.damaged(name, "a part of it is missing or wrong"))?;
        Ok(Some(contents.account))
    }

    fn damaged(&self, name: &str, reason: &str) -> StoreError {
        StoreError::Damaged { path: self.folder.join(name), reason: reason.into() }
    }
}

fn file_name(hash: &str) -> String {
    format!("{hash}.json")
}

/// An account that no other process changes meanwhile.
#[derive(Debug)]
pub struct Locked {
    store: Store,
    key: AccountKey,
    folder: Folder,
    /// Releases the lock when it is closed.
    _lock: File,
}

impl Locked {
    /// The account; none if there is none.
    pub fn read(&self) -> Result<Option<Account>, StoreError> {
        self.store.read(&self.key)
    }

    /// Makes sure that new tokens can be written before they are requested: a server may give up the old ones at once.
    ///
    /// A file that cannot be read is never replaced.
    pub fn reserve(self) -> Result<Draft, StoreError> {
        self.read()?;
        let draft = self.name("new");
        let path = || self.store.folder.join(&draft);
        match self.folder.remove(&draft) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(StoreError::new(path(), error));
            }
            _ => {} // A process that was killed while it wrote may have left one.
        }
        let created = self.folder.create_file(&draft, |file| {
            file.write_all(&[b' '; RESERVED])?;
            file.sync_all()
        });
        let file = created.map_err(|error| StoreError::new(path(), error))?;
        Ok(Draft { locked: self, file })
    }

    /// Stores the account.
    pub fn write(self, account: &Account) -> Result<(), StoreError> {
        self.reserve()?.commit(account)
    }

    /// Removes the account, also one that cannot be read. Its lock file stays: others may wait for it.
    pub fn remove(self) -> Result<(), StoreError> {
        // The account is removed even if its name stays, and `regrow login` still finds that.
        let _ = self.folder.remove(self.name("pending"));
        self.remove_attempt();
        let name = self.name("json");
        match self.folder.remove(&name).and_then(|()| self.folder.sync()) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(StoreError::new(self.store.folder.join(name), error))
            }
            _ => Ok(()),
        }
    }

    fn name(&self, extension: &str) -> String {
        format!("{}.{extension}", self.key.hash())
    }
}

/// A place on the disk for the next tokens of a locked account. Dropped, it leaves nothing.
#[derive(Debug)]
pub struct Draft {
    locked: Locked,
    file: File,
}

impl Draft {
    /// The account as it is stored now.
    pub fn read(&self) -> Result<Option<Account>, StoreError> {
        self.locked.read()
    }

    /// Puts the account in the place of the stored one. After that it survives a loss of power.
    pub fn commit(mut self, account: &Account) -> Result<(), StoreError> {
        self.put(account)
    }

    /// The same after a sign-in. A process that waits for it reads the account when the attempt is gone, so that goes last.
    fn commit_sign_in(mut self, account: &Account) -> Result<(), StoreError> {
        self.put(account)?;
        self.locked.remove_attempt();
        Ok(())
    }

    fn put(&mut self, account: &Account) -> Result<(), StoreError> {
        assert_eq!(account.key, self.locked.key, "an account is stored under its own key");
        let written = self.write(account);
        written.map_err(|error| StoreError::new(self.locked.store.path(&account.key), error))
    }

    fn write(&mut self, account: &Account) -> io::Result<()> {
        let text = serde_json::to_vec_pretty(&Contents { format: FORMAT, account })?;
        self.file.rewind()?;
        self.file.write_all(&text)?;
        self.file.set_len(text.len() as u64)?;
        self.file.sync_all()?;
        let Locked { folder, .. } = &self.locked;
        folder.rename(self.locked.name("new"), self.locked.name("json"))?;
        folder.sync()
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        // After a commit there is none. One that stays is private, and removed with the next.
        let _ = self.locked.folder.remove(self.locked.name("new"));
    }
}

/// Where accounts are, for messages.
impl AsRef<Path> for Store {
    fn as_ref(&self) -> &Path {
        &self.folder
    }
}

#[cfg(test)]
mod tests;
