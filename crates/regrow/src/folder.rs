//! Folders and files that belong to the user alone: caches, pins, accounts, the operator token, backups of configurations. Every file that Regrow keeps
//! is written and read here; only the audit log, which grows, is not.
//!
//! A file appears whole or not at all, is readable by its user only, and no link is followed: another user of the machine can neither
//! make Regrow write elsewhere nor make it read what that user wrote.

use std::ffi::OsStr;
use std::fs::{DirBuilder, File, Metadata};
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::fs::{self, AtFlags, Mode, OFlags};
use rustix::io::Errno;

/// Our part of the user's cache folder; none where there is no such folder.
pub fn cache_folder() -> Option<PathBuf> {
    user_folder("XDG_CACHE_HOME", ".cache", "Library/Caches")
}

/// Our part of the user's folder for what must outlive a cleanup of caches; none where there is no such folder.
pub fn state_folder() -> Option<PathBuf> {
    user_folder("XDG_STATE_HOME", ".local/state", "Library/Application Support")
}

fn user_folder(variable: &str, in_home: &str, on_macos: &str) -> Option<PathBuf> {
    let absolute = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let home = || absolute("HOME");
    let folder = match cfg!(target_os = "macos") {
        true => home().map(|home| home.join(on_macos)),
        false => absolute(variable).or_else(|| home().map(|home| home.join(in_home))),
    };
    folder.map(|folder| folder.join("regrow"))
}

/// An open folder. Files are named relative to it, so nobody can put another folder or a link in its place after it was checked.
#[derive(Debug)]
pub struct Folder(OwnedFd);

/// Permission bits of the group and of others.
const WRITE: u32 = 0o022;
const ANY: u32 = 0o077;

impl Folder {
    /// The folder at this path, created with mode 0700 if it is missing. Otherwise like [`Folder::open`].
    pub fn create(path: &Path) -> io::Result<Folder> {
        DirBuilder::new().recursive(true).mode(0o700).create(path)?;
        Folder::open(path)
    }

    /// The folder at this path. A link, a folder of another user and one that others can write to are refused.
    pub fn open(path: &Path) -> io::Result<Folder> {
        Folder(open(fs::CWD, path.as_os_str(), OFlags::DIRECTORY | OFlags::NOFOLLOW)?).without(WRITE)
    }

    /// The folder at this path without these checks: for files that the user named.
    pub fn open_any(path: &Path) -> io::Result<Folder> {
        Ok(Folder(open(fs::CWD, path.as_os_str(), OFlags::DIRECTORY)?))
    }

    /// The folder of this name inside, created if it is missing.
    pub fn create_folder(&self, name: &str) -> io::Result<Folder> {
        match fs::mkdirat(&self.0, name, Mode::RWXU) {
            Ok(()) | Err(Errno::EXIST) => self.open_folder(name),
            Err(error) => Err(error.into()),
        }
    }

    /// The folder of this name inside; it must be as [`Folder::open`] requires.
    pub fn open_folder(&self, name: &str) -> io::Result<Folder> {
        Folder(open(&self.0, name.as_ref(), OFlags::DIRECTORY | OFlags::NOFOLLOW)?).without(WRITE)
    }

    /// Refuses a folder that others can list or enter, too.
    pub fn require_private(self) -> io::Result<Folder> {
        self.without(ANY)
    }

    fn without(self, permissions: u32) -> io::Result<Folder> {
        let folder = File::from(self.0);
        refuse_others(&folder.metadata()?, permissions)?;
        Ok(Folder(folder.into()))
    }

    /// Opens a file for reading. Links, files of other users and files that others can write to are refused.
    pub fn open_file(&self, name: impl AsRef<OsStr>) -> io::Result<File> {
        // Opening a FIFO that somebody put there must not block.
        let file = File::from(open(&self.0, name.as_ref(), OFlags::NOFOLLOW | OFlags::NONBLOCK)?);
        let found = file.metadata()?;
        if !found.is_file() {
            return Err(io::Error::other("it is not a regular file"));
        }
        refuse_others(&found, WRITE)?;
        Ok(file)
    }

