//! Finds and ends helpers that a server started outside its process group, by the mark in their environment.
//!
//! A helper that cleared its environment is not found. It takes pidfds, so Linux 5.3; on macOS there is no sweep.

use std::collections::BTreeSet;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use super::procfs;

/// How long after SIGKILL we look whether it helped.
const LAST_LOOK: Duration = Duration::from_secs(1);
/// How long one look waits for ends before the next.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// A helper. The handle means this very process, also after its id went to another.
pub(super) struct Helper {
    pid: Pid,
    handle: OwnedFd,
}

/// Everybody of our user whose environment has an entry that begins with `prefix`.
pub(super) fn find(prefix: &str) -> Vec<Helper> {
    let mut buffer = vec![];
    let own = rustix::process::getpid();
    let candidates = procfs::pids().filter(|&pid| pid != own && procfs::is_ours(pid));
    candidates
        .filter_map(|pid| {
            // First the handle, then the look: if the id changes hands in between, the handle means a dead process.
            let handle = pidfd_open(pid, PidfdFlags::empty()).ok()?;
            procfs::has_variable(pid, prefix.as_bytes(), &mut buffer).then_some(Helper { pid, handle })
        })
        .collect()
}

/// One round over helpers: asks those not asked before to end, or kills all.
pub(super) fn signal(helpers: &[Helper], asked: &mut BTreeSet<i32>, kill: bool) {
    for Helper { pid, handle } in helpers {
        let is_new = asked.insert(pid.as_raw_nonzero().get());
        // Signals to one that has just ended fail, which is what we want.
        if kill {
            let _ = pidfd_send_signal(handle, Signal::KILL);
        } else if is_new {
            let _ = pidfd_send_signal(handle, Signal::TERM);
            let _ = pidfd_send_signal(handle, Signal::CONT);
        }
    }
}

/// Waits until one of them ends, at most so long.
pub(super) fn wait(helpers: &[Helper], limit: Duration) {
    let mut handles: Vec<_> =
        helpers.iter().map(|helper| PollFd::new(&helper.handle, PollFlags::IN)).collect();
    let limit = Timespec { tv_sec: limit.as_secs() as i64, tv_nsec: limit.subsec_nanos().into() };
    // An interrupted wait is a short one.
    let _ = poll(&mut handles, Some(&limit));
}

/// Ends them all: asks, and kills after `grace`. Blocks; returns how many there were.
pub(super) fn sweep(prefix: &str, grace: Duration) -> usize {
    sweep_with(|| find(prefix), grace)
}

fn sweep_with(mut find: impl FnMut() -> Vec<Helper>, grace: Duration) -> usize {
    let begun = Instant::now();
    let mut asked = BTreeSet::new();
    let mut was_empty = true;
    // Not since we began: on a machine that is busy enough, one look takes longer than all that.
    let mut killed_at: Option<Instant> = None;
    loop {
        let helpers = find();
        // One that is within its exec shows no environment, so where there were some we look twice.
        let is_over = killed_at.is_some_and(|at| at.elapsed() > LAST_LOOK);
        if (helpers.is_empty() && was_empty) || is_over {
            return asked.len();
        }
        was_empty = helpers.is_empty();
        let kill = begun.elapsed() >= grace;
        signal(&helpers, &mut asked, kill);
        if kill {
            killed_at.get_or_insert_with(Instant::now);
        }
        wait(&helpers, LOOK_EVERY);
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;
    use std::thread;

    use super::*;

    #[test]
    fn a_helper_is_ended_also_where_a_look_takes_longer_than_the_time_for_all() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let pid = Pid::from_child(&child);
        let mut first_look = Some(LAST_LOOK + Duration::from_millis(10));
        let slowly = || {
            thread::sleep(first_look.take().unwrap_or_default());
            let handle = pidfd_open(pid, PidfdFlags::empty()).unwrap();
            procfs::runs(pid).then_some(Helper { pid, handle }).into_iter().collect()
        };
        let ended = sweep_with(slowly, Duration::ZERO);
        let _ = child.kill(); // Had it been missed, nobody should wait for it.
        child.wait().unwrap();
        assert_eq!(ended, 1);
    }
}
