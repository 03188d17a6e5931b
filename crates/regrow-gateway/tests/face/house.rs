//! A gateway that is not there: guests that echo, report, ask, wait or panic as they are told, and tell the test what they see.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, Weak};

use bytes::Bytes;
use regrow::core::Epoch;
use regrow::transport::http::MirroredArguments;
use regrow::{Inbox, Incoming, Outcome, Reply, Request, Upstream};
use regrow_gateway::admit::{Admit, AdmitError, ClientHandle, Principal, ServerScope};
use regrow_protocol::frame::{self, Edit, Frame, Kind, RawId};
use serde_json::{Value, json};
use tokio::sync::mpsc;

/// What a guest saw.
#[derive(Debug)]
pub(crate) enum Seen {
    Request(String),
    Cancelled(String),
    Forwarded(String),
    /// The answer to a server's question.
    Answer(String),
    Left,
}

/// Lets everybody in, except to servers that are not there.
pub(crate) struct House {
    guests: Mutex<Vec<Weak<Fake>>>,
    tell: mpsc::UnboundedSender<Seen>,
    seen: tokio::sync::Mutex<mpsc::UnboundedReceiver<Seen>>,
}

impl House {
    pub(crate) fn new() -> Arc<House> {
        let (tell, seen) = mpsc::unbounded_channel();
        Arc::new(House { guests: Mutex::default(), tell, seen: tokio::sync::Mutex::new(seen) })
    }

    /// The next thing that any guest saw.
    pub(crate) async fn next(&self) -> Seen {
        self.seen.lock().await.recv().await.expect("the house stands")
    }

    /// The next request that a guest got, whole.
    pub(crate) async fn request(&self) -> Value {
        loop {
            if let Seen::Request(text) = self.next().await {
                return serde_json::from_str(&text).expect("guests get JSON");
            }
        }
    }

    /// Waits until a guest has left.
    pub(crate) async fn left(&self) {
        while !matches!(self.next().await, Seen::Left) {}
    }

    /// The next request that was given up.
    pub(crate) async fn cancelled(&self) -> String {
        loop {
            if let Seen::Cancelled(id) = self.next().await {
                return id;
            }
        }
    }

    /// How many were ever admitted.
    pub(crate) fn admitted(&self) -> usize {
        self.guests.lock().expect("nobody panics here").len()
    }

    /// The guest that came at this place.
    pub(crate) fn guest(&self, at: usize) -> Arc<Fake> {
        self.guests.lock().expect("nobody panics here")[at].upgrade().expect("it is still here")
    }
}

impl Admit for House {
    fn admit(
        &self,
        scope: &ServerScope,
        principal: Principal,
        inbox: Arc<dyn Inbox>,
    ) -> Result<Arc<dyn ClientHandle>, AdmitError> {
        if matches!(scope, ServerScope::One(name) if name != "files") {
            return Err(AdmitError::NoSuchServer);
        }
        let fake = Arc::new(Fake {
            place: format!("{scope:?} {principal:?}"),
            inbox,
            waiting: Mutex::default(),
            tell: self.tell.clone(),
        });
        self.guests.lock().expect("nobody panics here").push(Arc::downgrade(&fake));
        Ok(fake)
    }

    /// One tool is known: `deploy`, whose region is mirrored.
    fn mirrored(&self, _: &ServerScope, tool: &str) -> Option<MirroredArguments> {
        let region = json!({ "type": "string", "x-mcp-header": "Region" });
        let schema = json!({ "properties": { "region": region } });
        (tool == "deploy").then(|| MirroredArguments::of(&schema).expect("its marks are good"))
    }
}

/// One guest.
pub(crate) struct Fake {
    place: String,
    inbox: Arc<dyn Inbox>,
    waiting: Mutex<HashMap<RawId, Box<dyn Reply>>>,
    tell: mpsc::UnboundedSender<Seen>,
}

impl Fake {
    /// A server says this by itself.
    pub(crate) fn say(&self, call: Option<&RawId>, message: &Value) -> bool {
        self.say_in(Epoch(1), call, message)
    }

    pub(crate) fn say_in(&self, epoch: Epoch, call: Option<&RawId>, message: &Value) -> bool {
        let frame = Frame::parse(message.to_string().into()).expect("tests write JSON");
        let token = || frame.progress_token().and_then(RawId::parse);
        let named = call.cloned().or_else(|| frame.subscription_id()).or_else(token);
        let waiting = self.waiting.lock().expect("nobody panics here");
        let to = named.and_then(|id| waiting.get(&id)?.inbox());
        drop(waiting);
        match to {
            Some(to) => to.take(Incoming::of_no_call(epoch, frame)),
            None => self.inbox.take(Incoming::of_no_call(epoch, frame)),
        }
    }

    pub(crate) fn inbox(&self) -> &Arc<dyn Inbox> {
        &self.inbox
    }

    /// Answers a request that waits.
    pub(crate) fn answer(&self, id: &RawId, result: &Value) {
        let reply = self.waiting.lock().expect("nobody panics here").remove(id).expect("it waits");
        reply.end(answered(id, result));
    }

