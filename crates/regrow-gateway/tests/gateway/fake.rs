//! A server in memory, of either era, that does what the names of its tools say and remembers all that it was told. It is a
//! process on pipes, or at the end of a network.

use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use regrow::core::Fault;
use regrow_testkit::process::Stubborn;
use regrow_testkit::remote::Remote;
use regrow_testkit::script::{Act, Plan, answer, refusal, timed};
use regrow_testkit::server::Server;
use serde_json::{Value, json};

use crate::network::{self, Network};

pub const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";
const KILLED: Fault = Fault::Killed { signal: 9 };
const TOOLS: [&str; 9] = ["ask", "die", "echo", "hang", "lie", "log", "progress", "task", "wait"];

/// A server. Clones share it.
#[derive(Clone)]
pub struct Fake {
    script: Script,
    remote: bool,
    /// Its processes, where it has pipes.
    pub server: Server,
}

/// What it does about each message.
#[derive(Clone)]
pub struct Script {
    pub name: Arc<str>,
    modern: bool,
    world: Arc<Mutex<World>>,
}

/// What it is like now, and what it has heard.
pub struct World {
    pub capabilities: Value,
    /// What is on each list, by the method that asks for it.
    pub lists: BTreeMap<&'static str, Vec<String>>,
    /// So many of a list at once.
    pub page: usize,
    /// It answers lists with an error.
    pub refuses_lists: bool,
    /// It cannot be started.
    pub is_broken: bool,
    /// It reads, and says nothing.
    pub is_mute: bool,
    /// Each call comes to it twice.
    pub hears_twice: bool,
    /// It takes so long to greet.
    pub start_takes: Duration,
    /// All that it was told, with the session that it came in.
    pub heard: Vec<(usize, Value)>,
    pub sessions: Vec<Session>,
    pub network: Network,
}

/// One life of it; behind a network, all that one connection has of it.
#[derive(Default)]
pub struct Session {
    /// The way to it over a network.
    pub wire: Option<Remote>,
    /// The calls that wait for an answer to a question, by the question's number.
    asked: BTreeMap<u64, Value>,
    /// What is listened for, by the id of the stream; legacy: by the URI.
    streams: Vec<(Value, Value)>,
}

impl Session {
    pub fn over(wire: &Remote) -> Session {
        Session { wire: Some(wire.clone()), ..Session::default() }
    }
}

impl Deref for Fake {
    type Target = Script;

    fn deref(&self) -> &Script {
        &self.script
    }
}

impl Fake {
    pub fn new(name: &str, modern: bool) -> Fake {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let lists = BTreeMap::from([
            ("tools/list", names(&TOOLS)),
            ("prompts/list", names(&["greet"])),
            ("resources/list", vec![format!("{name}://listed")]),
            ("resources/templates/list", vec![format!("{name}://file/{{path}}")]),
        ]);
        let world = World {
            capabilities: json!({
                "tools": { "listChanged": true }, "prompts": { "listChanged": true }, "logging": {},
                "resources": { "listChanged": true, "subscribe": true }, "completions": {},
                "tasks": { "list": {}, "cancel": {}, "requests": { "tools": { "call": {} } } },
            }),
            lists,
            page: 100,
            refuses_lists: false,
            is_broken: false,
            is_mute: false,
            hears_twice: false,
            start_takes: Duration::ZERO,
            heard: vec![],
            sessions: vec![],
            network: Network::default(),
        };
        let script = Script { name: name.into(), modern, world: Arc::new(Mutex::new(world)) };
        let starts = script.clone();
        let server = Server::new(move |start| starts.plan(start - 1));
        Fake { script, remote: false, server }
    }

    /// The same at the end of a network.
    pub fn far(self) -> Fake {
        Fake { remote: true, ..self }
    }

    pub fn legacy(name: &str) -> Fake {
        Fake::new(name, false)
    }

    pub fn modern(name: &str) -> Fake {
        Fake::new(name, true)
    }

    pub fn is_remote(&self) -> bool {
        self.remote
    }

