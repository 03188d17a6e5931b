//! The file of a host: read as a whole, replaced as a whole, with a copy of what it was.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// A larger file is no configuration. Some hosts keep their history in the same file.
const MAX_BYTES: u64 = 32 << 20;
/// More copies than this nobody needs.
const MAX_BACKUPS: u32 = 1000;
/// What some editors put at the beginning of a file.
const MARK: &str = "\u{feff}";

pub(super) struct HostFile {
    /// Where it really is: a link to it stays a link.
    path: PathBuf,
    shown: String,
    whole: String,
}

impl HostFile {
    /// The error says what is wrong with a file that cannot be used.
    pub(super) fn read(path: &Path) -> Result<HostFile, String> {
        let shown = path.to_string_lossy().escape_debug().to_string();
        let wrong = |error: io::Error| format!("{shown}: the file cannot be read: {error}; name another one");
        let path = path.canonicalize().map_err(wrong)?;
        if !path.is_file() {
            return Err(format!("{shown}: this is not a file; name the configuration of an MCP host"));
        }
        let whole = contents(&path).map_err(wrong)?;
        let whole = String::from_utf8(whole).map_err(|_| format!("{shown}: the file is not UTF-8"))?;
        Ok(HostFile { path, shown, whole })
    }

    /// Its name, safe to print.
    pub(super) fn shown(&self) -> &str {
        &self.shown
    }

    pub(super) fn text(&self) -> &str {
        self.whole.strip_prefix(MARK).unwrap_or(&self.whole)
    }

    /// Puts this text in its place, all or nothing. Returns the name of the copy, where one is wanted.
    pub(super) fn replace(&self, text: &str, keep: bool) -> Result<Option<String>, String> {
        let wrong = |error: io::Error| format!("{}: nothing was changed: {error}", self.shown);
        let metadata = fs::metadata(&self.path).map_err(wrong)?;
        let mark = if self.whole.starts_with(MARK) { MARK } else { "" };
        let backup = if keep { Some(self.back_up(metadata.permissions()).map_err(wrong)?) } else { None };
        let new = beside(&self.path, &format!(".regrow-{}", std::process::id()));
        let written = self.write(&new, &format!("{mark}{text}"), &metadata);
        if written.is_err() {
            // Neither is of use to anybody; if one stays, it harms nobody either.
            let _ = fs::remove_file(&new);
            let _ = backup.as_ref().map(fs::remove_file);
        }
        written.map_err(wrong)?;
        Ok(backup.map(|backup| backup.to_string_lossy().escape_debug().to_string()))
    }

    /// Writes a new file and moves it into the place of the old one, so that nobody ever reads half of it.
    fn write(&self, new: &Path, text: &str, old: &fs::Metadata) -> io::Result<()> {
        let mut file = create(new)?;
        file.write_all(text.as_bytes())?;
        let ours = file.metadata()?;
        if (ours.uid(), ours.gid()) != (old.uid(), old.gid()) {
            // The host must be able to read it as before.
            std::os::unix::fs::fchown(&file, Some(old.uid()), Some(old.gid()))?;
        }
        file.set_permissions(old.permissions())?;
        file.sync_all()?;
        if contents(&self.path)? != self.whole.as_bytes() {
            return Err(io::Error::other("the file was changed by another program meanwhile; try again"));
        }
        fs::rename(new, &self.path)
    }

    /// Copies the file beside itself, under a name that is free.
    fn back_up(&self, permissions: Permissions) -> io::Result<PathBuf> {
        for number in 1..=MAX_BACKUPS {
            let ending =
                if number == 1 { ".before-regrow".into() } else { format!(".before-regrow.{number}") };
            let path = beside(&self.path, &ending);
            match create(&path) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
                Ok(mut file) => {
                    // It holds the same secrets, and is for its owner alone.
                    let private = Permissions::from_mode(permissions.mode() & 0o700);
                    let written = file
                        .write_all(self.whole.as_bytes())
                        .and_then(|()| file.set_permissions(private))
                        .and_then(|()| file.sync_all());
                    if written.is_err() {
                        let _ = fs::remove_file(&path); // Half a copy is of use to nobody.
                    }
                    return written.map(|()| path);
                }
            }
        }
        Err(io::Error::other("there are too many backup copies next to it; remove some"))
    }
}

fn contents(path: &Path) -> io::Result<Vec<u8>> {
    let mut contents = vec![];
    let length = File::open(path)?.take(MAX_BYTES + 1).read_to_end(&mut contents)?;
    match length as u64 > MAX_BYTES {
        true => Err(io::Error::other(format!("it is larger than {} MiB", MAX_BYTES >> 20))),
        false => Ok(contents),
    }
}

/// A file that is not there yet, for our eyes only.
fn create(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
}

fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(ending);
    path.with_file_name(name)
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
        let problem = file.replace("ours", true).unwrap_err();
        assert!(
            problem.contains("nothing was changed: the file was changed by another program"),
            "{problem}"
        );
        assert_eq!(fs::read_to_string(&path).unwrap(), "of the host");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing is left beside it");
    }
}
