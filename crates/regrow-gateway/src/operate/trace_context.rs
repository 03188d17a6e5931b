//! W3C trace context in the `_meta` of a request: read strictly, and written without touching any other byte.

mod splice;

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use regrow_protocol::frame::Frame;
use serde::Deserialize;
use serde_json::value::RawValue;

/// Which trace a request belongs to, and which span caused it: the `traceparent` of W3C.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceParent {
    /// The trace; never zero.
    pub trace: u128,
    /// The span that caused the request; never zero.
    pub parent: u64,
    /// Bit 0: the trace is recorded.
    pub flags: u8,
}

/// What a request says of its trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceContext {
    /// Which trace and span.
    pub parent: TraceParent,
    /// What others have noted along the way.
    pub state: Option<String>,
}

/// Not a `traceparent`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotATraceParent;

impl TraceContext {
    /// Of this request. One that is not well formed counts as none, as W3C wants it.
    pub fn of(request: &Frame) -> Option<TraceContext> {
        let meta: Meta<'_> = serde_json::from_slice(request.meta()?).ok()?;
        let parent: Cow<'_, str> = serde_json::from_str(meta.traceparent?.get()).ok()?;
        // A state that cannot be read spoils nothing else.
        let state = meta.tracestate.and_then(|state| serde_json::from_str(state.get()).ok());
        Some(TraceContext { parent: parent.parse().ok()?, state })
    }
}

#[derive(Deserialize)]
struct Meta<'a> {
    #[serde(borrow)]
    traceparent: Option<&'a RawValue>,
    #[serde(borrow)]
    tracestate: Option<&'a RawValue>,
}

impl TraceParent {
    /// The request with this one in the place of its own. Whatever else its client wrote stays as it is.
    pub fn put_into(self, request: &Frame) -> Frame {
        splice::with_traceparent(request, &self.to_string())
    }
}

impl FromStr for TraceParent {
    type Err = NotATraceParent;

    fn from_str(text: &str) -> Result<TraceParent, NotATraceParent> {
        // Later versions may add more after a dash; what we know of them stays where it is.
        let known = text.get(..55).ok_or(NotATraceParent)?;
        let (version, more) = (hex(&known[..2])?, &text[55..]);
        let complete = more.is_empty() || (version > 0 && more.starts_with('-'));
        let dashes = [2, 35, 52].iter().all(|at| known.as_bytes()[*at] == b'-');
        let trace = hex(known.get(3..35).ok_or(NotATraceParent)?)?;
        let parent = hex(known.get(36..52).ok_or(NotATraceParent)?)?;
        let flags = hex(known.get(53..).ok_or(NotATraceParent)?)?;
        if version == 0xff || !complete || !dashes || trace == 0 || parent == 0 {
            return Err(NotATraceParent);
        }
        Ok(TraceParent { trace, parent: parent as u64, flags: flags as u8 })
    }
}

/// Lower case only, and neither sign nor space.
fn hex(text: &str) -> Result<u128, NotATraceParent> {
    let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    match text.bytes().all(is_digit) {
        true => u128::from_str_radix(text, 16).map_err(|_| NotATraceParent),
        false => Err(NotATraceParent),
    }
}

impl fmt::Display for TraceParent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "00-{:032x}-{:016x}-{:02x}", self.trace, self.parent, self.flags)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn what_is_written_is_read_back() {
        let parent: TraceParent = GOOD.parse().unwrap();
        assert_eq!(parent.trace, 0x4bf92f3577b34da6a3ce929d0e0e4736);
        assert_eq!((parent.parent, parent.flags), (0x00f067aa0ba902b7, 1));
        assert_eq!(parent.to_string(), GOOD);
    }

    #[test]
    fn a_later_version_may_say_more() {
        for text in [GOOD.replacen("00", "01", 1), format!("cc{}-what-else", &GOOD[2..])] {
            assert_eq!(text.parse::<TraceParent>().unwrap().to_string(), GOOD);
        }
    }

    #[test]
    fn whatever_else_is_none() {
        let zero_trace = format!("00-{}-00f067aa0ba902b7-01", "0".repeat(32));
        let zero_parent = format!("00-4bf92f3577b34da6a3ce929d0e0e4736-{}-01", "0".repeat(16));
        let wide = format!("00-4bf92f3577b34da6a3ce929d0e0e473é{}", &GOOD[36..]);
        let wrong = [
            String::new(),
            GOOD.to_uppercase(),
            format!("{GOOD}-"),
            format!("{GOOD} "),
            format!(" {GOOD}"),
            GOOD[..54].to_owned(),
            GOOD.replacen("00", "ff", 1),
            GOOD.replacen("00", "0x", 1),
            GOOD.replacen("00", "+0", 1),
            GOOD.replace('-', "_"),
            GOOD.replacen("00", "01", 1) + "01",
            zero_trace,
            zero_parent,
            wide,
        ];
        for text in wrong {
            assert_eq!(text.parse::<TraceParent>(), Err(NotATraceParent), "{text:?}");
        }
    }
}
