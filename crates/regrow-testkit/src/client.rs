//! Clients of a connection: streams that stay open, and clients that panic.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use regrow::core::Epoch;
use regrow::{Connection, Inbox, Incoming, Outcome, Reply, Request};
use regrow_protocol::frame::{Frame, RawId};
use serde_json::{Value, json};

/// A subscription stream as a client of a relay opens it: under an id of its own. It keeps how it ended.
#[derive(Clone, Default)]
pub struct Stream(pub Arc<Mutex<Vec<Outcome>>>);

impl Reply for Stream {
    fn end(self: Box<Self>, outcome: Outcome) {
        self.0.lock().unwrap().push(outcome);
    }
}

impl Stream {
    pub fn open(connection: &Connection, id: &str) -> (Stream, RawId) {
        let stream = Stream::default();
        let params = r#"{"notifications":{"toolsListChanged":true},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}"#;
        let line = format!(r#"{{"id":{id},"method":"subscriptions/listen","params":{params}}}"#);
        let frame = Frame::parse(line.into()).unwrap();
        let id = frame.id().unwrap();
        connection.submit(Request::new(frame, id.clone(), Box::new(stream.clone())));
        (stream, id)
    }

    pub fn ends(&self) -> usize {
        self.0.lock().unwrap().len()
    }
}

struct PanickingReply;

impl Reply for PanickingReply {
    fn end(self: Box<Self>, _: Outcome) {
        panic!("a reply that fails");
    }
}

/// Calls the tool `work` with these arguments, and panics when the call ends.
pub fn call_and_panic(connection: &Connection, arguments: Value) {
    let line =
        json!({ "id": 1, "method": "tools/call", "params": { "name": "work", "arguments": arguments } });
    let frame = Frame::parse(line.to_string().into()).unwrap();
    let id = frame.id().unwrap();
    connection.submit(Request::new(frame, id, Box::new(PanickingReply)));
}

/// Panics in the method of this name, while it is armed.
pub struct PanickingInbox {
    method: &'static str,
    armed: AtomicBool,
}

impl PanickingInbox {
    pub fn new(method: &'static str, armed: bool) -> Arc<PanickingInbox> {
        Arc::new(PanickingInbox { method, armed: AtomicBool::new(armed) })
    }

    pub fn arm(&self, armed: bool) {
        self.armed.store(armed, Ordering::Relaxed);
    }

    fn at(&self, method: &str) {
        assert!(self.method != method || !self.armed.load(Ordering::Relaxed), "an inbox that fails");
    }
}

impl Inbox for PanickingInbox {
    fn take(&self, _: Incoming) -> bool {
        self.at("take");
        true
    }

    fn has_room(&self) -> bool {
        self.at("has_room");
        true
    }

    fn lost(&self, _: Epoch) {
        self.at("lost");
    }

    fn over(&self) {
        self.at("over");
    }
}
