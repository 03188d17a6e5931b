//! A time as people and programs both read it: 2026-11-15T09:30:00.000Z.

use std::time::{SystemTime, UNIX_EPOCH};

const DAY: u64 = 24 * 60 * 60;

/// In universal time; what lies before 1970 is told as its beginning.
pub(super) fn stamp(at: SystemTime) -> String {
    let since = at.duration_since(UNIX_EPOCH).unwrap_or_default();
    let (day, second) = (since.as_secs() / DAY, since.as_secs() % DAY);
    let (year, month, day) = date(day);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{:03}Z", since.subsec_millis())
}

/// Year, month and day of the n-th day since the first of 1970.
fn date(mut day: u64) -> (u64, usize, u64) {
    let is_leap =
        |year: u64| (year.is_multiple_of(4) && !year.is_multiple_of(100)) || year.is_multiple_of(400);
    let mut year = 1970;
    while day >= 365 + u64::from(is_leap(year)) {
        day -= 365 + u64::from(is_leap(year));
        year += 1;
    }
    let february = 28 + u64::from(is_leap(year));
    let mut month = 1;
    for length in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
        if day < length {
            break;
        }
        day -= length;
        month += 1;
    }
    (year, month, day + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn times_are_told_as_the_calendar_has_them() {
        let told = |seconds, millis: u32| stamp(UNIX_EPOCH + Duration::new(seconds, millis * 1_000_000));
        assert_eq!(told(0, 0), "1970-01-01T00:00:00.000Z");
        assert_eq!(told(951_782_399, 999), "2000-02-28T23:59:59.999Z");
        assert_eq!(told(951_782_400, 0), "2000-02-29T00:00:00.000Z");
        assert_eq!(told(1_798_761_599, 1), "2026-12-31T23:59:59.001Z");
        assert_eq!(told(4_107_542_400, 0), "2100-03-01T00:00:00.000Z");
    }
}
