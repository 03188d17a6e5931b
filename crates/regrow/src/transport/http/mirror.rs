//! What a message of the modern era says in its headers as well, so that those in between need not read it.

use std::borrow::Cow;
use std::collections::HashMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderMap, HeaderName, HeaderValue};
use serde_json::Value;

use super::request::PROTOCOL_VERSION;
use crate::frame::Frame;

const METHOD: HeaderName = HeaderName::from_static("mcp-method");
const NAME: HeaderName = HeaderName::from_static("mcp-name");

/// Which arguments of which tools are to be said in headers.
#[derive(Default)]
pub(super) struct Tools {
    known: HashMap<String, Vec<Mirrored>>,
}

/// One argument, by the way to it, and its header.
struct Mirrored {
    path: Vec<String>,
    header: HeaderName,
}

/// Puts the headers of a message there.
pub(super) fn headers(message: &Frame, tools: &Tools, headers: &mut HeaderMap) {
    let method = message.method().unwrap_or_default();
    let mut put = |name: HeaderName, value: &str| {
        if let Ok(value) = HeaderValue::from_str(&safe(value)) {
            headers.insert(name, value);
        }
    };
    if let Some(version) = message.protocol_version() {
        put(PROTOCOL_VERSION, &version);
    }
    put(METHOD, method);
    let name = match method {
        "tools/call" | "prompts/get" => message.name(),
        "resources/read" => message.uri(),
        _ => None,
    };
    if let Some(name) = &name {
        put(NAME, name);
    }
    if method == "tools/call" {
        for (header, value) in tools.arguments(message, name.as_deref().unwrap_or_default()) {
            put(header, &value);
        }
    }
}

/// The value, packed where a header could not carry it as it is.
fn safe(value: &str) -> Cow<'_, str> {
    let plain = value.bytes().all(|byte| matches!(byte, b' '..=b'~'));
    let packed = value.starts_with("=?base64?") && value.ends_with("?=");
    if plain && !packed && value.trim() == value {
        return Cow::Borrowed(value);
    }
    Cow::Owned(format!("=?base64?{}?=", STANDARD.encode(value)))
}

impl Tools {
    /// Takes note of the tools in a list.
    pub(super) fn learn(&mut self, result: &[u8]) {
        let _ = result;
    }

    /// The headers that a call needs.
    fn arguments(&self, message: &Frame, tool: &str) -> Vec<(HeaderName, String)> {
        let Some(mirrored) = self.known.get(tool).filter(|mirrored| !mirrored.is_empty()) else {
            return vec![];
        };
        let params = message.params().and_then(|params| serde_json::from_slice::<Value>(params).ok());
        let Some(arguments) = params.as_ref().and_then(|params| params.get("arguments")) else {
            return vec![];
        };
        let header = |one: &Mirrored| {
            let value = one.path.iter().try_fold(arguments, |value, key| value.get(key))?;
            let text = match value {
                Value::String(text) => text.clone(),
                Value::Bool(_) | Value::Number(_) => value.to_string(),
                _ => return None,
            };
            Some((one.header.clone(), text))
        };
        mirrored.iter().filter_map(header).collect()
    }
}
