//! A server at the far end of a network that misbehaves on command, and remembers all that reached it and when.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use regrow::core::{Epoch, Evidence, Fault};
use regrow::transport::{BoxFuture, Link, Transport};
use serde_json::{Value, json};
use tokio::sync::{Notify, mpsc};
use tokio::time::{Instant, sleep};

use crate::link::FarEnd;
use crate::signal::{Signal, Watcher};

/// What the network does with what is sent to the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Path {
    Up,
    /// Connections are refused.
    Down,
    /// Packets vanish: nothing fails, and nothing comes.
    Partitioned,
}

/// Which questions about its era a server understands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Speaks {
    Legacy,
    Modern,
    /// A legacy server that answers what it does not know with an HTTP status.
    LegacyAndStatus(u16),
    /// A legacy server that says nothing to `server/discover`.
    LegacySilent,
}

/// What a server does about one message, step by step.
#[derive(Clone, Debug)]
pub enum Act {
    /// Sends a message on the exchange. An answer ends that.
    Say(Value),
    /// Sends a message on the stream of its own instead.
    SayElsewhere(Value),
    /// From here on the exchange needs no answer: that comes on the stream.
    Elsewhere,
    /// Takes its time.
    Wait(Duration),
    /// Has an effect on the world, under this name.
    Effect(String),
    /// The exchange ends with this fault.
    Fail(Fault),
    /// Says nothing more, until it is told to by [`Remote::order`].
    Stay,
    /// Forgets every session.
    Forget,
    /// The server dies, and every exchange with it.
    Die,
}

/// What a server does about a message; none: what servers usually do.
pub type Habit = Arc<dyn Fn(&Value) -> Option<Vec<Act>> + Send + Sync>;

/// A message that reached the server.
#[derive(Clone, Debug)]
pub struct Heard {
    pub at: Duration,
    /// Which link carried it, from 1.
    pub link: usize,
    pub message: Value,
}

/// All that a server is and was. Clones share it.
#[derive(Clone)]
pub struct Remote(Arc<Inner>);

struct Inner {
    began: Instant,
    path: Signal<Path>,
    /// Which life of the server: exchanges do not outlive the one that they began in.
    life: Signal<u64>,
    mended: Notify,
    world: Mutex<World>,
}

/// How the server is, and what has happened to it.
pub struct World {
    pub speaks: Speaks,
    /// There and back.
    pub latency: Duration,
    /// How long it takes to end a session.
    pub farewell: Duration,
    /// Every exchange is refused so, whatever it carries.
    pub refuses: Option<Fault>,
    /// No link can be opened, for this reason.
    pub closed: Option<Fault>,
    pub has_stream: bool,
    pub habit: Habit,
    pub sessions: BTreeSet<usize>,
    /// What it wants to say on its own streams, by session.
    pub unsaid: BTreeMap<usize, VecDeque<Value>>,
    pub stays: BTreeMap<String, mpsc::UnboundedSender<Act>>,
    pub opened: Vec<Duration>,
    pub ended: Vec<(Duration, usize)>,
    pub heard: Vec<Heard>,
    pub effects: BTreeMap<String, u32>,
    /// What was being carried when its future was dropped.
    pub dropped: Vec<Value>,
    pub checks: Vec<Duration>,
    pub listened: Vec<Duration>,
    /// How many links are open.
    pub links: usize,
    /// How many of them have not been left because the server has forgotten their session.
    pub live: usize,
    /// How many that were at once at most.
    pub most_live: usize,
    /// What was begun on a link that had been ended.
    pub after_end: Vec<String>,
}

impl Remote {
    pub fn new(speaks: Speaks) -> Remote {
        Remote(Arc::new(Inner {
            began: Instant::now(),
            path: Signal::new(Path::Up),
            life: Signal::new(0),
            mended: Notify::new(),
            world: Mutex::new(World {
                speaks,
                latency: Duration::ZERO,
                farewell: Duration::ZERO,
                refuses: None,
                closed: None,
                has_stream: true,
                habit: Arc::new(|_| None),
                sessions: BTreeSet::new(),
                unsaid: BTreeMap::new(),
                stays: BTreeMap::new(),
                opened: vec![],
                ended: vec![],
                heard: vec![],
                effects: BTreeMap::new(),
                dropped: vec![],
                checks: vec![],
                listened: vec![],
                links: 0,
                live: 0,
                most_live: 0,
                after_end: vec![],
            }),
        }))
    }

