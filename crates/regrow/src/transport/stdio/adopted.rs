//! Orphans of servers that became our children, since this process is a subreaper: which of them are to end, and who reaps them.
//!
//! Nothing is guessed. An orphan may be of any server that ran when it was started, so it ends when all of these have ended.

use std::collections::{BTreeMap, HashSet};
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::{self, sleep};
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{Pid, WaitId, WaitIdOptions, getpid, set_child_subreaper, waitid};

use super::helper::Helper;
use super::procfs::{self, Stat};
use super::tree::Tree;

/// Ends of orphans are noticed at most so often.
const REAP_EVERY: Duration = Duration::from_secs(1);

/// `None` unless this process has become a subreaper.
static REGISTRY: Mutex<Option<Registry>> = Mutex::new(None);

/// Whom we have started ourselves.
#[derive(Default)]
struct Registry {
    /// When the first server of all was started. Who is older is of none.
    first: Option<u64>,
    /// Servers that are being started or have not been reaped yet.
    servers: BTreeMap<u64, Life>,
    guards: HashSet<Pid>,
    /// Orphans that were left running, and it was logged.
    logged: HashSet<Pid>,
    /// Whether the kernel's times of starts do not fit our clock. Then nobody knows who started what.
    is_off: bool,
}

struct Life {
    name: String,
    since: u64,
    /// `None` while it is being started.
    leader: Option<Pid>,
}

/// What becomes of an orphan.
#[derive(Debug, PartialEq, Eq)]
enum Fate {
    /// It is of no server.
    Spare,
    /// Every server that may have started it has ended.
    End,
    /// One of these servers may have started it.
    Wait(Vec<String>),
}

/// Why this process cannot tell orphans of servers from others.
pub(super) const FOREIGN: &str = "this process has children that are none of its servers";
const INIT: &str = "this process is the first of its container";

/// Makes this process the parent of all orphans below it. The error says why not.
pub(super) fn begin() -> Result<(), String> {
    if getpid().is_init() {
        return Err(INIT.to_owned()); // Also processes that others start in the container become its children.
    }
    let any = waitid(WaitId::All, WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT);
    if !matches!(any, Err(Errno::CHILD)) {
        return Err(FOREIGN.to_owned());
    }
    let mut registry = registry();
    set_child_subreaper(Some(getpid())).map_err(|error| error.to_string())?;
    thread::Builder::new()
        .name("regrow-orphans".to_owned())
        .spawn(reap_all)
        .map_err(|error| error.to_string())?;
    *registry = Some(Registry::default());
    Ok(())
}

/// Whether it is.
pub(super) fn is_subreaper() -> bool {
    registry().is_some()
}

/// A server is about to be started. Tells since when.
pub(super) fn starting(serial: u64, name: &str) -> u64 {
    let mut registry = registry();
    let since = now();
    if let Some(registry) = &mut *registry {
        registry.servers.insert(serial, Life { name: name.to_owned(), since, leader: None });
    }
    since
}

/// It was.
pub(super) fn started(serial: u64, leader: Pid) {
    let mut registry = registry();
    let Some(registry) = &mut *registry else { return };
    let Some(life) = registry.servers.get_mut(&serial) else { return };
    life.leader = Some(leader);
    let since = life.since;
    // From the same source as the start times that it is compared with: in some containers /proc/uptime runs on another clock.
    if let Some(stat) = procfs::stat(leader) {
        registry.first.get_or_insert(stat.started_at);
    }
    registry.check_clock(since, leader);
}

/// It was not, or its leader is reaped.
pub(super) fn ended(serial: u64) {
    if let Some(registry) = &mut *registry() {
        registry.servers.remove(&serial);
    }
}

/// Starts a guard, so that nobody takes it for an orphan.
pub(super) fn start_guard<T>(
    start: impl FnOnce() -> io::Result<T>,
    pid: impl Fn(&T) -> Pid,
) -> io::Result<T> {
    let mut registry = registry();
    let before = now();
    let started = start()?;
    if let Some(registry) = &mut *registry {
        registry.guards.insert(pid(&started));
        registry.check_clock(before, pid(&started));
    }
    Ok(started)
}

/// A guard is reaped.
pub(super) fn guard_ended(pid: Pid) {
    if let Some(registry) = &mut *registry() {
        registry.guards.remove(&pid);
    }
}

/// Whether there are orphans whose servers have all ended.
pub(super) fn has_left(tree: &Tree) -> bool {
    let ends = |registry: &Registry, stat: Stat| stat.runs() && registry.fate(stat) == Fate::End;
    registry()
        .as_ref()
        .is_some_and(|registry| registry.orphans(tree).into_iter().any(|(_, stat)| ends(registry, stat)))
}

