//! The file of a host: read as a whole, replaced as a whole, with a copy of what it was.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use regrow::folder::Folder;

/// A larger file is no configuration. Some hosts keep their history in the same file.
const MAX_BYTES: u64 = 32 << 20;
/// More copies than this nobody needs.
const MAX_BACKUPS: u32 = 1000;
/// What some editors put at the beginning of a file.
const MARK: &str = "\u{feff}";

pub(super) struct HostFile {
    /// Where it really is. People keep their configurations elsewhere and link to them: what changes is the file, and the link stays.
    path: PathBuf,
    named: PathBuf,
    folder: Folder,
    name: OsString,
    shown: String,
    whole: String,
}

impl HostFile {
    /// The error says what is wrong with a file that cannot be used.
    pub(super) fn read(path: &Path) -> Result<HostFile, String> {
        let shown = path.to_string_lossy().escape_debug().to_string();
        let wrong = |error: io::Error| format!("{shown}: the file cannot be read: {error}; name another one");
        let named = path.to_owned();
        let path = path.canonicalize().map_err(wrong)?;
        if !path.is_file() {
            return Err(format!("{shown}: this is not a file; name the configuration of an MCP host"));
        }
        let whole = contents(&path).map_err(wrong)?;
        let whole = String::from_utf8(whole).map_err(|_| format!("{shown}: the file is not UTF-8"))?;
        let folder = Folder::open_any(path.parent().unwrap_or(Path::new("/"))).map_err(wrong)?;
        let name = path.file_name().unwrap_or_default().to_owned();
        Ok(HostFile { path, named, folder, name, shown, whole })
    }

    /// The path by which it was named, which tells whose file it is.
    pub(super) fn named(&self) -> &Path {
        &self.named
    }

    /// Its name, safe to print.
    pub(super) fn shown(&self) -> &str {
        &self.shown
    }

    pub(super) fn text(&self) -> &str {
        without_mark(&self.whole)
    }

    /// Puts this text in its place, all or nothing; mode and owner stay.
    pub(super) fn replace(&self, text: &str) -> Result<(), String> {
        self.try_replace(text).map_err(|error| self.unchanged(&error))
    }

    /// The same, after a copy of the file as it is now. Returns the name of the copy.
    pub(super) fn replace_with_backup(&self, text: &str) -> Result<String, String> {
        let backup = self.back_up().map_err(|error| self.unchanged(&error))?;
        self.replace(text).inspect_err(|_| {
            let _ = self.folder.remove(&backup); // It is a copy of what is still there.
        })?;
        Ok(self.shown_beside(&backup))
    }

    /// Removes the backups of which this is said, given what they contain. Returns the names of those that are gone, and of
    /// those that are still there.
    pub(super) fn remove_backups(&self, is_spent: impl Fn(&str) -> bool) -> (Vec<String>, Vec<String>) {
        let names = (1..=MAX_BACKUPS).map(|number| self.backup(number));
        let found = names.filter_map(|name| match self.folder.read(&name, MAX_BYTES) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            read => Some((name, read)),
        });
        let is_gone = |name: &OsStr, contents: io::Result<(File, Vec<u8>)>| {
            let text = contents.ok().and_then(|(_, contents)| String::from_utf8(contents).ok());
            text.is_some_and(|text| is_spent(without_mark(&text))) && self.folder.remove(name).is_ok()
        };
        let (mut gone, mut left) = (vec![], vec![]);
        for (name, contents) in found {
            let names = if is_gone(&name, contents) { &mut gone } else { &mut left };
            names.push(self.shown_beside(&name));
        }
        (gone, left)
    }

    fn try_replace(&self, text: &str) -> io::Result<()> {
        let old = fs::metadata(&self.path)?;
        let mark = if self.whole.starts_with(MARK) { MARK } else { "" };
        let replaced = self.folder.replace(&self.name, |file| {
            write!(file, "{mark}{text}")?;
            let ours = file.metadata()?;
            if (ours.uid(), ours.gid()) != (old.uid(), old.gid()) {
                // The host must be able to read it as before.
                std::os::unix::fs::fchown(&*file, Some(old.uid()), Some(old.gid()))?;
            }
            file.set_permissions(old.permissions())?;
            match contents(&self.path)? == self.whole.as_bytes() {
                true => file.sync_all(),
                false => {
                    Err(io::Error::other("the file was changed by another program meanwhile; try again"))
                }
            }
        });
        replaced.map(drop)
    }

    /// Copies the file beside itself, under a name that is free.
    fn back_up(&self) -> io::Result<OsString> {
        // It holds the same secrets, and is for its owner alone.
        let private = Permissions::from_mode(fs::metadata(&self.path)?.mode() & 0o700);
        for name in (1..=MAX_BACKUPS).map(|number| self.backup(number)) {
            let created = self.folder.create_file(&name, |file| {
                file.write_all(self.whole.as_bytes())?;
                file.set_permissions(private.clone())?;
                file.sync_all()
            });
            match created {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                created => return created.map(|_| name),
            }
        }
        Err(io::Error::other("there are too many backup copies next to it; remove some"))
    }

    fn backup(&self, number: u32) -> OsString {
        let mut name = self.name.clone();
        name.push(".before-regrow");
        if number > 1 {
            name.push(format!(".{number}"));
        }
        name
    }

    fn shown_beside(&self, name: &OsStr) -> String {
        self.path.with_file_name(name).to_string_lossy().escape_debug().to_string()
    }

    fn unchanged(&self, error: &io::Error) -> String {
        format!("{}: nothing was changed: {error}", self.shown)
    }
}

fn without_mark(text: &str) -> &str {
    text.strip_prefix(MARK).unwrap_or(text)
}

fn contents(path: &Path) -> io::Result<Vec<u8>> {
    let mut contents = vec![];
    let length = File::open(path)?.take(MAX_BYTES + 1).read_to_end(&mut contents)?;
    match length as u64 > MAX_BYTES {
        true => Err(io::Error::other(format!("it is larger than {} MiB", MAX_BYTES >> 20))),
        false => Ok(contents),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_somebody_else_changes_meanwhile_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("mcp.json");
        fs::write(&path, "old").unwrap();
        let file = HostFile::read(&path).unwrap();
        fs::write(&path, "of the host").unwrap();
        let problem = file.replace_with_backup("ours").unwrap_err();
        assert!(
            problem.contains("nothing was changed: the file was changed by another program"),
            "{problem}"
        );
        assert_eq!(fs::read_to_string(&path).unwrap(), "of the host");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing is left beside it");
    }
}
