//! A plain client of HTTP: it sees every byte.

#![allow(dead_code, unreachable_pub, reason = "each test file uses a part of it")]

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

use regrow_chaos::Journal;
use serde_json::{Value, json};

use super::LIMIT;

pub const MODERN: &str = "2026-07-28";

/// A running server, in a folder of its own.
pub struct Site {
    child: Child,
    dir: tempfile::TempDir,
    plan: String,
    pub journal: Journal,
    pub port: u16,
}

pub fn site(plan: &str) -> Site {
    let dir = tempfile::tempdir().unwrap();
    let journal = Journal::new(dir.path());
    let child = launch(plan, dir.path(), 0);
    let mut site = Site { child, dir, plan: plan.to_owned(), journal, port: 0 };
    site.await_port(1);
    site
}

fn launch(plan: &str, dir: &std::path::Path, port: u16) -> Child {
    Command::new(env!("CARGO_BIN_EXE_regrow-chaos"))
        .args(["server", "--http", &format!("127.0.0.1:{port}")])
        .env("CHAOS", plan)
        .env("CHAOS_DIR", dir)
        .env("CHAOS_LIFE", "30s")
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

impl Site {
    fn await_port(&mut self, lives: usize) {
        let ports =
            |journal: &Journal| journal.lines().iter().filter(|line| line.starts_with("port ")).count();
        assert!(self.journal.wait(LIMIT, |journal| ports(journal) == lives));
        self.port = self.journal.port().unwrap();
    }

    /// Another life at the same port.
    pub fn restart(&mut self) {
        let port = self.port;
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        let lives = self.journal.starts() + 1;
        self.child = launch(&self.plan, self.dir.path(), port);
        self.await_port(lives);
        assert_eq!(self.port, port);
    }

    pub fn connect(&self) -> Wire {
        let socket = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        socket.set_read_timeout(Some(LIMIT)).unwrap();
        Wire { socket, read: vec![] }
    }

    /// A request on a connection of its own: status, head, and body as far as it came.
    pub fn ask(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Answer {
        let mut wire = self.connect();
        wire.send(method, path, headers, body);
        wire.answer()
    }

    pub fn post(&self, session: Option<&str>, message: Value) -> Answer {
        let session: Vec<_> = session.map(|session| ("Mcp-Session-Id", session)).into_iter().collect();
        self.ask("POST", "/mcp", &session, &message.to_string())
    }

    /// A session of the legacy era.
    pub fn session(&self) -> String {
        let answer = self.post(None, request(1, "initialize", json!({"protocolVersion": "2025-11-25"})));
        answer.header("mcp-session-id").expect("a session").to_owned()
    }

    pub fn call(&self, session: &str, tool: &str, arguments: Value) -> Answer {
        self.post(Some(session), request(7, "tools/call", json!({"name": tool, "arguments": arguments})))
    }

    /// A request of the modern era with the headers that it must have.
    pub fn modern(&self, method: &str, params: Value) -> Answer {
        let mut wire = self.connect();
        wire.send_modern(method, params, &[]);
        wire.answer()
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        // It may have ended already, which is as well.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub fn request(id: u64, method: &str, params: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}

pub struct Wire {
    pub socket: TcpStream,
    read: Vec<u8>,
}

impl Wire {
    pub fn send(&mut self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) {
        let mut text =
            format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n", body.len());
        text.push_str("Accept: application/json, text/event-stream\r\nContent-Type: application/json\r\n");
        for (name, value) in headers {
            text.push_str(&format!("{name}: {value}\r\n"));
        }
        self.socket.write_all(format!("{text}\r\n{body}").as_bytes()).unwrap();
    }

    pub fn send_modern(&mut self, method: &str, mut params: Value, headers: &[(&str, &str)]) {
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": MODERN,
            "io.modelcontextprotocol/clientCapabilities": {},
        });
        let name = params["name"].as_str().or(params["uri"].as_str()).map(str::to_owned);
        let mut all = vec![("MCP-Protocol-Version", MODERN), ("Mcp-Method", method)];
        all.extend(name.as_deref().map(|name| ("Mcp-Name", name)));
        all.retain(|(name, _)| headers.iter().all(|(other, _)| other != name));
        all.extend(headers);
        self.send("POST", "/mcp", &all, &request(5, method, params).to_string());
    }

    /// Reads until this is there; false if the connection ends before.
    pub fn read_until(&mut self, part: &str) -> bool {
        let mut chunk = [0; 16 * 1024];
        while !String::from_utf8_lossy(&self.read).contains(part) {
            match self.socket.read(&mut chunk) {
                Ok(0) | Err(_) => return false,
                Ok(count) => self.read.extend_from_slice(&chunk[..count]),
            }
        }
        true
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.read).into_owned()
    }

    /// One answer, whole or as far as it came.
    pub fn answer(&mut self) -> Answer {
        if !self.read_until("\r\n\r\n") {
            return Answer { head: self.text(), body: String::new(), whole: false };
        }
        let (head, _) =
            self.text().split_once("\r\n\r\n").map(|(a, b)| (a.to_owned(), b.to_owned())).unwrap();
        let rest = self.read.split_off(head.len() + 4);
        let mut answer = Answer { head, body: String::new(), whole: true };
        self.read = rest;
        if answer.header("transfer-encoding").is_some() {
            answer.whole = self.read_until("\r\n0\r\n\r\n") || self.read.starts_with(b"0\r\n\r\n");
            answer.body = chunks(&self.read);
        } else {
            let length: usize = answer.header("content-length").unwrap().parse().unwrap();
            while self.read.len() < length && answer.whole {
                let mut chunk = [0; 16 * 1024];
                match self.socket.read(&mut chunk) {
                    Ok(0) | Err(_) => answer.whole = false,
                    Ok(count) => self.read.extend_from_slice(&chunk[..count]),
                }
            }
            answer.body = self.text();
        }
        self.read.clear();
        answer
    }
}

fn chunks(mut bytes: &[u8]) -> String {
    let mut body = vec![];
    while let Some(at) = bytes.windows(2).position(|pair| pair == b"\r\n") {
        let size = usize::from_str_radix(std::str::from_utf8(&bytes[..at]).unwrap_or(""), 16).unwrap_or(0);
        let from = at + 2;
        let to = (from + size).min(bytes.len());
        body.extend_from_slice(&bytes[from..to]);
        bytes = &bytes[(to + 2).min(bytes.len())..];
    }
    String::from_utf8_lossy(&body).into_owned()
}

#[derive(Debug)]
pub struct Answer {
    pub head: String,
    pub body: String,
    /// It came to its end.
    pub whole: bool,
}

impl Answer {
    pub fn status(&self) -> u16 {
        self.head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0)
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        let lines = self.head.lines().skip(1).filter_map(|line| line.split_once(": "));
        lines.into_iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }

    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|_| panic!("{self:?}"))
    }

    /// The data of its events, those that are JSON.
    pub fn events(&self) -> Vec<Value> {
        let data = self.body.lines().filter_map(|line| line.strip_prefix("data: "));
        data.filter_map(|data| serde_json::from_str(data).ok()).collect()
    }

    /// The text of a tool's result.
    pub fn result(&self) -> String {
        let answer = self.json();
        answer["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{self:?}")).to_owned()
    }
}