    /// From now on it has these tools, and says so.
    pub fn changes_tools(&self, tools: &[&str]) {
        self.world().lists.insert("tools/list", tools.iter().map(|name| (*name).to_owned()).collect());
        self.says_changed("tools");
    }

    /// It says that a list has changed.
    pub fn says_changed(&self, list: &str) {
        let method = format!("notifications/{list}/list_changed");
        if self.modern {
            let member = format!("{list}ListChanged");
            self.tell_streams(&method, json!({}), |filter| filter[&member] == true);
        } else {
            self.say(&json!({ "jsonrpc": "2.0", "method": method }));
        }
    }

    /// It says, to those who want to know, that a resource has changed.
    pub fn updates(&self, uri: &str) {
        let method = "notifications/resources/updated";
        self.tell_streams(method, json!({ "uri": uri }), |filter| {
            filter["resourceSubscriptions"].as_array().is_some_and(|uris| uris.iter().any(|of| of == uri))
        });
    }

    fn tell_streams(&self, method: &str, params: Value, wants: impl Fn(&Value) -> bool) {
        for (at, session) in self.world().sessions.iter().enumerate() {
            for (id, _) in session.streams.iter().filter(|(_, filter)| wants(filter)) {
                let mut params = params.clone();
                if self.modern {
                    params["_meta"] = json!({ SUBSCRIPTION: id });
                }
                self.say_in(at, session, json!({ "jsonrpc": "2.0", "method": method, "params": params }));
            }
        }
    }

    /// It ends every stream that it has with a response.
    pub fn ends_streams(&self) {
        for (at, session) in self.world().sessions.iter_mut().enumerate() {
            for (id, _) in std::mem::take(&mut session.streams) {
                let meta = json!({ SUBSCRIPTION: id });
                let end = answer(&id, json!({ "resultType": "complete", "_meta": meta }));
                self.say_in(at, session, end);
            }
        }
    }

    /// Says this in every session.
    pub fn say(&self, message: &Value) {
        let world = self.world();
        world.sessions.iter().enumerate().for_each(|(at, of)| self.say_in(at, of, message.clone()));
    }

    fn say_in(&self, at: usize, session: &Session, message: Value) {
        match &session.wire {
            Some(remote) => network::say(remote, &message),
            None => self.server.act_in(at + 1, Act::Say(message)),
        }
    }

    /// Each of its processes does this.
    pub fn act(&self, act: &Act) {
        (1..=self.starts()).for_each(|start| self.server.act_in(start, act.clone()));
    }

    pub fn die(&self) {
        self.server.die_all(&KILLED);
        self.wires().iter().for_each(network::restart);
    }

    pub fn starts(&self) -> usize {
        self.world().sessions.len()
    }

    /// How many of its lives have not ended.
    pub fn live(&self) -> usize {
        self.server.alive() + self.wires().iter().map(|wire| wire.world().live).sum::<usize>()
    }

    /// What it was sent of this method.
    pub fn heard_of(&self, method: &str) -> Vec<Value> {
        let world = self.world();
        let heard = world.heard.iter().filter(|(_, message)| message["method"] == method);
        heard.map(|(_, message)| message.clone()).collect()
    }

    pub fn count(&self, method: &str) -> usize {
        self.heard_of(method).len()
    }

    /// The texts of the calls of this tool that came to it.
    pub fn ran(&self, tool: &str) -> Vec<String> {
        let calls = self.heard_of("tools/call");
        let calls = calls.iter().filter(|call| call["params"]["name"] == tool);
        calls
            .map(|call| call["params"]["arguments"]["text"].as_str().unwrap_or_default().to_owned())
            .collect()
    }

    /// What it was sent of this method, in one of its lives.
    pub fn heard_in(&self, session: usize, method: &str) -> Vec<Value> {
        let world = self.world();
        let heard = world.heard.iter().filter(|(of, message)| *of == session && message["method"] == method);
        heard.map(|(_, message)| message.clone()).collect()
    }
}

