//! A client of the gateway, of either era, that keeps all that it is told.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use regrow::{Inbox, Incoming, Outcome, Reply, Request};
use regrow_gateway::Gateway;
use regrow_gateway::admit::{Admit, ClientHandle as Admitted, Principal, ServerScope};
use regrow_protocol::frame::{Frame, RawId};
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};

/// A client. Dropping it is leaving.
pub struct Guest {
    pub admitted: Arc<dyn Admitted>,
    pub told: Arc<Told>,
    pub modern: bool,
    last: AtomicU64,
}

/// All that servers tell it by themselves.
#[derive(Default)]
pub struct Told(Mutex<Vec<Incoming>>);

impl Inbox for Told {
    fn take(&self, incoming: Incoming) -> bool {
        self.0.lock().expect("no panic").push(incoming);
        true
    }
}

/// Waits for the end of a call.
pub struct Waiting(oneshot::Receiver<Value>);

impl Waiting {
    /// The answer; what failed is `{"failed": KIND, ...}`. Every call ends within an hour.
    pub async fn end(self) -> Value {
        let ended = timeout(Duration::from_secs(3601), self.0).await;
        ended.expect("every call ends within an hour").expect("its reply is told, not dropped")
    }

    /// What is known now; none where it has not ended, null where it never will.
    pub fn now(&mut self) -> Option<Value> {
        match self.0.try_recv() {
            Ok(value) => Some(value),
            Err(oneshot::error::TryRecvError::Empty) => None,
            Err(oneshot::error::TryRecvError::Closed) => Some(Value::Null),
        }
    }
}

struct Answer {
    id: RawId,
    to: oneshot::Sender<Value>,
}

impl Reply for Answer {
    fn end(self: Box<Self>, outcome: Outcome) {
        let value = match outcome {
            Outcome::Answered(frame) => read(&frame.with_id(&self.id)),
            Outcome::Failed(error) => json!({
                "failed": format!("{:?}", error.kind),
                "delivery": format!("{:?}", error.delivery),
                "server": &*error.server,
                "says": error.to_string(),
            }),
            Outcome::Refused => json!({ "refused": true }),
        };
        let _ = self.to.send(value); // A test need not wait for it.
    }
}

impl Guest {
    /// A modern client of all servers, which need not greet.
    pub fn modern(gateway: &Gateway) -> Guest {
        Guest::enter(gateway, &ServerScope::All, Principal::default(), true)
    }

    /// A legacy client of all servers that has greeted.
    pub async fn legacy(gateway: &Gateway) -> Guest {
        let guest = Guest::enter(gateway, &ServerScope::All, Principal::default(), false);
        guest.greet().await;
        guest
    }

    pub fn enter(gateway: &Gateway, scope: &ServerScope, principal: Principal, modern: bool) -> Guest {
        let told = Arc::new(Told::default());
        let admitted = gateway.admit(scope, principal, told.clone()).expect("it is let in");
        Guest { admitted, told, modern, last: AtomicU64::new(100) }
    }

    /// A legacy client with an inbox that is not ours.
    pub fn of(admitted: Arc<dyn Admitted>) -> Guest {
        Guest { admitted, told: Arc::default(), modern: false, last: AtomicU64::new(100) }
    }

    pub fn is_modern(&self) -> bool {
        self.modern
    }

    /// A legacy client of all servers that has greeted, and declares just this.
    pub async fn able_to(gateway: &Gateway, capabilities: Value) -> Guest {
        let guest = Guest::enter(gateway, &ServerScope::All, Principal::default(), false);
        guest.greet_with(capabilities).await;
        guest
    }

    pub async fn greet(&self) -> Value {
        self.greet_with(json!({ "sampling": {}, "roots": { "listChanged": true } })).await
    }

    async fn greet_with(&self, capabilities: Value) -> Value {
        let params = json!({
            "protocolVersion": "2025-11-25",
            "capabilities": capabilities,
            "clientInfo": { "name": "guest", "version": "1" },
        });
        let answer = self.ask("initialize", params).await;
        self.notify("notifications/initialized", &json!({}));
        answer
    }

    /// Sends a request with this id.
    pub fn send(&self, id: &Value, method: &str, params: Value) -> Waiting {
        let (to, end) = oneshot::channel();
        self.submit(id, method, params, Box::new(Answer { id: raw(id), to }));
        Waiting(end)
    }

