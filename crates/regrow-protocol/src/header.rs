//! HTTP headers of MCP, in lower case.

use std::borrow::Cow;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::frame::Frame;
use crate::method;

/// The session; legacy era.
pub const SESSION_ID: &str = "mcp-session-id";
/// The protocol version of a message.
pub const PROTOCOL_VERSION: &str = "mcp-protocol-version";
/// The method of a message; modern era.
pub const METHOD: &str = "mcp-method";
/// What a message names; modern era. See [`name`].
pub const NAME: &str = "mcp-name";
/// An argument of a tool call, followed by the header's own name; modern era.
pub const PARAMETER_PREFIX: &str = "mcp-param-";
/// The last event that the client has read of a stream.
pub const LAST_EVENT_ID: &str = "last-event-id";

/// The media type of one message.
pub const JSON: &str = "application/json";
/// The media type of a stream of messages.
pub const EVENT_STREAM: &str = "text/event-stream";

/// Whether this `Content-Type` says [`JSON`], whatever its parameters. A web page of another origin cannot send that without
/// asking first.
pub fn is_json(content_type: &str) -> bool {
    content_type.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case(JSON)
}

/// The value of [`NAME`] for this message, if it has one: the tool, the prompt or the resource.
pub fn name(message: &Frame) -> Option<Cow<'_, str>> {
    match message.method()? {
        method::TOOLS_CALL | method::PROMPTS_GET => message.name(),
        method::RESOURCES_READ => message.uri(),
        _ => None,
    }
}

/// A value as a header can carry it: in Base64 where it could not stand there as it is.
pub fn encode(value: &str) -> Cow<'_, str> {
    let is_plain = value.bytes().all(|byte| matches!(byte, b' '..=b'~'));
    let looks_packed = value.starts_with(PACKED_START) && value.ends_with(PACKED_END);
    if is_plain && !looks_packed && !value.is_empty() && value.trim() == value {
        return Cow::Borrowed(value);
    }
    Cow::Owned(format!("{PACKED_START}{}{PACKED_END}", STANDARD.encode(value)))
}

/// The value that a header carries. `None` where it is packed, but not Base64 of a text.
pub fn decode(text: &str) -> Option<Cow<'_, str>> {
    match text.strip_prefix(PACKED_START).and_then(|rest| rest.strip_suffix(PACKED_END)) {
        None => Some(Cow::Borrowed(text)),
        Some(packed) => String::from_utf8(STANDARD.decode(packed).ok()?).ok().map(Cow::Owned),
    }
}

const PACKED_START: &str = "=?base64?";
const PACKED_END: &str = "?=";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_header_cannot_carry_is_packed() {
        for (value, carried) in [
            ("pay", "pay"),
            ("file:///a b", "file:///a b"),
            ("gr\u{fc}n", "=?base64?Z3LDvG4=?="),
            ("", "=?base64??="),
            (" a", "=?base64?IGE=?="),
            ("a\r\nX: y", "=?base64?YQ0KWDogeQ==?="),
            ("=?base64?eA==?=", "=?base64?PT9iYXNlNjQ/ZUE9PT89?="),
        ] {
            assert_eq!(encode(value), carried);
            assert_eq!(decode(carried).as_deref(), Some(value));
        }
        assert_eq!(decode("=?base64?ZX?="), None);
        assert_eq!(decode("=?base64?/w==?="), None);
    }
}
