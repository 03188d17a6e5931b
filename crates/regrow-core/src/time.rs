//! Time as a plain number, so that states compare, hash and replay.

use std::fmt;
use std::ops::{Add, Sub};
use std::time::Duration;

/// A moment: milliseconds since the connection was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(u64);

impl Time {
    /// The moment the connection was made.
    pub const ZERO: Time = Time(0);

    /// The moment that lies so many milliseconds after the connection was made.
    pub const fn from_millis(millis: u64) -> Time {
        Time(millis)
    }

    /// Milliseconds since the connection was made.
    pub const fn as_millis(self) -> u64 {
        self.0
    }

    /// How long ago `earlier` was; zero if it is still to come.
    pub fn since(self, earlier: Time) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Time {
    type Output = Time;

    /// Rounds up: a deadline never comes early.
    fn add(self, length: Duration) -> Time {
        let below_a_second = u64::from(length.subsec_nanos().div_ceil(1_000_000));
        let millis = length.as_secs().saturating_mul(1000).saturating_add(below_a_second);
        Time(self.0.saturating_add(millis))
    }
}

impl Sub<Time> for Time {
    type Output = Duration;

    fn sub(self, earlier: Time) -> Duration {
        self.since(earlier)
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:03}s", self.0 / 1000, self.0 % 1000)
    }
}

/// The number of an attempt and of the session it became; always rising.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Epoch(pub u64);

impl Epoch {
    /// The epoch after this one.
    #[must_use]
    pub const fn next(self) -> Epoch {
        Epoch(self.0 + 1)
    }
}

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deadline_is_rounded_up_and_never_wraps() {
        let after = |length| (Time::from_millis(5) + length).as_millis();
        assert_eq!(after(Duration::ZERO), 5);
        assert_eq!(after(Duration::from_nanos(1)), 6);
        assert_eq!(after(Duration::from_millis(1)), 6);
        assert_eq!(after(Duration::new(2, 999_000_001)), 3005);
        assert_eq!(after(Duration::from_millis(u64::MAX - 6)), u64::MAX - 1);
        assert_eq!(after(Duration::MAX), u64::MAX);
    }

    #[test]
    fn times_and_epochs_read_as_numbers() {
        assert_eq!(Time::from_millis(61_023).to_string(), "61.023s");
        assert_eq!(Epoch(7).to_string(), "7");
    }
}