    /// The same, with somebody else who waits for its end.
    pub fn submit(&self, id: &Value, method: &str, mut params: Value, reply: Box<dyn Reply>) {
        if self.modern {
            let meta = json!({
                "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                "io.modelcontextprotocol/clientCapabilities": {},
                "io.modelcontextprotocol/clientInfo": { "name": "guest", "version": "1" },
            });
            for (key, value) in meta.as_object().expect("it is one") {
                if params["_meta"][key].is_null() {
                    params["_meta"][key] = value.clone();
                }
            }
        }
        let line = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        self.admitted.submit(Request::new(message(&line), raw(id), reply));
    }

    /// Sends a request with an id of its own, and waits for the end.
    pub async fn ask(&self, method: &str, params: Value) -> Value {
        let id = self.last.fetch_add(1, Ordering::Relaxed);
        self.send(&json!(id), method, params).end().await
    }

    /// Calls a tool with a text; what it answers, or all of what it answers where that is no text.
    pub async fn call(&self, tool: &str, text: &str) -> String {
        let answer = self.ask("tools/call", json!({ "name": tool, "arguments": { "text": text } })).await;
        said(&answer)
    }

    /// Begins to call a tool.
    pub fn begin(&self, id: u64, tool: &str, arguments: Value) -> Waiting {
        self.send(&json!(id), "tools/call", json!({ "name": tool, "arguments": arguments }))
    }

    /// The names on a list, and all of the answer.
    pub async fn list(&self, method: &str) -> (Vec<String>, Value) {
        let answer = self.ask(method, json!({})).await;
        (names(&answer), answer)
    }

    pub async fn tools(&self) -> Vec<String> {
        self.list("tools/list").await.0
    }

    pub fn cancel(&self, id: u64) -> bool {
        let line =
            json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": id } });
        self.admitted.cancel(&raw(&json!(id)), &message(&line))
    }

    pub fn notify(&self, method: &str, params: &Value) -> bool {
        self.admitted.forward(&message(&json!({ "jsonrpc": "2.0", "method": method, "params": params })))
    }

    /// Answers a question of a server.
    pub fn answer(&self, question: &Incoming, result: &Value) -> bool {
        let id = question.frame.id().expect("a question has an id");
        let line = json!({ "jsonrpc": "2.0", "id": read(id.as_bytes()), "result": result });
        self.admitted.hand_over(question.epoch, &id, format!("{line}\n").into())
    }

    /// What it was told since this was last asked.
    pub fn incoming(&self) -> Vec<Incoming> {
        std::mem::take(&mut *self.told.0.lock().expect("no panic"))
    }

    /// The same, read.
    pub fn heard(&self) -> Vec<Value> {
        self.incoming().iter().map(|incoming| read(incoming.frame.bytes())).collect()
    }

    /// The methods of it.
    pub fn methods(&self) -> Vec<String> {
        let method = |heard: &Value| heard["method"].as_str().unwrap_or_default().to_owned();
        self.heard().iter().map(method).collect()
    }
}

/// What a tool answered.
pub fn said(answer: &Value) -> String {
    match answer["result"]["content"][0]["text"].as_str() {
        Some(text) => text.to_owned(),
        None => answer.to_string(),
    }
}

/// The names on a list.
pub fn names(answer: &Value) -> Vec<String> {
    let result = &answer["result"];
    let lists = ["tools", "prompts", "resources", "resourceTemplates"];
    let items = lists.iter().find_map(|list| result[*list].as_array());
    let items = items.unwrap_or_else(|| panic!("a list, not {answer}"));
    let name = |item: &Value| {
        let keys = ["uri", "uriTemplate", "name"];
        keys.iter().find_map(|key| item[*key].as_str()).unwrap_or_default().to_owned()
    };
    items.iter().map(name).collect()
}

fn raw(id: &Value) -> RawId {
    RawId::parse(id.to_string().as_bytes()).expect("an id")
}

fn message(line: &Value) -> Frame {
    Frame::parse(line.to_string().into()).expect("a message")
}

pub fn read(line: &[u8]) -> Value {
    serde_json::from_slice(line).expect("JSON")
}

/// Lets a list be fetched anew: a change waits for others, and a list for a second after the last.
pub async fn refresh() {
    sleep(Duration::from_secs(2)).await;
}

/// Lets everything happen that is due now, with what is told together after a short while.
pub async fn settle() {
    sleep(Duration::from_millis(200)).await;
}
