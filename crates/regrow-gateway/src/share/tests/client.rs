//! A client with a share, which keeps all that it is told; and what concerns no client.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use bytes::Bytes;
use regrow::core::Epoch;
use regrow::{CallError, Connection, Era, Inbox, Incoming, Outcome, Reply, Request, Upstream};
use regrow_protocol::frame::{Frame, RawId};
use regrow_testkit::server::Server;
use regrow_testkit::world::policy;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::super::{ServerObserver, Share, SharedSession};

/// Keeps what no client is told.
#[derive(Default)]
pub(super) struct Keeper {
    pub(super) lists: Mutex<Vec<String>>,
    pub(super) logs: Mutex<Vec<Value>>,
}

impl ServerObserver for Keeper {
    fn list_changed(&self, method: &str) {
        self.lists.lock().expect("no panic").push(method.to_owned());
    }

    fn logged(&self, message: &Frame) {
        self.logs.lock().expect("no panic").push(serde_json::from_slice(message.bytes()).expect("JSON"));
    }
}

/// A shared connection to this server.
pub(super) fn shared(server: &Server, era: Era) -> (Arc<SharedSession>, Arc<Keeper>) {
    let mut policy = policy();
    policy.budget.charges = 1_000_000;
    let builder = Connection::builder("fake", server.clone()).policy(policy).seed(1).era(era);
    let keeper = Arc::new(Keeper::default());
    (SharedSession::build("fake", builder, keeper.clone()), keeper)
}

/// All that one client is told, in order.
#[derive(Default)]
pub(super) struct ClientLog {
    pub(super) lines: Mutex<Vec<String>>,
    pub(super) calls: Mutex<Vec<Option<RawId>>>,
    pub(super) failed: Mutex<Vec<(RawId, CallError)>>,
    pub(super) lost: Mutex<Vec<Epoch>>,
    pub(super) is_over: AtomicBool,
    pub(super) is_full: AtomicBool,
}

impl Inbox for ClientLog {
    fn take(&self, incoming: Incoming) -> bool {
        self.calls.lock().expect("no panic").push(incoming.call);
        let line = String::from_utf8(incoming.frame.bytes().to_vec()).expect("text");
        self.lines.lock().expect("no panic").push(line);
        true
    }

    fn has_room(&self) -> bool {
        !self.is_full.load(Ordering::Relaxed)
    }

    fn lost(&self, epoch: Epoch) {
        self.lost.lock().expect("no panic").push(epoch);
    }

    fn over(&self) {
        self.is_over.store(true, Ordering::Relaxed);
    }
}

struct TestReply {
    told: Arc<ClientLog>,
    id: RawId,
}

impl Reply for TestReply {
    fn end(self: Box<Self>, outcome: Outcome) {
        let line = match outcome {
            Outcome::Answered(frame) => frame.with_id(&self.id),
            Outcome::Failed(error) => {
                let line = error.rpc_error(&self.id);
                self.told.failed.lock().expect("no panic").push((self.id.clone(), error));
                line
            }
            Outcome::Refused => {
                regrow_protocol::frame::error(Some(&self.id), -32601, "Method not found", None)
            }
        };
        let line = std::str::from_utf8(&line).expect("text").trim_end().to_owned();
        self.told.lines.lock().expect("no panic").push(line);
    }
}

pub(super) struct TestClient {
    pub(super) told: Arc<ClientLog>,
    pub(super) far: Arc<Share>,
}

impl TestClient {
    pub(super) fn of(session: &Arc<SharedSession>) -> TestClient {
        let told = Arc::new(ClientLog::default());
        let inbox: Weak<ClientLog> = Arc::downgrade(&told);
        TestClient { far: session.join(inbox), told }
    }

    /// Sends a request, with a raw id.
    pub(super) fn ask(&self, id: &str, method: &str, params: &Value) {
        self.send(format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#), raw(id));
    }

    /// Sends a request as it is written.
    pub(super) fn send(&self, line: String, id: RawId) {
        let reply = TestReply { told: self.told.clone(), id: id.clone() };
        self.far.submit(Request::new(message(line), id, Box::new(reply)));
    }

    pub(super) fn call(&self, id: &str, arguments: &Value) {
        self.ask(id, "tools/call", &json!({ "name": "work", "arguments": arguments }));
    }

    pub(super) fn cancel(&self, id: &str) -> bool {
        let params = format!(r#"{{"requestId":{id},"reason":"enough"}}"#);
        let line = format!(r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{params}}}"#);
        self.far.cancel(&raw(id), &message(line))
    }

    /// What it was told since this was last asked.
    pub(super) fn lines(&self) -> Vec<String> {
        std::mem::take(&mut *self.told.lines.lock().expect("no panic"))
    }

    /// The same, read.
    pub(super) fn heard(&self) -> Vec<Value> {
        self.lines().iter().map(|line| serde_json::from_str(line).expect("JSON")).collect()
    }
}

pub(super) fn raw(id: &str) -> RawId {
    RawId::parse(id.as_bytes()).expect("an id")
}

pub(super) fn message(line: String) -> Frame {
    Frame::parse(Bytes::from(line)).expect("a message")
}

/// Lets a server that died come back: between two starts there is a pause.
pub(super) async fn come_back() {
    sleep(Duration::from_secs(2)).await;
}

/// Lets everything happen that is due now.
pub(super) async fn settle() {
    sleep(Duration::from_millis(5)).await;
}
