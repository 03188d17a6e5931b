//! One exchange over HTTP on a connection of its own: a request goes, its response is read as it comes.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::Value;

use crate::http1::{Framing, Head};

const LARGEST: u64 = 16 << 20;

/// What is asked.
pub struct Request<'a> {
    /// Its method.
    pub method: &'a str,
    /// Its path, with the query.
    pub path: &'a str,
    /// Besides those that every request has.
    pub headers: &'a [(&'a str, &'a str)],
    /// Sent as `application/json`.
    pub body: &'a str,
}

/// What comes back; its body is not read yet.
pub struct Response {
    /// Its status.
    pub status: u16,
    head: Head,
    body: Box<dyn BufRead>,
}

/// Asks, and reads the head of the response. No read lasts longer than the limit.
pub fn fetch(address: SocketAddr, request: &Request<'_>, limit: Duration) -> io::Result<Response> {
    let mut socket = TcpStream::connect_timeout(&address, limit)?;
    socket.set_read_timeout(Some(limit))?;
    let Request { method, path, headers, body } = request;
    let mut text = format!(
        "{method} {path} HTTP/1.1\r\nHost: {address}\r\nAccept: application/json, text/event-stream\r\n\
         Content-Type: application/json\r\nConnection: close\r\nContent-Length: {}\r\n",
        body.len()
    );
    for (name, value) in *headers {
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    socket.write_all(format!("{text}\r\n{body}").as_bytes())?;
    let mut reader = BufReader::new(socket.take(LARGEST));
    let head = Head::read(&mut reader)?.ok_or(io::ErrorKind::UnexpectedEof)?;
    let status = head.first_line.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
    let body = Box::new(BufReader::new(head.body(reader, Framing::UntilTheEnd)));
    Ok(Response { status, head, body })
}

impl Response {
    /// A header, by its name in lower case.
    pub fn header(&self, wanted: &str) -> Option<&str> {
        self.head.header(wanted)
    }

    /// Whether it is a stream of events.
    pub fn is_stream(&self) -> bool {
        self.head.lists("content-type", "text/event-stream")
    }

    /// The whole body.
    pub fn text(mut self) -> io::Result<String> {
        let mut text = String::new();
        self.body.read_to_string(&mut text)?;
        Ok(text)
    }

    /// The messages of a stream as they come, or the one of another body; none of an empty one.
    pub fn messages(self) -> io::Result<Box<dyn Iterator<Item = io::Result<Value>>>> {
        if self.is_stream() {
            return Ok(Box::new(self.events()));
        }
        let text = self.text()?;
        let message = (!text.is_empty()).then(|| serde_json::from_str(&text).map_err(io::Error::from));
        Ok(Box::new(message.into_iter()))
    }

    /// The messages of a stream, as they come.
    pub fn events(self) -> impl Iterator<Item = io::Result<Value>> {
        let message = |line: io::Result<String>| match line {
            Ok(line) => serde_json::from_str(line.strip_prefix("data:")?.trim()).ok().map(Ok),
            Err(error) => Some(Err(error)),
        };
        self.body.lines().filter_map(message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_messages_are_found_among_other_lines() {
        let stream =
            &b": ping\n\nevent: message\ndata: {\"method\":\"x\"}\n\ndata: {\"id\":7,\"result\":{}}\n\n"[..];
        let head = Head::read(&mut &b"HTTP/1.1 200 OK\r\n\r\n"[..]).unwrap().unwrap();
        let response = Response { status: 200, head, body: Box::new(stream) };
        let found: Vec<Value> = response.events().map(Result::unwrap).collect();
        assert_eq!((found.len(), &found[1]["id"]), (2, &Value::from(7)));
    }
}
