//! A server's process group: who runs in it, signals to it, and the one place where its leader is reaped.

#[cfg(target_os = "linux")]
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use regrow_core::Fault;
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, WaitIdStatus, kill_process_group, waitid};

use super::follow::Followed;
use super::guard::Guard;

/// The group of one server. As long as its leader is not reaped, nobody else can get its id.
///
/// Dropped before it was reaped, it is killed at once and reaped by a thread.
pub(super) struct Group {
    leader: Pid,
    followed: Arc<Followed>,
    guard: Option<Arc<Guard>>,
    /// Whether the id may belong to somebody else by now. Held while a signal is sent.
    reaped: Mutex<bool>,
}

/// How the leader is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Leader {
    /// It runs.
    Running,
    /// It has ended and waits to be reaped.
    Dead(Fault),
    /// Somebody else in this program has reaped it: its status and its group are out of reach.
    Taken,
}

impl Group {
    /// The group that `leader`, a child of ours, has made.
    pub(super) fn new(leader: Pid, followed: Followed, guard: Option<Arc<Guard>>) -> Group {
        assert!(is_foreign(leader), "a child that was started so leads a group of its own");
        if let Some(guard) = &guard {
            guard.born(followed.mark(), leader);
        }
        Group { leader, followed: followed.into(), guard, reaped: Mutex::new(false) }
    }

    pub(super) fn leader(&self) -> Pid {
        self.leader
    }

    #[cfg(target_os = "linux")]
    pub(super) fn followed(&self) -> Arc<Followed> {
        self.followed.clone()
    }

    /// Sends a signal to everybody in the group.
    pub(super) fn signal(&self, signal: Signal) {
        let reaped = self.reaped.lock().unwrap_or_else(PoisonError::into_inner);
        if !*reaped {
            // It fails when only zombies are left, and who asked finds that out by looking.
            let _ = kill_process_group(self.leader, signal);
        }
    }

    /// Looks after the leader without reaping it.
    pub(super) fn look(&self) -> Leader {
        let mut reaped = self.reaped.lock().unwrap_or_else(PoisonError::into_inner);
        if *reaped {
            return Leader::Taken;
        }
        let leader = look(self.leader);
        if leader == Leader::Taken {
            *reaped = true;
            self.farewell();
            self.followed.ended();
        }
        leader
    }

    /// Reaps the dead leader. From here on the id is not ours any more.
    pub(super) fn reap(&self) {
        let mut reaped = self.reaped.lock().unwrap_or_else(PoisonError::into_inner);
        if !*reaped {
            *reaped = true;
            self.farewell();
            reap(self.leader);
            self.followed.ended();
        }
    }

    /// The guard must forget the id before it is free.
    fn farewell(&self) {
        if let Some(guard) = &self.guard {
            guard.gone(self.followed.mark());
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let leader = self.leader;
        if self.look() == Leader::Taken {
            return;
        }
        self.signal(Signal::KILL);
        let (followed, guard) = (self.followed.clone(), self.guard.take());
        let work = move || {
            wait(leader);
            // For those that it started while it was being killed.
            let _ = kill_process_group(leader, Signal::KILL);
            if let Some(guard) = guard {
                guard.gone(followed.mark());
            }
            reap(leader);
            followed.ended();
        };
        // Without a thread it stays a zombie for as long as we live, which harms nobody; it is dead in any case.
        let _ = std::thread::Builder::new().name("regrow-reap".to_owned()).spawn(work);
    }
}

/// Waits for the end of a child of ours, and leaves it to be reaped.
pub(super) fn wait(leader: Pid) -> Leader {
    look_with(leader, WaitIdOptions::empty())
}

/// Looks after a child of ours, and leaves it to be reaped.
pub(super) fn look(leader: Pid) -> Leader {
    look_with(leader, WaitIdOptions::NOHANG)
}

fn look_with(leader: Pid, options: WaitIdOptions) -> Leader {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | options;
    loop {
        match waitid(WaitId::Pid(leader), options) {
            Ok(None) => return Leader::Running,
            Ok(Some(status)) => return Leader::Dead(fault(&status)),
            Err(Errno::INTR) => {}
            Err(_) => return Leader::Taken,
        }
    }
}

fn fault(status: &WaitIdStatus) -> Fault {
    match status.terminating_signal() {
        Some(signal) => Fault::Killed { signal },
        None => Fault::Exited { code: status.exit_status().unwrap_or_default() },
    }
}

/// Waits for the end of a child of ours, and reaps it.
pub(super) fn reap(leader: Pid) {
    while let Err(Errno::INTR) = waitid(WaitId::Pid(leader), WaitIdOptions::EXITED) {}
}

/// A signal to our own group would be one to ourselves and to our host.
pub(super) fn is_foreign(group: Pid) -> bool {
    group.as_raw_nonzero().get() > 1 && Some(group) != super::system::group_of(None)
}

/// Who runs in the groups of the machine, but for their leaders; zombies are gone.
#[cfg(target_os = "linux")]
pub(super) struct Groups(HashMap<Pid, Vec<Pid>>);

#[cfg(target_os = "linux")]
impl Groups {
    pub(super) fn scan() -> Groups {
        let mut groups = HashMap::<Pid, Vec<Pid>>::new();
        for pid in super::procfs::pids() {
            if let Some(group) = super::system::group_of(Some(pid))
                && group != pid
                && super::procfs::runs(pid)
            {
                groups.entry(group).or_default().push(pid);
            }
        }
        Groups(groups)
    }

    pub(super) fn followers(&self, leader: Pid) -> &[Pid] {
        self.0.get(&leader).map_or(&[], Vec::as_slice)
    }
}

/// Who runs in a group; zombies are gone.
#[cfg(target_os = "macos")]
pub(super) fn members(group: Pid) -> Vec<Pid> {
    super::system::group_members(group.as_raw_nonzero().get()).into_iter().filter_map(Pid::from_raw).collect()
}
