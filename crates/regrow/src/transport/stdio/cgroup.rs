//! A cgroup for each server: whatever it starts stays in there, wherever else it goes.
//!
//! The groups are made below our own (cgroup v2, without controllers), so limits that are set for us hold for servers as before.

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::fs::{Access, access};
use rustix::process::Pid;

use super::helper::Helper;
use super::launch::shared::can_clone_into;
use super::mark::Mark;

/// How long a group may take to become empty after everybody in it was killed.
const REMOVAL: Duration = Duration::from_secs(1);
/// Groups below a group, which servers may have made, are followed so deep.
const DEPTH: usize = 16;

/// The group of one server.
pub(super) struct Cgroup {
    folder: PathBuf,
}

/// The folder of the cgroup that we are in, if processes can be started in groups below it. These are all conditions that the kernel has; to try
/// it with a group and a process would take longer than to start a server.
pub(super) fn usable() -> Option<PathBuf> {
    let own = own_folder()?;
    // Below a threaded group there are none for whole processes. The first group of all has no type.
    let is_domain =
        fs::read_to_string(own.join("cgroup.type")).map_or(true, |kind| kind.trim_end() == "domain");
    // Leave to write is asked for in the group that both have in common.
    let may_leave = OpenOptions::new().write(true).open(own.join("cgroup.procs")).is_ok();
    let may_create = access(&own, Access::WRITE_OK | Access::EXEC_OK).is_ok();
    let can_start = || File::open(&own).is_ok_and(|folder| can_clone_into(&folder.into()));
    (is_domain && may_leave && may_create && can_start()).then_some(own)
}

/// The groups of all servers of one nonce.
pub(super) fn all_of(nonce: u64, below: &Path) -> Vec<Cgroup> {
    let prefix = prefix(nonce);
    let is_one = |path: &PathBuf| {
        path.file_name().and_then(OsStr::to_str).is_some_and(|name| name.starts_with(&prefix))
    };
    subfolders(below).filter(is_one).map(|folder| Cgroup { folder }).collect()
}

impl Cgroup {
    /// A new group for a server.
    pub(super) fn of(mark: Mark, below: &Path) -> io::Result<Cgroup> {
        let folder = below.join(format!("{}{}", prefix(mark.nonce), mark.serial));
        fs::create_dir(&folder)?;
        Ok(Cgroup { folder })
    }

    /// For a process to be started in it.
    pub(super) fn open(&self) -> io::Result<OwnedFd> {
        Ok(File::open(&self.folder)?.into())
    }

    /// Who runs in it, or in a group below it.
    pub(super) fn find(&self) -> Vec<Helper> {
        let members = members(&self.folder);
        let opened = members.into_iter().filter_map(|pid| Helper::open(pid, || true));
        let opened: Vec<_> = opened.collect();
        if opened.is_empty() {
            return opened;
        }
        // Again: an id that changed hands before its handle was opened is not there any more.
        let still = self::members(&self.folder);
        opened.into_iter().filter(|helper| still.contains(&helper.pid)).collect()
    }

    /// Kills everybody in it at once, also those that are being started. On Linux before 5.14 this does nothing: they are killed one by one.
    pub(super) fn kill(&self) {
        let _ = fs::write(self.folder.join("cgroup.kill"), "1");
    }

    /// Removes it if it is empty. Whether it is gone.
    pub(super) fn try_remove(&self) -> bool {
        remove(&self.folder, DEPTH)
    }

    /// Removes it as soon as it is empty. Blocks for a moment if it is not. Whether it is gone.
    pub(super) fn remove(&self) -> bool {
        let begun = Instant::now();
        while !self.try_remove() {
            if begun.elapsed() > REMOVAL {
                return false;
            }
            sleep(Duration::from_millis(5));
        }
        true
    }
}

fn prefix(nonce: u64) -> String {
    format!("regrow-{nonce:016x}-")
}

fn members(folder: &Path) -> Vec<Pid> {
    let mut found = vec![];
    let mut folders = vec![(folder.to_owned(), DEPTH)];
    while let Some((folder, depth)) = folders.pop() {
        // One that was removed meanwhile has no members.
        let pids = fs::read_to_string(folder.join("cgroup.procs")).unwrap_or_default();
        found.extend(pids.lines().filter_map(|pid| pid.parse().ok()).filter_map(Pid::from_raw));
        if depth > 0 {
            folders.extend(subfolders(&folder).map(|below| (below, depth - 1)));
        }
    }
    found
}

fn remove(folder: &Path, depth: usize) -> bool {
    if depth > 0 {
        for below in subfolders(folder) {
            remove(&below, depth - 1);
        }
    }
    match fs::remove_dir(folder) {
        Ok(()) => true,
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    }
}

fn subfolders(folder: &Path) -> impl Iterator<Item = PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())).map(|entry| entry.path())
}

fn own_folder() -> Option<PathBuf> {
    folder_of(
        &fs::read_to_string("/proc/self/cgroup").ok()?,
        &fs::read_to_string("/proc/self/mountinfo").ok()?,
    )
}

/// Where the cgroup v2 of these lines is mounted.
fn folder_of(cgroups: &str, mounts: &str) -> Option<PathBuf> {
    let own = Path::new(cgroups.lines().find_map(|line| line.strip_prefix("0::"))?);
    mounts.lines().find_map(|line| {
        let (mount, kind) = line.split_once(" - ")?;
        if !kind.starts_with("cgroup2 ") {
            return None;
        }
        let mut fields = mount.split(' ').skip(3);
        let (root, place) = (fields.next()?, fields.next()?);
        // Of a mount that shows a part of the tree, or another part than ours; and names with odd characters are escaped.
        let below = own.strip_prefix(root).ok()?;
        let is_plain = !place.contains('\\') && !own.components().any(|part| part.as_os_str() == "..");
        is_plain.then(|| Path::new(place).join(below).components().collect())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_folder_is_found_wherever_it_is_mounted() {
        let folder = |own: &str, mount: &str| {
            let cgroups = format!("4:memory:/other\n0::{own}\n");
            folder_of(&cgroups, &format!("22 1 0:5 / /proc rw - proc proc rw\n{mount}"))
        };
        let unified = "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw";
        assert_eq!(folder("/user.slice/a", unified), Some("/sys/fs/cgroup/user.slice/a".into()));
        assert_eq!(folder("/", unified), Some("/sys/fs/cgroup".into()));
        let part = "30 23 0:26 /docker/ab /sys/fs/cgroup rw - cgroup2 cgroup rw";
        assert_eq!(folder("/docker/ab/c", part), Some("/sys/fs/cgroup/c".into()));
        assert_eq!(folder("/docker/other", part), None, "it is not shown there");
        assert_eq!(folder("/../outside", unified), None);
        let odd = "30 23 0:26 / /mnt/a\\040b rw - cgroup2 cgroup2 rw";
        assert_eq!(folder("/a", odd), None);
        assert_eq!(folder("/a", "30 23 0:26 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu"), None);
        assert_eq!(folder_of("4:memory:/other\n", unified), None);
    }
}
