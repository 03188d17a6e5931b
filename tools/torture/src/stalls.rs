//! When the machine stood still, or kept a program waiting: what is late for that must not be taken for a broken promise.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::system;
use regrow_chaos::sync::lock;

const TICK: Duration = Duration::from_millis(20);
/// How often we look how long a program has waited for a processor.
const LOOK: Duration = Duration::from_millis(50);
/// Less is the ordinary jitter of a busy machine.
const NOTABLE: Duration = Duration::from_millis(100);
/// No more are kept; a machine that stands still more often proves nothing anyway.
const MOST: usize = 100_000;

/// From when to when we were not run, since the run began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stall {
    /// When we should have been.
    pub(crate) from: Duration,
    /// When we were.
    pub(crate) to: Duration,
}

/// Seen by a thread that does nothing but look at the clock.
#[derive(Default)]
pub(crate) struct Stalls(Mutex<Vec<Stall>>);

impl Stalls {
    /// Looks until it is over.
    pub(crate) fn watch(&self, began: Instant, over: &AtomicBool) {
        while !over.load(Ordering::SeqCst) {
            let due = began.elapsed() + TICK;
            thread::sleep(TICK);
            let now = began.elapsed();
            let mut seen = lock(&self.0);
            if now > due + NOTABLE && seen.len() < MOST {
                seen.push(Stall { from: due, to: now });
            }
        }
    }

    /// Looks until it is over how long a process was kept from running though it could have run.
    pub(crate) fn watch_process(&self, pid: u32, began: Instant, over: &AtomicBool) {
        let mut last = system::waited(pid);
        while let Some(before) = last.filter(|_| !over.load(Ordering::SeqCst)) {
            thread::sleep(LOOK);
            last = system::waited(pid);
            let (to, waited) = (began.elapsed(), last.unwrap_or(before).saturating_sub(before));
            let mut seen = lock(&self.0);
            let free_from = seen.last().map_or(Duration::ZERO, |stall| stall.to);
            let stall = Stall { from: to.saturating_sub(waited).max(free_from), to };
            if stall.from < to && seen.len() < MOST {
                seen.push(stall);
            }
        }
    }

    pub(crate) fn seen(&self) -> Vec<Stall> {
        lock(&self.0).clone()
    }
}

/// Both, in the order of time; what overlaps is one.
pub(crate) fn merged(one: &[Stall], other: &[Stall]) -> Vec<Stall> {
    let mut all: Vec<Stall> = [one, other].concat();
    all.sort_by_key(|stall| stall.from);
    let mut merged: Vec<Stall> = vec![];
    for stall in all {
        match merged.last_mut().filter(|last| stall.from <= last.to) {
            Some(last) => last.to = last.to.max(stall.to),
            None => merged.push(stall),
        }
    }
    merged
}

/// How much of this time the machine stood still.
pub(crate) fn within(stalls: &[Stall], from: Duration, to: Duration) -> Duration {
    // In the order of time, so that what is over before `from` need not be looked at one by one.
    let first = stalls.partition_point(|stall| stall.to <= from);
    let overlap = |stall: &Stall| stall.to.min(to).saturating_sub(stall.from.max(from));
    stalls[first..].iter().take_while(|stall| stall.from < to).map(overlap).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_part_of_a_stall_that_overlaps_counts() {
        let second = Duration::from_secs;
        let stalls = [Stall { from: second(1), to: second(3) }, Stall { from: second(5), to: second(9) }];
        assert_eq!(within(&stalls, second(2), second(6)), second(2));
        assert_eq!(within(&stalls, second(3), second(5)), second(0));
        assert_eq!(within(&stalls, second(0), second(20)), second(6));
        assert_eq!(within(&[], second(0), second(20)), second(0));
    }

    #[test]
    fn what_overlaps_counts_once() {
        let stall = |from, to| Stall { from: Duration::from_secs(from), to: Duration::from_secs(to) };
        let (one, other) = ([stall(1, 3), stall(7, 8)], [stall(0, 2), stall(3, 4), stall(5, 6)]);
        assert_eq!(merged(&one, &other), [stall(0, 4), stall(5, 6), stall(7, 8)]);
    }

    #[test]
    fn a_program_that_does_not_want_to_run_is_not_excused() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        regrow_chaos::processes::signal(child.id(), rustix::process::Signal::STOP);
        let is_stopped = |stat: String| stat.contains(") T ");
        while !std::fs::read_to_string(format!("/proc/{}/stat", child.id())).is_ok_and(is_stopped) {
            thread::yield_now();
        }
        let (stalls, over) = (Stalls::default(), AtomicBool::new(false));
        thread::scope(|scope| {
            scope.spawn(|| stalls.watch_process(child.id(), Instant::now(), &over));
            thread::sleep(LOOK * 5);
            over.store(true, Ordering::SeqCst);
        });
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(stalls.seen(), []);
    }
}