/// Orphans whose servers have all ended, and everything that they have started. Logs which others may be of this server, which has ended and ran since
/// then.
pub(super) fn find(server: &str, since: u64, tree: &Tree) -> Vec<Helper> {
    let mut registry = registry();
    let Some(registry) = &mut *registry else { return vec![] };
    registry.reap(tree);
    // A server that has been reaped since the look at the tree is none.
    let is_left = |pid, seen: Stat| {
        seen.runs() && procfs::stat(pid).is_some_and(|stat| stat.started_at == seen.started_at)
    };
    let orphans: Vec<_> =
        registry.orphans(tree).into_iter().filter(|&(pid, seen)| is_left(pid, seen)).collect();
    registry.logged.retain(|logged| orphans.iter().any(|(pid, _)| pid == logged));
    let mut roots = vec![];
    for (pid, stat) in orphans {
        match registry.fate(stat) {
            Fate::Spare => {}
            Fate::End => roots.push(pid),
            Fate::Wait(others) => {
                if stat.started_at >= since && registry.logged.insert(pid) {
                    let others = others.join(", ");
                    tracing::info!(server, %pid, "a process that this server may have started is left until these end: {others}");
                }
            }
        }
    }
    tree.with_descendants(roots)
}

impl Registry {
    /// Children of ours that we have not started.
    fn orphans(&self, tree: &Tree) -> Vec<(Pid, Stat)> {
        let leaders: HashSet<Pid> = self.servers.values().filter_map(|life| life.leader).collect();
        let is_own = |pid: &Pid| self.guards.contains(pid) || leaders.contains(pid);
        tree.children_of(getpid()).filter(|(pid, _)| !is_own(pid)).collect()
    }

    /// A server that is being started is a child, too. It waits for itself here, since it was started after its life began.
    fn fate(&self, orphan: Stat) -> Fate {
        if self.first.is_none_or(|first| orphan.started_at < first) {
            return Fate::Spare;
        }
        let may_be = |life: &&Life| self.is_off || life.since <= orphan.started_at;
        let servers: Vec<_> = self.servers.values().filter(may_be).map(|life| life.name.clone()).collect();
        if servers.is_empty() { Fate::End } else { Fate::Wait(servers) }
    }

    /// Reaps orphans that have ended. Not while a server is being started: it could be the one that has ended, and who starts it waits for it.
    fn reap(&self, tree: &Tree) {
        if self.servers.values().any(|life| life.leader.is_none()) {
            return;
        }
        for (pid, _) in self.orphans(tree).into_iter().filter(|(_, stat)| !stat.runs()) {
            // It ended before we looked, so nothing is waited for.
            let _ = waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOHANG);
        }
    }

    /// A child that was started after `before`.
    fn check_clock(&mut self, before: u64, child: Pid) {
        self.is_off |= procfs::stat(child).is_none_or(|stat| stat.started_at < before);
    }
}

/// Reaps orphans that end while their servers run.
fn reap_all() {
    loop {
        // It tells of every child that has ended, also of those that others reap, and at once as long as these do not.
        let _ = waitid(WaitId::All, WaitIdOptions::EXITED | WaitIdOptions::NOWAIT);
        sleep(REAP_EVERY);
        if let Some(registry) = &*registry() {
            registry.reap(&Tree::look());
        }
    }
}

/// On the clock of [`Stat::started_at`].
fn now() -> u64 {
    procfs::uptime().unwrap_or_default() // Without it every child counts as started later.
}

fn registry() -> MutexGuard<'static, Option<Registry>> {
    REGISTRY.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What becomes of orphans that were started at these times.
    fn fates(registry: &Registry, times: [u64; 4]) -> [Fate; 4] {
        times.map(|at| registry.fate(Stat::started(at)))
    }

    #[test]
    fn an_orphan_ends_when_every_server_that_may_have_started_it_has_ended() {
        let wait = |names: &[&str]| Fate::Wait(names.iter().map(|name| name.to_string()).collect());
        let life = |name: &str, since| Life { name: name.to_owned(), since, leader: None };
        let servers = [(1, life("one", 100)), (2, life("two", 200))].into();
        let mut registry = Registry { first: Some(100), servers, ..Registry::default() };
        let times = [99, 100, 199, 200];
        assert_eq!(
            fates(&registry, times),
            [Fate::Spare, wait(&["one"]), wait(&["one"]), wait(&["one", "two"])]
        );
        registry.servers.remove(&1);
        assert_eq!(fates(&registry, times), [Fate::Spare, Fate::End, Fate::End, wait(&["two"])]);
        registry.is_off = true;
        assert_eq!(fates(&registry, times), [Fate::Spare, wait(&["two"]), wait(&["two"]), wait(&["two"])]);
        registry.servers.clear();
        assert_eq!(fates(&registry, times), [Fate::Spare, Fate::End, Fate::End, Fate::End]);
    }

    #[test]
    fn our_clock_is_that_of_the_kernel() {
        let before = now();
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let after = now();
        let started_at = procfs::stat(Pid::from_child(&child)).unwrap().started_at;
        child.wait().unwrap();
        assert!((before..=after).contains(&started_at), "{before} {started_at} {after}");
    }
}
