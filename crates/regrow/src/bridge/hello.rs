//! What a client's own requests tell about it: its era, who it is, and what it can do for a server.

use serde_json::{Value, json};

use super::Speaks;
use crate::frame::Frame;
use crate::memory::Hello;

/// The era that a request is asked in. It is answered in the same, whatever the client asked before.
pub(super) fn speaks(request: &Frame) -> Speaks {
    match request.method() {
        Some("initialize") => Speaks::Legacy,
        Some("server/discover") => Speaks::Modern,
        _ if request.protocol_version().is_some() => Speaks::Modern,
        _ => Speaks::Legacy,
    }
}

/// Keeps in mind which era the client lives in. One that asks for the other's first and then shakes hands is a legacy one.
pub(super) fn note(client: &mut Option<Speaks>, request: &Frame) {
    if client.is_none() || request.method() == Some("initialize") {
        *client = Some(speaks(request));
    }
}

/// Who asks.
pub(super) fn hello(request: &Frame) -> Hello {
    let object = |raw: Option<&[u8]>| -> Value {
        raw.and_then(|raw| serde_json::from_slice(raw).ok()).unwrap_or_default()
    };
    let (said, info, capabilities) = match speaks(request) {
        Speaks::Legacy => (object(request.params()), "clientInfo", "capabilities"),
        Speaks::Modern => (
            object(request.meta()),
            "io.modelcontextprotocol/clientInfo",
            "io.modelcontextprotocol/clientCapabilities",
        ),
    };
    let known =
        |name: &str, unknown: Value| said.get(name).filter(|it| it.is_object()).cloned().unwrap_or(unknown);
    Hello {
        client_info: known(info, json!({ "name": "regrow", "version": env!("CARGO_PKG_VERSION") })),
        capabilities: known(capabilities, json!({})),
        legacy_version: said["protocolVersion"].as_str().map(str::to_owned),
    }
}
