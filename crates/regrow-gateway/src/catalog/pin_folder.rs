//! The files of pins: one for each server of each configuration file.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use regrow::folder::Folder;

use super::pins::{PinOwner, Pins, sha256};

/// A larger file is none of ours.
const MAX_BYTES: u64 = 64 << 20;
/// More files are not looked at.
const MAX_FILES: usize = 10_000;

/// A folder with the pins of all servers. Only its user can read it.
#[derive(Clone, Debug)]
pub struct PinFolder {
    path: PathBuf,
}

/// The pins of one server as they are kept.
#[derive(Debug, PartialEq, Eq)]
pub enum StoredPins {
    /// There are none: it was never seen.
    None,
    /// These.
    Pins(Box<Pins>),
    /// They cannot be read, for this reason.
    Damaged(String),
}

impl PinFolder {
    /// The pins in this folder, which need not exist yet.
    pub fn at(path: impl Into<PathBuf>) -> PinFolder {
        PinFolder { path: path.into() }
    }

    /// The folder in the user's cache folder; none where there is no such folder.
    pub fn of_user() -> Option<PinFolder> {
        regrow::cache_folder().map(|folder| PinFolder::at(folder.join("pins")))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The pins of this server.
    pub fn read(&self, owner: &PinOwner) -> StoredPins {
        let read = self.open().and_then(|folder| folder.read(file_name(owner), MAX_BYTES));
        match read {
            Ok((_, bytes)) => match Pins::parse(&bytes).filter(|pins| pins.owner == *owner) {
                Some(pins) => StoredPins::Pins(Box::new(pins)),
                None => StoredPins::Damaged("the file is damaged".to_owned()),
            },
            Err(error) if error.kind() == io::ErrorKind::NotFound => StoredPins::None,
            Err(error) => StoredPins::Damaged(error.to_string()),
        }
    }

    /// Keeps these.
    pub fn write(&self, pins: &Pins) -> io::Result<()> {
        let folder = Folder::create(&self.path)?.require_private()?;
        // A damaged file holds everything.
        let write = |file: &mut File| file.write_all(&pins.to_bytes()).and_then(|()| file.sync_all());
        folder.replace(file_name(&pins.owner), write).map(drop)
    }

    /// Forgets those of this server: what it offers next is approved.
    pub fn remove(&self, owner: &PinOwner) -> io::Result<()> {
        self.open()?.remove(file_name(owner))
    }

    fn open(&self) -> io::Result<Folder> {
        Folder::open(&self.path)?.require_private()
    }

    /// The files that cannot be read, and why.
    pub fn damaged(&self) -> Vec<(PathBuf, String)> {
        let Ok(folder) = self.open() else { return vec![] }; // Nothing in it is read at all.
        let names = folder.names(MAX_FILES).into_iter().filter(|name| name.ends_with(".json"));
        let problem = |name: &String| match folder.read(name, MAX_BYTES) {
            Ok((_, bytes)) => Pins::parse(&bytes).is_none().then(|| "the file is damaged".to_owned()),
            Err(error) => Some(error.to_string()),
        };
        names.filter_map(|name| Some((self.path.join(&name), problem(&name)?))).collect()
    }

    /// The pins of all servers of this name, in whichever configuration file. Damaged ones are left out.
    pub fn of_server(&self, server: &str) -> Vec<Pins> {
        let Ok(folder) = self.open() else { return vec![] }; // There are none.
        let names = folder.names(MAX_FILES).into_iter().filter(|name| name.ends_with(".json"));
        let all = names.filter_map(|name| Pins::parse(&folder.read(name, MAX_BYTES).ok()?.1));
        all.filter(|pins| pins.owner.server == server).collect()
    }
}

fn file_name(owner: &PinOwner) -> String {
    let hash = sha256(format!("{:?}", (&owner.config, &owner.server)).as_bytes());
    format!("{hash}.json")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pins_are_kept_by_name_and_file_and_damage_is_noticed() {
        let temporary = tempfile::tempdir().unwrap();
        let folder = PinFolder::at(temporary.path().join("regrow/pins"));
        let owner = |config: &str| PinOwner { config: config.into(), server: "git".into() };
        assert_eq!(folder.read(&owner("/a")), StoredPins::None);
        let (one, two) = (Pins::first(owner("/a"), "1"), Pins::first(owner("/b"), "2"));
        folder.write(&one).unwrap();
        folder.write(&two).unwrap();
        assert_eq!(folder.read(&owner("/a")), StoredPins::Pins(Box::new(one.clone())));
        assert_eq!((folder.of_server("git").len(), folder.of_server("gti").len()), (2, 0));

        let file = folder.path().join(file_name(&owner("/a")));
        // One of another server in its place.
        std::fs::copy(folder.path().join(file_name(&owner("/b"))), &file).unwrap();
        assert!(matches!(folder.read(&owner("/a")), StoredPins::Damaged(_)));
        std::fs::write(&file, "{").unwrap();
        assert!(matches!(folder.read(&owner("/a")), StoredPins::Damaged(_)));
        std::fs::remove_file(&file).unwrap();
        std::os::unix::fs::symlink(folder.path().join(file_name(&owner("/b"))), &file).unwrap();
        assert!(matches!(folder.read(&owner("/a")), StoredPins::Damaged(_)), "it is a link");
        folder.remove(&owner("/a")).unwrap();
        assert_eq!(folder.read(&owner("/a")), StoredPins::None);
        assert_eq!(folder.of_server("git").len(), 1);

        let shared = std::os::unix::fs::PermissionsExt::from_mode(0o750);
        std::fs::set_permissions(folder.path(), shared).unwrap();
        assert!(matches!(folder.read(&owner("/b")), StoredPins::Damaged(_)), "others can reach the folder");
        assert!(folder.write(&two).is_err());
    }
}
