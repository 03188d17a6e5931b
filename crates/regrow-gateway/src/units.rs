//! Durations and sizes as people write them: `300ms`, `6s`, `10m`, `none`; `64MiB`.

use std::time::Duration;

/// A length of time that may be without end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit(
    /// `None`: without end.
    pub Option<Duration>,
);

/// A duration, or `none`.
pub fn limit(text: &str) -> Result<Limit, String> {
    if text == "none" { Ok(Limit(None)) } else { duration(text).map(|length| Limit(Some(length))) }
}

/// The same, for what can be turned off: `none`, or a time of zero.
pub fn limit_or_off(text: &str) -> Result<Limit, String> {
    let (number, unit) = split(text);
    let is_zero = number.parse() == Ok(0.0) && matches!(unit, "ms" | "s" | "m" | "h");
    if is_zero { Ok(Limit(None)) } else { limit(text) }
}

/// A number and `ms`, `s`, `m` or `h`.
pub fn duration(text: &str) -> Result<Duration, String> {
    let (number, unit) = split(text);
    let millis = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        _ => return Err("write a number and ms, s, m or h, such as 300ms, 6s or 10m".into()),
    };
    let number: f64 = number.parse().map_err(|_| "write a number and a unit, such as 300ms, 6s or 10m")?;
    let total = number * f64::from(millis);
    if !(1.0..=1e12).contains(&total) {
        return Err("it must be at least 1ms and less than 30 years".into());
    }
    Ok(Duration::from_millis(total as u64))
}

/// A number of bytes, or of `KiB`, `MiB` or `GiB`.
pub fn size(text: &str) -> Result<usize, String> {
    let (number, unit) = split(text);
    let factor = match unit {
        "" | "B" => 1,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        _ => return Err("write a number and KiB, MiB or GiB, such as 64MiB".into()),
    };
    let number: usize = number.parse().map_err(|_| "write a whole number and a unit, such as 64MiB")?;
    match number.checked_mul(factor) {
        Some(bytes) if bytes >= 1024 => Ok(bytes),
        Some(_) => Err("it must be at least 1KiB".into()),
        None => Err("it is too large for this machine".into()),
    }
}

/// `N/SECONDS`: N in this many seconds.
pub fn budget(text: &str) -> Result<(u32, Duration), String> {
    let help = "write how many faults are allowed in how many seconds, such as 5/180";
    let (charges, seconds) = text.split_once('/').ok_or(help)?;
    let seconds = seconds.strip_suffix('s').unwrap_or(seconds);
    match (charges.parse(), seconds.parse()) {
        (Ok(charges), Ok(seconds)) if seconds > 0 => Ok((charges, Duration::from_secs(seconds))),
        _ => Err(help.into()),
    }
}

fn split(text: &str) -> (&str, &str) {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    text.split_at(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_and_sizes_are_read_as_people_write_them() {
        assert_eq!(duration("300ms"), Ok(Duration::from_millis(300)));
        assert_eq!(duration("1.5s"), Ok(Duration::from_millis(1500)));
        assert_eq!(duration("10m"), Ok(Duration::from_secs(600)));
        assert_eq!(limit("none"), Ok(Limit(None)));
        assert_eq!(["none", "0s", "0ms"].map(limit_or_off), [const { Ok(Limit(None)) }; 3]);
        assert_eq!(limit_or_off("10s"), Ok(Limit(Some(Duration::from_secs(10)))));
        assert_eq!(size("64MiB"), Ok(64 << 20));
        assert_eq!(budget("5/180"), Ok((5, Duration::from_secs(180))));
    }

    #[test]
    fn what_is_not_understood_is_answered_with_an_example() {
        for wrong in ["6", "six", "6 s", "-1s", "0s", "1e3s", ""] {
            assert!(duration(wrong).is_err(), "{wrong:?}");
            assert!(wrong == "0s" || limit_or_off(wrong).is_err(), "{wrong:?}");
        }
        assert!(size("64MB").unwrap_err().contains("64MiB"));
        assert!(size("99999999999999999999GiB").is_err());
        assert!(budget("5").unwrap_err().contains("5/180"));
        assert!(budget("5/0").is_err());
    }
}
