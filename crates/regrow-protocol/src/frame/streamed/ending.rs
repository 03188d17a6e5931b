//! Completes a response whose rest will not come.

use bytes::Bytes;
use serde_json::{Map, Value};

use super::{CONTENT, StreamedResponse, TailBegins};
use crate::frame::Frame;

impl StreamedResponse {
    /// The rest of the message, so that all of it says this: the content that has arrived, then that of the error, and that the tool failed.
    /// None if it can no longer say that, or if the error is no tool result.
    pub fn end_as(mut self, error: &Frame) -> Option<Bytes> {
        if !self.has_result || self.grammar.depth() == 0 {
            return None;
        }
        if let Some(tail) = self.tail.take() {
            (self.has_version, self.has_id, self.is_error) = (tail.has_version, tail.has_id, tail.is_error);
            self.names.truncate(tail.names);
            match tail.begins {
                TailBegins::AtEndOfContent { is_empty } => self.grammar.reopen_content(is_empty),
                TailBegins::InResult => self.grammar.reopen_result(self.names.is_empty()),
            }
        } else if self.held.is_some() {
            self.grammar.take_back(self.names.is_empty());
        }
        let mut members: Map<String, Value> = serde_json::from_slice(error.result()?).ok()?;
        let content = members.get("content").cloned();
        members.retain(|name, _| !self.has(name));
        if self.is_error != Some(true) && !members.contains_key("isError") {
            return None;
        }
        let mut rest = vec![];
        while self.grammar.depth() > 0 {
            self.grammar.complete(&mut rest);
            match self.grammar.depth() {
                3 if self.is_in(CONTENT) && !self.grammar.in_object() => {
                    for block in content.iter().filter_map(Value::as_array).flatten() {
                        self.grammar.add(block.to_string().as_bytes(), &mut rest);
                    }
                }
                2 => {
                    for (name, value) in &members {
                        let member = format!("{}:{value}", Value::from(&**name));
                        self.grammar.add(member.as_bytes(), &mut rest);
                    }
                }
                1 => {
                    if !self.has_version {
                        self.grammar.add(b"\"jsonrpc\":\"2.0\"", &mut rest);
                    }
                    if !self.has_id {
                        self.grammar.add(&[b"\"id\":", self.id.as_bytes()].concat(), &mut rest);
                    }
                }
                _ => {}
            }
            self.grammar.end(&mut rest);
        }
        Some(rest.into())
    }

    /// Whether the result has a member of this name.
    fn has(&self, name: &str) -> bool {
        let name = Value::from(name).to_string();
        self.names.iter().any(|seen| **seen == *name.as_bytes())
    }
}
