//! What a server does about each message. The same script runs on pipes and behind a network.

use std::sync::Arc;
use std::time::Duration;

use regrow::core::{Evidence, Fault};
use serde_json::{Value, json};

use crate::process::Stubborn;

/// What a server does about one message, step by step.
#[derive(Clone, Debug)]
pub enum Act {
    /// Sends a message; over a network on the exchange, which a response ends.
    Say(Value),
    /// Takes its time.
    Wait(Duration),
    /// Has an effect on the world, under this name.
    Effect(String),
    /// Dies. Over a network every exchange breaks, whatever the fault.
    Die(Fault),
    /// Pipes only: writes this, whatever it is.
    Write(String),
    /// Pipes only: closes its output and lives on.
    CloseOutput,
    /// Pipes only: stops reading.
    StopReading,
    /// Pipes only: reads again.
    ReadOn,
    /// Network only: sends a message on the stream of its own instead.
    SayElsewhere(Value),
    /// Network only: from here on the exchange needs no response, which comes on the stream.
    Elsewhere,
    /// Network only: the exchange ends with this fault.
    Fail(Fault),
    /// Network only: the exchange stays open and silent, until [`Remote::order`](crate::remote::Remote::order).
    Stay,
    /// Network only: forgets every session.
    Forget,
}

/// Which questions about its era a server understands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Speaks {
    Legacy,
    Modern,
    Both,
    /// A legacy server that dies of `server/discover`.
    LegacyDiesOfDiscover,
    /// A legacy server that says nothing to `server/discover`.
    LegacySilentOnDiscover,
    /// A legacy server that answers methods it does not know with an HTTP status.
    LegacyAndStatus(u16),
    /// A legacy server that never ends the exchange of a method it does not know.
    LegacySilent,
}

impl Speaks {
    pub fn is_legacy(self) -> bool {
        !matches!(self, Speaks::Modern | Speaks::Both)
    }
}

/// What a server does about a message; none: what servers usually do.
pub type Habit = Arc<dyn Fn(&Value) -> Option<Vec<Act>> + Send + Sync>;

/// How one process of a server behaves, or a server behind a network.
#[derive(Clone)]
pub struct Plan {
    pub speaks: Speaks,
    pub version: &'static str,
    pub capabilities: Value,
    pub tools: Vec<&'static str>,
    /// Acknowledges `subscriptions/listen`, in either era.
    pub listens: bool,
    pub habit: Habit,
    // The rest is for processes.
    pub cannot_start: Option<Fault>,
    /// Before the process exists.
    pub spawn_delay: Duration,
    /// Before it reads its first byte.
    pub start_delay: Duration,
    /// Refuses all but the handshake until it is told that that is complete.
    pub strict: bool,
    /// Without being told anything.
    pub by_itself: Vec<Act>,
    pub stubborn: Stubborn,
    pub helpers: usize,
    pub tells_unread: bool,
    pub pipe: usize,
    pub stderr: Vec<String>,
}

impl Default for Plan {
    fn default() -> Plan {
        Plan {
            speaks: Speaks::Legacy,
            version: "2025-11-25",
            capabilities: json!({ "tools": { "listChanged": true }, "resources": {}, "logging": {}, "prompts": {} }),
            tools: vec!["add"],
            listens: true,
            habit: Arc::new(|_| None),
            cannot_start: None,
            spawn_delay: Duration::ZERO,
            start_delay: Duration::ZERO,
            strict: false,
            by_itself: vec![],
            stubborn: Stubborn::No,
            helpers: 0,
            tells_unread: false,
            pipe: 64 * 1024,
            stderr: vec![],
        }
    }
}

impl Plan {
    /// Does this about messages of this method.
    pub fn on(self, method: &'static str, act: impl Fn(&Value) -> Vec<Act> + Send + Sync + 'static) -> Plan {
        self.when(method, move |message| Some(act(message)))
    }

    /// Does this about messages of this method; none: what it did before.
    pub fn when(
        mut self,
        method: &'static str,
        act: impl Fn(&Value) -> Option<Vec<Act>> + Send + Sync + 'static,
    ) -> Plan {
        let usual = self.habit;
        self.habit = Arc::new(move |message| match message["method"] == method {
            true => act(message).or_else(|| usual(message)),
            false => usual(message),
        });
        self
    }

    /// Dies this long after its start.
    pub fn dies_after(mut self, after: Duration, fault: Fault) -> Plan {
        self.by_itself.extend([Act::Wait(after), Act::Die(fault)]);
        self
    }

    /// What it does about this message.
    pub fn acts(&self, message: &Value) -> Vec<Act> {
        (self.habit)(message).unwrap_or_else(|| self.usual(message))
    }

