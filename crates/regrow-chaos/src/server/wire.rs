//! JSON-RPC as it comes in: ids are kept as they stand on the wire.

use std::collections::BTreeMap;

use regrow_protocol::meta;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::output::Output;

/// One message from the client.
pub(super) enum Message {
    Request(RpcRequest),
    Notification { method: String, params: Value },
    Response { id: String, line: String },
    Unreadable,
}

/// A request; its id is the text that stood on the wire.
#[derive(Clone)]
pub(super) struct RpcRequest {
    pub(super) id: String,
    pub(super) method: String,
    pub(super) params: Value,
    pub(super) modern: bool,
    /// Where its answer goes, and what belongs to it.
    pub(super) output: Output,
}

impl RpcRequest {
    /// The id as a value, for where it is quoted inside other members.
    pub(super) fn id_value(&self) -> Value {
        serde_json::from_str(&self.id).unwrap_or_default()
    }

    /// A member of `params._meta`.
    pub(super) fn meta(&self, key: &str) -> Option<&Value> {
        self.params.get("_meta")?.get(key)
    }

    /// The arguments of a tool call.
    pub(super) fn argument(&self, name: &str) -> &Value {
        &self.params["arguments"][name]
    }
}

/// What a request is answered with.
pub(super) enum Reply {
    Result(Value),
    /// A result that is no value for strict readers.
    Written(String),
    Error {
        code: i32,
        message: String,
        data: Option<Value>,
    },
    Silence,
}

impl Reply {
    /// An error without data.
    pub(super) fn error(code: i32, message: impl Into<String>) -> Self {
        Self::Error { code, message: message.into(), data: None }
    }

    /// A tool result of one text.
    pub(super) fn text(text: impl Into<String>) -> Self {
        Self::Result(json!({"content": [{"type": "text", "text": text.into()}]}))
    }

    /// The line that answers `id`, if there is one.
    pub(super) fn line(&self, id: &str) -> Option<String> {
        Some(match self {
            Self::Result(result) => format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#),
            Self::Written(result) => format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#),
            Self::Error { code, message, data } => {
                let mut error = json!({"code": code, "message": message});
                if let Some(data) = data {
                    error["data"] = data.clone();
                }
                format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{error}}}"#)
            }
            Self::Silence => return None,
        })
    }
}

/// The messages of one line: one, or those of a batch.
pub(super) fn parse(line: &[u8], output: &Output) -> Vec<Message> {
    let Ok(text) = std::str::from_utf8(line) else { return vec![Message::Unreadable] };
    if !text.trim_start().starts_with('[') {
        return vec![parse_one(text, output)];
    }
    match serde_json::from_str::<Vec<Box<RawValue>>>(text) {
        Ok(batch) => batch.iter().map(|message| parse_one(message.get(), output)).collect(),
        Err(_) => vec![Message::Unreadable],
    }
}

/// The same line for a reader that does not tell members apart by case: one in capitals counts before the one that it resembles.
pub(super) fn without_case(line: &[u8]) -> Vec<u8> {
    serde_json::from_slice(line)
        .map_or_else(|_| line.to_vec(), |value| folded(value).to_string().into_bytes())
}

fn folded(value: Value) -> Value {
    const KNOWN: [&str; 9] =
        ["id", "method", "params", "result", "error", "name", "arguments", "_meta", "progressToken"];
    let Value::Object(members) = value else { return value };
    // Capitals stand before small letters, so they are put in their place last.
    let members = members.into_iter().rev().map(|(name, value)| {
        let known = KNOWN.into_iter().find(|known| known.eq_ignore_ascii_case(&name));
        (known.map_or(name, str::to_owned), folded(value))
    });
    Value::Object(members.collect())
}

fn parse_one(text: &str, output: &Output) -> Message {
    let Ok(members) = serde_json::from_str::<BTreeMap<String, Box<RawValue>>>(text) else {
        return Message::Unreadable;
    };
    let value = |name| members.get(name).and_then(|raw| serde_json::from_str::<Value>(raw.get()).ok());
    let id = members.get("id").map(|raw| raw.get().to_owned());
    let params = value("params").unwrap_or_default();
    match (value("method"), id) {
        (Some(Value::String(method)), Some(id)) => {
            let modern = method == "server/discover" || params["_meta"].get(meta::PROTOCOL_VERSION).is_some();
            Message::Request(RpcRequest { id, method, params, modern, output: output.clone() })
        }
        (Some(Value::String(method)), None) => Message::Notification { method, params },
        (None, Some(id)) if members.contains_key("result") || members.contains_key("error") => {
            Message::Response { id, line: text.trim().to_owned() }
        }
        _ => Message::Unreadable,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_kept_as_it_was_written() {
        for id in ["1", "\"1\"", "1.0", "\"a b\""] {
            let line = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#);
            let [Message::Request(request)] = &parse(line.as_bytes(), &Output::default())[..] else {
                panic!("{line}")
            };
            assert_eq!(request.id, id);
            assert!(!request.modern);
        }
    }

    #[test]
    fn without_case_a_member_in_capitals_counts() {
        let line = br#"{"id":1,"params":{"name":"a","NAME":"b"},"ID":2,"x":[1]}"#;
        let read: Value = serde_json::from_slice(&without_case(line)).unwrap();
        assert_eq!(read, json!({ "id": 2, "params": { "name": "b" }, "x": [1] }));
    }

    #[test]
    fn what_is_not_json_rpc_is_unreadable() {
        for line in [&b"hello"[..], b"{}", b"{\"id\":1}", b"\xff", b"[1"] {
            assert!(matches!(parse(line, &Output::default())[..], [Message::Unreadable]), "{line:?}");
        }
    }
}
