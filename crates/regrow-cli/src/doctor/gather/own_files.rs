//! The folders and files that Regrow keeps: whether it can use them.

use std::io;
use std::path::{Path, PathBuf};

use regrow::EraFile;
use regrow::folder::{Folder, cache_folder};
use regrow_auth::store::{Store, StoreError};
use regrow_gateway::catalog::PinFolder;
use regrow_protocol::text::escape;
use rustix::fs::{Access, access};

use super::super::facts::{DamagedFile, Holds, UnusableFolder};
use crate::account::stored::StoredAccount;
use crate::folder_config;

/// The accounts that can be read, and the files that cannot.
pub(super) fn accounts() -> (Vec<StoredAccount>, Vec<DamagedFile>) {
    // A folder that cannot be used is reported as such.
    let listed = Store::of_user().and_then(|store| store.list().ok()).unwrap_or_default();
    let (mut accounts, mut damaged) = (vec![], vec![]);
    for read in listed {
        match read {
            Ok(account) => accounts.push(StoredAccount::of(&account)),
            Err(error) => damaged.push(damaged_account(&error)),
        }
    }
    (accounts, damaged)
}

fn damaged_account(error: &StoreError) -> DamagedFile {
    let (path, problem) = match error {
        StoreError::Damaged { path, reason } => (path, reason.clone()),
        StoreError::Newer { path, .. } => (path, "a newer version of Regrow wrote it".to_owned()),
        StoreError::Io { path, error } | StoreError::ReadOnly { path, error } => (path, error.to_string()),
        StoreError::Full { path } | StoreError::Busy { path } => (path, error.to_string()),
    };
    DamagedFile { path: shown(path), problem, holds: Holds::Account }
}

/// The folders that Regrow cannot use as they are. One that is missing is created when it is needed.
pub(super) fn folders() -> Vec<UnusableFolder> {
    let accounts = Store::of_user().map(|store| store.as_ref().to_owned());
    let pins = PinFolder::of_user().map(|pins| pins.path().to_owned());
    let all: [(&'static str, Option<PathBuf>, bool); 4] = [
        ("accounts", accounts, true),
        ("its cache", cache_folder(), false),
        ("what was approved of servers", pins, true),
        ("which folders are trusted", folder_config::folder(), true),
    ];
    let mut unusable: Vec<(PathBuf, UnusableFolder)> = vec![];
    for (holds, path, is_private) in all {
        let Some(path) = path else { continue };
        // What is inside of an unusable folder says nothing new.
        if unusable.iter().any(|(other, _)| path.starts_with(other)) {
            continue;
        }
        if let Err(error) = usable(&path, is_private) {
            let folder = UnusableFolder { holds, path: shown(&path), problem: error.to_string() };
            unusable.push((path, folder));
        }
    }
    unusable.into_iter().map(|(_, folder)| folder).collect()
}

fn usable(path: &Path, is_private: bool) -> io::Result<()> {
    let opened = Folder::open(path);
    let opened = if is_private { opened.and_then(Folder::require_private) } else { opened };
    match opened {
        Ok(_) => Ok(access(path, Access::READ_OK | Access::WRITE_OK | Access::EXEC_OK)?),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let Some(existing) = path.ancestors().find(|ancestor| ancestor.exists()) else {
                return Err(error);
            };
            access(existing, Access::WRITE_OK | Access::EXEC_OK).map_err(|error| {
                let error = io::Error::from(error);
                io::Error::new(error.kind(), format!("it cannot be created in {}: {error}", shown(existing)))
            })
        }
        Err(error) => Err(error),
    }
}

/// The files in the cache that cannot be read.
pub(super) fn damaged() -> Vec<DamagedFile> {
    let mut damaged = vec![];
    // A folder that cannot be used is reported as such.
    let can_be_used = cache_folder().is_some_and(|path| Folder::open(&path).is_ok());
    if let Some(eras) = EraFile::of_user().filter(|_| can_be_used)
        && let Some(problem) = eras.problem()
    {
        damaged.push(DamagedFile { path: shown(eras.path()), problem, holds: Holds::Cache });
    }
    for (path, problem) in PinFolder::of_user().map(|pins| pins.damaged()).unwrap_or_default() {
        damaged.push(DamagedFile { path: shown(&path), problem, holds: Holds::Pins });
    }
    damaged
}

pub(super) fn shown(path: &Path) -> String {
    escape(&path.to_string_lossy())
}