    fn usual(&self, message: &Value) -> Vec<Act> {
        let id = &message["id"];
        let say = |result: Value| vec![Act::Say(answer(id, result))];
        let unknown = || match self.speaks {
            Speaks::LegacyAndStatus(code) => vec![Act::Fail(status(code))],
            Speaks::LegacySilent => vec![Act::Stay],
            _ => vec![Act::Say(refusal(id, -32601, "Method not found"))],
        };
        match message["method"].as_str().unwrap_or_default() {
            "initialize" if self.speaks == Speaks::Modern => {
                vec![Act::Say(refusal(id, -32022, "only the modern era"))]
            }
            "initialize" => say(json!({
                "protocolVersion": self.version,
                "capabilities": self.capabilities,
                "serverInfo": { "name": "fake", "version": "1" },
            })),
            "server/discover" => match self.speaks {
                Speaks::Modern | Speaks::Both if is_modern(message) => say(json!({
                    "supportedVersions": ["2026-07-28"],
                    "capabilities": self.capabilities,
                    "resultType": "complete",
                })),
                Speaks::LegacyDiesOfDiscover => vec![Act::Die(Fault::Exited { code: 1 })],
                Speaks::LegacySilentOnDiscover => vec![],
                _ => unknown(),
            },
            "ping" if self.speaks == Speaks::Modern => unknown(),
            "ping" | "logging/setLevel" | "resources/subscribe" | "resources/unsubscribe" => say(json!({})),
            "tools/list" => say(json!({
                "tools": self.tools.iter().map(|name| json!({ "name": name })).collect::<Vec<_>>(),
            })),
            "tools/call" => call(message),
            "subscriptions/listen" if self.listens => vec![
                Act::Say(json!({
                    "jsonrpc": "2.0",
                    "method": "notifications/subscriptions/acknowledged",
                    "params": { "_meta": { "io.modelcontextprotocol/subscriptionId": id } },
                })),
                Act::Stay,
            ],
            _ if id.is_null() => vec![],
            _ => unknown(),
        }
    }
}

/// What a tool call does is in its arguments: `effect`, `ms` before the answer, `dies`; on pipes `hangs` and `silent`; over a
/// network `elsewhere`, `status`, `forgets`, `refused` (404, as if the session were gone), `cut`, `stays`.
fn call(message: &Value) -> Vec<Act> {
    let arguments = &message["params"]["arguments"];
    let is = |name: &str| arguments[name] == true;
    let mut acts = vec![];
    if let Some(key) = arguments["effect"].as_str() {
        acts.push(Act::Effect(key.to_owned()));
    }
    if is("elsewhere") {
        acts.push(Act::Elsewhere);
    }
    if let Some(ms) = arguments["ms"].as_u64() {
        acts.push(Act::Wait(Duration::from_millis(ms)));
    }
    if let Some(code) = arguments["status"].as_u64() {
        acts.push(Act::Fail(status(code as u16)));
    }
    if is("forgets") {
        acts.extend([Act::Forget, Act::Fail(no_session(Evidence::Response))]);
    }
    if is("refused") {
        acts.push(Act::Fail(no_session(Evidence::Status)));
    }
    if is("dies") {
        acts.push(Act::Die(Fault::Killed { signal: 9 }));
    }
    if is("hangs") {
        acts.push(Act::StopReading);
    }
    if is("cut") {
        acts.push(Act::Fail(Fault::AnswerCut));
    }
    if is("stays") {
        acts.push(Act::Stay);
    }
    let answer = answer(&message["id"], json!({ "content": [], "got": arguments["say"] }));
    match () {
        () if is("hangs") || is("silent") => {}
        () if is("elsewhere") => acts.push(Act::SayElsewhere(answer)),
        () => acts.push(Act::Say(answer)),
    }
    acts
}

/// Says each of these at its time.
pub fn timed(mut said: Vec<(Duration, Value)>) -> Vec<Act> {
    said.sort_by_key(|(after, _)| *after);
    let (mut acts, mut passed) = (vec![], Duration::ZERO);
    for (after, said) in said {
        if after > passed {
            acts.push(Act::Wait(after - passed));
            passed = after;
        }
        acts.push(Act::Say(said));
    }
    acts
}

pub fn answer(id: &Value, result: Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "result": result })
}

pub fn refusal(id: &Value, code: i64, message: &str) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "error": { "code": code, "message": message } })
}

/// Whether a message carries the envelope of the modern era.
pub fn is_modern(message: &Value) -> bool {
    message["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"] == "2026-07-28"
}

pub fn status(code: u16) -> Fault {
    Fault::Status { code, said: String::new() }
}

/// The server answers as one that does not know the session.
pub fn no_session(evidence: Evidence) -> Fault {
    let code = if evidence == Evidence::Response { 200 } else { 404 };
    Fault::NoSession { code, said: ": not found".into(), evidence }
}

pub fn deferred(after: Duration) -> Fault {
    Fault::Deferred { code: 429, after }
}

pub fn unreachable() -> Fault {
    Fault::Unreachable { address: "fake:80".into(), reason: "connection refused".into() }
}
