//! A client of the gateway over HTTP, of either era.

use std::net::SocketAddr;

use serde_json::{Value, json};

use crate::client::{envelope, fault, is_failure, text};
use crate::house::House;
use crate::wire::{Head, Wire};

/// The era that a client speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Era {
    Legacy,
    Modern,
}

pub const ERAS: [Era; 2] = [Era::Legacy, Era::Modern];

/// See the head of this file.
pub struct Guest {
    address: SocketAddr,
    path: String,
    token: Option<String>,
    pub era: Era,
    pub session: Option<String>,
    /// What the client can do, as it says.
    capabilities: Value,
    wire: Option<Wire>,
    pub next_id: u64,
}

impl Guest {
    /// A client that has not greeted yet.
    pub fn new(house: &House, era: Era) -> Guest {
        let (path, capabilities) = ("/mcp".into(), json!({}));
        let address = house.address;
        Guest { address, path, token: None, era, session: None, capabilities, wire: None, next_id: 0 }
    }

    /// A client that has greeted.
    pub fn of(house: &House, era: Era) -> Guest {
        let mut guest = Guest::new(house, era);
        guest.greet();
        guest
    }

    /// At this page, instead of that of all servers.
    pub fn at(mut self, path: &str) -> Guest {
        self.path = path.into();
        self
    }

    pub fn token(mut self, token: &str) -> Guest {
        self.token = Some(token.into());
        self
    }

    pub fn able_to(mut self, capabilities: Value) -> Guest {
        self.capabilities = capabilities;
        self
    }

    pub fn greet(&mut self) -> Value {
        if self.era == Era::Modern {
            return self.request("server/discover", json!({}));
        }
        let params = json!({
            "protocolVersion": "2025-11-25",
            "capabilities": self.capabilities,
            "clientInfo": { "name": "scenario", "version": "1" },
        });
        let mut begun = self.begin("initialize", params);
        let head = begun.head();
        self.session = head.header("mcp-session-id").map(str::to_owned);
        let answer = begun.answer_after(&head);
        assert!(self.session.is_some(), "{answer}");
        self.notify("notifications/initialized", json!({}));
        answer
    }

    /// Sends a request on a connection of its own.
    pub fn begin(&mut self, method: &str, params: Value) -> Begun {
        let (id, body) = self.message(method, params);
        let mut wire = Wire::connect(self.address);
        self.send(&mut wire, "POST", method, &body);
        Begun { wire, id, heard: vec![] }
    }

    pub fn begin_call(&mut self, tool: &str, arguments: Value) -> Begun {
        self.begin("tools/call", json!({ "name": tool, "arguments": arguments }))
    }

    /// A request and its answer, on the connection that is kept.
    pub fn request(&mut self, method: &str, params: Value) -> Value {
        let (id, body) = self.message(method, params);
        let mut wire = self.wire.take().unwrap_or_else(|| Wire::connect(self.address));
        self.send(&mut wire, "POST", method, &body);
        let mut begun = Begun { wire, id, heard: vec![] };
        let answer = begun.answer();
        self.wire = Some(begun.wire);
        answer
    }

    /// A tool call and its result, which must not be an error.
    pub fn call(&mut self, tool: &str, arguments: Value) -> String {
        let answer = self.request("tools/call", json!({ "name": tool, "arguments": arguments }));
        assert!(!is_failure(&answer), "{tool}: {answer}");
        text(&answer)
    }

    /// A tool call that must fail: its text, and the machine-readable part.
    pub fn failing_call(&mut self, tool: &str, arguments: Value) -> (String, Value) {
        let answer = self.request("tools/call", json!({ "name": tool, "arguments": arguments }));
        assert!(is_failure(&answer), "{tool}: {answer}");
        (text(&answer), fault(&answer))
    }

    /// The names of the tools that are offered.
    pub fn tools(&mut self) -> Vec<String> {
        let answer = self.request("tools/list", json!({}));
        let tools = answer["result"]["tools"].as_array().unwrap_or_else(|| panic!("{answer}"));
        tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
    }