    pub fn legacy() -> Remote {
        Remote::new(Speaks::Legacy)
    }

    pub fn modern() -> Remote {
        Remote::new(Speaks::Modern)
    }

    /// Does this about messages of this method.
    pub fn on(
        self,
        method: &'static str,
        act: impl Fn(&Value) -> Option<Vec<Act>> + Send + Sync + 'static,
    ) -> Remote {
        {
            let mut world = self.world();
            let usual = world.habit.clone();
            world.habit = Arc::new(move |message| match message["method"] == method {
                true => act(message).or_else(|| usual(message)),
                false => usual(message),
            });
        }
        self
    }

    pub fn world(&self) -> MutexGuard<'_, World> {
        self.0.world.lock().unwrap()
    }

    pub fn elapsed(&self) -> Duration {
        self.0.began.elapsed()
    }

    /// The network is so from now on.
    pub fn set_path(&self, path: Path) {
        self.0.path.set(path);
    }

    /// The server dies: every exchange breaks, its sessions are forgotten, and nobody answers at its address.
    pub fn kill(&self) {
        self.set_path(Path::Down);
        self.forget();
        self.cut();
    }

    /// It is there again.
    pub fn revive(&self) {
        self.set_path(Path::Up);
    }

    /// Forgets every session, and lives on.
    pub fn forget(&self) {
        let mut world = self.world();
        world.sessions.clear();
        world.unsaid.clear();
    }

    /// Every exchange breaks. The server and its sessions live.
    pub fn cut(&self) {
        self.0.life.change(|life| *life += 1);
    }

    /// Whatever was wrong with our credentials is right now.
    pub fn mend(&self) {
        self.world().refuses = None;
        self.0.mended.notify_one();
    }

    /// Says this by itself, on the stream of each session.
    pub fn say(&self, message: Value) {
        let mut world = self.world();
        for session in world.sessions.clone() {
            world.unsaid.entry(session).or_default().push_back(message.clone());
        }
        drop(world);
        self.0.path.change(|_| {}); // Whoever listens looks.
    }

    /// The exchange that carries the request of this id, and stays, goes on with this.
    pub fn order(&self, id: &Value, act: Act) {
        let world = self.world();
        let stay = world.stays.get(&id.to_string()).expect("it stays");
        let _ = stay.send(act); // An exchange that is over does nothing.
    }

    /// When links were opened.
    pub fn opened(&self) -> Vec<Duration> {
        self.world().opened.clone()
    }

    /// What reached it of this method.
    pub fn heard_of(&self, method: &str) -> Vec<Heard> {
        let world = self.world();
        world.heard.iter().filter(|heard| heard.message["method"] == method).cloned().collect()
    }

    /// How often that was.
    pub fn count(&self, method: &str) -> usize {
        self.heard_of(method).len()
    }

    /// What reached it by the n-th link: methods, and `answer` for what has none.
    pub fn told(&self, link: usize) -> Vec<String> {
        let world = self.world();
        let heard = world.heard.iter().filter(|heard| heard.link == link);
        heard.map(|heard| heard.message["method"].as_str().unwrap_or("answer").to_owned()).collect()
    }

    /// How often this happened.
    pub fn effects(&self, key: &str) -> u32 {
        self.world().effects.get(key).copied().unwrap_or(0)
    }

    /// The methods of what was being carried when its exchange was dropped.
    pub fn dropped(&self) -> Vec<String> {
        let world = self.world();
        world
            .dropped
            .iter()
            .map(|message| message["method"].as_str().unwrap_or("answer").to_owned())
            .collect()
    }

    pub(crate) fn life(&self) -> Watcher<u64> {
        self.0.life.watch()
    }

    pub(crate) fn path(&self) -> Path {
        self.0.path.value()
    }

    pub(crate) fn path_changes(&self) -> Watcher<Path> {
        self.0.path.watch()
    }

    /// Half of the way there and back; as long as it takes where packets vanish.
    pub(crate) async fn travel(&self) {
        let half = self.world().latency / 2;
        if !half.is_zero() {
            sleep(half).await;
        }
        self.0.path.watch().until(|path| *path != Path::Partitioned).await;
    }

    pub(crate) async fn connect(&self) -> Result<(), Fault> {
        self.travel().await;
        match self.path() {
            Path::Down => Err(unreachable()),
            Path::Up | Path::Partitioned => Ok(()),
        }
    }

    /// What it does about this message, which came by this link.
    pub(crate) fn hear(&self, link: usize, session: Option<usize>, message: &Value) -> Vec<Act> {
        let habit = {
            let mut world = self.world();
            let heard = Heard { at: self.elapsed(), link, message: message.clone() };
            world.heard.push(heard);
            if let Some(fault) = &world.refuses {
                return vec![Act::Fail(fault.clone())];
            }
            let is_legacy = world.speaks != Speaks::Modern && !is_modern(message);
            let is_known = session.is_some_and(|session| world.sessions.contains(&session));
            if is_legacy && message["method"] != "initialize" && !is_known {
                return vec![Act::Fail(no_session(Evidence::Words))];
            }
            world.habit.clone()
        };
        habit(message).unwrap_or_else(|| usual(self.world().speaks, message))
    }
}

