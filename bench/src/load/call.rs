//! The messages that the client sends, and what it expects in return.

use std::io;

use crate::frame;
use crate::options::Era;

/// Calls of one size.
#[derive(Clone)]
pub(crate) struct Calls {
    pub(crate) era: Era,
    pub(crate) tool: String,
    /// What follows the id in the text of each call.
    filler: Vec<u8>,
}

/// As the text of a call begins: its id with this many digits, so that no two texts are equal.
const DIGITS: usize = 10;

const META: &str = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/clientInfo":{"name":"bench","version":"1"}}"#;

impl Calls {
    pub(crate) fn new(era: Era, size: usize) -> Calls {
        // As much as in prose and code has to be escaped.
        const LINE: &[u8] = br#"The quick brown fox says \"hello\" and jumps over the lazy dog.\n"#;
        let mut filler: Vec<u8> = LINE.iter().copied().cycle().take(size.saturating_sub(DIGITS)).collect();
        if let Some(last) = filler.last_mut().filter(|last| **last == b'\\') {
            *last = b'.'; // Half of an escape.
        }
        Calls { era, tool: "echo".to_owned(), filler }
    }

    /// Appends the call with this id.
    pub(crate) fn write(&self, id: usize, out: &mut Vec<u8>) {
        let tool = &self.tool;
        let head = format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"{tool}","arguments":{{"text":"{id:0DIGITS$}"#
        );
        out.extend_from_slice(head.as_bytes());
        out.extend_from_slice(&self.filler);
        out.extend_from_slice(b"\"}");
        if self.era == Era::Modern {
            out.push(b',');
            out.extend_from_slice(META.as_bytes());
        }
        out.extend_from_slice(b"}}");
    }

    /// The id of a response, if its text is that of its call. None for what a server sends on its own.
    pub(crate) fn check(&self, message: &[u8]) -> io::Result<Option<usize>> {
        let wrong = || io::Error::other(format!("wrong response: {}", excerpt(message)));
        let members = frame::scan(message).ok_or_else(wrong)?;
        if members.method.is_some() {
            return Ok(None);
        }
        let id = members.id.and_then(|id| std::str::from_utf8(&message[id]).ok()?.parse().ok());
        let id: usize = id.ok_or_else(wrong)?;
        let text = frame::string_member(message, "text").ok_or_else(wrong)?;
        let (digits, filler) = text.split_at_checked(DIGITS).ok_or_else(wrong)?;
        let expected = std::str::from_utf8(digits).ok().and_then(|digits| digits.parse().ok());
        if expected != Some(id) || filler != self.filler {
            return Err(wrong());
        }
        Ok(Some(id))
    }

    /// What a client says before its first call: requests, each followed by its response, and notifications. Ends with a list.
    pub(crate) fn greeting(&self) -> Vec<String> {
        match self.era {
            Era::Legacy => vec![
                r#"{"jsonrpc":"2.0","id":"i","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"bench","version":"1"}}}"#.into(),
                r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#.into(),
                r#"{"jsonrpc":"2.0","id":"l","method":"tools/list","params":{}}"#.into(),
            ],
            Era::Modern => vec![
                format!(r#"{{"jsonrpc":"2.0","id":"d","method":"server/discover","params":{{{META}}}}}"#),
                format!(r#"{{"jsonrpc":"2.0","id":"l","method":"tools/list","params":{{{META}}}}}"#),
            ],
        }
    }

    pub(crate) fn is_request(message: &str) -> bool {
        frame::scan(message.as_bytes()).is_some_and(|members| members.id.is_some())
    }

    /// Whether this is the response to a request of the greeting.
    pub(crate) fn is_greeting_response(message: &[u8]) -> io::Result<bool> {
        let members = frame::scan(message).filter(|members| members.method.is_none());
        let Some(id) = members.and_then(|members| members.id) else { return Ok(false) };
        let is_result = memchr::memmem::find(message, b"\"result\"").is_some();
        if !is_result {
            return Err(io::Error::other(format!("the greeting failed: {}", excerpt(message))));
        }
        Ok(message[id].starts_with(b"\""))
    }
}

fn excerpt(message: &[u8]) -> String {
    String::from_utf8_lossy(&message[..message.len().min(300)]).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_of_every_size_are_valid_json_and_have_that_size() {
        for size in 10..300 {
            let calls = Calls::new(Era::Modern, size);
            let mut call = vec![];
            calls.write(7, &mut call);
            let call: serde_json::Value = serde_json::from_slice(&call).expect("valid");
            let written = call["params"]["arguments"]["text"].to_string();
            assert_eq!(written.len(), size + 2);
        }
    }

    #[test]
    fn a_response_with_the_text_of_another_call_is_wrong() {
        let calls = Calls::new(Era::Legacy, 10);
        let right = br#"{"id":3,"result":{"text":"0000000003"}}"#;
        assert_eq!(calls.check(right).expect("right"), Some(3));
        assert!(calls.check(br#"{"id":3,"result":{"text":"0000000004"}}"#).is_err());
        assert!(calls.check(br#"{"id":3,"error":{}}"#).is_err());
    }
}
