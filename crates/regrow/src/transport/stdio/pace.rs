//! How fast a server's standard error is read: as fast as it comes, until it is a flood.

use std::time::Duration;

use tokio::time::Instant;

/// So much is read as fast as it comes,
const BURST: u64 = 128 << 20;
/// and of what comes on and on so much in a second: the one who floods waits, not its neighbours.
const RATE: u64 = 2 << 20;
/// In so large portions: one who floods and its neighbours then meet only a few times in a second.
const PORTION: u64 = 128 << 10;

/// Counts what was read, and says when to read again.
pub(super) struct Pace {
    /// What has been read will have been allowed by then.
    paid: Instant,
    next: Option<Instant>,
}

impl Pace {
    pub(super) fn new(now: Instant) -> Pace {
        Pace { paid: now, next: None }
    }

    /// Takes note of what was read.
    pub(super) fn count(&mut self, bytes: usize, now: Instant) {
        self.paid = self.paid.max(now) + cost(bytes as u64);
        let debt = (self.paid - now).checked_sub(cost(BURST));
        self.next = debt.filter(|debt| *debt >= cost(PORTION)).map(|debt| now + debt);
    }

    /// When to read again; `None` is at once.
    pub(super) fn next(&self) -> Option<Instant> {
        self.next
    }
}

fn cost(bytes: u64) -> Duration {
    Duration::from_nanos(bytes * 1_000_000_000 / RATE)
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let mut pace = Pace::new(start);
        assert_eq!(read(&mut pace, BURST, start), Duration::ZERO);
        let took = read(&mut pace, 10 * RATE, start);
        assert!((9_930..=10_000).contains(&took.as_millis()), "{took:?}");
        assert_eq!(pauses(&mut pace, RATE, start + took), 16, "in a second");
    }

    #[test]
    fn silence_earns_a_burst_and_no_more() {
        let start = Instant::now();
        let mut pace = Pace::new(start);
        read(&mut pace, BURST, start);
        let later = start + Duration::from_secs(3600);
        assert_eq!(read(&mut pace, BURST, later), Duration::ZERO);
        assert!(read(&mut pace, RATE, later) > Duration::from_millis(930));
    }

    #[test]
    fn who_writes_no_faster_than_the_rate_never_waits() {
        let mut now = Instant::now();
        let mut pace = Pace::new(now);
        for _ in 0..10_000 {
            assert_eq!(pace.next(), None);
            pace.count(32 << 10, now);
            now += cost(32 << 10);
        }
    }
}
