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
        let millis = length.as_nanos().div_ceil(1_000_000);
        Time(self.0.saturating_add(u64::try_from(millis).unwrap_or(u64::MAX)))
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
    fn times_and_epochs_read_as_numbers() {
        assert_eq!(Time::from_millis(61_023).to_string(), "61.023s");
        assert_eq!(Epoch(7).to_string(), "7");
    }
}
