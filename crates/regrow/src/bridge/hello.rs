//! What a client's own requests tell about it: its era, who it is, and what it can do for a server.

use regrow_protocol::frame::Frame;
use regrow_protocol::version::MODERN;
use regrow_protocol::{meta, method};
use serde_json::{Value, json};

use super::object::Object;
use super::{BridgeState, Speaks};
use crate::upstream::ClientParams;

/// The era that a request is asked in. It is answered in the same, whatever the client asked before.
pub(super) fn speaks(request: &Frame) -> Speaks {
    match request.method() {
        Some(method::INITIALIZE) => Speaks::Legacy,
        Some(method::SERVER_DISCOVER) => Speaks::Modern,
        _ if request.protocol_version().is_some() => Speaks::Modern,
        _ => Speaks::Legacy,
    }
}

/// A legacy client may send a ping before it says who it is.
pub(super) fn is_early_ping(request: &Frame) -> bool {
    request.method() == Some(method::PING) && speaks(request) == Speaks::Legacy
}

/// Keeps in mind which era the client lives in. One that tries the modern one first and then sends a handshake is a
/// legacy client.
pub(super) fn note(state: &mut BridgeState, request: &Frame) {
    let greets = request.method() == Some(method::INITIALIZE);
    if greets || (state.client.is_none() && !is_early_ping(request)) {
        state.client = Some(speaks(request));
        state.envelope = envelope(&hello(request));
    }
}

/// What a legacy client's requests carry towards a modern server.
fn envelope(hello: &ClientParams) -> Object {
    let mut capabilities = hello.capabilities.clone();
    capabilities.as_object_mut().map(|capabilities| capabilities.remove("tasks"));
    let mut envelope = Object::default();
    envelope.put(meta::PROTOCOL_VERSION, MODERN);
    envelope.put(meta::CLIENT_CAPABILITIES, capabilities);
    envelope.put(meta::CLIENT_INFO, &hello.client_info);
    envelope
}

/// Who asks.
pub(super) fn hello(request: &Frame) -> ClientParams {
    let (said, info, capabilities) = match speaks(request) {
        Speaks::Legacy => (Object::of(request.params()), "clientInfo", "capabilities"),
        Speaks::Modern => (Object::of(request.meta()), meta::CLIENT_INFO, meta::CLIENT_CAPABILITIES),
    };
    let known =
        |name: &str, unknown: Value| Some(said.value(name)).filter(Value::is_object).unwrap_or(unknown);
    ClientParams {
        client_info: known(info, json!({ "name": "regrow", "version": env!("CARGO_PKG_VERSION") })),
        capabilities: known(capabilities, json!({})),
        legacy_version: said.text("protocolVersion"),
    }
}
