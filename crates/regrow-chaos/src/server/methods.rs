//! The protocol apart from tool calls: handshake, discovery, lists, resources, prompts.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use regrow_protocol::meta;
use regrow_protocol::version::{LATEST_LEGACY, LEGACY, MODERN};
use serde_json::{Map, Value, json};

use super::life::Death;
use super::wire::{Reply, RpcRequest};
use super::{Server, catalog};
use crate::plan::Orders;
use crate::sync::lock;

/// What the modern era no longer knows.
const GONE: [&str; 5] =
    ["initialize", "ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe"];

impl Server {
    pub(super) fn answer_to(self: &Arc<Self>, request: &RpcRequest, orders: &Orders) -> Reply {
        if let Some(refusal) = self.refusal(request, orders) {
            return refusal;
        }
        let params = &request.params;
        let uri = params["uri"].as_str().unwrap_or_default().to_owned();
        match request.method.as_str() {
            "initialize" => self.initialize(request, orders),
            "server/discover" => self.discover(orders),
            "ping" if orders.has("silent-ping") => Reply::Silence,
            "ping" if orders.has("invalid-ping") => Reply::error(-32600, "Invalid Request"),
            "ping" if !orders.has("no-ping") => Reply::Result(json!({})),
            "logging/setLevel" => Reply::Result(json!({})),
            "completion/complete" => Reply::Result(
                json!({"completion": {"values": ["alpha", "beta"], "total": 2, "hasMore": false}}),
            ),
            "tools/list" => self.list_tools(params, orders),
            "resources/list" if orders.has("catch-all") => Reply::Result(json!({"resources": []})),
            "resources/templates/list" if orders.has("catch-all") => {
                Reply::Result(json!({"resourceTemplates": [{"uriTemplate": "{+any}", "name": "any"}]}))
            }
            "resources/read" if orders.has("catch-all") => {
                Reply::Result(json!({"contents": [{"uri": uri, "text": "caught"}]}))
            }
            "resources/list" => Reply::Result(json!({"resources": catalog::resources()})),
            "resources/templates/list" => Reply::Result(json!({"resourceTemplates": []})),
            "resources/read" if uri == "chaos://life" => {
                let text = self.life.to_string();
                Reply::Result(json!({"contents": [{"uri": uri, "mimeType": "text/plain", "text": text}]}))
            }
            "resources/read" => Reply::error(-32602, format!("no such resource: {uri}")),
            "resources/subscribe" => {
                lock(&self.subscriptions).insert(uri);
                Reply::Result(json!({}))
            }
            "resources/unsubscribe" => {
                lock(&self.subscriptions).remove(&uri);
                Reply::Result(json!({}))
            }
            "prompts/list" => Reply::Result(json!({"prompts": catalog::prompts()})),
            "prompts/get" if params["name"] == "greet" => {
                let name = params["arguments"]["name"].as_str().unwrap_or("world");
                let content = json!({"type": "text", "text": format!("Say hello to {name}.")});
                Reply::Result(json!({"messages": [{"role": "user", "content": content}]}))
            }
            "prompts/get" => Reply::error(-32602, "no such prompt"),
            "subscriptions/listen" if request.modern => self.listen(request),
            method => Reply::error(-32601, format!("Method not found: {method}")),
        }
    }

    /// Why a request is not even looked at.
    pub(super) fn refusal(&self, request: &RpcRequest, orders: &Orders) -> Option<Reply> {
        let method = request.method.as_str();
        let area = match method.split('/').next().unwrap_or_default() {
            "completion" => "completions",
            area => area,
        };
        if orders.texts("lose-capability").any(|lost| lost == area) {
            return Some(Reply::error(-32601, format!("Method not found: {method}")));
        }
        if request.modern {
            if GONE.contains(&method) {
                return Some(Reply::error(-32601, format!("Method not found: {method}")));
            }
            let version = request.meta(meta::PROTOCOL_VERSION).and_then(Value::as_str).unwrap_or(MODERN);
            return (version != MODERN).then(|| unsupported(version));
        }
        let open = matches!(method, "initialize" | "ping" | "server/discover");
        if !open && !self.initialized.load(Ordering::SeqCst) {
            return Some(Reply::error(-32600, format!("{method} before initialize")));
        }
        if !open && orders.has("strict") && !self.ready.load(Ordering::SeqCst) {
            return Some(Reply::error(-32602, format!("{method} before notifications/initialized")));
        }
        None
    }

