//! Many clients of either era, through their bridges: the server is greeted once, by the gateway.

use std::sync::Arc;
use std::time::Duration;

use regrow::{Bridge, Era, ErrorStyle, Inbox, Outcome, Request, ResponseFormat, Upstream};
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::super::SharedSession;
use super::client::*;
use super::server::{killed, legacy, server};

/// A client behind a bridge.
struct Bridged {
    told: Arc<ClientLog>,
    bridge: Arc<Bridge>,
}

impl Bridged {
    fn of(session: &Arc<SharedSession>) -> Bridged {
        let told = Arc::new(ClientLog::default());
        let bridge = Bridge::new("fake", told.clone());
        let inbox: Arc<dyn Inbox> = bridge.clone();
        bridge.lead_to(session.join(Arc::downgrade(&inbox)));
        Bridged { told, bridge }
    }

    async fn ask(&self, request: Value) -> Value {
        let request = message(request.to_string());
        let id = request.id().expect("an id");
        let asked = ResponseFormat::of(&request, id.clone());
        let (reply, end) = oneshot::channel::<Outcome>();
        self.bridge.submit(Request::new(request, id, Box::new(reply)));
        let outcome = timeout(Duration::from_secs(30), end).await.expect("it ends").expect("it is told");
        serde_json::from_slice(&asked.answer(&outcome, ErrorStyle::Tool)).expect("JSON")
    }

    async fn initialize(&self) -> Value {
        let params = json!({
            "protocolVersion": "2025-06-18",
            "capabilities": { "sampling": {}, "roots": {}, "elicitation": {} },
            "clientInfo": { "name": "old", "version": "1" },
        });
        let answer =
            self.ask(json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params })).await;
        self.bridge.forward(&message(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#.into()));
        answer
    }

    async fn work(&self, modern: bool, say: &str) -> Value {
        let mut params = json!({ "name": "work", "arguments": { "say": say } });
        if modern {
            params["_meta"] = json!({
                "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                "io.modelcontextprotocol/clientCapabilities": { "sampling": {} },
            });
        }
        self.ask(json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params })).await
    }
}

#[tokio::test(start_paused = true)]
async fn ten_clients_of_both_eras_greet_a_server_that_is_greeted_once_and_after_a_restart_again() {
    for (modern, hello) in [(false, "initialize"), (true, "server/discover")] {
        let server = server(modern, |_| None);
        let (session, _) = shared(&server, Era::Auto);
        let before = {
            let first = Bridged::of(&session);
            assert!(first.initialize().await["result"]["capabilities"]["tools"].is_object());
            server.heard_of(hello).len()
        };
        let mut clients = vec![];
        for n in 0..10 {
            let client = Bridged::of(&session);
            if n % 2 == 0 {
                let answer = client.initialize().await;
                assert!(answer["result"]["serverInfo"]["name"].is_string(), "{answer}");
            }
            let answer = client.work(n % 2 == 1, &n.to_string()).await;
            assert_eq!(answer["result"]["got"]["say"], n.to_string(), "{answer}");
            clients.push(client);
        }
        assert_eq!(server.heard_of(hello).len(), before, "nobody else greeted it");
        server.die(killed());
        settle().await;
        for (n, client) in clients.iter().enumerate() {
            let answer = client.work(n % 2 == 1, "again").await;
            assert_eq!(answer["result"]["got"]["say"], "again", "{answer}");
        }
        let late = Bridged::of(&session);
        assert!(late.initialize().await["result"]["capabilities"].is_object());
        assert_eq!(server.heard_of(hello).len(), before + 1);
        for greeting in server.heard_of("initialize") {
            assert_eq!(greeting["params"]["capabilities"], json!({}), "nothing is offered to it");
            assert_eq!(greeting["params"]["clientInfo"]["name"], "regrow");
        }
        assert!(server.heard_of("notifications/initialized").len() <= 2, "nor is that told for each of them");
        assert!(clients.iter().all(|client| client.told.failed.lock().unwrap().is_empty()));
    }
}

#[tokio::test(start_paused = true)]
async fn a_bridge_that_is_dropped_leaves() {
    let server = legacy();
    let (session, _) = shared(&server, Era::Auto);
    let client = Bridged::of(&session);
    client.initialize().await;
    assert_eq!(session.shares(), 1);
    drop(client);
    assert_eq!(session.shares(), 0);
}
