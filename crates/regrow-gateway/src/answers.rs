//! Messages and answers of the gateway's own.

use regrow::{Outcome, Reply};
use regrow_protocol::frame::{self, Frame, RawId};
use serde_json::Value;

/// An answer of our own. Who waits puts its id in.
pub(crate) fn answer(result: &[u8]) -> Outcome {
    Outcome::Answered(Frame::built(frame::response(&RawId::from(0), result)))
}

/// The same, of a value.
pub(crate) fn answer_value(result: &Value) -> Outcome {
    answer(result.to_string().as_bytes())
}

/// An error of our own, in the words of the protocol.
pub(crate) fn refusal(code: i64, text: &str, data: Option<&Value>) -> Outcome {
    let data = data.map(Value::to_string);
    let line = frame::error(Some(&RawId::from(0)), code, text, data.as_ref().map(|data| data.as_bytes()));
    Outcome::Answered(Frame::built(line))
}

pub(crate) fn unknown_method() -> Outcome {
    Outcome::Answered(Frame::built(frame::method_not_found(&RawId::from(0))))
}

/// What raw JSON says; null if it is not there.
pub(crate) fn parsed(raw: Option<&[u8]>) -> Value {
    raw.and_then(|raw| serde_json::from_slice(raw).ok()).unwrap_or_default()
}

/// A text as a raw JSON string.
pub(crate) fn raw_text(text: &str) -> RawId {
    RawId::parse(Value::from(text).to_string().as_bytes()).expect("a string is one")
}

/// Nobody waits.
pub(crate) struct Unheard;

impl Reply for Unheard {
    fn end(self: Box<Self>, _: Outcome) {}
}
