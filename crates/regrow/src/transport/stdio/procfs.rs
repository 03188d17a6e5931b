//! What Linux tells about processes in `/proc`.

use std::fs::{self, File};
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;

use rustix::process::Pid;

/// An environment is read up to this size. The kernel allows no larger one under the usual limits.
const ENVIRONMENT_LIMIT: u64 = 2 << 20;

/// Every process on this machine that we can see.
pub(super) fn pids() -> impl Iterator<Item = Pid> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).filter_map(Pid::from_raw)
}

/// Whether it is there and no zombie.
pub(super) fn runs(pid: Pid) -> bool {
    stat(pid).is_some_and(|stat| stat.runs())
}

/// The part of `/proc/PID/stat` that we use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stat {
    state: u8,
    /// Its parent; 0 where that is out of sight.
    pub(super) parent: i32,
    /// When it was forked, in hundredths of a second since the machine was started.
    pub(super) started_at: u64,
}

impl Stat {
    /// Whether it is no zombie.
    pub(super) fn runs(self) -> bool {
        !matches!(self.state, b'Z' | b'X')
    }

    /// A running process of that age.
    #[cfg(test)]
    pub(super) fn started(started_at: u64) -> Stat {
        Stat { state: b'S', parent: 1, started_at }
    }

    fn parse(stat: &[u8]) -> Option<Stat> {
        // The name stands in parentheses and may itself contain any character; the state follows the last one.
        let rest = str::from_utf8(stat.get(memchr::memrchr(b')', stat)? + 2..)?).ok()?;
        let mut fields = rest.split_ascii_whitespace();
        let state = *fields.next()?.as_bytes().first()?;
        let parent = fields.next()?.parse().ok()?;
        let started_at = fields.nth(17)?.parse().ok()?;
        Some(Stat { state, parent, started_at })
    }
}

pub(super) fn stat(pid: Pid) -> Option<Stat> {
    Stat::parse(&fs::read(format!("/proc/{pid}/stat")).ok()?)
}

/// How long the machine has been running, in the hundredths of a second in which `/proc/PID/stat` tells when a process was started. From there as
/// well, since valgrind hides the page through which clocks are read.
pub(super) fn uptime() -> Option<u64> {
    let text = fs::read_to_string("/proc/uptime").ok()?;
    let (seconds, hundredths) = text.split_ascii_whitespace().next()?.split_once('.')?;
    Some(seconds.parse::<u64>().ok()? * 100 + hundredths.parse::<u64>().ok()?)
}

/// The children of a process, without a look at every process of the machine. Nobody where the kernel does not tell.
pub(super) fn children_of(parent: Pid) -> Vec<Pid> {
    let threads = fs::read_dir(format!("/proc/{parent}/task")).into_iter().flatten().flatten();
    let lists = threads.filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    let pids =
        |list: String| list.split_ascii_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<i32>>();
    lists.flat_map(pids).filter_map(Pid::from_raw).collect()
}

/// Whether it belongs to the user that we are, so that its environment is ours to read.
pub(super) fn is_ours(pid: Pid) -> bool {
    fs::metadata(format!("/proc/{pid}")).is_ok_and(|entry| entry.uid() == rustix::process::geteuid().as_raw())
}

/// The entries of the environment that it was started with. None if it has ended, or is not ours to look at. `buffer` is only there to be used again.
pub(super) fn environment(pid: Pid, buffer: &mut Vec<u8>) -> impl Iterator<Item = &[u8]> {
    buffer.clear();
    let file = File::open(format!("/proc/{pid}/environ"));
    if file.and_then(|file| file.take(ENVIRONMENT_LIMIT).read_to_end(buffer)).is_err() {
        buffer.clear();
    }
    buffer.split(|&byte| byte == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_may_contain_what_it_likes() {
        let stat = b"42 (a) Z 7 (b) S 7 42 42 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 4711 8192 1 18446744073709551615";
        assert_eq!(Stat::parse(stat), Some(Stat { state: b'S', parent: 7, started_at: 4711 }));
        assert_eq!(Stat::parse(b"42 (a"), None);
    }

    #[test]
    fn both_ways_to_children_lead_to_the_same() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let pid = Pid::from_child(&child);
        let own = rustix::process::getpid();
        let stat = stat(pid).unwrap();
        let listed = children_of(own).contains(&pid);
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(stat.parent, own.as_raw_nonzero().get());
        assert!(stat.runs() && listed);
    }
}
