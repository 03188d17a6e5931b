//! HTTP requests as they come in.

use std::io::{self, BufRead, Read};

const LONGEST_HEAD: u64 = 64 * 1024;
const LARGEST_BODY: u64 = 64 * 1024 * 1024;

/// One request of HTTP/1.1, whole.
pub(crate) struct Incoming {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) query: String,
    headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Incoming {
    /// Reads the next request of a connection; none at its end.
    pub(crate) fn read(reader: &mut impl BufRead) -> io::Result<Option<Self>> {
        let mut head = reader.take(LONGEST_HEAD);
        let mut line = String::new();
        if head.read_line(&mut line)? == 0 {
            return Ok(None);
        }
        let mut words = line.split_whitespace();
        let (Some(method), Some(target)) = (words.next(), words.next()) else {
            return Err(invalid("no request line"));
        };
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let (method, path, query) = (method.to_owned(), path.to_owned(), query.to_owned());
        let mut headers = vec![];
        loop {
            line.clear();
            if head.read_line(&mut line)? == 0 {
                return Err(invalid("the head did not end"));
            }
            let Some((name, value)) = line.trim_end().split_once(':') else { break };
            headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
        let mut incoming = Self { method, path, query, headers, body: vec![] };
        incoming.body = incoming.read_body(reader)?;
        Ok(Some(incoming))
    }

    fn read_body(&self, reader: &mut impl BufRead) -> io::Result<Vec<u8>> {
        let mut body = vec![];
        if self.header("transfer-encoding").is_some_and(|coding| coding.eq_ignore_ascii_case("chunked")) {
            loop {
                let mut size = String::new();
                reader.take(100).read_line(&mut size)?;
                let size = u64::from_str_radix(size.trim(), 16).map_err(|_| invalid("no size of a chunk"))?;
                read_exactly(reader, size, &mut body)?;
                reader.take(2).read_line(&mut String::new())?;
                if size == 0 {
                    return Ok(body);
                }
            }
        }
        let length = self.header("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
        read_exactly(reader, length, &mut body)?;
        Ok(body)
    }

    /// A header's value; the name in lower case.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Whether a header that is a list has this word in it.
    pub(crate) fn lists(&self, name: &str, word: &str) -> bool {
        self.header(name).is_some_and(|value| value.to_ascii_lowercase().contains(word))
    }

    /// The value of a member of the query.
    pub(crate) fn asked(&self, name: &str) -> Option<&str> {
        self.query
            .split('&')
            .filter_map(|pair| pair.split_once('='))
            .find(|pair| pair.0 == name)
            .map(|pair| pair.1)
    }
}

fn read_exactly(reader: &mut impl BufRead, count: u64, body: &mut Vec<u8>) -> io::Result<()> {
    if body.len() as u64 + count > LARGEST_BODY {
        return Err(invalid("the body is too large"));
    }
    let read = reader.take(count).read_to_end(body)?;
    if read as u64 == count { Ok(()) } else { Err(invalid("the body did not end")) }
}

fn invalid(problem: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, problem)
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
        assert!(first.lists("accept", "text/event-stream") && !first.lists("accept", "text/html"));
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
