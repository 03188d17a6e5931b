//! Words of the modern era, and messages of the bridge's own.

use std::collections::BTreeSet;

use bytes::Bytes;
use regrow_core::Epoch;
use regrow_protocol::frame::{self, Frame, RawId};
use regrow_protocol::method;
use serde_json::json;

use super::object::Object;
use crate::call::Outcome;
use crate::inbox::Incoming;

pub(super) const INPUT_REQUIRED: &str = "input_required";

/// No session has this number: what carries it is the bridge's own, and outlives sessions.
pub(super) const OURS: Epoch = Epoch(0);

/// Whether a request belongs to tasks, which the eras do not share.
pub(super) fn is_task(request: &Frame) -> bool {
    request.has_task() || request.method().is_some_and(method::is_about_tasks)
}

/// What a stream tells of.
pub(super) fn filter(lists: &[&'static str], uris: &BTreeSet<String>) -> Object {
    let mut filter = Object::default();
    lists.iter().for_each(|list| filter.put(list, true));
    if !uris.is_empty() {
        filter.put("resourceSubscriptions", uris);
    }
    filter
}

/// A request with other parameters.
pub(super) fn request(id: &RawId, method: &str, params: &Object) -> Frame {
    Frame::built(frame::request(id, method, Some(&params.bytes())))
}

/// The same request with other parameters; without any if it had none.
pub(super) fn with_params(old: &Frame, params: &Object) -> Frame {
    let id = old.id().unwrap_or_else(|| RawId::from(0));
    let method = old.method().unwrap_or_default();
    match params.is_empty() && old.params().is_none() {
        true => Frame::built(frame::request(&id, method, None)),
        false => request(&id, method, params),
    }
}

/// An answer of our own. Who waits puts its id in.
pub(super) fn answer(result: &[u8]) -> Outcome {
    Outcome::Answered(Frame::built(frame::response(&RawId::from(0), result)))
}

/// An error of our own, in the words of the protocol.
pub(super) fn refusal(code: i64, text: &str, data: Option<&[u8]>) -> Outcome {
    Outcome::Answered(Frame::built(frame::error(Some(&RawId::from(0)), code, text, data)))
}

/// A message for the client.
pub(super) fn to_client(line: Bytes) -> Incoming {
    Incoming::of_no_call(OURS, Frame::built(line))
}

/// An id for a request of the bridge's own.
pub(super) fn own_id(kind: &str, number: u64) -> RawId {
    let text = json!(format!("regrow-{kind}-{number}")).to_string();
    RawId::parse(text.as_bytes()).expect("a string is an id")
}