    /// Does not know the method of a request that waits.
    pub(crate) fn refuse(&self, id: &RawId) {
        let reply = self.waiting.lock().expect("nobody panics here").remove(id).expect("it waits");
        reply.end(Outcome::Refused);
    }

    fn tell(&self, seen: Seen) {
        let _ = self.tell.send(seen); // The test may be over.
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        self.tell(Seen::Left);
    }
}

fn answered(id: &RawId, result: &Value) -> Outcome {
    let line = frame::response(id, result.to_string().as_bytes());
    Outcome::Answered(Frame::parse(line).expect("this is an answer"))
}

impl Upstream for Fake {
    fn submit(&self, request: Request) {
        let Request { frame: request, id, reply, .. } = request;
        // A connection writes an id of its own into a request; here, the one that the face gave it beside the request.
        let request = match request.id().is_some_and(|written| written == id) {
            true => request,
            false => request.edited([Edit::Id(&id), Edit::MetaProgressToken(&id)]),
        };
        let text = String::from_utf8_lossy(request.bytes()).into_owned();
        let tool = request.name().unwrap_or_default().into_owned();
        let token = request.meta_progress_token().map(|token| String::from_utf8_lossy(token).into_owned());
        self.tell(Seen::Request(text.clone()));
        let wait = |reply| {
            self.waiting.lock().expect("nobody panics here").insert(id.clone(), reply);
        };
        match (request.method().unwrap_or_default(), tool.as_str()) {
            ("initialize", _) if text.contains("refuse") => {
                let line = frame::error(Some(&id), -32602, "not so", None);
                reply.end(Outcome::Answered(Frame::parse(line).expect("this is an error")));
            }
            ("initialize", _) => reply.end(answered(
                &id,
                &json!({
                    "protocolVersion": "2025-11-25",
                    "capabilities": { "tools": {} },
                    "serverInfo": { "name": "fake", "version": "1" },
                }),
            )),
            ("tools/call", "slow") => wait(reply),
            ("tools/call", "panic") => panic!("as the test wants it"),
            ("tools/call", "report") => {
                let token: Value = serde_json::from_str(&token.expect("a token")).expect("JSON");
                let params = json!({ "progressToken": token, "progress": 1 });
                let message =
                    json!({ "jsonrpc": "2.0", "method": "notifications/progress", "params": params });
                let frame = Frame::parse(message.to_string().into()).expect("tests write JSON");
                reply.inbox().expect("it has one").take(Incoming::of_no_call(Epoch(1), frame));
                reply.end(answered(&id, &json!({ "content": [], "told": true })));
            }
            ("tools/call", "ask") => {
                let question =
                    json!({ "jsonrpc": "2.0", "id": "theirs", "method": "sampling/createMessage" });
                wait(reply);
                self.say_in(Epoch(7), Some(&id), &question);
            }
            ("subscriptions/listen", _) => {
                let id_value: Value = serde_json::from_slice(id.as_bytes()).expect("an id is JSON");
                let meta = json!({ "io.modelcontextprotocol/subscriptionId": id_value });
                let acknowledged = "notifications/subscriptions/acknowledged";
                wait(reply);
                self.say(
                    None,
                    &json!({ "jsonrpc": "2.0", "method": acknowledged, "params": { "_meta": meta } }),
                );
            }
            ("server/discover", _) => reply.end(answered(
                &id,
                &json!({
                    "resultType": "complete",
                    "supportedVersions": ["2026-07-28"],
                    "capabilities": { "tools": {} },
                    "serverInfo": { "name": "fake", "version": "1" },
                }),
            )),
            ("tools/call" | "tools/list" | "ping", _) => {
                let arguments: Value = request
                    .params()
                    .and_then(|params| serde_json::from_slice(params).ok())
                    .unwrap_or(Value::Null);
                reply.end(answered(&id, &json!({ "place": self.place, "echo": arguments["arguments"] })));
            }
            _ => {
                let line = frame::error(Some(&id), -32601, "Method not found", None);
                reply.end(Outcome::Answered(Frame::parse(line).expect("this is an error")));
            }
        }
    }

    fn cancel(&self, id: &RawId, notification: &Frame) -> bool {
        assert!(matches!(notification.kind(), Kind::Notification { method: "notifications/cancelled" }));
        let known = self.waiting.lock().expect("nobody panics here").remove(id);
        self.tell(Seen::Cancelled(id.to_string()));
        known.is_some()
    }

    fn forward(&self, notification: &Frame) -> bool {
        self.tell(Seen::Forwarded(notification.method().unwrap_or_default().to_owned()));
        true
    }

    fn hand_over(&self, epoch: Epoch, server_id: &RawId, answer: Bytes) -> bool {
        let text = String::from_utf8_lossy(&answer);
        self.tell(Seen::Answer(format!("{} {server_id} {}", epoch.0, text.trim())));
        true
    }
}