    /// Opens a file as [`Folder::open_file`] does, and returns its contents, too. A larger one is refused.
    pub fn read(&self, name: impl AsRef<OsStr>, max_bytes: u64) -> io::Result<(File, Vec<u8>)> {
        let file = self.open_file(name)?;
        let mut contents = vec![];
        match (&file).take(max_bytes + 1).read_to_end(&mut contents)? as u64 > max_bytes {
            true => Err(io::ErrorKind::FileTooLarge.into()),
            false => Ok((file, contents)),
        }
    }

    /// Creates a file with mode 0600. Fails if something of this name exists; leaves nothing behind if `write` fails.
    pub fn create_file(
        &self,
        name: impl AsRef<OsStr>,
        write: impl FnOnce(&mut File) -> io::Result<()>,
    ) -> io::Result<File> {
        let name = name.as_ref();
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::NOFOLLOW;
        let mut file = File::from(open(&self.0, name, flags)?);
        let written = write(&mut file);
        self.remove_unless(written, name)?;
        Ok(file)
    }

    /// Puts a new file in the place of the one of this name, if any: readers find the old one or the whole new one. Also after the machine lost its
    /// power, if `write` syncs the file.
    pub fn replace(
        &self,
        name: impl AsRef<OsStr>,
        write: impl FnOnce(&mut File) -> io::Result<()>,
    ) -> io::Result<File> {
        let mut random = [0; 8];
        getrandom::fill(&mut random).map_err(io::Error::other)?;
        let mut draft = name.as_ref().to_owned();
        draft.push(format!(".{:016x}.new", u64::from_ne_bytes(random)));
        let file = self.create_file(&draft, write)?;
        let renamed = self.rename(&draft, name);
        self.remove_unless(renamed, &draft)?;
        Ok(file)
    }

    /// Gives a file another name, in the place of the file of that name, if any.
    pub fn rename(&self, from: impl AsRef<OsStr>, to: impl AsRef<OsStr>) -> io::Result<()> {
        Ok(fs::renameat(&self.0, from.as_ref(), &self.0, to.as_ref())?)
    }

    /// Waits until the names of its files are on the disk.
    pub fn sync(&self) -> io::Result<()> {
        Ok(fs::fsync(&self.0)?)
    }

    fn remove_unless(&self, done: io::Result<()>, name: &OsStr) -> io::Result<()> {
        if done.is_err() {
            // The first failure is reported. A file that stays is empty or incomplete, and private.
            let _ = self.remove(name);
        }
        done
    }

    /// Removes a file; of a link, the link itself.
    pub fn remove(&self, name: impl AsRef<OsStr>) -> io::Result<()> {
        Ok(fs::unlinkat(&self.0, name.as_ref(), AtFlags::empty())?)
    }

    /// The names of at most this many files, in order.
    pub fn names(&self, most: usize) -> Vec<String> {
        let entries = fs::Dir::read_from(&self.0).into_iter().flatten().flatten();
        let names = entries.filter_map(|entry| entry.file_name().to_str().ok().map(str::to_owned));
        let mut names: Vec<String> = names.filter(|name| name != "." && name != "..").take(most).collect();
        names.sort();
        names
    }
}

/// What was read from a cache at this path; none if there is nothing yet. What cannot be trusted is ignored, with a line in the log.
pub fn cached<T>(path: &Path, read: io::Result<T>) -> Option<T> {
    match read {
        Ok(contents) => Some(contents),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => {
            tracing::warn!(path = %path.display(), %error, "ignoring a cache file");
            None
        }
    }
}

fn open(at: impl std::os::fd::AsFd, name: &OsStr, flags: OFlags) -> io::Result<OwnedFd> {
    match fs::openat(at, name, flags | OFlags::CLOEXEC, Mode::RUSR | Mode::WUSR) {
        // What the system says about links depends on the other flags.
        Err(Errno::LOOP | Errno::NOTDIR) if flags.contains(OFlags::NOFOLLOW) => {
            Err(io::Error::other("it is a symbolic link, or not what it should be"))
        }
        opened => Ok(opened?),
    }
}

