//! What the system says about processes: `/proc`, which makes all of this a matter of Linux.

use std::fs;
use std::time::Duration;

use regrow_chaos::processes::{self, Stat};

use super::Sample;

/// The variable in the environment of everything that a lane starts.
pub(crate) const MARK: &str = "REGROW_TORTURE";

/// A process, told from a later one with the same number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Process {
    /// Its number.
    pub(crate) pid: u32,
    started: u64,
}

impl Process {
    pub(crate) fn is_alive(self) -> bool {
        Stat::of(self.pid).is_some_and(|stat| stat.started == self.started && !stat.is_dead())
    }
}

/// The processes that carry this mark and live.
pub(crate) fn marked(mark: &str) -> Vec<Process> {
    processes::marked(MARK, mark).filter_map(living).collect()
}

/// This process, if it lives and carries this mark.
pub(crate) fn marked_process(pid: u32, mark: &str) -> Option<Process> {
    living(pid).filter(|_| processes::variable(pid, MARK).is_some_and(|found| found == mark))
}

/// The children of a process: those that live, and those that wait to be reaped.
pub(crate) fn children(parent: u32) -> (Vec<u32>, Vec<u32>) {
    let of_parent = processes::all()
        .filter_map(|pid| Some((pid, Stat::of(pid)?)))
        .filter(|(_, stat)| stat.parent == parent);
    let (dead, alive): (Vec<_>, Vec<_>) = of_parent.partition(|(_, stat)| stat.is_dead());
    let numbers = |found: Vec<(u32, Stat)>| found.into_iter().map(|(pid, _)| pid).collect();
    (numbers(alive), numbers(dead))
}

/// What a process holds; `at` and `tasks` are for the caller to fill in.
pub(crate) fn holding(pid: u32) -> Option<Sample> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let field = |name: &str| {
        let line = status.lines().find(|line| line.starts_with(name))?;
        line.split_whitespace().nth(1)?.parse().ok()
    };
    let files = fs::read_dir(format!("/proc/{pid}/fd")).ok()?.count() as u64;
    let (memory_kib, threads) = (field("VmRSS:")?, field("Threads:")?);
    Some(Sample { at: Duration::ZERO, memory_kib, files, threads, tasks: None })
}

/// How long a process was ready to run in all, and was not run. None where the system does not count it.
pub(crate) fn waited(pid: u32) -> Option<Duration> {
    let counts = fs::read_to_string(format!("/proc/{pid}/schedstat")).ok()?;
    Some(Duration::from_nanos(counts.split(' ').nth(1)?.parse().ok()?))
}

/// This process, if it lives.
pub(crate) fn living(pid: u32) -> Option<Process> {
    let stat = Stat::of(pid).filter(|stat| !stat.is_dead())?;
    Some(Process { pid, started: stat.started })
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn a_process_is_found_by_its_mark_and_is_dead_once_killed() {
        let mark = format!("test-{}", std::process::id());
        let mut child = Command::new("sleep").arg("60").env(MARK, &mark).spawn().unwrap();
        let found = loop {
            // Between fork and exec it still has our environment.
            match marked_process(child.id(), &mark) {
                Some(found) => break found,
                None => std::thread::yield_now(),
            }
        };
        assert_eq!(marked(&mark), [found]);
        assert!(children(std::process::id()).0.contains(&child.id()));
        assert!(holding(child.id()).unwrap().files > 0);
        processes::signal(child.id(), rustix::process::Signal::KILL);
        while found.is_alive() {
            std::thread::yield_now();
        }
        assert!(children(std::process::id()).1.contains(&child.id()), "a zombie until it is reaped");
        child.wait().unwrap();
    }
}
