//! How fast we read what nobody asked for: one who floods waits, not its neighbours.

use std::time::Duration;

use tokio::task::yield_now;
use tokio::time::{Instant, sleep_until};

/// So much is handled at once; then it is the turn of others.
pub(crate) const TURN: usize = 4 << 10;

/// How much may be read.
pub(crate) struct Allowance {
    /// In a second.
    pub(crate) rate: u64,
    /// Before that counts.
    pub(crate) burst: u64,
    /// Without a pause, when it counts: one who floods and its neighbours then meet less often.
    pub(crate) portion: u64,
}

impl Allowance {
    pub(crate) fn cost(&self, bytes: u64) -> Duration {
        Duration::from_nanos(bytes.saturating_mul(1_000_000_000) / self.rate)
    }
}

/// No pause is longer, however long a single message was: nobody is deaf for long.
const LONGEST: Duration = Duration::from_millis(250);

/// Counts what was read of an allowance.
pub(crate) struct Meter {
    allowance: &'static Allowance,
    /// What has been read will have been allowed by then.
    paid: Instant,
}

impl Meter {
    pub(crate) fn new(allowance: &'static Allowance, now: Instant) -> Meter {
        Meter { allowance, paid: now }
    }

    /// Takes note of what was read. Says when to read again, if not now.
    pub(crate) fn count(&mut self, bytes: u64, now: Instant) -> Option<Instant> {
        let burst = self.allowance.cost(self.allowance.burst);
        let paid = self.paid.max(now) + self.allowance.cost(bytes);
        self.paid = paid.min(now + burst + LONGEST);
        let debt = (self.paid - now).checked_sub(burst)?;
        (debt >= self.allowance.cost(self.allowance.portion)).then(|| now + debt)
    }
}

/// A shorter message counts as one of this length, for it is as much work.
const LEAST: u64 = 512;

/// Of what a server sends by itself so much is taken.
static BY_ITSELF: Allowance = Allowance { rate: 1 << 20, burst: 8 << 20, portion: 64 << 10 };

/// How fast the messages of a server are taken: answers as they come, what it sends by itself at a pace.
pub(crate) struct Flow {
    meter: Meter,
    /// So much was taken in this turn.
    turn: u64,
    next: Next,
}

/// When the next message may be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    Now,
    /// When others have had their turn.
    InTurn,
    At(Instant),
}

impl Flow {
    pub(crate) fn new() -> Flow {
        Flow { meter: Meter::new(&BY_ITSELF, Instant::now()), turn: 0, next: Next::Now }
    }

    /// Takes note of a message of this length.
    pub(crate) fn count(&mut self, bytes: u64, by_itself: bool) {
        let bytes = bytes.max(LEAST);
        let pause = if by_itself { self.meter.count(bytes, Instant::now()) } else { None };
        self.turn = self.turn.saturating_add(bytes);
        if pause.is_some() || self.turn >= TURN as u64 {
            self.turn = 0;
            self.next = pause.map_or(Next::InTurn, Next::At);
        }
    }

    /// When the next message may be taken; to be kept to, for it is said once.
    pub(crate) fn next(&mut self) -> Next {
        std::mem::replace(&mut self.next, Next::Now)
    }
}

impl Next {
    pub(crate) async fn wait(self) {
        match self {
            Next::Now => {}
            Next::InTurn => yield_now().await,
            Next::At(time) => sleep_until(time).await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn answers_only_take_turns_and_what_comes_by_itself_waits_in_the_end() {
        let mut flow = Flow::new();
        let mut after = |bytes, by_itself| {
            flow.count(bytes, by_itself);
            flow.next()
        };
        assert_eq!(after(TURN as u64 - 1, false), Next::Now);
        assert_eq!(after(1, false), Next::InTurn);
        assert_eq!(after(1 << 30, false), Next::InTurn, "an answer may be long");
        assert_eq!(after(BY_ITSELF.burst, true), Next::InTurn);
        let pause = after(BY_ITSELF.rate / 8, true);
        assert_eq!(pause, Next::At(Instant::now() + Duration::from_millis(125)));
        pause.wait().await;
        assert_eq!(after(1, true), Next::Now);
        assert_eq!(after(u64::MAX, true), Next::At(Instant::now() + LONGEST));
    }

    const SLOW: Allowance = Allowance { rate: 1000, burst: 500, portion: 100 };

    #[test]
    fn after_a_burst_it_is_read_at_the_rate_and_in_portions() {
        let start = Instant::now();
        let mut meter = Meter::new(&SLOW, start);
        let (mut now, mut pauses) = (start, 0);
        for _ in 0..1500 {
            if let Some(next) = meter.count(1, now) {
                assert!(next - now >= Duration::from_millis(100));
                (now, pauses) = (next, pauses + 1);
            }
        }
        assert_eq!((now - start, pauses), (Duration::from_secs(1), 10));
    }

    #[test]
    fn silence_earns_a_burst_and_no_more() {
        let start = Instant::now();
        let mut meter = Meter::new(&SLOW, start);
        assert!(meter.count(600, start).is_some());
        let later = start + Duration::from_secs(3600);
        assert_eq!(meter.count(599, later), None);
        assert_eq!(meter.count(1, later), Some(later + Duration::from_millis(100)));
    }
}
