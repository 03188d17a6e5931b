//! How long to wait before the next attempt.

use crate::BackoffPolicy;
use std::time::Duration;

/// Paces attempts: no pause, then a short one, then twice as long each time, up to a cap.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Backoff {
    policy: BackoffPolicy,
    failures: u32,
    last: Duration,
    chance: Chance,
}

impl Backoff {
    /// A backoff before its first pause. Equal seeds give equal pauses.
    pub fn new(policy: BackoffPolicy, seed: u64) -> Backoff {
        Backoff { policy, failures: 0, last: Duration::ZERO, chance: Chance(seed) }
    }

    /// The next pause.
    pub fn pause(&mut self) -> Duration {
        let exact = match self.failures {
            0 => Duration::ZERO,
            n => self.policy.first.saturating_mul(1 << (n - 1).min(20)).min(self.policy.cap),
        };
        self.failures = self.failures.saturating_add(1);
        self.last = exact;
        self.jitter(exact)
    }

    /// Starts over if a session was ready for so long that its server has proven healthy.
    pub fn proven(&mut self, ready_for: Duration) {
        if ready_for >= self.policy.proven.max(2 * self.last) {
            self.start_over();
        }
    }

    /// The next pause is the first again.
    pub fn start_over(&mut self) {
        self.failures = 0;
        self.last = Duration::ZERO;
    }

    /// This length, made longer or shorter by up to the jitter.
    pub fn jitter(&mut self, length: Duration) -> Duration {
        let spread = length * self.policy.jitter_percent / 100;
        length - spread + self.between_zero_and(2 * spread)
    }

    /// This length, made longer by up to the jitter.
    pub fn no_sooner(&mut self, length: Duration) -> Duration {
        length + self.between_zero_and(length * self.policy.jitter_percent / 100)
    }

    /// Some length up to this one.
    pub fn between_zero_and(&mut self, most: Duration) -> Duration {
        let millis = u64::try_from(most.as_millis()).unwrap_or(u64::MAX);
        Duration::from_millis(self.chance.next() % millis.saturating_add(1))
    }
}

/// A seeded sequence (splitmix64): a plain number, so that states compare and hash.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Policy;

    fn backoff(jitter_percent: u32) -> Backoff {
        Backoff::new(BackoffPolicy { jitter_percent, ..Policy::default().backoff }, 7)
    }

    #[test]
    fn pauses_double_from_nothing_to_the_cap() {
        let mut backoff = backoff(0);
        let pauses: Vec<u128> = (0..10).map(|_| backoff.pause().as_millis()).collect();
        assert_eq!(pauses, [0, 250, 500, 1000, 2000, 4000, 8000, 16000, 30000, 30000]);
    }

    #[test]
    fn each_pause_is_within_twenty_percent_and_not_all_are_alike() {
        let mut backoff = backoff(20);
        let pauses: Vec<Duration> = (0..100).map(|_| backoff.jitter(Duration::from_secs(10))).collect();
        assert!(pauses.iter().all(|p| (8_000..=12_000).contains(&p.as_millis())));
        assert!(
            pauses.iter().any(|p| p.as_millis() < 9_000) && pauses.iter().any(|p| p.as_millis() > 11_000)
        );
    }

    #[test]
    fn what_may_not_come_sooner_comes_up_to_twenty_percent_later() {
        let mut backoff = backoff(20);
        let pauses: Vec<Duration> = (0..100).map(|_| backoff.no_sooner(Duration::from_secs(10))).collect();
        assert!(pauses.iter().all(|p| (10_000..=12_000).contains(&p.as_millis())));
        assert!(pauses.iter().any(|p| p.as_millis() > 11_000));
    }

    #[test]
    fn only_a_session_that_outlived_twice_the_last_pause_starts_it_over() {
        let mut backoff = backoff(0);
        for _ in 0..9 {
            backoff.pause();
        }
        backoff.proven(Duration::from_secs(59));
        assert_eq!(backoff.pause().as_secs(), 30);
        backoff.proven(Duration::from_secs(60));
        assert_eq!(backoff.pause(), Duration::ZERO);
    }

    #[test]
    fn started_over_it_needs_no_more_proof_than_at_first() {
        let mut backoff = backoff(0);
        for _ in 0..9 {
            backoff.pause();
        }
        backoff.start_over();
        assert_eq!([backoff.pause(), backoff.pause()].map(|pause| pause.as_millis()), [0, 250]);
        backoff.proven(Duration::from_secs(30));
        assert_eq!(backoff.pause(), Duration::ZERO);
    }

    #[test]
    fn chance_is_splitmix64() {
        // The published sequence of this seed.
        let mut chance = Chance(1_234_567);
        assert_eq!(
            [chance.next(), chance.next(), chance.next()],
            [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]
        );
    }
}
