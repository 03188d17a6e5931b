//! Durations as milliseconds, to the microsecond.

use std::time::Duration;

use serde::{Deserialize, Deserializer, Serializer};

pub(super) fn serialize<S: Serializer>(length: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    let micros = u64::try_from(length.as_micros()).unwrap_or(u64::MAX);
    match micros % 1000 {
        0 => serializer.serialize_u64(micros / 1000),
        _ => serializer.serialize_f64(micros as f64 / 1000.0),
    }
}

pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    let millis = f64::deserialize(deserializer)?;
    Duration::try_from_secs_f64(millis / 1000.0).map_err(serde::de::Error::custom)
}
