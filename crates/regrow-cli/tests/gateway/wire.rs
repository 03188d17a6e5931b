//! HTTP as the test wants it: what was written reaches the gateway to the letter, and a response is read as it comes.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Instant;

use serde_json::Value;

use crate::client::PATIENCE;

/// One connection. Dropping it closes it.
pub struct Wire {
    stream: BufReader<TcpStream>,
    address: SocketAddr,
    chunked: bool,
    /// What was read of a stream of events.
    text: String,
    /// Where the next event begins in it.
    event: usize,
    /// Up to here it does not end.
    searched: usize,
}

/// The start of a response.
#[derive(Debug)]
pub struct Head {
    pub status: u16,
    headers: Vec<(String, String)>,
}

impl Head {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| &**value)
    }

    fn is_stream(&self) -> bool {
        self.header("content-type") == Some("text/event-stream")
    }
}

impl Wire {
    pub fn connect(address: SocketAddr) -> Wire {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(PATIENCE * 2)).unwrap();
        stream.set_nodelay(true).unwrap();
        Wire {
            stream: BufReader::new(stream),
            address,
            chunked: false,
            text: String::new(),
            event: 0,
            searched: 0,
        }
    }

    /// A request with the headers that every client sends, where these do not say otherwise. A header without a value is left out.
    pub fn send(&mut self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) {
        let usual = [
            ("Host", self.address.to_string()),
            ("Accept", "application/json, text/event-stream".into()),
            ("Content-Type", "application/json".into()),
            ("Content-Length", body.len().to_string()),
        ];
        let is_said = |name: &str| headers.iter().any(|(other, _)| other.eq_ignore_ascii_case(name));
        let usual = usual.iter().map(|(name, value)| (*name, &**value)).filter(|(name, _)| !is_said(name));
        let said = headers.iter().copied().filter(|(_, value)| !value.is_empty());
        let mut text = format!("{method} {path} HTTP/1.1\r\n");
        usual.chain(said).for_each(|(name, value)| text.push_str(&format!("{name}: {value}\r\n")));
        text.push_str(&format!("\r\n{body}"));
        // Who refuses may close before all is written; the answer tells.
        let _ = self.stream.get_mut().write_all(text.as_bytes());
    }

    pub fn head(&mut self) -> Head {
        let mut lines = vec![];
        loop {
            let mut line = String::new();
            let read = self.stream.read_line(&mut line).unwrap();
            assert!(read > 0, "the connection ended inside a head: {lines:?}");
            if line.trim().is_empty() {
                break;
            }
            lines.push(line.trim().to_owned());
        }
        let status = lines[0].split(' ').nth(1).unwrap().parse().unwrap();
        let header = |line: &String| {
            line.split_once(':').map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
        };
        let head = Head { status, headers: lines[1..].iter().filter_map(header).collect() };
        self.chunked = head.header("transfer-encoding") == Some("chunked");
        self.text.clear();
        (self.event, self.searched) = (0, 0);
        head
    }

    /// The whole body of a response, of a stream up to its end.
    pub fn body(&mut self, head: &Head) -> String {
        if self.chunked {
            let mut body = String::new();
            while let Some(chunk) = self.chunk() {
                body.push_str(&chunk);
            }
            return body;
        }
        let length = head.header("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
        let mut body = vec![0; length];
        self.stream.read_exact(&mut body).unwrap();
        String::from_utf8(body).unwrap()
    }

    /// One exchange: status, and body. That of a call may be a stream where the machine is busy.
    pub fn ask(&mut self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> (Head, String) {
        self.send(method, path, headers, body);
        let head = self.head();
        let body = self.body(&head);
        (head, body)
    }

    /// The messages that answer what was sent: one, or those of a stream up to its end.
    pub fn messages(&mut self, head: &Head) -> VecDeque<Value> {
        if !head.is_stream() {
            let body = self.body(head);
            return VecDeque::from_iter((!body.is_empty()).then(|| json(&body)));
        }
        std::iter::from_fn(|| self.message()).collect()
    }

    /// The next message of a stream; none at its end.
    pub fn message(&mut self) -> Option<Value> {
        let deadline = Instant::now() + PATIENCE * 2;
        loop {
            assert!(Instant::now() < deadline, "nothing but signs of life");
            // No byte is looked at twice: an event may be long, and come in thousands of pieces.
            let end = self.text.as_bytes()[self.searched..].windows(2).position(|pair| pair == b"\n\n");
            if let Some(end) = end.map(|end| self.searched + end) {
                let event = &self.text[self.event..end];
                (self.event, self.searched) = (end + 2, end + 2);
                match event.lines().find_map(|line| line.strip_prefix("data: ")) {
                    Some(data) if !data.is_empty() => return Some(json(data)),
                    _ => continue, // A sign of life.
                }
            }
            let chunk = self.chunk()?;
            self.text.drain(..self.event);
            self.searched = self.text.len().saturating_sub(1);
            self.event = 0;
            self.text.push_str(&chunk);
        }
    }

    fn chunk(&mut self) -> Option<String> {
        let mut size = String::new();
        if self.stream.read_line(&mut size).ok()? == 0 {
            return None;
        }
        let size = usize::from_str_radix(size.trim(), 16).unwrap();
        let mut data = vec![0; size + 2];
        self.stream.read_exact(&mut data).ok()?;
        data.truncate(size);
        (size > 0).then(|| String::from_utf8(data).unwrap())
    }
}

/// What our own parser does not read (it may be too deep) is told by its length.
fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| serde_json::json!({ "unreadable": text.len() }))
}
