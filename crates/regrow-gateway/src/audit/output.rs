//! Where the lines of the audit log are written: standard error, or a file that is rotated by size.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{FlockOperation, OFlags, flock};

use super::Destination;

/// Why there is no audit log.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The system does not let us write there.
    #[error("cannot write the audit log to {path:?}: {error}")]
    File {
        /// Where.
        path: PathBuf,
        /// What the system says.
        error: io::Error,
    },
    /// What is there is not fit for it.
    #[error("cannot write the audit log to {path:?}: {problem}")]
    Unfit {
        /// Where.
        path: PathBuf,
        /// Why, and what to do.
        problem: &'static str,
    },
    /// Standard error is closed.
    #[error("cannot write the audit log to standard error: {0}")]
    Stderr(io::Error),
    /// No thread could be started for it.
    #[error("cannot start the thread of the audit log: {0}")]
    Thread(io::Error),
}

/// Takes whole lines.
pub(super) struct Output {
    file: File,
    /// The last line was written in part.
    is_torn: bool,
    rotation: Option<Rotation>,
    name: String,
}

/// What a regular file needs to be rotated.
struct Rotation {
    path: PathBuf,
    /// How long the file is.
    size: u64,
    max_size: u64,
    /// Rotate when it would become longer than this. It is later than `max_size` after a rotation that failed.
    next: u64,
    keep: u32,
}

impl Output {
    pub(super) fn open(destination: Destination) -> Result<Output, OpenError> {
        match destination {
            Destination::Stderr => {
                let stderr = io::stderr().as_fd().try_clone_to_owned().map_err(OpenError::Stderr)?;
                let name = "standard error".to_owned();
                Ok(Output { file: stderr.into(), is_torn: false, rotation: None, name })
            }
            Destination::File { path, max_size, keep } => open_file(path, max_size, keep),
        }
    }

    /// For messages.
    pub(super) fn name(&self) -> String {
        self.name.clone()
    }

    /// Writes a line. It may block for as long as the system likes.
    pub(super) fn write(&mut self, line: &[u8]) -> io::Result<()> {
        if let Some(rotation) = &mut self.rotation
            && rotation.size > 0
            && rotation.size + line.len() as u64 > rotation.next
        {
            match rotation.rotate() {
                Ok(file) => {
                    self.file = file;
                    self.is_torn = false;
                }
                // A log that grows is better than none.
                Err(error) => {
                    rotation.next = rotation.size + rotation.max_size;
                    tracing::warn!("cannot rotate the audit log {}: {error}; it grows on", self.name);
                }
            }
        }
        if self.is_torn {
            self.write_all(b"\n")?; // So that this line is not taken for the end of the broken one.
            self.is_torn = false;
        }
        self.write_all(line)
    }

    fn write_all(&mut self, mut rest: &[u8]) -> io::Result<()> {
        let length = rest.len();
        while !rest.is_empty() {
            let written = match self.file.write(rest) {
                Ok(0) => Err(ErrorKind::WriteZero.into()),
                Ok(written) => Ok(written),
                Err(error) if error.kind() == ErrorKind::Interrupted => Ok(0),
                Err(error) if error.kind() == ErrorKind::WouldBlock => self.ready().map(|()| 0),
                Err(error) => Err(error),
            };
            let written = written.inspect_err(|_| self.is_torn |= rest.len() < length)?;
            rest = &rest[written..];
            if let Some(rotation) = &mut self.rotation {
                rotation.size += written as u64;
            }
        }
        Ok(())
    }

