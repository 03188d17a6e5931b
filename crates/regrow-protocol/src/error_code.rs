//! Error codes of JSON-RPC and of MCP.

/// The message is not JSON.
pub const PARSE_ERROR: i64 = -32700;
/// The message is not a request, or this one is not allowed now.
pub const INVALID_REQUEST: i64 = -32600;
/// There is no such method.
pub const METHOD_NOT_FOUND: i64 = -32601;
/// The parameters are not as they must be.
pub const INVALID_PARAMS: i64 = -32602;
/// The receiver failed.
pub const INTERNAL_ERROR: i64 = -32603;
/// Any other error of a server.
pub const SERVER_ERROR: i64 = -32000;
/// There is no such resource.
pub const RESOURCE_NOT_FOUND: i64 = -32002;
/// A header differs from the body; modern era.
pub const HEADER_MISMATCH: i64 = -32020;
/// The server does not speak this protocol version; modern era.
pub const UNSUPPORTED_PROTOCOL_VERSION: i64 = -32022;

/// Whether only a server of the modern era answers with this code.
pub fn is_modern(code: i64) -> bool {
    (UNSUPPORTED_PROTOCOL_VERSION..=HEADER_MISMATCH).contains(&code)
}
