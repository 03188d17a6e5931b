//! A face on loopback in front of a fake house, and what tests say to it.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::routing::get;
use regrow_gateway::face::http::{FaceStats, Options, Parting, bind};
use serde_json::{Value, json};
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::house::House;
use crate::wire::Wire;

pub(crate) struct World {
    pub(crate) house: Arc<House>,
    pub(crate) address: SocketAddr,
    pub(crate) face_stats: Arc<FaceStats>,
    shutdown: Option<oneshot::Sender<()>>,
    /// The servers behind it live for as long as this.
    pub(crate) servers: Option<oneshot::Sender<()>>,
    served: JoinHandle<Parting>,
}

impl World {
    pub(crate) async fn new() -> World {
        World::with(|_| {}).await
    }

    pub(crate) async fn with(change: impl FnOnce(&mut Options)) -> World {
        World::on(vec![], change).await
    }

    /// Served by the threads of these runtimes, too.
    pub(crate) async fn on(runtimes: Vec<Handle>, change: impl FnOnce(&mut Options)) -> World {
        let mut options =
            Options { addresses: vec!["127.0.0.1:0".parse().expect("an address")], ..Options::default() };
        options.limits.modern_hold = options.limits.hold; // Most tests want to see a stream soon.
        change(&mut options);
        let bound = bind(options).await.expect("loopback is free").with_threads(runtimes);
        let (address, face_stats) = (bound.addresses()[0], bound.face_stats());
        let house = House::new();
        let (shutdown, ends) = oneshot::channel();
        let (servers, gone) = oneshot::channel();
        let more = Router::new()
            .route("/livez", get(|| async { "alive" }))
            .route("/readyz", get(|| async { "ready" }))
            .route("/status", get(|| async { "fine" }))
            .route("/thread", get(|| async { format!("{:?}", std::thread::current().id()) }));
        let admit = house.clone();
        let served = tokio::spawn(async move {
            let ends = async move {
                let _ = ends.await; // Dropped is as good as told.
            };
            let gone = async move {
                let _: Result<(), _> = gone.await;
            };
            bound.serve(admit, more, ends, |_| gone).await
        });
        World { house, address, face_stats, shutdown: Some(shutdown), servers: Some(servers), served }
    }

    pub(crate) async fn wire(&self) -> Wire {
        Wire::connect(self.address).await
    }

    /// Begins the shutdown.
    pub(crate) fn shut_down(&mut self) {
        self.shutdown.take();
    }

    pub(crate) async fn parting(mut self) -> Parting {
        self.servers.take();
        self.served.await.expect("serving does not panic")
    }

    /// A session at `/mcp`: its id.
    pub(crate) async fn session(&self) -> String {
        self.session_of("/mcp", &[]).await
    }

    pub(crate) async fn session_of(&self, path: &str, headers: &[(&str, &str)]) -> String {
        let (head, _) = self.wire().await.ask("POST", path, headers, &initialize()).await;
        assert_eq!(head.status, 200);
        head.header("mcp-session-id").expect("an id").to_owned()
    }
}

pub(crate) fn initialize() -> String {
    let params = json!({
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": { "name": "test", "version": "1" },
    });
    json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params }).to_string()
}

/// A legacy call of a tool, with a token.
pub(crate) fn call(id: impl Into<Value>, tool: &str) -> String {
    let id: Value = id.into();
    let params = json!({ "name": tool, "arguments": { "id": id }, "_meta": { "progressToken": "t" } });
    json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params }).to_string()
}

/// A modern request.
pub(crate) fn modern(id: impl Into<Value>, method: &str, mut params: Value) -> String {
    params["_meta"]["io.modelcontextprotocol/protocolVersion"] = "2026-07-28".into();
    params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = json!({});
    json!({ "jsonrpc": "2.0", "id": id.into(), "method": method, "params": params }).to_string()
}

/// A modern call of a tool.
pub(crate) fn modern_call(id: impl Into<Value>, tool: &str) -> String {
    let id: Value = id.into();
    modern(
        id.clone(),
        "tools/call",
        json!({ "name": tool, "arguments": { "id": id }, "_meta": { "progressToken": "t" } }),
    )
}

pub(crate) fn headers<'a>(method: &'a str, name: &'a str) -> Vec<(&'a str, &'a str)> {
    let mut headers = vec![("MCP-Protocol-Version", "2026-07-28"), ("Mcp-Method", method)];
    if !name.is_empty() {
        headers.push(("Mcp-Name", name));
    }
    headers
}

pub(crate) fn value(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

pub(crate) fn notification(method: &str, params: Value) -> Value {
    json!({ "jsonrpc": "2.0", "method": method, "params": params })
}
