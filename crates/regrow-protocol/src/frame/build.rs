//! Messages of our own, as lines ready to write.

use bytes::Bytes;

use super::RawId;
use crate::{error_code, notification};

/// A request. `params` is raw JSON.
pub fn request(id: &RawId, method: &str, params: Option<&[u8]>) -> Bytes {
    let mut line = open(Some(id));
    member(&mut line, "method", quoted(method).as_bytes());
    if let Some(params) = params {
        member(&mut line, "params", params);
    }
    close(line)
}

/// A notification. `params` is raw JSON.
pub fn notification(method: &str, params: Option<&[u8]>) -> Bytes {
    let mut line = b"{\"jsonrpc\":\"2.0\"".to_vec();
    member(&mut line, "method", quoted(method).as_bytes());
    if let Some(params) = params {
        member(&mut line, "params", params);
    }
    close(line)
}

/// An answer. `result` is raw JSON.
pub fn response(id: &RawId, result: &[u8]) -> Bytes {
    let mut line = open(Some(id));
    member(&mut line, "result", result);
    close(line)
}

/// An error; without an id where the request's could not be read. `data` is raw JSON.
pub fn error(id: Option<&RawId>, code: i64, message: &str, data: Option<&[u8]>) -> Bytes {
    let mut error = format!("{{\"code\":{code},\"message\":{}", quoted(message)).into_bytes();
    if let Some(data) = data {
        member(&mut error, "data", data);
    }
    error.push(b'}');

    let mut line = open(id);
    member(&mut line, "error", &error);
    close(line)
}

/// The error for a request whose method is unknown.
pub fn method_not_found(id: &RawId) -> Bytes {
    error(Some(id), error_code::METHOD_NOT_FOUND, "Method not found", None)
}

/// Cancels the request of this id.
pub fn cancellation(id: &RawId, reason: Option<&str>) -> Bytes {
    let mut params = b"{\"requestId\":".to_vec();
    params.extend_from_slice(id.as_bytes());
    if let Some(reason) = reason {
        member(&mut params, "reason", quoted(reason).as_bytes());
    }
    params.push(b'}');
    notification(notification::CANCELLED, Some(&params))
}

/// This message as a line.
pub(super) fn line(mut message: Vec<u8>) -> Bytes {
    end_line(&mut message, 0);
    message.into()
}

/// Makes the message that starts here one line: between tokens a line break is as good as a space, and nowhere else may it stand.
pub(super) fn end_line(lines: &mut Vec<u8>, start: usize) {
    let message = &mut lines[start..];
    // Most have none. Without a branch for each byte, so that the compiler looks at many together.
    if message.iter().fold(false, |has, byte| has | (*byte < b' ')) {
        for byte in message.iter_mut().filter(|byte| matches!(byte, b'\n' | b'\r')) {
            *byte = b' ';
        }
    }
    lines.push(b'\n');
}

fn open(id: Option<&RawId>) -> Vec<u8> {
    let mut message = b"{\"jsonrpc\":\"2.0\"".to_vec();
    member(&mut message, "id", id.map_or(b"null", RawId::as_bytes));
    message
}

fn member(message: &mut Vec<u8>, key: &str, raw: &[u8]) {
    message.extend_from_slice(b",\"");
    message.extend_from_slice(key.as_bytes());
    message.extend_from_slice(b"\":");
    message.extend_from_slice(raw);
}

fn close(mut message: Vec<u8>) -> Bytes {
    message.push(b'}');
    line(message)
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::super::{Frame, Kind};
    use super::*;

    #[test]
    fn messages_of_our_own_are_messages() {
        let id = RawId::from(7);
        let line = request(&id, "a\"b", Some(b"{\n}"));
        assert_eq!(line, "{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"a\\\"b\",\"params\":{ }}\n");
        assert_eq!(Frame::parse(line).unwrap().kind(), Kind::Request { id: id.clone(), method: "a\"b" });
        assert_eq!(request(&id, "ping", None), "{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"ping\"}\n");
        assert_eq!(notification("a", None), "{\"jsonrpc\":\"2.0\",\"method\":\"a\"}\n");
        assert_eq!(notification("a", Some(b"[]")), "{\"jsonrpc\":\"2.0\",\"method\":\"a\",\"params\":[]}\n");
        assert_eq!(response(&id, b"{}"), "{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{}}\n");
        assert_eq!(
            error(None, -32700, "no\n", Some(b"[1]")),
            "{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":-32700,\"message\":\"no\\n\",\"data\":[1]}}\n",
        );
        let error = Frame::parse(error(Some(&id), 5, "", None)).unwrap();
        assert_eq!((error.id(), error.error_code()), (Some(id), Some(5)));
    }

    #[test]
    fn a_cancellation_repeats_the_id_as_it_was_written() {
        for id in ["7", "1.0", "\"\\u0061\"", "\"a\u{200b}b\u{ad}\""] {
            let id = RawId::parse(id.as_bytes()).unwrap();
            let cancelled = Frame::built(cancellation(&id, Some("over \"now\"")));
            assert_eq!(
                (cancelled.request_id(), cancelled.method()),
                (Some(id), Some("notifications/cancelled"))
            );
        }
        let bare =
            "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":7}}\n";
        assert_eq!(cancellation(&7.into(), None), bare);
    }
}
