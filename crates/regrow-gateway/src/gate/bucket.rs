//! A token bucket in whole numbers: so many in such a time, and as many at once after a rest.

use std::time::Duration;

use regrow::core::Time;

/// A millisecond fills in `count` drops, and `per` milliseconds' worth of one count is a token: nothing is ever rounded.
#[derive(Debug)]
pub(super) struct Bucket {
    count: u128,
    /// What a token costs.
    token: u128,
    drops: u128,
    /// Up to when it was filled.
    filled: Time,
}

impl Bucket {
    pub(super) fn full(count: u32, per: Duration) -> Bucket {
        let count = u128::from(count.max(1));
        let token = per.as_millis().max(1);
        Bucket { count, token, drops: count * token, filled: Time::ZERO }
    }

    /// Takes a token, if there is one.
    pub(super) fn take(&mut self, now: Time) -> bool {
        let elapsed = u128::from(now.as_millis().saturating_sub(self.filled.as_millis()));
        self.drops = (self.drops + elapsed * self.count).min(self.count * self.token);
        self.filled = self.filled.max(now);
        let has_one = self.drops >= self.token;
        if has_one {
            self.drops -= self.token;
        }
        has_one
    }

    /// When there will be a token.
    pub(super) fn next(&self) -> Time {
        let missing = self.token.saturating_sub(self.drops).div_ceil(self.count);
        self.filled + Duration::from_millis(u64::try_from(missing).unwrap_or(u64::MAX))
    }
}
