//! The envelope: what is read of a message is what stands in it, and what is rewritten reads the same but for that.

use bytes::Bytes;
use regrow_protocol::frame::{Frame, Kind, MAX_BATCH, ParseError, RawId, Salvage, join_batch, split_batch};
use serde_json::value::RawValue;

pub(super) fn run(input: &[u8]) {
    let salvaged = Salvage::of(input);
    let parsed = Frame::parse(Bytes::copy_from_slice(input));
    let is_json = !matches!(parsed, Err(ParseError::NotJson { .. }));
    let text = input.strip_prefix("\u{feff}".as_bytes()).unwrap_or(input).trim_ascii();
    assert_eq!(is_json, serde_json::from_slice::<&RawValue>(text).is_ok(), "serde_json says otherwise");
    let Ok(frame) = parsed else { return };
    let new = RawId::from(4_000_000_007);
    match frame.kind() {
        Kind::Batch => {
            let members = split_batch(&frame);
            assert!(members.len() <= MAX_BATCH);
            join_batch(members.into_iter().flatten().map(|member| member.bytes().clone()));
            return;
        }
        Kind::Request { id, method } => {
            assert!(salvaged.id.is_none_or(|salvaged| salvaged == id), "another id is salvaged than is read");
            let again = Frame::parse(frame.with_id(&new)).expect("a message with another id is one");
            assert_eq!(again.kind(), Kind::Request { id: new.clone(), method });
            assert_eq!(on_one_line(again.params()), on_one_line(frame.params()));
            assert_eq!(on_one_line(again.meta()), on_one_line(frame.meta()));
        }
        Kind::Response { id: Some(_) } => {
            let again = Frame::parse(frame.with_id(&new)).expect("a message with another id is one");
            assert_eq!(again.kind(), Kind::Response { id: Some(new.clone()) });
            assert_eq!(on_one_line(again.result()), on_one_line(frame.result()));
            assert_eq!(on_one_line(again.error()), on_one_line(frame.error()));
        }
        Kind::Response { id: None } | Kind::Notification { .. } => {}
    }
    // Whatever is asked of it, it has an answer.
    let _ = (frame.error_code(), frame.meta_progress_token(), frame.protocol_version(), frame.name());
    let _ = (frame.uri(), frame.cursor(), frame.level(), frame.progress_token(), frame.has_task());
    if frame.request_id().is_some() {
        let again =
            Frame::parse(frame.with_request_id(&new)).expect("a message with another id in it is one");
        assert_eq!(again.request_id(), Some(new.clone()));
    }
    if frame.subscription_id().is_some() {
        let again =
            Frame::parse(frame.with_subscription_id(&new)).expect("a message with another id in it is one");
        assert_eq!(again.subscription_id(), Some(new));
    }
    let line = frame.to_line();
    let newlines = line.iter().filter(|byte| **byte == b'\n').count();
    assert!(newlines == 1 && line.ends_with(b"\n"), "a message is one line");
}

/// What is written is one line; between members a newline says no more than a space.
fn on_one_line(json: Option<&[u8]>) -> Option<Vec<u8>> {
    json.map(|json| json.iter().map(|byte| if byte.is_ascii_whitespace() { b' ' } else { *byte }).collect())
}
