//! The id of a request, as it was written.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use serde_json::value::RawValue;

/// An id as raw bytes: `1` is not `"1"`, and not `1.0`.
///
/// It owns its bytes, and so does not keep the message alive that it came in.
#[derive(Clone)]
pub struct RawId(Bytes);

/// As long as a quoted UUID, so that nearly every id is copied without an allocation.
const SHORT: usize = 38;

#[derive(Clone)]
enum Bytes {
    Short { len: u8, bytes: [u8; SHORT] },
    Long(Arc<[u8]>),
}

impl RawId {
    /// An id from a raw JSON string or number; none from anything else.
    pub fn parse(raw: &[u8]) -> Option<RawId> {
        let value: &RawValue = serde_json::from_slice(raw).ok()?;
        RawId::from_value(value.get().as_bytes())
    }

    /// The same from bytes that are known to be one JSON value.
    pub(super) fn from_value(raw: &[u8]) -> Option<RawId> {
        RawId::is_value(raw).then(|| RawId::copied(raw))
    }

    /// Whether one JSON value is an id.
    pub(super) fn is_value(raw: &[u8]) -> bool {
        matches!(raw.first(), Some(b'"' | b'-' | b'0'..=b'9'))
    }

    /// The bytes as they were written, quotes and all.
    pub fn as_bytes(&self) -> &[u8] {
        match &self.0 {
            Bytes::Short { len, bytes } => &bytes[..usize::from(*len)],
            Bytes::Long(bytes) => bytes,
        }
    }

    /// The whole number that this id means, however it was written: `2`, `2.0`, `"2"`.
    ///
    /// Some languages know one kind of number only, and some servers treat every id as text.
    pub fn as_number(&self) -> Option<u64> {
        let raw = std::str::from_utf8(self.as_bytes()).ok()?;
        let text = raw.strip_prefix('"').and_then(|text| text.strip_suffix('"')).unwrap_or(raw);
        text.parse().ok().or_else(|| whole(text.parse().ok()?))
    }

    fn copied(raw: &[u8]) -> RawId {
        if raw.len() > SHORT {
            return RawId(Bytes::Long(raw.into()));
        }
        let mut bytes = [0; SHORT];
        bytes[..raw.len()].copy_from_slice(raw);
        RawId(Bytes::Short { len: raw.len() as u8, bytes })
    }
}

/// A float that is an integer, and small enough to be exactly that one.
fn whole(number: f64) -> Option<u64> {
    const EXACT: f64 = (1_u64 << f64::MANTISSA_DIGITS) as f64;
    ((0.0..=EXACT).contains(&number) && number.fract() == 0.0).then_some(number as u64)
}

/// A number as an id, for requests of our own.
impl From<u64> for RawId {
    fn from(mut number: u64) -> RawId {
        let mut bytes = [0; SHORT];
        let len = number.checked_ilog10().unwrap_or(0) as usize + 1;
        for digit in bytes[..len].iter_mut().rev() {
            *digit = b'0' + (number % 10) as u8;
            number /= 10;
        }
        RawId(Bytes::Short { len: len as u8, bytes })
    }
}

impl PartialEq for RawId {
    fn eq(&self, other: &RawId) -> bool {
        self.as_bytes() == other.as_bytes()
    }
}

impl Eq for RawId {}

impl Hash for RawId {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_bytes().hash(state);
    }
}

/// As it was written, and safe to log: what is no text, or would steer a terminal, is escaped.
impl fmt::Display for RawId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for part in self.as_bytes().utf8_chunks() {
            for char in part.valid().chars() {
                // Quotes and backslashes stay as they are; the rest is escaped as Rust would.
                match char {
                    '"' | '\\' | '\'' => write!(f, "{char}")?,
                    _ => write!(f, "{}", char.escape_debug())?,
                }
            }
        }
        Ok(())
    }
}

impl fmt::Debug for RawId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RawId({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::RawId;

    #[test]
    fn a_number_becomes_an_id_in_digits() {
        for number in [0, 7, 10, 99, 100, 1 << 52, u64::MAX] {
            assert_eq!(RawId::from(number).as_bytes(), number.to_string().as_bytes());
        }
    }

    #[test]
    fn a_whole_number_is_recognized_however_it_was_written() {
        let number = |raw: &str| RawId::parse(raw.as_bytes()).unwrap().as_number();
        for two in ["2", "2.0", "2.00", "2e0", "20e-1", r#""2""#, r#""2.0""#] {
            assert_eq!(number(two), Some(2), "{two}");
        }
        assert_eq!(number(&u64::MAX.to_string()), Some(u64::MAX));
        for other in ["2.5", "-2", "-2.0", "1e300", r#""two""#, r#""""#, r#""NaN""#, r#""inf""#, r#""-0.5""#]
        {
            assert_eq!(number(other), None, "{other}");
        }
    }
}
