//! What the modern era demands of a request's headers, and which status an answer has.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use regrow_protocol::meta;
use regrow_protocol::version::MODERN;
use serde_json::Value;

use crate::incoming::Incoming;
use crate::server::wire::{Reply, RpcRequest};

/// The HTTP status of an answer.
pub(in crate::server) fn status_of(request: &RpcRequest, reply: &Reply) -> u16 {
    match reply {
        Reply::Error { code: -32022, .. } => 400,
        Reply::Error { code: -32601, .. } if request.modern => 404,
        _ => 200,
    }
}

/// Why a modern request is refused: the code, and what is wrong.
pub(super) fn objection(incoming: &Incoming, request: &RpcRequest) -> Option<(i32, String)> {
    let version = request.meta(meta::PROTOCOL_VERSION).and_then(Value::as_str);
    let differs = |header: &str, wanted: Option<&str>| {
        let found = incoming.head.header(header).map(decoded);
        (found.as_deref() != wanted).then(|| format!("{header} is {found:?}, the body says {wanted:?}"))
    };
    let (method, params) = (request.method.as_str(), &request.params);
    let named = match method {
        "tools/call" | "prompts/get" => differs("mcp-name", params["name"].as_str()),
        "resources/read" => differs("mcp-name", params["uri"].as_str()),
        _ => None,
    };
    let mirrored = (method == "tools/call" && params["name"] == "region")
        .then(|| differs("mcp-param-region", request.argument("region").as_str()))
        .flatten();
    let mismatch = differs("mcp-protocol-version", version)
        .or_else(|| differs("mcp-method", Some(method)))
        .or(named)
        .or(mirrored);
    if let Some(mismatch) = mismatch {
        return Some((-32020, mismatch));
    }
    if version == Some(MODERN) && request.meta(meta::CLIENT_CAPABILITIES).is_none() {
        return Some((-32602, format!("params._meta has no {}", meta::CLIENT_CAPABILITIES)));
    }
    None
}

/// A header's value without its wrapping, `=?base64?...?=`, where it has one that can be read.
fn decoded(value: &str) -> String {
    let wrapped = value.strip_prefix("=?base64?").and_then(|rest| rest.strip_suffix("?="));
    let bytes = wrapped.and_then(|text| STANDARD.decode(text).ok());
    bytes.and_then(|bytes| String::from_utf8(bytes).ok()).unwrap_or_else(|| value.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrapped_values_are_unwrapped() {
        assert_eq!(decoded("=?base64?SGVsbG8sIOS4lueVjA==?="), "Hello, \u{4e16}\u{754c}");
        assert_eq!(decoded("=?base64?aGk=?="), "hi");
        for plain in ["plain", "=?base64?%?=", ""] {
            assert_eq!(decoded(plain), plain);
        }
    }
}
