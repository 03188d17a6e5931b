//! The header codec: what a header cannot carry is packed, and unpacks to what it was; nothing breaks out of a header.
//!
//! The input is the result of `tools/list`, a newline, and a message; all of it is also taken for one value.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::HeaderValue;
use regrow::fuzzing::headers;
use regrow_protocol::frame::Frame;
use regrow_protocol::header;

pub(super) fn run(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    let packed = header::encode(&text);
    assert!(packed.bytes().all(|byte| matches!(byte, b' '..=b'~')), "{packed:?}");
    assert!(HeaderValue::from_str(&packed).is_ok());
    assert_eq!(unpack(&packed), text);
    let Some(end) = input.iter().position(|byte| *byte == b'\n') else { return };
    let Ok(message) = Frame::parse(Bytes::copy_from_slice(&input[end + 1..])) else { return };
    for (name, value) in &headers(&input[..end], &message) {
        assert!(name.as_str().starts_with("mcp-"), "{name}");
        let value = value.to_str().expect("only what every header can carry");
        if name == "mcp-name" {
            assert!(message.name().is_some_and(|name| name == unpack(value)) || message.uri().is_some());
        }
    }
}

fn unpack(value: &str) -> String {
    let Some(inner) = value.strip_prefix("=?base64?").and_then(|rest| rest.strip_suffix("?=")) else {
        return value.to_owned();
    };
    let bytes = STANDARD.decode(inner).expect("what is packed is Base64");
    String::from_utf8(bytes).expect("what was packed is text")
}
