//! The gateways that run on this machine for this user: each keeps a file in the user's runtime folder while it runs, so that
//! `regrow status` and the like find it, with the token that opens it for its operator.
//!
//! A gateway holds a lock on its file. The system releases it however the gateway ends, so a file without a lock is stale.

use std::fmt;
use std::fs::File;
use std::io::{self, Write as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use regrow::folder::Folder;
use regrow::random_id;
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

/// More are not looked at.
const MAX_FILES: usize = 256;
/// No file of ours is longer.
const LONGEST: u64 = 16 << 10;
/// Of the names of our files.
const ENDING: &str = ".json";

/// A gateway that runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Running {
    /// Its address, without a path.
    pub(crate) url: String,
    pub(crate) pid: u32,
    /// What the commands of its operator need. It is generated for this one process.
    pub(crate) operator_token: OperatorToken,
    /// The files that it was configured by.
    pub(crate) config_files: Vec<String>,
}

/// A token that opens a gateway for its operator. It is written into a file that only its user can read, and nowhere else.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct OperatorToken(String);

impl OperatorToken {
    pub(crate) fn generate() -> io::Result<OperatorToken> {
        random_id().map(OperatorToken).ok_or_else(|| io::Error::other("the system has no random numbers"))
    }

    pub(crate) fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for OperatorToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// The file of this process. It goes with this.
pub(crate) struct Announced {
    folder: Folder,
    name: String,
    /// Holds the lock.
    _file: File,
}

impl Drop for Announced {
    fn drop(&mut self) {
        // Any process that finds it without a lock removes it, too.
        let _ = self.folder.remove(&self.name);
    }
}

/// Writes the file of this process into the user's runtime folder.
pub(crate) fn announce(running: &Running) -> io::Result<Announced> {
    let path = folder().ok_or_else(|| io::Error::other("there is no folder for it"))?;
    announce_in(create(&path)?, running)
}

/// The gateways that run now, oldest first. Files that others left behind are removed.
pub(crate) fn find() -> Vec<Running> {
    let folder = folder().map(|path| open(&path));
    folder.and_then(Result::ok).map(|folder| find_in(&folder)).unwrap_or_default()
}

/// The same, and nothing is removed.
pub(crate) fn look() -> Vec<Running> {
    let folder = folder().map(|path| open(&path));
    let look =
        |folder: Folder| names(&folder).iter().filter_map(|name| read(&folder, name, |_| {})).collect();
    folder.and_then(Result::ok).map(look).unwrap_or_default()
}

/// How we reach a gateway that listens at this address.
pub(crate) fn url(scheme: &str, address: SocketAddr) -> String {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    format!("{scheme}://{}", SocketAddr::new(ip, address.port()))
}

fn folder() -> Option<PathBuf> {
    let named = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|folder| folder.is_absolute());
    let user = rustix::process::geteuid().as_raw();
    match named {
        Some(folder) => Some(folder.join("regrow")),
        // Shared with others, so everything about it is checked before it is used.
        None => Some(std::env::temp_dir().join(format!("regrow-{user}"))),
    }
}

fn create(path: &Path) -> io::Result<Folder> {
    Folder::create(path)?.require_private()
}

fn open(path: &Path) -> io::Result<Folder> {
    Folder::open(path)?.require_private()
}

fn announce_in(folder: Folder, running: &Running) -> io::Result<Announced> {
    let born = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    // The order of names is the order of starts.
    let name = format!("{:020}-{}{ENDING}", born.as_nanos(), running.pid);
    // It appears whole, and locked.
    let text = serde_json::to_vec(running)?;
    let file = folder.replace(&name, |file| {
        flock(&*file, FlockOperation::NonBlockingLockExclusive)?;
        file.write_all(&text)
    })?;
    Ok(Announced { folder, name, _file: file })
}

fn find_in(folder: &Folder) -> Vec<Running> {
    // What nobody holds is left of a gateway that was killed.
    let remove = |name: &str| drop(folder.remove(name));
    names(folder).iter().filter_map(|name| read(folder, name, remove)).collect()
}

fn names(folder: &Folder) -> Vec<String> {
    folder.names(MAX_FILES).into_iter().filter(|name| name.ends_with(ENDING)).collect()
}

/// The gateway of this file, if it runs; otherwise the file is stale.
fn read(folder: &Folder, name: &str, stale: impl Fn(&str)) -> Option<Running> {
    let (file, text) = folder.read(name, LONGEST).ok()?;
    if flock(&file, FlockOperation::NonBlockingLockShared).is_ok() {
        stale(name);
        return None;
    }
    serde_json::from_slice(&text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn running(port: u16) -> Running {
        Running {
            url: format!("http://127.0.0.1:{port}"),
            pid: u32::from(port),
            operator_token: OperatorToken("s3cr3t".into()),
            config_files: vec![".mcp.json".into()],
        }
    }

    #[test]
    fn who_runs_is_found_and_who_was_killed_is_not() {
        let temporary = tempfile::tempdir().unwrap();
        let path = temporary.path().join("regrow");
        let folder = || create(&path).unwrap();
        assert_eq!(find_in(&folder()), []);
        let one = announce_in(folder(), &running(1)).unwrap();
        let two = announce_in(folder(), &running(2)).unwrap();
        assert_eq!(find_in(&folder()), [running(1), running(2)]);
        let mode = |path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(path.join(&one.name)), mode(path.clone())), (0o600, 0o700));
        assert!(!format!("{:?}", running(1)).contains("s3cr3t"));

        drop(one);
        assert_eq!(find_in(&folder()), [running(2)]);
        // Killed: the lock is gone, the file is not.
        let left = path.join(&two.name);
        std::fs::copy(&left, path.join("copy")).unwrap();
        drop(two);
        assert!(!left.exists());
        std::fs::rename(path.join("copy"), &left).unwrap();
        assert_eq!(find_in(&folder()), []);
        assert!(!left.exists(), "a stale file is removed");
    }

    #[test]
    fn a_folder_that_others_can_reach_is_not_used_and_no_link_is_followed() {
        let temporary = tempfile::tempdir().unwrap();
        let shared = temporary.path().join("shared");
        std::fs::create_dir(&shared).unwrap();
        for mode in [0o777, 0o750, 0o701] {
            std::fs::set_permissions(&shared, PermissionsExt::from_mode(mode)).unwrap();
            assert!(create(&shared).is_err(), "{mode:o}");
        }
        let (own, link) = (temporary.path().join("own"), temporary.path().join("link"));
        let folder = create(&own).unwrap();
        std::os::unix::fs::symlink(&own, &link).unwrap();
        assert!(create(&link).is_err() && open(&link).is_err());
        std::fs::write(temporary.path().join("elsewhere"), "{}").unwrap();
        std::os::unix::fs::symlink("../elsewhere", own.join("1.json")).unwrap();
        assert_eq!(find_in(&folder), []);
        assert!(folder.open_file("1.json").is_err());
        // A folder that is put in its place gets nothing.
        std::fs::rename(&own, temporary.path().join("moved")).unwrap();
        std::fs::create_dir(&own).unwrap();
        let _announced = announce_in(folder, &running(1)).unwrap();
        assert_eq!(std::fs::read_dir(&own).unwrap().count(), 0);
    }

    #[test]
    fn an_address_for_everybody_is_reached_on_this_machine() {
        let of = |address: &str| url("http", address.parse().unwrap());
        assert_eq!(of("0.0.0.0:1"), "http://127.0.0.1:1");
        assert_eq!(of("[::]:1"), "http://[::1]:1");
        assert_eq!(of("10.0.0.1:1"), "http://10.0.0.1:1");
    }
}