fn refuse_others(found: &Metadata, permissions: u32) -> io::Result<()> {
    if found.uid() != rustix::process::geteuid().as_raw() {
        return Err(io::Error::other("it belongs to another user"));
    }
    match found.mode() & permissions {
        0 => Ok(()),
        _ => {
            Err(io::Error::other(format!("other users have access to it (mode {:o})", found.mode() & 0o777)))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::fs::{PermissionsExt, chown, symlink};

    use super::*;

    fn say(text: &str) -> impl FnOnce(&mut File) -> io::Result<()> {
        move |file| file.write_all(text.as_bytes())
    }

    fn mode(path: &Path) -> u32 {
        std::fs::metadata(path).unwrap().mode() & 0o777
    }

    #[test]
    fn what_is_written_is_private_and_whole_or_not_there() {
        let temporary = tempfile::tempdir().unwrap();
        let path = temporary.path().join("a/b");
        let folder = Folder::create(&path).unwrap();
        folder.replace("file", say("old")).unwrap();
        assert_eq!(
            (mode(&temporary.path().join("a")), mode(&path), mode(&path.join("file"))),
            (0o700, 0o700, 0o600)
        );
        let failed = folder.replace("file", |file| {
            file.write_all(b"half")?;
            Err(io::Error::other("the disk is full"))
        });
        assert_eq!(failed.unwrap_err().to_string(), "the disk is full");
        assert_eq!(folder.read("file", 3).unwrap().1, b"old");
        assert_eq!(folder.read("file", 2).unwrap_err().kind(), io::ErrorKind::FileTooLarge);
        assert_eq!(folder.create_file("file", say("new")).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(folder.names(9), ["file"], "nothing is left beside it");
    }

    #[test]
    fn no_link_is_followed_and_nothing_that_others_can_change_is_read() {
        let temporary = tempfile::tempdir().unwrap();
        let own = temporary.path().join("own");
        let victim = temporary.path().join("victim");
        std::fs::write(&victim, "precious").unwrap();
        let folder = Folder::create(&own).unwrap();
        symlink(&victim, own.join("link")).unwrap();
        symlink(temporary.path(), own.join("away")).unwrap();
        assert!(folder.open_file("link").is_err() && folder.create_file("link", say("x")).is_err());
        assert!(folder.open_folder("away").is_err() && folder.create_folder("away").is_err());
        folder.replace("link", say("ours")).unwrap();
        assert_eq!(std::fs::read_to_string(&victim).unwrap(), "precious");
        assert_eq!(folder.read("link", 9).unwrap().1, b"ours", "the link itself was replaced");

        for (mode, is_read) in [(0o644, true), (0o620, false), (0o602, false)] {
            std::fs::set_permissions(own.join("link"), PermissionsExt::from_mode(mode)).unwrap();
            assert_eq!(folder.open_file("link").is_ok(), is_read, "{mode:o}");
        }
        for (mode, opens, is_private) in
            [(0o700, true, true), (0o755, true, false), (0o720, false, false), (0o777, false, false)]
        {
            std::fs::set_permissions(&own, PermissionsExt::from_mode(mode)).unwrap();
            assert_eq!(Folder::create(&own).is_ok(), opens, "{mode:o}");
            assert_eq!(Folder::open(&own).and_then(Folder::require_private).is_ok(), is_private, "{mode:o}");
        }
        let fifo = own.join("fifo");
        assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
        assert!(folder.open_file("fifo").is_err(), "and it does not block");
    }

    #[test]
    fn what_belongs_to_another_user_is_refused() {
        if !rustix::process::geteuid().is_root() {
            return; // Only root can give files away.
        }
        let temporary = tempfile::tempdir().unwrap();
        let path = temporary.path().join("own");
        let folder = Folder::create(&path).unwrap();
        folder.replace("file", say("x")).unwrap();
        chown(path.join("file"), Some(65534), None).unwrap();
        assert!(folder.open_file("file").is_err());
        chown(&path, Some(65534), None).unwrap();
        assert!(Folder::open(&path).is_err() && Folder::create(&path).is_err());
        assert!(Folder::open_any(&path).is_ok());
    }
}
