//! The smallest server over HTTP, for those who have the key. It speaks the legacy era and has two tools.

#![allow(dead_code, reason = "each test binary uses a part of it")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};

use serde_json::{Value, json};

/// The value of `X-Key` that lets in.
pub const KEY: &str = "s3cr3t-key";

/// Starts it, for as long as the test runs; returns its URL.
pub fn start() -> String {
    start_with("")
}

/// The same, but it offers sign-in to those without the key.
pub fn start_with_sign_in() -> String {
    start_with("www-authenticate: Bearer\r\n")
}

fn start_with(challenge: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        listener.incoming().flatten().for_each(|stream| drop(answer(stream, challenge)))
    });
    url
}

fn answer(stream: TcpStream, challenge: &str) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let (mut length, mut has_key, mut line) = (0, false, String::new());
    while reader.read_line(&mut line)? > 2 {
        let header = line.to_ascii_lowercase();
        length = header.strip_prefix("content-length:").map_or(length, |value| value.trim().parse().unwrap());
        has_key |= header.trim() == format!("x-key: {KEY}");
        line.clear();
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    let request: Value = serde_json::from_slice(&body).unwrap_or_default();
    let mut reply = match request["method"].as_str() {
        Some("initialize") => json!({ "result": {
            "protocolVersion": "2025-11-25", "capabilities": { "tools": {} }, "serverInfo": { "name": "far", "version": "1" },
        } }),
        Some("tools/list") => json!({ "result": { "tools": [{ "name": "a" }, { "name": "b" }] } }),
        _ => json!({ "error": { "code": -32601, "message": "Method not found" } }),
    };
    reply["jsonrpc"] = "2.0".into();
    reply["id"] = request["id"].clone();
    let (status, reply) = match (has_key, request.get("id")) {
        (false, _) => ("401 Unauthorized", String::new()),
        (true, None) => ("202 Accepted", String::new()),
        (true, Some(_)) => ("200 OK", reply.to_string()),
    };
    let head = format!(
        "HTTP/1.1 {status}\r\n{challenge}content-type: application/json\r\nconnection: close\r\ncontent-length:"
    );
    write!(&stream, "{head} {}\r\n\r\n{reply}", reply.len())
}
