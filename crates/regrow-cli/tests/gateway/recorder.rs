//! The smallest server over HTTP that keeps every head of a request that reaches it, to the letter.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use serde_json::{Value, json};

/// See the head of this file. It ends with the test.
pub struct Recorder {
    pub url: String,
    heads: Arc<Mutex<Vec<String>>>,
}

impl Recorder {
    pub fn start() -> Recorder {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/mcp", listener.local_addr().unwrap());
        let heads: Arc<Mutex<Vec<String>>> = Arc::default();
        let kept = heads.clone();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let kept = kept.clone();
                thread::spawn(move || drop(answer(stream, &kept)));
            }
        });
        Recorder { url, heads }
    }

    /// All that came, in lower case.
    pub fn heads(&self) -> String {
        self.heads.lock().unwrap().concat().to_lowercase()
    }
}

fn answer(stream: TcpStream, kept: &Mutex<Vec<String>>) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut head = String::new();
    while reader.read_line(&mut head)? > 2 {}
    let length = head
        .lines()
        .find_map(|line| line.to_lowercase().strip_prefix("content-length:")?.trim().parse().ok());
    let mut body = vec![0; length.unwrap_or(0)];
    reader.read_exact(&mut body)?;
    kept.lock().unwrap().push(head);
    let request: Value = serde_json::from_slice(&body).unwrap_or_default();
    let mut reply = match request["method"].as_str() {
        Some("initialize") => json!({ "result": {
            "protocolVersion": "2025-11-25", "capabilities": { "tools": {} }, "serverInfo": { "name": "recorder", "version": "1" },
        } }),
        Some("tools/list") => {
            json!({ "result": { "tools": [{ "name": "say", "inputSchema": { "type": "object" } }] } })
        }
        Some("tools/call") => json!({ "result": { "content": [{ "type": "text", "text": "said" }] } }),
        Some("ping") => json!({ "result": {} }),
        _ => json!({ "error": { "code": -32601, "message": "Method not found" } }),
    };
    reply["jsonrpc"] = "2.0".into();
    reply["id"] = request["id"].clone();
    let (status, reply) = match (request.is_object(), request.get("id")) {
        (false, _) => ("405 Method Not Allowed", String::new()),
        (true, None) => ("202 Accepted", String::new()),
        (true, Some(_)) => ("200 OK", reply.to_string()),
    };
    let head = format!("HTTP/1.1 {status}\r\ncontent-type: application/json\r\nconnection: close\r\n");
    write!(&stream, "{head}content-length: {}\r\n\r\n{reply}", reply.len())
}
