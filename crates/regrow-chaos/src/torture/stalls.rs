//! When the machine stood still: what it kept waiting must not be taken for a broken promise.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

const TICK: Duration = Duration::from_millis(20);
/// Less is the ordinary jitter of a busy machine.
const NOTABLE: Duration = Duration::from_millis(100);
/// No more are kept; a machine that stands still more often proves nothing anyway.
const MOST: usize = 100_000;

/// From when to when we were not run, since the run began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stall {
    /// When we should have been.
    pub from: Duration,
    /// When we were.
    pub to: Duration,
}

/// Seen by a thread that does nothing but look at the clock.
#[derive(Default)]
pub(super) struct Stalls(Mutex<Vec<Stall>>);

impl Stalls {
    /// Looks until it is over.
    pub(super) fn watch(&self, began: Instant, over: &AtomicBool) {
        while !over.load(Ordering::SeqCst) {
            let due = began.elapsed() + TICK;
            thread::sleep(TICK);
            let now = began.elapsed();
            let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            if now > due + NOTABLE && seen.len() < MOST {
                seen.push(Stall { from: due, to: now });
            }
        }
    }

    pub(super) fn seen(&self) -> Vec<Stall> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// How much of this time the machine stood still.
pub(super) fn within(stalls: &[Stall], from: Duration, to: Duration) -> Duration {
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
}
