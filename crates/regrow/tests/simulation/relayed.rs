//! A client on the far side of a relay, as `wrap` has: it greets, calls, cancels, answers questions and leaves, in lines.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use regrow::core::Manner;
use regrow::{Bridge, Builder, Connection, ErrorStyle, Port, Upstream, relay};
use regrow_protocol::meta;
use regrow_testkit::world::{millis, secs};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, duplex};
use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};

use crate::history::{End, Event, Recorder};
use crate::key::Key;
use crate::program::thought;

/// The one client of a relay.
pub const CLIENT: char = 'a';

#[derive(Clone)]
pub struct Relayed {
    recorder: Recorder,
    pub is_modern: bool,
    /// To the relay; none once the client has left.
    input: Arc<tokio::sync::Mutex<Option<DuplexStream>>>,
    open: Arc<Mutex<Open>>,
}

#[derive(Default)]
struct Open {
    last: u64,
    calls: BTreeMap<u64, Key>,
    requests: BTreeMap<u64, oneshot::Sender<Value>>,
}

impl Relayed {
    pub fn new(
        builder: Builder,
        recorder: Recorder,
        is_modern: bool,
        bridged: bool,
    ) -> (Relayed, Connection) {
        let (near_input, far_input) = duplex(1 << 20);
        let (far_output, near_output) = duplex(1 << 20);
        let port = Port::new("fake", far_output, ErrorStyle::Tool, 1 << 20);
        let (upstream, connection): (Arc<dyn Upstream + Send + Sync>, Connection) = match bridged {
            true => {
                let (bridge, connection) = Bridge::build(builder, port.clone());
                (bridge, connection)
            }
            false => {
                let connection = builder.relay_to(port.clone()).build();
                (Arc::new(connection.clone()), connection)
            }
        };
        let relayed = connection.clone();
        tokio::spawn(async move {
            relay(&*upstream, &port, far_input).await.expect("nothing breaks in memory");
            assert!(port.has_answered_all(), "a client that reads gets every response");
            relayed.close_in(Manner::ClientLeft).await;
            port.finish(millis(100)).await;
        });
        let input = Arc::new(tokio::sync::Mutex::new(Some(near_input)));
        let client = Relayed { recorder, is_modern, input, open: Arc::default() };
        tokio::spawn(client.clone().read(near_output));
        (client, connection)
    }

    /// Greets the server, again and again if it must. False if nothing came of it.
    pub async fn greet(&self) -> bool {
        for _ in 0..10 {
            let (method, params) = match self.is_modern {
                true => ("server/discover", json!({})),
                false => {
                    let info = json!({ "name": "old", "version": "1" });
                    let can = json!({ "elicitation": {} });
                    let version = "2025-11-25";
                    let params =
                        json!({ "protocolVersion": version, "capabilities": can, "clientInfo": info });
                    ("initialize", params)
                }
            };
            let answer = timeout(secs(100), self.request(method, params)).await.unwrap_or_default();
            if answer["result"].is_object() {
                if !self.is_modern {
                    self.write(json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })).await;
                }
                return true;
            }
            sleep(secs(10)).await;
        }
        false
    }

    pub async fn call(self, key: Key, params: Value, deadline: Duration, gives_up: Option<Duration>) {
        let id = {
            let mut open = self.open();
            open.last += 1;
            let id = open.last;
            open.calls.insert(id, key);
            id
        };
        let message = self.message(id, "tools/call", params);
        if let Some(input) = self.input.lock().await.as_mut() {
            self.recorder.note(Event::Begins(key, deadline));
            // The relay reads until we leave.
            let _ = input.write_all(format!("{message}\n").as_bytes()).await;
        } else {
            return; // It has left.
        }
        if let Some(pause) = gives_up {
            sleep(pause).await;
            if self.open().calls.contains_key(&id) {
                self.recorder.note(Event::GivesUp(key));
                let params = json!({ "requestId": id, "reason": "enough" });
                self.write(
                    json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": params }),
                )
                .await;
            }
        }
    }

    /// A request that is no call, and its answer; none if the client left before that.
    pub async fn request(&self, method: &str, params: Value) -> Value {
        let (sender, answer) = oneshot::channel();
        let id = {
            let mut open = self.open();
            open.last += 1;
            let id = open.last;
            open.requests.insert(id, sender);
            id
        };
        self.write(self.message(id, method, params)).await;
        answer.await.unwrap_or_default()
    }

    /// Leaves: says nothing more, but still hears how its calls end.
    pub async fn leave(&self) {
        self.recorder.note(Event::Leaves(CLIENT));
        *self.input.lock().await = None;
        self.open().requests.clear();
    }

    fn message(&self, id: u64, method: &str, mut params: Value) -> Value {
        if self.is_modern {
            params["_meta"] = json!({
                "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                "io.modelcontextprotocol/clientCapabilities": {},
                "io.modelcontextprotocol/clientInfo": { "name": "new", "version": "1" },
            });
        }
        json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })
    }

    async fn write(&self, message: Value) {
        if let Some(input) = self.input.lock().await.as_mut() {
            // The relay reads until we leave; afterwards nobody does.
            let _ = input.write_all(format!("{message}\n").as_bytes()).await;
        }
    }

    async fn read(self, output: DuplexStream) {
        let mut lines = BufReader::new(output).lines();
        while let Ok(Some(line)) = lines.next_line().await {
            let message: Value = serde_json::from_str(&line).expect("a relay writes nothing but messages");
            self.hear(message);
        }
    }

    fn hear(&self, message: Value) {
        match (message["method"].as_str(), message["id"].as_u64()) {
            (Some("elicitation/create"), Some(id)) => drop(tokio::spawn(self.clone().reply(id, message))),
            (Some("notifications/message"), _) => {
                let key = message["params"]["data"]["key"].as_str().map(str::parse::<Key>);
                if let Some(Ok(key)) = key {
                    self.recorder.note(Event::Hears(CLIENT, key));
                }
            }
            (Some(_), _) => {}
            (None, Some(id)) => {
                let request = self.open().requests.remove(&id);
                if let Some(request) = request {
                    let _ = request.send(message); // Whoever asked may have given up.
                } else if let Some(key) = self.open().calls.get(&id).copied() {
                    self.recorder.note(Event::Ends(key, of(&message)));
                }
            }
            (None, None) => {}
        }
    }

    async fn reply(self, id: u64, question: Value) {
        let nonce = question["params"]["nonce"].as_str().unwrap_or_default().to_owned();
        self.recorder.note(Event::Asked(nonce.clone()));
        let Some(pause) = thought(&nonce) else { return };
        sleep(pause).await;
        let result = json!({ "action": "accept", "nonce": nonce });
        self.write(json!({ "jsonrpc": "2.0", "id": id, "result": result })).await;
        self.recorder.note(Event::Replied(nonce));
    }

    fn open(&self) -> MutexGuard<'_, Open> {
        self.open.lock().expect("nobody panics while writing")
    }
}

fn of(message: &Value) -> End {
    let meta = &message["result"]["_meta"][meta::FAULT];
    let fault = if meta.is_null() { &message["error"]["data"][meta::FAULT] } else { meta };
    let kind = || fault["kind"].as_str().unwrap_or_default().to_owned();
    match fault["delivery"].as_str() {
        None => End::Answered(message["result"]["got"].as_str().and_then(|got| got.parse().ok())),
        Some("not-sent") => End::NotRun(kind()),
        Some(_) => End::Unknown(kind()),
    }
}
