//! Answers that no server gave.

use std::io::{self, BufReader, Read};
use std::net::TcpStream;

use super::Fault;
use crate::incoming::Incoming;

/// An HTTP response to give to requests instead of forwarding them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Canned {
    /// How many requests get it; then nothing is wrong any more.
    pub times: usize,
    /// The HTTP status.
    pub status: u16,
    /// Headers beside `Content-Length`.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: String,
}

impl Canned {
    /// A status without headers and body.
    pub fn status(times: usize, status: u16) -> Self {
        Self { times, status, headers: vec![], body: String::new() }
    }

    /// With this header, too.
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// One use of it: the bytes, and the fault that is left then.
    pub(super) fn take(&self) -> (Vec<u8>, Fault) {
        let mut text =
            format!("HTTP/1.1 {} Injected\r\nContent-Length: {}\r\n", self.status, self.body.len());
        for (name, value) in &self.headers {
            text.push_str(&format!("{name}: {value}\r\n"));
        }
        text.push_str(&format!("\r\n{}", self.body));
        let left = match self.times.saturating_sub(1) {
            0 => Fault::None,
            times => Fault::Answer(Self { times, ..self.clone() }),
        };
        (text.into_bytes(), left)
    }
}

/// Whether an HTTP request begins here.
pub(super) fn is_request(bytes: &[u8]) -> bool {
    [&b"POST "[..], b"GET ", b"DELETE "].iter().any(|method| bytes.starts_with(method))
}

/// Reads the rest of the request that begins with `start`, so that an answer can follow.
pub(super) fn swallow(start: &[u8], client: &TcpStream) -> io::Result<()> {
    let mut reader = BufReader::new(start.chain(client));
    Incoming::read(&mut reader).map(drop)
}
