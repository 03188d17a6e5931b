//! Era detection: what an answer to `server/discover` is taken for, on pipes and with an HTTP status before it.
//!
//! The input is a status with or without a time to wait, a newline, and the body.

use std::time::Duration;

use bytes::Bytes;
use http::HeaderValue;
use regrow::core::Fault;
use regrow::fuzzing::{meaning, speaks_modern};
use regrow_protocol::frame::{Frame, Kind, RawId};
use serde_json::Value;

pub(super) fn run(input: &[u8]) {
    let (head, body) = match input.iter().position(|byte| *byte == b'\n') {
        Some(end) => (&input[..end], &input[end + 1..]),
        None => (&b""[..], input),
    };
    if let Ok(answer) = Frame::parse(Bytes::copy_from_slice(body))
        && matches!(answer.kind(), Kind::Response { .. })
        && speaks_modern(&answer)
    {
        assert!(names_the_revision(body) || is_modern_error(body), "taken for modern");
    }
    let head = String::from_utf8_lossy(head);
    let mut words = head.split(' ');
    let code = words.next().and_then(|code| code.parse().ok()).unwrap_or(400);
    let wait = words.next().and_then(|wait| HeaderValue::from_str(wait).ok());
    for in_session in [false, true] {
        let question = Bytes::from_static(br#"{"jsonrpc":"2.0","id":1,"method":"server/discover"}"#);
        let question = Frame::parse(question).expect("it is a message");
        match meaning(question, in_session, code, wait.clone(), Bytes::copy_from_slice(body)) {
            Ok(answer) => {
                let answer = Frame::parse(answer).expect("an answer is a message");
                assert_eq!(answer.kind(), Kind::Response { id: Some(RawId::from(1)) });
            }
            Err(Fault::Deferred { after, .. }) => assert!(after <= Duration::from_secs(3600)),
            Err(Fault::Status { said, .. }) => {
                assert!(said.len() < 4000 && said.chars().all(|c| !c.is_control()), "{said:?}");
            }
            Err(_) => {}
        }
    }
}

fn names_the_revision(body: &[u8]) -> bool {
    String::from_utf8_lossy(body).contains("supportedVersions")
}

fn is_modern_error(body: &[u8]) -> bool {
    let body: Value = serde_json::from_slice(body.trim_ascii()).unwrap_or_default();
    // What serde_json cannot read (a mark before it, two members of one name) is judged by the envelope alone.
    body.is_null() || matches!(body["error"]["code"].as_i64(), Some(-32022..=-32020))
}
