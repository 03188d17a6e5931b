//! HTTP responses as they go out: whole, byte by byte, or not to their end.

use std::io::{self, Write};
use std::net::{Shutdown, TcpStream};
use std::thread;
use std::time::Duration;

use http::StatusCode;
use serde_json::json;

use crate::plan::Orders;

/// The way back to the client for one request.
pub(super) struct ResponseWriter {
    socket: TcpStream,
    drip_head: Option<Duration>,
    drip_body: Option<Duration>,
    /// How much of the body may still leave before the connection is cut.
    left: Option<u64>,
}

/// A whole response that is no message of the protocol.
pub(super) struct Plain {
    pub(super) status: u16,
    pub(super) headers: Vec<(&'static str, String)>,
    pub(super) kind: &'static str,
    pub(super) body: Vec<u8>,
}

impl Plain {
    pub(super) fn text(status: u16, text: &str) -> Self {
        Self { status, headers: vec![], kind: "text/plain", body: text.into() }
    }

    pub(super) fn json(status: u16, text: &str) -> Self {
        Self { status, headers: vec![], kind: "application/json", body: text.into() }
    }

    /// A JSON-RPC error; the id as it stands on the wire.
    pub(super) fn error(status: u16, id: &str, code: i32, message: impl Into<String>) -> Self {
        let error = json!({"code": code, "message": message.into()});
        Self::json(status, &format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{error}}}"#))
    }

    pub(super) fn empty(status: u16) -> Self {
        Self::text(status, "")
    }

    pub(super) fn with(mut self, name: &'static str, value: String) -> Self {
        self.headers.push((name, value));
        self
    }
}

impl ResponseWriter {
    pub(super) fn new(socket: TcpStream, orders: &Orders) -> Self {
        let (drip_head, drip_body) = (orders.time("drip-head"), orders.time("drip-body"));
        Self { socket, drip_head, drip_body, left: orders.number("cut-body") }
    }

    pub(super) fn plain(&mut self, plain: &Plain) -> io::Result<()> {
        let mut headers = plain.headers.clone();
        if !plain.body.is_empty() {
            headers.push(("Content-Type", plain.kind.into()));
        }
        headers.push(("Content-Length", plain.body.len().to_string()));
        self.head(plain.status, &headers)?;
        self.body(&plain.body)
    }

    pub(super) fn head(&mut self, status: u16, headers: &[(&str, String)]) -> io::Result<()> {
        let reason = StatusCode::from_u16(status).ok().and_then(|status| status.canonical_reason());
        let mut head = format!("HTTP/1.1 {status} {}\r\n", reason.unwrap_or("As Planned"));
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        head.push_str("\r\n");
        drip(&mut self.socket, head.as_bytes(), self.drip_head)
    }

    pub(super) fn body(&mut self, bytes: &[u8]) -> io::Result<()> {
        let Some(left) = &mut self.left else { return drip(&mut self.socket, bytes, self.drip_body) };
        let may = usize::try_from(*left).unwrap_or(usize::MAX).min(bytes.len());
        *left -= may as u64;
        drip(&mut self.socket, &bytes[..may], self.drip_body)?;
        if may == bytes.len() { Ok(()) } else { Err(io::ErrorKind::ConnectionAborted.into()) }
    }

    /// A piece of a body whose length nobody knows yet; an empty one is its end.
    pub(super) fn chunk(&mut self, bytes: &[u8]) -> io::Result<()> {
        let framed = [format!("{:x}\r\n", bytes.len()).as_bytes(), bytes, b"\r\n"].concat();
        self.body(&framed)
    }

    /// Closes the connection, wherever we are.
    pub(super) fn cut(&self) {
        // It may be closed already, which is as well.
        let _ = self.socket.shutdown(Shutdown::Both);
    }
}

fn drip(socket: &mut TcpStream, bytes: &[u8], pause: Option<Duration>) -> io::Result<()> {
    let Some(pause) = pause else { return socket.write_all(bytes) };
    for byte in bytes {
        socket.write_all(&[*byte])?;
        thread::sleep(pause);
    }
    Ok(())
}