    /// Sends what wants no answer.
    pub fn notify(&mut self, method: &str, params: Value) {
        let body = json!({ "jsonrpc": "2.0", "method": method, "params": params });
        let status = self.post(&body);
        assert_eq!(status, 202, "{method}");
    }

    /// Answers a question of a server.
    pub fn reply(&mut self, id: &Value, result: Value) {
        let status = self.post(&json!({ "jsonrpc": "2.0", "id": id, "result": result }));
        assert_eq!(status, 202);
    }

    fn post(&mut self, body: &Value) -> u16 {
        let mut wire = Wire::connect(self.address);
        self.send(&mut wire, "POST", body["method"].as_str().unwrap_or_default(), body);
        wire.head().status
    }

    /// Listens for what belongs to no call: the stream of a legacy session.
    pub fn listen(&mut self) -> Wire {
        let mut wire = Wire::connect(self.address);
        self.send(&mut wire, "GET", "", &Value::Null);
        assert_eq!(wire.head().status, 200);
        wire
    }

    /// Ends the session; the status.
    pub fn leave(&mut self) -> u16 {
        let mut wire = Wire::connect(self.address);
        self.send(&mut wire, "DELETE", "", &Value::Null);
        wire.head().status
    }

    /// Posts exactly this. Returns the body of the response.
    pub fn post_text(&self, body: &str) -> String {
        let session = self.session.as_deref().unwrap_or_default();
        let headers = [("Mcp-Session-Id", session), ("MCP-Protocol-Version", "2025-11-25")];
        Wire::connect(self.address).ask("POST", &self.path, &headers, body).1
    }

    fn message(&mut self, method: &str, mut params: Value) -> (u64, Value) {
        self.next_id += 1;
        if self.era == Era::Modern {
            let own = params["_meta"].take();
            params["_meta"] = envelope();
            for (key, value) in own.as_object().into_iter().flatten() {
                params["_meta"][key] = value.clone();
            }
        }
        let id = self.next_id;
        (id, json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }))
    }

    fn send(&self, wire: &mut Wire, verb: &str, method: &str, body: &Value) {
        let bearer = self.token.as_ref().map(|token| format!("Bearer {token}")).unwrap_or_default();
        let mut headers = vec![("Authorization", &*bearer)];
        match self.era {
            Era::Legacy => {
                headers.push(("Mcp-Session-Id", self.session.as_deref().unwrap_or_default()));
                headers.push(("MCP-Protocol-Version", "2025-11-25"));
            }
            Era::Modern => {
                headers.extend([("MCP-Protocol-Version", "2026-07-28"), ("Mcp-Method", method)]);
                let params = &body["params"];
                headers.push((
                    "Mcp-Name",
                    params["name"].as_str().or(params["uri"].as_str()).unwrap_or_default(),
                ));
            }
        }
        let body = if body.is_null() { String::new() } else { body.to_string() };
        wire.send(verb, &self.path, &headers, &body);
    }
}

/// A request that is under way. Dropping it closes its connection.
pub struct Begun {
    pub wire: Wire,
    id: u64,
    /// What came before the answer.
    pub heard: Vec<Value>,
}

impl Begun {
    pub fn head(&mut self) -> Head {
        self.wire.head()
    }

    /// The answer, which must come.
    pub fn answer(&mut self) -> Value {
        let head = self.head();
        self.answer_after(&head)
    }

    fn answer_after(&mut self, head: &Head) -> Value {
        let mut messages = self.wire.messages(head);
        let answer = messages.pop_back().unwrap_or_else(|| panic!("no answer to {}: {head:?}", self.id));
        self.heard.extend(messages);
        assert_eq!(answer["id"], self.id, "{answer}");
        answer
    }

    /// The next message of a stream, which is not its last.
    pub fn next(&mut self) -> Value {
        self.wire.message().expect("the stream goes on")
    }
}