impl Script {
    pub fn is_modern(&self) -> bool {
        self.modern
    }

    pub fn world(&self) -> MutexGuard<'_, World> {
        self.world.lock().expect("nobody panics with it")
    }

    /// How the process of one more session behaves.
    fn plan(&self, at: usize) -> Plan {
        let mut world = self.world();
        world.sessions.push(Session::default());
        let script = self.clone();
        Plan {
            cannot_start: world.is_broken.then_some(Fault::Exited { code: 1 }),
            habit: Arc::new(move |message| Some(script.acts(at, message))),
            stubborn: Stubborn::Never,
            ..Plan::default()
        }
    }

    /// What it does about a message.
    pub fn acts(&self, at: usize, message: &Value) -> Vec<Act> {
        let id = &message["id"];
        let params = &message["params"];
        let mut world = self.world();
        world.heard.push((at, message.clone()));
        if world.hears_twice && message["method"] == "tools/call" {
            world.heard.push((at, message.clone()));
        }
        if world.is_mute {
            return vec![];
        }
        let capabilities = world.capabilities.clone();
        let now = |result: Value| vec![Act::Say(answer(id, result))];
        let method = message["method"].as_str().unwrap_or_default();
        match method {
            "server/discover" if self.modern => {
                let result = json!({
                    "supportedVersions": ["2026-07-28"], "capabilities": capabilities,
                    "resultType": "complete", "_meta": { "io.modelcontextprotocol/serverInfo": self.info() },
                });
                timed(vec![(world.start_takes, answer(id, result))])
            }
            "initialize" if !self.modern => {
                let result = json!({
                    "protocolVersion": "2025-11-25", "capabilities": capabilities, "serverInfo": self.info(),
                });
                timed(vec![(world.start_takes, answer(id, result))])
            }
            method if world.lists.contains_key(method) => {
                if world.refuses_lists {
                    return vec![Act::Say(refusal(id, -32603, "not now"))];
                }
                now(world.list(method, params))
            }
            "tools/call" => {
                drop(world);
                self.works(at, message)
            }
            "prompts/get" => now(json!({ "description": self.said(params), "messages": [] })),
            "completion/complete" => now(json!({ "completion": { "values": [self.said(&params["ref"])] } })),
            "resources/read" => match params["uri"].as_str().unwrap_or_default() {
                uri if uri.starts_with(&format!("{}://", self.name)) => {
                    now(json!({ "contents": [{ "uri": uri, "text": self.said(params) }] }))
                }
                _ => vec![Act::Say(refusal(id, -32002, "Resource not found"))],
            },
            "resources/subscribe" => {
                let filter = json!({ "resourceSubscriptions": [params["uri"]] });
                world.sessions[at].streams.push((params["uri"].clone(), filter));
                now(json!({}))
            }
            "resources/unsubscribe" => {
                world.sessions[at].streams.retain(|(uri, _)| *uri != params["uri"]);
                now(json!({}))
            }
            "subscriptions/listen" if self.modern => {
                let filter = &params["notifications"];
                world.sessions[at].streams.push((id.clone(), filter.clone()));
                let params = json!({ "_meta": { SUBSCRIPTION: id }, "notifications": filter });
                let method = "notifications/subscriptions/acknowledged";
                vec![Act::Say(json!({ "jsonrpc": "2.0", "method": method, "params": params }))]
            }
            "notifications/cancelled" => {
                world.sessions[at].streams.retain(|(id, _)| *id != params["requestId"]);
                vec![]
            }
            "ping" | "logging/setLevel" => now(json!({})),
            "tasks/result" => {
                let wait = Duration::from_millis(params["ms"].as_u64().unwrap_or_default());
                timed(vec![(wait, answer(id, json!({ "at": &*self.name })))])
            }
            "tasks/get" => now(json!({ "taskId": params["taskId"], "status": "working", "at": &*self.name })),
            "" => self.goes_on(&world.sessions[at], message),
            _ if id.is_null() => vec![],
            _ => vec![Act::Say(refusal(id, -32601, "unknown"))],
        }
    }

    fn info(&self) -> Value {
        json!({ "name": &*self.name, "version": "1" })
    }

    fn said(&self, of: &Value) -> String {
        let name = of["name"].as_str().or(of["uri"].as_str()).unwrap_or_default();
        format!("{}: {name}", self.name)
    }

    fn text(&self, message: &Value) -> Value {
        let text = message["params"]["arguments"]["text"].as_str().unwrap_or_default();
        json!({ "content": [{ "type": "text", "text": format!("{}: {text}", self.name) }] })
    }

    /// A tool is called.
    fn works(&self, at: usize, message: &Value) -> Vec<Act> {
        let (id, params) = (&message["id"], &message["params"]);
        let text = &params["arguments"]["text"];
        let done = answer(id, self.text(message));
        let told = |method: &str, params| json!({ "jsonrpc": "2.0", "method": method, "params": params });
        match params["name"].as_str().unwrap_or_default() {
            "wait" => {
                let ms = params["arguments"]["ms"].as_u64().unwrap_or_default();
                timed(vec![(Duration::from_millis(ms), done)])
            }
            "hang" => vec![],
            "die" => vec![Act::Die(KILLED)],
            "lie" => {
                let wrong = answer(&json!(999_999), self.text(message));
                let none = json!({ "jsonrpc": "2.0", "id": null, "result": {} });
                [wrong, none, done.clone(), done].map(Act::Say).into()
            }
            "log" => {
                let log = told("notifications/message", json!({ "level": "info", "data": text }));
                vec![Act::Say(log), Act::Say(done)]
            }
            "progress" => {
                let token = &params["_meta"]["progressToken"];
                let step = |n: u64| {
                    let params = json!({ "progressToken": token, "progress": n, "message": text });
                    (Duration::from_millis(10 * n), told("notifications/progress", params))
                };
                timed(vec![step(1), step(2), (Duration::from_millis(30), done)])
            }
            "task" => {
                let task = json!({ "taskId": format!("{}-task", self.name), "status": "working" });
                vec![Act::Say(answer(id, json!({ "task": task })))]
            }
            "ask" => {
                let mut world = self.world();
                let number = world.sessions[at].asked.len() as u64 + 1;
                world.sessions[at].asked.insert(number, message.clone());
                let question = json!({ "messages": [], "maxTokens": 1, "question": text });
                let asked = json!({
                    "jsonrpc": "2.0", "id": number, "method": "sampling/createMessage", "params": question,
                });
                vec![Act::Say(asked)]
            }
            _ => vec![Act::Say(done)],
        }
    }

    /// An answer to its question comes: so the call is answered.
    fn goes_on(&self, session: &Session, message: &Value) -> Vec<Act> {
        let call = message["id"].as_u64().and_then(|number| session.asked.get(&number));
        let Some(call) = call else { return vec![] };
        let text = match message["result"]["text"].as_str() {
            Some(text) => format!("{}: {text}", self.name),
            None => format!("{}: no answer ({})", self.name, message["error"]["code"]),
        };
        let result = json!({ "content": [{ "type": "text", "text": text }] });
        vec![Act::Say(answer(&call["id"], result))]
    }
}

impl World {
    fn list(&self, method: &str, params: &Value) -> Value {
        let (member, key) = match method {
            "tools/list" => ("tools", "name"),
            "prompts/list" => ("prompts", "name"),
            "resources/list" => ("resources", "uri"),
            _ => ("resourceTemplates", "uriTemplate"),
        };
        let all = &self.lists[method];
        let from: usize =
            params["cursor"].as_str().and_then(|cursor| cursor.parse().ok()).unwrap_or_default();
        let items: Vec<Value> = all
            .iter()
            .skip(from)
            .take(self.page)
            .map(|name| json!({ "name": name, key: name, "inputSchema": { "type": "object" } }))
            .collect();
        let next = from + items.len();
        let mut result = json!({ member: items });
        if next < all.len() {
            result["nextCursor"] = next.to_string().into();
        }
        result
    }
}
