//! A client to a script, on the far side of a relay.

use std::time::Duration;

use regrow::core::Policy;
use regrow::{Bridge, Connection, Era, ErrorStyle, Port, relay};
use regrow_testkit::script::{Act, Plan, Speaks, answer};
use regrow_testkit::server::Server;
use regrow_testkit::world::*;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, Lines, duplex};
use tokio::time::timeout;

pub const VERSION: &str = "io.modelcontextprotocol/protocolVersion";
pub const CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
pub const INFO: &str = "io.modelcontextprotocol/clientInfo";
pub const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";

/// What the clients of these tests can do for a server.
pub fn can() -> Value {
    json!({ "elicitation": {}, "sampling": {}, "roots": { "listChanged": true } })
}

pub struct Client {
    input: DuplexStream,
    output: Lines<BufReader<DuplexStream>>,
    pub connection: Connection,
    last: u64,
}

impl Client {
    pub fn of(server: &Server) -> Client {
        Client::with(server, policy())
    }

    pub fn with(server: &Server, policy: Policy) -> Client {
        let (near_input, far_input) = duplex(1 << 20);
        let (far_output, near_output) = duplex(1 << 20);
        let port = Port::new("fake", far_output, ErrorStyle::Tool, 1 << 20);
        let builder = to(server).policy(policy).era(Era::Auto);
        let (bridge, connection) = Bridge::build(builder, port.clone());
        tokio::spawn(async move { relay(&*bridge, &port, far_input).await });
        let output = BufReader::new(near_output).lines();
        Client { input: near_input, output, connection, last: 100 }
    }

    /// A legacy client that has shaken hands.
    pub async fn legacy(server: &Server) -> Client {
        let mut client = Client::of(server);
        client.initialize("2025-06-18").await;
        client.send(json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })).await;
        settle().await;
        client
    }

    /// A modern client that has asked who the server is.
    pub async fn modern(server: &Server) -> Client {
        let mut client = Client::of(server);
        let answer = client.ask(modern(1, "server/discover", json!({}))).await;
        assert!(answer["result"]["supportedVersions"].is_array(), "{answer}");
        client
    }

    pub async fn initialize(&mut self, version: &str) -> Value {
        self.ask(initialize(0, version)).await
    }

    pub async fn send(&mut self, message: Value) {
        self.write(&message.to_string()).await;
    }

    pub async fn write(&mut self, line: &str) {
        self.input.write_all(format!("{line}\n").as_bytes()).await.unwrap();
    }

    /// The next line, which comes within a simulated minute.
    pub async fn line(&mut self) -> String {
        let line = timeout(secs(60), self.output.next_line()).await.expect("something is said");
        line.unwrap().expect("the relay lives")
    }

    pub async fn next(&mut self) -> Value {
        serde_json::from_str(&self.line().await).unwrap()
    }

    /// What is said next, if anything is for so long.
    pub async fn next_within(&mut self, length: Duration) -> Option<Value> {
        let line = timeout(length, self.output.next_line()).await.ok()?;
        Some(serde_json::from_str(&line.unwrap().expect("the relay lives")).unwrap())
    }

    /// Sends a request, and gives its answer, which is the next that is said.
    pub async fn ask(&mut self, request: Value) -> Value {
        let id = request["id"].clone();
        self.send(request).await;
        let answer = self.next().await;
        assert_eq!(answer["id"], id, "{answer}");
        answer
    }

    /// The same with an id that was not used yet.
    pub async fn call(&mut self, method: &str, params: Value) -> Value {
        self.last += 1;
        self.ask(json!({ "jsonrpc": "2.0", "id": self.last, "method": method, "params": params })).await
    }

    pub async fn modern_call(&mut self, method: &str, params: Value) -> Value {
        self.last += 1;
        self.ask(modern(self.last, method, params)).await
    }

    pub async fn cancel(&mut self, id: Value) {
        let params = json!({ "requestId": id, "reason": "enough" });
        self.send(json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": params })).await;
    }

    /// Nothing is said for so long.
    pub async fn hears_nothing(&mut self, length: Duration) {
        if let Ok(line) = timeout(length, self.output.next_line()).await {
            panic!("heard {line:?}");
        }
    }
}

pub fn initialize(id: u64, version: &str) -> Value {
    let params = json!({
        "protocolVersion": version,
        "capabilities": can(),
        "clientInfo": { "name": "old", "version": "1" },
    });
    json!({ "jsonrpc": "2.0", "id": id, "method": "initialize", "params": params })
}

/// A request in the modern envelope; `params._meta` is kept.
pub fn modern(id: impl Into<Value>, method: &str, mut params: Value) -> Value {
    params["_meta"][VERSION] = "2026-07-28".into();
    params["_meta"][CAPABILITIES] = can();
    params["_meta"][INFO] = json!({ "name": "new", "version": "2" });
    json!({ "jsonrpc": "2.0", "id": id.into(), "method": method, "params": params })
}

pub fn legacy_server() -> Plan {
    let capabilities = json!({
        "tools": { "listChanged": true },
        "resources": { "subscribe": true, "listChanged": true },
        "prompts": {},
        "logging": {},
        "tasks": {},
    });
    Plan { capabilities, ..Plan::default() }
}

pub fn modern_server() -> Plan {
    let capabilities = json!({
        "tools": { "listChanged": true },
        "resources": { "subscribe": true },
        "logging": {},
        "extensions": { "io.modelcontextprotocol/tasks": {} },
    });
    Plan { speaks: Speaks::Modern, capabilities, ..Plan::default() }
        .on("server/discover", |message| {
            let result = json!({
                "resultType": "complete",
                "supportedVersions": ["2026-07-28"],
                "capabilities": {
                    "tools": { "listChanged": true },
                    "resources": { "subscribe": true },
                    "logging": {},
                    "extensions": { "io.modelcontextprotocol/tasks": {} },
                },
                "instructions": "be kind",
                "ttlMs": 0,
                "cacheScope": "private",
                "_meta": { "io.modelcontextprotocol/serverInfo": { "name": "fake", "version": "9" } },
            });
            vec![Act::Say(answer(&message["id"], result))]
        })
        .on("subscriptions/listen", |message| vec![Act::Say(acknowledged(message))])
}

/// A modern server honours all that it is asked for.
pub fn acknowledged(listen: &Value) -> Value {
    json!({
        "jsonrpc": "2.0",
        "method": "notifications/subscriptions/acknowledged",
        "params": {
            "_meta": { SUBSCRIPTION: listen["id"] },
            "notifications": listen["params"]["notifications"],
        },
    })
}

/// What a failed request says of itself.
pub fn fault(answer: &Value) -> Value {
    let meta = &answer["result"]["_meta"];
    let data = if meta.is_null() { &answer["error"]["data"] } else { meta };
    data["dev.regrow/fault"].clone()
}