impl Transport for Remote {
    fn open(&self, _: Epoch) -> BoxFuture<Result<Link, Fault>> {
        let number = {
            let mut world = self.world();
            world.opened.push(self.elapsed());
            if let Some(fault) = &world.closed {
                return Box::pin(std::future::ready(Err(fault.clone())));
            }
            world.links += 1;
            world.live += 1;
            world.most_live = world.most_live.max(world.live);
            world.opened.len()
        };
        let end = FarEnd::new(self.clone(), number);
        let link = Link::Exchanges { exchanges: Arc::new(end.clone()), process: Arc::new(end) };
        Box::pin(std::future::ready(Ok(link)))
    }

    fn is_remote(&self) -> bool {
        true
    }

    fn mended(&self) -> BoxFuture<()> {
        let remote = self.clone();
        Box::pin(async move { remote.0.mended.notified().await })
    }
}

fn is_modern(message: &Value) -> bool {
    message["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"] == "2026-07-28"
}

fn usual(speaks: Speaks, message: &Value) -> Vec<Act> {
    let id = &message["id"];
    let modern = speaks == Speaks::Modern;
    let capabilities =
        json!({ "tools": { "listChanged": true }, "resources": {}, "logging": {}, "prompts": {} });
    let say = |result: Value| vec![Act::Say(answer(id, result))];
    let unknown = || match speaks {
        Speaks::LegacyAndStatus(code) => vec![Act::Fail(status(code))],
        Speaks::LegacySilent => vec![Act::Stay],
        _ => vec![Act::Say(refusal(id, -32601, "Method not found"))],
    };
    match message["method"].as_str().unwrap_or_default() {
        "initialize" if modern => vec![Act::Say(refusal(id, -32022, "only the modern era"))],
        "initialize" => say(json!({
            "protocolVersion": "2025-11-25",
            "capabilities": capabilities,
            "serverInfo": { "name": "fake", "version": "1" },
        })),
        "server/discover" if modern => say(json!({
            "supportedVersions": ["2026-07-28"],
            "capabilities": capabilities,
            "resultType": "complete",
        })),
        "ping" if modern => unknown(),
        "ping" | "logging/setLevel" | "resources/subscribe" | "resources/unsubscribe" => say(json!({})),
        "tools/list" => say(json!({ "tools": [{ "name": "add" }] })),
        "tools/call" => call(message),
        "subscriptions/listen" if modern => vec![
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

/// What a tool call does is in its arguments: `effect`, `ms` before the answer, `status`, `cut`, `stays`, `dies`, `forgets`,
/// `elsewhere`, `refused` (404, as if the session were gone).
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
        acts.push(Act::Die);
    }
    if is("cut") {
        acts.push(Act::Fail(Fault::AnswerCut));
    }
    if is("stays") {
        acts.push(Act::Stay);
    }
    let answer = answer(&message["id"], json!({ "content": [], "got": arguments["say"] }));
    acts.push(if is("elsewhere") { Act::SayElsewhere(answer) } else { Act::Say(answer) });
    acts
}

pub fn answer(id: &Value, result: Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "result": result })
}

pub fn refusal(id: &Value, code: i64, message: &str) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "error": { "code": code, "message": message } })
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