    /// Waits until a pipe takes more.
    fn ready(&self) -> io::Result<()> {
        match poll(&mut [PollFd::new(&self.file, PollFlags::OUT)], None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

fn open_file(path: PathBuf, max_size: u64, keep: u32) -> Result<Output, OpenError> {
    let unfit = |problem| Err(OpenError::Unfit { path: path.clone(), problem });
    let failed = |error| OpenError::File { path: path.clone(), error };
    if fs::symlink_metadata(&path).is_ok_and(|found| found.is_symlink()) {
        return unfit("it is a symbolic link; name the file itself");
    }
    let file = match append(&path) {
        Err(error) if rustix::io::Errno::from_io_error(&error) == Some(rustix::io::Errno::NXIO) => {
            return unfit("nobody reads this pipe; start its reader first");
        }
        opened => opened.map_err(failed)?,
    };
    let found = file.metadata().map_err(failed)?;
    if found.is_file() {
        if found.uid() != rustix::process::geteuid().as_raw() {
            return unfit("it belongs to another user; remove it, or name another file");
        }
        if found.mode() & 0o022 != 0 {
            return unfit("other users can change it; run `chmod 600` on it");
        }
        if is_locked(&file) {
            return unfit("another gateway writes to it; give each gateway its own file");
        }
    } else if !found.file_type().is_fifo() && !found.file_type().is_char_device() {
        return unfit("it is not a file");
    }
    let name = path.to_string_lossy().escape_debug().to_string();
    let size = found.len();
    let is_torn = found.is_file() && size > 0 && last_byte(&path, size).is_none_or(|last| last != b'\n');
    let rotation = Rotation { path, size, max_size, next: max_size, keep };
    Ok(Output { file, is_torn, rotation: found.is_file().then_some(rotation), name })
}

/// A pipe must not hold us up, neither here nor later.
fn append(path: &Path) -> io::Result<File> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    OpenOptions::new()
        .append(true)
        .create(true)
        .mode(0o600)
        .custom_flags(flags.bits().cast_signed())
        .open(path)
}

/// Two programs that rotate the same file would rename each other's lines away. A file system without locks is no reason to refuse it.
fn is_locked(file: &File) -> bool {
    flock(file, FlockOperation::NonBlockingLockExclusive) == Err(rustix::io::Errno::WOULDBLOCK)
}

/// None if it cannot be read.
fn last_byte(path: &Path, size: u64) -> Option<u8> {
    let mut last = [0];
    File::open(path).and_then(|file| file.read_exact_at(&mut last, size - 1)).ok()?;
    Some(last[0])
}

impl Rotation {
    /// Renames the file and those before it, and starts a new one.
    fn rotate(&mut self) -> io::Result<File> {
        for number in (1..self.keep).rev() {
            rename(&self.numbered(number), &self.numbered(number + 1))?;
        }
        let first = self.numbered(1);
        rename(&self.path, &first)?;
        let new = OpenOptions::new().append(true).create_new(true).mode(0o600).open(&self.path);
        let new = new.inspect_err(|_| {
            let _ = fs::rename(&first, &self.path); // We go on with the old one, under its name if possible.
        })?;
        let _ = is_locked(&new); // Just created, so nobody else has it.
        (self.size, self.next) = (0, self.max_size);
        Ok(new)
    }

    fn numbered(&self, number: u32) -> PathBuf {
        let mut name = self.path.as_os_str().to_owned();
        name.push(format!(".{number}"));
        name.into()
    }
}

/// What is not there need not be renamed.
fn rename(from: &Path, to: &Path) -> io::Result<()> {
    match fs::rename(from, to) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        renamed => renamed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    fn open(path: &Path, max_size: u64, keep: u32) -> Result<Output, OpenError> {
        Output::open(Destination::File { path: path.to_owned(), max_size, keep })
    }

    fn problem(path: &Path) -> String {
        open(path, 1000, 5).err().unwrap().to_string()
    }

    #[test]
    fn a_file_is_only_for_its_user_and_goes_on_after_a_restart() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit.jsonl");
        for line in ["one\n", "two\n"] {
            open(&path, 1000, 5).unwrap().write(line.as_bytes()).unwrap();
        }
        assert_eq!(fs::read_to_string(&path).unwrap(), "one\ntwo\n");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn a_line_that_was_cut_off_does_not_swallow_the_next() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit.jsonl");
        open(&path, 1000, 5).unwrap().write(b"{\"time\":\"20").unwrap();
        let mut output = open(&path, 1000, 5).unwrap();
        output.write(b"{}\n").unwrap();
        output.write(b"{}\n").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "{\"time\":\"20\n{}\n{}\n");
    }

    #[test]
    fn files_are_rotated_by_size_and_the_oldest_goes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit.jsonl");
        let mut output = open(&path, 20, 2).unwrap();
        for number in 10..20 {
            output.write(format!("line {number}\n").as_bytes()).unwrap(); // Two fit.
        }
        let text = |name: &str| fs::read_to_string(folder.path().join(name)).unwrap();
        assert_eq!(text("audit.jsonl"), "line 18\nline 19\n");
        assert_eq!(text("audit.jsonl.1"), "line 16\nline 17\n");
        assert_eq!(text("audit.jsonl.2"), "line 14\nline 15\n");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 3);
        drop(output);
        open(&path, 20, 2).unwrap().write(b"line 20\n").unwrap();
        assert_eq!(text("audit.jsonl"), "line 20\n", "what was there before counts");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn a_file_that_cannot_be_rotated_grows_on() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit.jsonl");
        let in_the_way = folder.path().join("audit.jsonl.1");
        fs::create_dir(&in_the_way).unwrap();
        let mut output = open(&path, 10, 1).unwrap();
        for _ in 0..3 {
            output.write(b"line\n").unwrap();
        }
        assert_eq!(fs::read_to_string(&path).unwrap(), "line\nline\nline\n");
        fs::remove_dir(&in_the_way).unwrap();
        for _ in 0..3 {
            output.write(b"line\n").unwrap();
        }
        assert!(in_the_way.is_file(), "the next time it works");
    }

    #[test]
    fn what_others_could_change_or_read_elsewhere_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit.jsonl");
        let target = folder.path().join("target");
        symlink(&target, &path).unwrap();
        assert!(problem(&path).contains("symbolic link"), "{}", problem(&path));
        assert!(append(&path).is_err(), "also if it was not there when it was looked for");
        assert!(!target.exists());
        fs::write(&target, "").unwrap();
        fs::set_permissions(&target, PermissionsExt::from_mode(0o666)).unwrap();
        assert!(problem(&target).contains("chmod 600"), "{}", problem(&target));
        fs::set_permissions(&target, PermissionsExt::from_mode(0o640)).unwrap();
        let _first = open(&target, 1000, 5).unwrap();
        assert!(problem(&target).contains("another gateway"), "{}", problem(&target));
        assert!(problem(folder.path()).contains("Is a directory"), "{}", problem(folder.path()));
        let missing = folder.path().join("missing/audit.jsonl");
        assert!(problem(&missing).contains("No such file"), "{}", problem(&missing));
    }
}
