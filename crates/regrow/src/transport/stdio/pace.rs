//! How fast a server's standard error is read: as fast as it comes, until it is a flood.

use tokio::time::Instant;

use crate::pace::{Allowance, Meter};

/// All that a pipe holds is read before a pause.
pub(super) const PORTION: usize = 64 << 10;
/// What a server says at once is read in no time,
static RUSH: Allowance = Allowance { rate: 64 << 20, burst: 0, portion: PORTION as u64 };
/// or, where its lines are only kept, almost;
static UNHURRIED: Allowance = Allowance { rate: 8 << 20, burst: 1 << 20, portion: PORTION as u64 };
/// and of what comes on and on much less.
static FLOOD: Allowance = Allowance { rate: 2 << 20, burst: 128 << 20, portion: PORTION as u64 };

/// Counts what was read, and says when to read again.
pub(super) struct Pace {
    rush: Meter,
    flood: Meter,
    next: Option<Instant>,
}

impl Pace {
    pub(super) fn new(hurry: bool, now: Instant) -> Pace {
        let rush = Meter::new(if hurry { &RUSH } else { &UNHURRIED }, now);
        Pace { rush, flood: Meter::new(&FLOOD, now), next: None }
    }

    /// Takes note of what was read.
    pub(super) fn count(&mut self, bytes: usize, now: Instant) {
        let rush = self.rush.count(bytes as u64, now);
        self.next = self.flood.count(bytes as u64, now).max(rush);
    }

    /// When to read again; `None` is at once.
    pub(super) fn next(&self) -> Option<Instant> {
        self.next
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    /// Reads so many bytes in pieces, as fast as it may, and says how long that takes.
    fn read(pace: &mut Pace, bytes: u64, mut now: Instant) -> Duration {
        let began = now;
        for _ in 0..bytes / (32 << 10) {
            now = now.max(pace.next().unwrap_or(now));
            pace.count(32 << 10, now);
        }
        now - began
    }

    /// How often it has to wait for that.
    fn pauses(pace: &mut Pace, bytes: u64, mut now: Instant) -> usize {
        let mut pauses = 0;
        for _ in 0..bytes / (4 << 10) {
            let next = now.max(pace.next().unwrap_or(now));
            pauses += usize::from(next > now);
            now = next;
            pace.count(4 << 10, now);
        }
        pauses
    }

    #[test]
    fn what_a_server_says_at_once_is_read_at_once_and_a_flood_at_its_rate() {
        let start = Instant::now();
        let mut pace = Pace::new(true, start);
        let rush = read(&mut pace, FLOOD.burst, start);
        assert!((1_990..=2_000).contains(&rush.as_millis()), "{rush:?}");
        let mut now = start + rush;
        now += read(&mut pace, 3 * FLOOD.rate, now); // What was allowed meanwhile is used up.
        let flood = read(&mut pace, 10 * FLOOD.rate, now);
        assert!((9_930..=10_000).contains(&flood.as_millis()), "{flood:?}");
        assert_eq!(pauses(&mut pace, FLOOD.rate, now + flood), 32, "in a second");
    }

    #[test]
    fn what_is_only_kept_is_read_in_less_of_a_hurry() {
        let start = Instant::now();
        let mut pace = Pace::new(false, start);
        assert_eq!(read(&mut pace, UNHURRIED.burst, start), Duration::ZERO);
        let took = read(&mut pace, UNHURRIED.rate, start);
        assert!((990..=1_000).contains(&took.as_millis()), "{took:?}");
    }

    #[test]
    fn who_writes_no_faster_than_the_rate_never_waits() {
        let mut now = Instant::now();
        let mut pace = Pace::new(true, now);
        for _ in 0..10_000 {
            assert_eq!(pace.next(), None);
            pace.count(32 << 10, now);
            now += FLOOD.cost(32 << 10);
        }
    }
}
