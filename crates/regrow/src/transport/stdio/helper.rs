//! A process that a server started and left behind, and how it is asked and made to end.

use std::collections::BTreeSet;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

/// A helper. The handle means this very process, also after its id went to another.
pub(super) struct Helper {
    pub(super) pid: Pid,
    handle: OwnedFd,
}

impl Helper {
    /// The process with this id, if `is_it` holds. First the handle, then the look: if the id changes hands in between, the handle means a dead process.
    pub(super) fn open(pid: Pid, is_it: impl FnOnce() -> bool) -> Option<Helper> {
        let handle = pidfd_open(pid, PidfdFlags::empty()).ok()?;
        is_it().then_some(Helper { pid, handle })
    }

    /// Zombies do not run.
    pub(super) fn runs(&self) -> bool {
        !wait(std::slice::from_ref(self), Duration::ZERO)
    }
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

/// Waits until one of them ends, at most so long. Whether one has.
pub(super) fn wait(helpers: &[Helper], limit: Duration) -> bool {
    is_any_readable(helpers.iter().map(|helper| &helper.handle), limit)
}

/// Waits until one of these can be read, at most so long. An interrupted wait is a short one.
pub(super) fn is_any_readable<F: AsFd>(files: impl Iterator<Item = F>, limit: Duration) -> bool {
    let files: Vec<F> = files.collect();
    let mut polled: Vec<_> = files.iter().map(|file| PollFd::new(file, PollFlags::IN)).collect();
    let limit = Timespec { tv_sec: limit.as_secs() as i64, tv_nsec: limit.subsec_nanos().into() };
    poll(&mut polled, Some(&limit)).is_ok_and(|count| count > 0)
}
