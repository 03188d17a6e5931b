//! The files of the store: private, replaced as a whole, removed when nobody wants them.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::StoreKey;

/// A larger file is not read, and a larger catalog not written.
const MAX_BYTES: u64 = 64 << 20;
const UNUSED: Duration = Duration::from_secs(90 * 86_400);
/// More files are not looked at.
const MAX_FILES: usize = 10_000;

#[derive(Debug)]
pub(super) struct Folder {
    path: PathBuf,
}

impl Folder {
    pub(super) fn at(path: PathBuf) -> Folder {
        Folder { path }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The file of this server, which is used from now on for another while.
    pub(super) fn read(&self, key: StoreKey, now: SystemTime) -> Option<Vec<u8>> {
        let file = File::open(self.file(key)).ok()?;
        let is_ours = file.metadata().is_ok_and(|file| file.is_file() && file.len() <= MAX_BYTES);
        let mut bytes = vec![];
        (&file).take(if is_ours { MAX_BYTES } else { 0 }).read_to_end(&mut bytes).ok()?;
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

    /// Replaces the file as a whole, so that nobody reads half of it.
    fn replace(&self, key: StoreKey, bytes: &[u8]) -> io::Result<()> {
        if bytes.len() as u64 > MAX_BYTES {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        DirBuilder::new().recursive(true).mode(0o700).create(&self.path)?;
        let new = self.path.join(format!("{key}.{}.new", std::process::id()));
        // Left over by a process of the same number that died: it must not keep its mode or its target.
        if let Err(error) = fs::remove_file(&new)
            && error.kind() != io::ErrorKind::NotFound
        {
            return Err(error);
        }
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
        let written = file.write_all(bytes).and_then(|()| fs::rename(&new, self.file(key)));
        if written.is_err() {
            // The first failure is told; a file that is left over is removed after 90 days.
            let _ = fs::remove_file(&new);
        }
        written
    }

    /// Removes files of ours that were not used for long, and no others.
    pub(super) fn tidy(&self, now: SystemTime) {
        let Ok(entries) = fs::read_dir(&self.path) else { return }; // There is nothing yet.
        for entry in entries.take(MAX_FILES).flatten() {
            let modified =
                entry.metadata().ok().filter(|file| file.is_file()).and_then(|f| f.modified().ok());
            let is_old = modified.is_some_and(|time| now.duration_since(time).is_ok_and(|age| age > UNUSED));
            if is_old
                && is_ours(&entry.file_name().to_string_lossy())
                && let Err(error) = fs::remove_file(entry.path())
            {
                tracing::debug!(path = %entry.path().display(), %error, "an old catalog could not be removed");
            }
        }
    }

    fn file(&self, key: StoreKey) -> PathBuf {
        self.path.join(format!("{key}.json"))
    }
}

/// A key, and what we write behind one.
fn is_ours(name: &str) -> bool {
    let (key, rest) = name.split_once('.').unwrap_or_default();
    let is_key = key.len() == 64 && key.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_key && (rest == "json" || rest.ends_with(".new"))
}
