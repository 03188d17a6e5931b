//! One exchange over HTTP on a connection of its own: a request goes, its response is read as it comes.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::Value;

const LARGEST: u64 = 16 << 20;
const MOST_HEADERS: usize = 200;

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
    headers: Vec<(String, String)>,
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
    let (status, headers) = read_head(&mut reader)?;
    let mut response = Response { status, headers, body: Box::new(io::empty()) };
    let chunked = response.header("transfer-encoding").is_some_and(|coding| coding.contains("chunked"));
    response.body = match (chunked, response.header("content-length")) {
        (true, _) => Box::new(BufReader::new(Chunks { reader, left: 0, over: false })),
        (false, Some(length)) => {
            let length = length.parse().unwrap_or(0);
            Box::new(reader.take(length))
        }
        (false, None) => Box::new(reader),
    };
    Ok(response)
}

impl Response {
    /// A header, by its name in lower case.
    pub fn header(&self, wanted: &str) -> Option<&str> {
        self.headers.iter().find(|(name, _)| name == wanted).map(|(_, value)| &**value)
    }

    /// Whether it is a stream of events.
    pub fn is_stream(&self) -> bool {
        self.header("content-type").is_some_and(|kind| kind.contains("text/event-stream"))
    }

    /// The whole body.
    pub fn text(mut self) -> io::Result<String> {
        let mut text = String::new();
        self.body.read_to_string(&mut text)?;
        Ok(text)
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

type Head = (u16, Vec<(String, String)>);

fn read_head(reader: &mut impl BufRead) -> io::Result<Head> {
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let status = line.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
    let mut headers = vec![];
    while headers.len() < MOST_HEADERS {
        line.clear();
        reader.read_line(&mut line)?;
        let Some((name, value)) = line.trim_end().split_once(':') else { break };
        headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
    Ok((status, headers))
}

/// A body in chunks, as one stream.
struct Chunks<R> {
    reader: R,
    left: u64,
    over: bool,
}

impl<R: BufRead> Read for Chunks<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.left == 0 {
            let mut line = String::new();
            if self.over || self.reader.read_line(&mut line)? == 0 {
                return Ok(0);
            }
            if line.trim().is_empty() {
                continue; // The end of the chunk before.
            }
            let size = line.trim().split(';').next().unwrap_or_default();
            self.left = u64::from_str_radix(size, 16).map_err(io::Error::other)?;
            self.over = self.left == 0;
        }
        let read = (&mut self.reader).take(self.left).read(buffer)?;
        self.left -= read as u64;
        self.over |= read == 0;
        if read == 0 {
            self.left = 0;
        }
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_are_one_stream() {
        let text = &b"5\r\nhello\r\n6;x=1\r\n world\r\n0\r\n\r\n"[..];
        let mut whole = String::new();
        Chunks { reader: text, left: 0, over: false }.read_to_string(&mut whole).unwrap();
        assert_eq!(whole, "hello world");
    }

    #[test]
    fn the_messages_are_found_among_other_lines() {
        let stream =
            &b": ping\n\nevent: message\ndata: {\"method\":\"x\"}\n\ndata: {\"id\":7,\"result\":{}}\n\n"[..];
        let response = Response { status: 200, headers: vec![], body: Box::new(stream) };
        let found: Vec<Value> = response.events().map(Result::unwrap).collect();
        assert_eq!((found.len(), &found[1]["id"]), (2, &Value::from(7)));
    }
}
