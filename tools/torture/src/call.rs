//! One call: what is asked, and what its caller was told.

use std::time::Duration;

use serde_json::{Value, json};

/// Where Regrow says what happened to a call.
const FAULT_KEY: &str = "dev.regrow/fault";

/// What is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tool {
    /// One durable effect, after which it takes so many milliseconds.
    Count(u64),
    /// Declared safe to call again.
    Lookup,
    /// Returns its own key.
    Echo,
    /// `tools/list`.
    List,
    /// Another tool of the chaos server.
    Other(&'static str),
}

impl Tool {
    /// How often a call may run.
    pub(crate) fn most_runs(self) -> u32 {
        if self == Tool::Lookup { 3 } else { 1 }
    }

    /// Whether an answer means that the journal has it.
    pub(crate) fn leaves_evidence(self) -> bool {
        matches!(self, Tool::Count(_) | Tool::Lookup | Tool::Echo)
    }

    fn name(self) -> &'static str {
        match self {
            Tool::Count(_) => "count",
            Tool::Lookup => "lookup",
            Tool::Echo => "echo",
            Tool::List => "tools/list",
            Tool::Other(name) => name,
        }
    }
}

/// What a caller was told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    /// Nothing yet.
    Nothing,
    /// The right answer.
    Right,
    /// An answer that cannot be this call's, or that does not say whether it ran.
    Wrong,
    /// The server's own error.
    Refused,
    /// An error of Regrow instead of a response.
    Fault {
        /// What happened to the call.
        kind: Box<str>,
        /// `not-sent`, `unknown` or `answered`.
        delivery: Delivery,
    },
}

/// Whether a call ran, as its caller was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Delivery {
    /// It did not run.
    NotSent,
    /// It may have run.
    Unknown,
    /// It ran.
    Answered,
}

/// One call. Its place in the history is its key, and one more its id on the wire.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    /// What was called.
    pub(crate) tool: Tool,
    /// When, since the run began.
    pub(crate) begun: Duration,
    /// When it was answered.
    pub(crate) ended: Option<Duration>,
    /// What its caller was told first.
    pub(crate) told: Told,
    /// How many answers came.
    pub(crate) answers: u32,
}

/// The key by which the journal knows a call.
pub(crate) fn key_text(key: usize) -> String {
    format!("k{key}")
}

/// A request: method and params.
pub(crate) fn request(tool: Tool, key: usize, more: &Value) -> (&'static str, Value) {
    if tool == Tool::List {
        return ("tools/list", json!({}));
    }
    let mut arguments = json!({ "key": key_text(key) });
    match tool {
        Tool::Count(delay) => arguments["delay_ms"] = delay.into(),
        Tool::Echo => arguments["text"] = key_text(key).into(),
        _ => {}
    }
    for (name, value) in more.as_object().into_iter().flatten() {
        arguments[name] = value.clone();
    }
    ("tools/call", json!({ "name": tool.name(), "arguments": arguments }))
}

/// What an answer tells.
pub(crate) fn told(tool: Tool, key: usize, message: &Value) -> Told {
    let (result, error) = (&message["result"], &message["error"]);
    let fault = [&error["data"][FAULT_KEY], &result["_meta"][FAULT_KEY]];
    if let Some(fault) = fault.into_iter().find(|fault| fault.is_object()) {
        let delivery = match fault["delivery"].as_str() {
            Some("not-sent") => Delivery::NotSent,
            Some("unknown") => Delivery::Unknown,
            Some("answered") => Delivery::Answered,
            _ => return Told::Wrong, // It must always be said.
        };
        return Told::Fault { kind: fault["kind"].as_str().unwrap_or("unnamed").into(), delivery };
    }
    if error.is_object() || result["isError"] == true {
        return Told::Refused;
    }
    let text = result["content"][0]["text"].as_str().unwrap_or_default();
    let right = match tool {
        Tool::Count(_) => text == "1",
        Tool::Lookup => matches!(text, "1" | "2" | "3"),
        Tool::Echo => text == key_text(key),
        Tool::List => result["tools"].is_array(),
        Tool::Other(_) => true,
    };
    if right { Told::Right } else { Told::Wrong }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_regrow_says_is_told_from_what_the_server_says() {
        let fault = json!({ "kind": "interrupted", "delivery": "unknown" });
        let in_result = json!({ "result": { "isError": true, "_meta": { FAULT_KEY: fault } } });
        let in_error = json!({ "error": { "code": -31001, "data": { FAULT_KEY: fault } } });
        let wanted = Told::Fault { kind: "interrupted".into(), delivery: Delivery::Unknown };
        assert_eq!(told(Tool::Count(0), 1, &in_result), wanted);
        assert_eq!(told(Tool::List, 1, &in_error), wanted);
        assert_eq!(told(Tool::List, 1, &json!({ "error": { "code": -32000 } })), Told::Refused);
        let in_error = json!({ "error": { "code": -31001, "data": { FAULT_KEY: {} } } });
        assert_eq!(told(Tool::List, 1, &in_error), Told::Wrong, "whether it ran is always said");
    }

    #[test]
    fn an_answer_that_belongs_to_another_call_is_wrong() {
        let answer = |text: &str| json!({ "result": { "content": [{ "text": text }] } });
        assert_eq!(told(Tool::Echo, 4, &answer("k4")), Told::Right);
        assert_eq!(told(Tool::Echo, 4, &answer("k5")), Told::Wrong);
        assert_eq!(told(Tool::Count(0), 4, &answer("2")), Told::Wrong);
    }
}