    fn initialize(&self, request: &RpcRequest, orders: &Orders) -> Reply {
        let requested = request.params["protocolVersion"].as_str().unwrap_or_default();
        let locked = orders.has("lock-era") && self.discovered.load(Ordering::SeqCst);
        if orders.has("never-answer") {
            return Reply::Silence;
        }
        if orders.has("modern-only") || locked {
            return unsupported(requested);
        }
        let known = LEGACY.into_iter().find(|version| *version == requested);
        let version = orders.text("version").unwrap_or(known.unwrap_or(LATEST_LEGACY));
        self.initialized.store(true, Ordering::SeqCst);
        Reply::Result(json!({
            "protocolVersion": version,
            "capabilities": capabilities(orders),
            "serverInfo": server_info(),
            "instructions": "This server misbehaves on command.",
        }))
    }

    fn discover(&self, orders: &Orders) -> Reply {
        if orders.has("die-on-discover") {
            self.end("die-on-discover", Death::Exit(1));
        }
        if orders.has("silent-discover") || orders.has("never-answer") {
            return Reply::Silence;
        }
        if orders.has("refuse-discover") {
            return Reply::error(-32601, "Method not found: server/discover");
        }
        self.discovered.store(true, Ordering::SeqCst);
        let legacy = LEGACY.iter().rev().filter(|_| !orders.has("modern-only"));
        let versions: Vec<&str> = legacy.copied().chain([MODERN]).collect();
        Reply::Result(json!({
            "supportedVersions": versions,
            "capabilities": capabilities(orders),
            "instructions": "This server misbehaves on command.",
        }))
    }

    fn list_tools(&self, params: &Value, orders: &Orders) -> Reply {
        let tools = self.tools(orders);
        if orders.has("odd-tools") {
            return Reply::Written(with_odd_tools(&tools));
        }
        let Some(page) = orders.number("page").and_then(|page| usize::try_from(page).ok()) else {
            return Reply::Result(json!({"tools": tools}));
        };
        let from =
            params["cursor"].as_str().and_then(|cursor| cursor.parse().ok()).unwrap_or(0).min(tools.len());
        let to = from.saturating_add(page.max(1)).min(tools.len());
        let mut result = json!({"tools": tools[from..to]});
        if to < tools.len() {
            result["nextCursor"] = to.to_string().into();
        }
        Reply::Result(result)
    }

    /// Puts on a result what its era demands.
    pub(super) fn in_form(&self, request: &RpcRequest, reply: Reply) -> Reply {
        let Reply::Result(Value::Object(mut result)) = reply else { return reply };
        if request.modern {
            result.entry("resultType").or_insert("complete".into());
            result.entry("_meta").or_insert_with(|| Map::new().into())[meta::SERVER_INFO] = server_info();
            let method = request.method.as_str();
            if method.ends_with("/list") || matches!(method, "server/discover" | "resources/read") {
                result.insert("ttlMs".into(), 0.into());
                result.insert("cacheScope".into(), "private".into());
            }
        }
        Reply::Result(result.into())
    }
}

/// The result of `tools/list` with tools that strict readers refuse.
fn with_odd_tools(tools: &[Value]) -> String {
    let tool =
        |name: &str, more: &str| format!(r#"{{"name":"{name}","inputSchema":{{"type":"object"}}{more}}}"#);
    let deep = format!(r#","x":{}{}"#, "[".repeat(200), "]".repeat(200));
    let odd = [
        tool("deep", &deep),
        tool("surrogate", r#","title":"\ud800""#),
        tool("infinite", r#","x":1e999"#),
        tool(&"n".repeat(300), ""),
    ];
    let all: Vec<String> = tools.iter().map(Value::to_string).chain(odd).collect();
    format!(r#"{{"tools":[{}]}}"#, all.join(","))
}

fn unsupported(requested: &str) -> Reply {
    let data = Some(json!({"supported": [MODERN], "requested": requested}));
    Reply::Error { code: -32022, message: "Unsupported protocol version".into(), data }
}

fn server_info() -> Value {
    json!({"name": "regrow-chaos", "version": env!("CARGO_PKG_VERSION")})
}

fn capabilities(orders: &Orders) -> Value {
    let mut capabilities = json!({
        "tools": {"listChanged": true},
        "resources": {"subscribe": true, "listChanged": true},
        "prompts": {},
        "logging": {},
        "completions": {},
    });
    for lost in orders.texts("lose-capability") {
        if let Some(capabilities) = capabilities.as_object_mut() {
            capabilities.remove(lost);
        }
    }
    capabilities
}
