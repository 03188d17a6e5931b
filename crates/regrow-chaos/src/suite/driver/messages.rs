//! Tasks as messages: of the legacy era, or of the line protocol for clients; and answers from messages.

use std::time::Duration;

use serde_json::{Value, json};

use super::{Answer, Task, Ticket};

/// What follows the handshake.
pub(super) const INITIALIZED: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;

/// The request that does a task, where one does.
pub(super) fn request_of(task: &Task, ticket: Ticket) -> Option<Value> {
    let (method, params) = match task {
        Task::Connect { .. } => {
            let info = json!({ "name": "regrow-chaos", "version": env!("CARGO_PKG_VERSION") });
            ("initialize", json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info }))
        }
        Task::List => ("tools/list", json!({})),
        Task::Call { tool, arguments, .. } => ("tools/call", json!({ "name": tool, "arguments": arguments })),
        Task::Status | Task::Close => return None,
    };
    Some(json!({ "jsonrpc": "2.0", "id": ticket, "method": method, "params": params }))
}

/// The line that tells a client to do a task; `calls` is the deadline of all its calls.
pub(super) fn command_of(task: &Task, ticket: Ticket, calls: Duration) -> Value {
    let millis = |time: &Duration| time.as_millis() as u64;
    match task {
        Task::Connect { timeout } => {
            json!({ "id": ticket, "do": "connect", "timeout_ms": millis(timeout), "call_timeout_ms": millis(&calls) })
        }
        Task::List => json!({ "id": ticket, "do": "list" }),
        Task::Call { tool, arguments, timeout } => {
            json!({ "id": ticket, "do": "call", "tool": tool, "arguments": arguments, "timeout_ms": millis(timeout) })
        }
        Task::Status => json!({ "id": ticket, "do": "status" }),
        Task::Close => json!({ "id": ticket, "do": "close" }),
    }
}

/// A response as an answer: the texts of its content, the names of its tools, or what its error says.
pub(super) fn answer_of(message: &Value) -> Answer {
    let result = &message["result"];
    if !result.is_object() {
        let text = message["error"]["message"].as_str().unwrap_or_default().to_owned();
        return Answer { ok: false, text };
    }
    let texts = |list: &Value, member: &str| {
        let items = list.as_array().into_iter().flatten();
        items.filter_map(|item| item[member].as_str()).collect::<Vec<_>>().join("\n")
    };
    let text = match result.get("tools") {
        Some(tools) => texts(tools, "name"),
        None => texts(&result["content"], "text"),
    };
    Answer { ok: result["isError"] != true, text }
}
