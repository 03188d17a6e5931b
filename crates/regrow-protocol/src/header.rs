//! HTTP headers of MCP, in lower case.

use std::borrow::Cow;

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

/// The value of [`NAME`] for this message, if it has one: the tool, the prompt or the resource.
pub fn name(message: &Frame) -> Option<Cow<'_, str>> {
    match message.method()? {
        method::TOOLS_CALL | method::PROMPTS_GET => message.name(),
        method::RESOURCES_READ => message.uri(),
        _ => None,
    }
}
