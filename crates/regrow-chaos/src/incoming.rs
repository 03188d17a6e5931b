//! HTTP requests as they come in.

use std::io::{self, BufRead, Read};

use crate::http1::{Framing, Head, invalid};

const LARGEST_BODY: u64 = 64 * 1024 * 1024;

/// One request of HTTP/1.1, whole.
pub(crate) struct Incoming {
    pub(crate) method: String,
    pub(crate) path: String,
    query: String,
    pub(crate) head: Head,
    pub(crate) body: Vec<u8>,
}

impl Incoming {
    /// Reads the next request of a connection; none at its end.
    pub(crate) fn read(reader: &mut impl BufRead) -> io::Result<Option<Self>> {
        let Some(head) = Head::read(reader)? else { return Ok(None) };
        let mut words = head.first_line.split_whitespace();
        let (Some(method), Some(target)) = (words.next(), words.next()) else {
            return Err(invalid("no request line"));
        };
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let (method, path, query) = (method.to_owned(), path.to_owned(), query.to_owned());
        let mut body = vec![];
        head.body(reader, Framing::Length(0)).take(LARGEST_BODY + 1).read_to_end(&mut body)?;
        if body.len() as u64 > LARGEST_BODY {
            return Err(invalid("the body is too large"));
        }
        Ok(Some(Self { method, path, query, head, body }))
    }

    pub(crate) fn query(&self) -> &str {
        &self.query
    }

    /// The value of a member of the query.
    pub(crate) fn asked(&self, name: &str) -> Option<&str> {
        let mut pairs = self.query.split('&').filter_map(|pair| pair.split_once('='));
        pairs.find(|pair| pair.0 == name).map(|pair| pair.1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_read_whole_and_the_next_one_after_it() {
        let text = "POST /mcp?a=1&b=2 HTTP/1.1\r\nContent-Length: 5\r\nAccept: application/json, text/event-stream\r\n\r\nhello\
            DELETE /mcp HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n";
        let mut reader = text.as_bytes();
        let first = Incoming::read(&mut reader).unwrap().unwrap();
        assert_eq!((&first.method[..], &first.path[..], &first.body[..]), ("POST", "/mcp", &b"hello"[..]));
        assert_eq!((first.asked("b"), first.asked("c")), (Some("2"), None));
        assert!(first.head.lists("accept", "text/event-stream") && !first.head.lists("accept", "text/html"));
        let second = Incoming::read(&mut reader).unwrap().unwrap();
        assert_eq!((&second.method[..], &second.body[..]), ("DELETE", &b"abcde"[..]));
        assert!(Incoming::read(&mut reader).unwrap().is_none());
    }

    #[test]
    fn half_a_request_is_none() {
        for text in ["POST /mcp HTTP/1.1\r\n", "POST / HTTP/1.1\r\nContent-Length: 5\r\n\r\nhel", "x\r\n\r\n"]
        {
            assert!(Incoming::read(&mut text.as_bytes()).is_err(), "{text}");
        }
    }
}
