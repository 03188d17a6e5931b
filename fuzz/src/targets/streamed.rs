//! Responses that are read in pieces: what is taken for one is one and arrives as it is, and what is cut ends as an error.

use std::collections::VecDeque;

use bytes::Bytes;
use regrow_protocol::frame::{Frame, Kind, RawId, StreamedResponse};
use serde_json::Value;

use crate::pieces::{chance_of, cuts};

const ERROR: &[u8] =
    br#"{"jsonrpc":"2.0","id":0,"result":{"content":[{"type":"text","text":"cut"}],"isError":true,"_meta":{}}}"#;

pub(super) fn run(input: &[u8]) {
    let mut chance = chance_of(input);
    for _ in 0..3 {
        let start = chance.usize(..=input.len());
        for pieces in cuts(&input[start..]) {
            stream(&input[..start], &pieces, input);
        }
    }
}

fn stream(start: &[u8], pieces: &[&[u8]], input: &[u8]) {
    let mut out = VecDeque::new();
    let (servers, callers) = (RawId::from(7), RawId::from(4_000_000_007));
    let start = Bytes::copy_from_slice(start);
    let Some(mut response) = StreamedResponse::begin(servers, callers.clone(), start, &mut out) else {
        return;
    };
    let is_read = pieces.iter().all(|piece| response.push(Bytes::copy_from_slice(piece), &mut out).is_ok());
    let mut told: Vec<u8> = out.iter().flatten().copied().collect();
    if is_read && response.is_complete() {
        let message = Frame::parse(Bytes::copy_from_slice(input)).expect("what is complete is a message");
        assert!(matches!(message.kind(), Kind::Response { .. }) && message.result().is_some());
        let again = Frame::parse(told.clone().into()).expect("what is told is a message");
        assert_eq!(again.id(), Some(callers));
        assert_eq!(again.result(), message.result());
        return;
    }
    let error = Frame::parse(Bytes::from_static(ERROR)).expect("this is a response");
    let Some(rest) = response.end_as(&error) else { return };
    told.extend_from_slice(&rest);
    let frame = Frame::parse(told.into()).expect("what ends as an error is a message");
    assert_eq!(frame.id(), Some(callers));
    // Half a character, as an escape, is JSON, but no text; that may have come.
    if let Ok(result) = serde_json::from_slice::<Value>(frame.result().expect("a result")) {
        assert_eq!(result["isError"], true, "{result}");
    }
}
