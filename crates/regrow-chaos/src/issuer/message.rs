//! Requests as the issuer got them, and what it answers.

use std::collections::HashMap;
use std::io::{self, Write};
use std::thread;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use url::form_urlencoded;

use crate::incoming::Incoming;

/// Between two bytes of a response that drips.
const DRIP: Duration = Duration::from_millis(20);

/// One request, as it was received.
#[derive(Clone, Debug)]
pub struct Request {
    /// Its method.
    pub method: String,
    /// Its path, without the query.
    pub path: String,
    /// The members of its query.
    pub query: HashMap<String, String>,
    /// Its headers, names in lower case.
    pub headers: HashMap<String, String>,
    /// Its body.
    pub body: String,
}

impl Request {
    pub(super) fn of(incoming: Incoming) -> Request {
        Request {
            query: pairs(incoming.query()),
            headers: incoming.head.headers().map(|(name, value)| (name.into(), value.into())).collect(),
            body: String::from_utf8_lossy(&incoming.body).into_owned(),
            method: incoming.method,
            path: incoming.path,
        }
    }

    /// The members of the form in its body.
    pub fn form(&self) -> HashMap<String, String> {
        pairs(&self.body)
    }

    /// A member of that form; empty if there is none.
    pub fn field(&self, name: &str) -> String {
        self.form().remove(name).unwrap_or_default()
    }

    /// The client's id and secret in an `Authorization: Basic` header, as they are encoded there.
    pub fn basic(&self) -> Option<String> {
        let value = self.headers.get("authorization")?.strip_prefix("Basic ")?;
        String::from_utf8(STANDARD.decode(value).ok()?).ok()
    }

    /// Whether this text is anywhere in it, as it is or as a form encodes it.
    pub fn contains(&self, text: &str) -> bool {
        let encoded: String = form_urlencoded::byte_serialize(text.as_bytes()).collect();
        let basic = self.basic().unwrap_or_default();
        let whole = format!("{} {:?} {:?} {} {basic}", self.path, self.query, self.headers, self.body);
        whole.contains(text) || whole.contains(&encoded)
    }
}

fn pairs(text: &str) -> HashMap<String, String> {
    form_urlencoded::parse(text.as_bytes()).into_owned().collect()
}

/// What the issuer answers.
#[derive(Clone, Debug)]
pub struct Response {
    pub(super) status: u16,
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: Vec<u8>,
    /// Its body comes byte by byte, and never ends.
    pub(super) drips: bool,
}

impl Response {
    /// With this status and body.
    pub fn new(status: u16, body: impl Into<Vec<u8>>) -> Response {
        Response { status, headers: vec![], body: body.into(), drips: false }
    }

    /// The same with JSON.
    pub fn json(status: u16, body: Value) -> Response {
        Response::new(status, body.to_string()).header("Content-Type", "application/json")
    }

    /// A redirect to this address.
    pub fn redirect(status: u16, to: &str) -> Response {
        Response::new(status, "").header("Location", to)
    }

    /// With one more header.
    pub fn header(mut self, name: &str, value: &str) -> Response {
        self.headers.push((name.into(), value.into()));
        self
    }

    pub(super) fn write(&self, mut stream: impl Write) -> io::Result<()> {
        let mut head = format!("HTTP/1.1 {} X\r\nConnection: close\r\n", self.status);
        for (name, value) in &self.headers {
            head += &format!("{name}: {value}\r\n");
        }
        if self.drips {
            stream.write_all(format!("{head}Content-Length: 1000000\r\n\r\n").as_bytes())?;
            loop {
                stream.write_all(b" ")?;
                thread::sleep(DRIP);
            }
        }
        stream.write_all(format!("{head}Content-Length: {}\r\n\r\n", self.body.len()).as_bytes())?;
        stream.write_all(&self.body)
    }
}
