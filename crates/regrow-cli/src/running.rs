//! The gateways that run on this machine for this user: each keeps a file in the user's runtime folder while it runs, so that
//! `regrow status` and the like find it, with the token that opens it for its operator.
//!
//! A gateway holds a lock on its file. The system releases it however the gateway ends, so a file without a lock is stale.

use std::fmt;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use regrow_gateway::ids;
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

/// More are not looked at.
const MAX_FILES: usize = 256;
/// No file of ours is longer.
const LONGEST: u64 = 16 << 10;

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
        ids::unguessable().map(OperatorToken)
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
    path: PathBuf,
    /// Holds the lock.
    _file: File,
}

impl Drop for Announced {
    fn drop(&mut self) {
        // Any process that finds it without a lock removes it, too.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Writes the file of this process into the user's runtime folder.
pub(crate) fn announce(running: &Running) -> io::Result<Announced> {
    let folder = folder().ok_or_else(|| io::Error::other("there is no folder for it"))?;
    announce_in(&safe(&folder)?, running)
}

/// The gateways that run now, oldest first. Files that others left behind are removed.
pub(crate) fn find() -> Vec<Running> {
    let folder = folder().map(|folder| check(&folder).map(|()| folder));
    folder.and_then(Result::ok).map(|folder| find_in(&folder)).unwrap_or_default()
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

/// The folder, made if it is not there.
fn safe(folder: &Path) -> io::Result<PathBuf> {
    match DirBuilder::new().mode(0o700).create(folder) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    check(folder)?;
    Ok(folder.to_owned())
}

/// Nobody else may have made the folder, or may write into it.
fn check(folder: &Path) -> io::Result<()> {
    let found = std::fs::symlink_metadata(folder)?;
    let is_ours =
        found.is_dir() && found.uid() == rustix::process::geteuid().as_raw() && found.mode() & 0o077 == 0;
    if is_ours { Ok(()) } else { Err(io::Error::other(format!("other users can write to {folder:?}"))) }
}

fn announce_in(folder: &Path, running: &Running) -> io::Result<Announced> {
    let born = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    // The order of names is the order of starts.
    let name = format!("{:020}-{}", born.as_nanos(), running.pid);
    let draft = folder.join(format!(".{name}"));
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&draft)?;
    let path = folder.join(format!("{name}.json"));
    let written = flock(&file, FlockOperation::NonBlockingLockExclusive)
        .map_err(io::Error::from)
        .and_then(|()| Ok(serde_json::to_writer(&file, running)?))
        // It appears whole, and locked.
        .and_then(|()| std::fs::rename(&draft, &path));
    match written {
        Ok(()) => Ok(Announced { path, _file: file }),
        Err(error) => {
            let _ = std::fs::remove_file(&draft); // What is told is why it was not written.
            Err(error)
        }
    }
}

fn find_in(folder: &Path) -> Vec<Running> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).take(MAX_FILES).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "json"));
    paths.sort();
    paths.iter().filter_map(|path| read(path)).collect()
}

fn read(path: &Path) -> Option<Running> {
    let file = OpenOptions::new().read(true).custom_flags(libc_nofollow()).open(path).ok()?;
    if flock(&file, FlockOperation::NonBlockingLockShared).is_ok() {
        // Nobody holds it: its gateway was killed.
        let _ = std::fs::remove_file(path);
        return None;
    }
    let mut text = String::new();
    file.take(LONGEST).read_to_string(&mut text).ok()?;
    serde_json::from_str(&text).ok()
}

/// A link in the folder is none of ours.
fn libc_nofollow() -> i32 {
    rustix::fs::OFlags::NOFOLLOW.bits().cast_signed()
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
        let folder = tempfile::tempdir().unwrap();
        let folder = safe(&folder.path().join("regrow")).unwrap();
        assert_eq!(find_in(&folder), []);
        let one = announce_in(&folder, &running(1)).unwrap();
        let two = announce_in(&folder, &running(2)).unwrap();
        assert_eq!(find_in(&folder), [running(1), running(2)]);
        assert_eq!(std::fs::metadata(&one.path).unwrap().permissions().mode() & 0o777, 0o600);

        assert_eq!(std::fs::metadata(&folder).unwrap().permissions().mode() & 0o777, 0o700);
        assert!(!format!("{:?}", running(1)).contains("s3cr3t"));

        drop(one);
        assert_eq!(find_in(&folder), [running(2)]);
        // Killed: the lock is gone, the file is not.
        let path = two.path.clone();
        std::fs::copy(&path, folder.join("stale.json")).unwrap();
        drop(two);
        std::fs::rename(folder.join("stale.json"), &path).unwrap();
        assert_eq!(find_in(&folder), []);
        assert!(!path.exists(), "a stale file is removed");
    }

    #[test]
    fn a_folder_that_others_can_reach_is_not_used() {
        let folder = tempfile::tempdir().unwrap();
        let open = folder.path().join("open");
        std::fs::create_dir(&open).unwrap();
        std::fs::set_permissions(&open, PermissionsExt::from_mode(0o777)).unwrap();
        assert!(safe(&open).is_err());
        let link = folder.path().join("link");
        let own = safe(&folder.path().join("own")).unwrap();
        std::os::unix::fs::symlink(own, &link).unwrap();
        assert!(safe(&link).is_err());
    }

    #[test]
    fn an_address_for_everybody_is_reached_on_this_machine() {
        let of = |address: &str| url("http", address.parse().unwrap());
        assert_eq!(of("0.0.0.0:1"), "http://127.0.0.1:1");
        assert_eq!(of("[::]:1"), "http://[::1]:1");
        assert_eq!(of("10.0.0.1:1"), "http://10.0.0.1:1");
    }
}
