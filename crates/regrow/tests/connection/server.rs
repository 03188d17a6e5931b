//! A server that misbehaves to a plan, and remembers what it was told and when.

use std::collections::BTreeMap;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use regrow::core::{Epoch, Fault};
use regrow::transport::{BoxFuture, Link, Pipes, Transport};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWriteExt, BufReader, DuplexStream, ReadBuf, duplex};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep};

use crate::process::{Handle, Proc, Stdin, Stubborn};

/// What a server does about one message, step by step.
#[derive(Clone, Debug)]
pub enum Act {
    /// Sends a message.
    Say(Value),
    /// Writes this, whatever it is.
    Write(String),
    /// Takes its time.
    Wait(Duration),
    /// Has an effect on the world, under this name.
    Effect(String),
    /// Dies.
    Die(Fault),
    /// Closes its output and lives on.
    CloseOutput,
    /// Reads nothing any more, from here on.
    StopReading,
    /// Reads again.
    ReadOn,
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
}

/// What a server does about a message; none: what servers usually do.
pub type Habit = Arc<dyn Fn(&Value) -> Option<Vec<Act>> + Send + Sync>;

/// How one process of a server behaves.
#[derive(Clone)]
pub struct Plan {
    pub cannot_start: Option<Fault>,
    /// Before the process exists.
    pub spawn_delay: Duration,
    /// Before it reads its first byte.
    pub start_delay: Duration,
    pub speaks: Speaks,
    /// Refuses all but the handshake until it is told that that is complete.
    pub strict: bool,
    pub version: &'static str,
    pub capabilities: Value,
    pub tools: Vec<&'static str>,
    pub habit: Habit,
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
            cannot_start: None,
            spawn_delay: Duration::ZERO,
            start_delay: Duration::ZERO,
            speaks: Speaks::Legacy,
            strict: false,
            version: "2025-11-25",
            capabilities: json!({ "tools": { "listChanged": true }, "resources": {}, "logging": {}, "prompts": {} }),
            tools: vec!["add"],
            habit: Arc::new(|_| None),
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
    pub fn on(
        mut self,
        method: &'static str,
        act: impl Fn(&Value) -> Vec<Act> + Send + Sync + 'static,
    ) -> Plan {
        let usual = self.habit;
        self.habit = Arc::new(move |message| match message["method"] == method {
            true => Some(act(message)),
            false => usual(message),
        });
        self
    }

    /// Dies so long after its start.
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
        let unknown = || vec![Act::Say(refusal(id, -32601, "Method not found"))];
        let modern_envelope =
            message["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"] == "2026-07-28";
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
                Speaks::Modern | Speaks::Both if modern_envelope => say(json!({
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
            "subscriptions/listen" => vec![Act::Say(json!({
                "jsonrpc": "2.0",
                "method": "notifications/subscriptions/acknowledged",
                "params": { "_meta": { "io.modelcontextprotocol/subscriptionId": id } },
            }))],
            _ if id.is_null() => vec![],
            _ => unknown(),
        }
    }
}

/// What a tool call does is in its arguments: `effect`, `ms` before the answer, `dies`, `hangs`.
fn call(message: &Value) -> Vec<Act> {
    let arguments = &message["params"]["arguments"];
    let mut acts = vec![];
    if let Some(key) = arguments["effect"].as_str() {
        acts.push(Act::Effect(key.to_owned()));
    }
    if let Some(ms) = arguments["ms"].as_u64() {
        acts.push(Act::Wait(Duration::from_millis(ms)));
    }
    if arguments["dies"] == true {
        acts.push(Act::Die(Fault::Killed { signal: 9 }));
    }
    if arguments["hangs"] == true {
        acts.push(Act::StopReading);
        return acts;
    }
    if arguments["silent"] != true {
        acts.push(Act::Say(answer(&message["id"], json!({ "content": [], "got": arguments["say"] }))));
    }
    acts
}

pub fn answer(id: &Value, result: Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "result": result })
}

pub fn refusal(id: &Value, code: i64, message: &str) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "error": { "code": code, "message": message } })
}

/// A message that a server was sent.
#[derive(Clone, Debug)]
pub struct Heard {
    pub at: Duration,
    /// Which start of the server.
    pub start: usize,
    pub message: Value,
    /// As it was written.
    pub line: String,
}

/// All that a server is and was. Clones share it.
#[derive(Clone)]
pub struct Server(Arc<Inner>);

struct Inner {
    began: Instant,
    plan: Box<dyn Fn(usize) -> Plan + Send + Sync>,
    starts: Mutex<Vec<Duration>>,
    heard: Mutex<Vec<Heard>>,
    effects: Mutex<BTreeMap<String, u32>>,
    alive: AtomicUsize,
    most_alive: AtomicUsize,
    current: Mutex<Option<Running>>,
}

/// How a test reaches into the running process.
#[derive(Clone)]
struct Running {
    process: Arc<Proc>,
    orders: tokio::sync::mpsc::UnboundedSender<Act>,
}

impl Server {
    /// The n-th start (from 1) follows the plan of n.
    pub fn new(plan: impl Fn(usize) -> Plan + Send + Sync + 'static) -> Server {
        Server(Arc::new(Inner {
            began: Instant::now(),
            plan: Box::new(plan),
            starts: Mutex::default(),
            heard: Mutex::default(),
            effects: Mutex::default(),
            alive: AtomicUsize::new(0),
            most_alive: AtomicUsize::new(0),
            current: Mutex::new(None),
        }))
    }

    /// Every start follows the same plan.
    pub fn always(plan: Plan) -> Server {
        Server::new(move |_| plan.clone())
    }

    /// When it was started.
    pub fn starts(&self) -> Vec<Duration> {
        self.0.starts.lock().unwrap().clone()
    }

    /// How many processes of it live now.
    pub fn alive(&self) -> usize {
        self.0.alive.load(Ordering::Relaxed)
    }

    /// How many lived at once at most.
    pub fn most_alive(&self) -> usize {
        self.0.most_alive.load(Ordering::Relaxed)
    }

    /// How often this happened.
    pub fn effects(&self, key: &str) -> u32 {
        self.0.effects.lock().unwrap().get(key).copied().unwrap_or(0)
    }

    pub fn all_effects(&self) -> BTreeMap<String, u32> {
        self.0.effects.lock().unwrap().clone()
    }

    /// All that it was sent.
    pub fn heard(&self) -> Vec<Heard> {
        self.0.heard.lock().unwrap().clone()
    }

    /// What it was sent of this method.
    pub fn heard_of(&self, method: &str) -> Vec<Heard> {
        self.heard().into_iter().filter(|heard| heard.message["method"] == method).collect()
    }

    /// The same as it was written.
    #[allow(dead_code)] // Not in every test program.
    pub fn raw_of(&self, method: &str) -> Vec<String> {
        self.heard_of(method).into_iter().map(|heard| heard.line).collect()
    }

    /// What its n-th start was sent: methods, and `answer` for what has none.
    pub fn told(&self, start: usize) -> Vec<String> {
        let heard = self.heard().into_iter().filter(|heard| heard.start == start);
        heard.map(|heard| heard.message["method"].as_str().unwrap_or("answer").to_owned()).collect()
    }

    /// Whether it was ever started, and can be reached into.
    #[allow(dead_code)] // Not in every test program.
    pub fn is_running(&self) -> bool {
        self.0.current.lock().unwrap().is_some()
    }

    /// The running process dies here and now.
    pub fn die(&self, fault: Fault) {
        self.running().process.die(fault);
    }

    /// The running process sends this by itself.
    pub fn say(&self, message: Value) {
        self.act(Act::Say(message));
    }

    pub fn act(&self, act: Act) {
        let _ = self.running().orders.send(act); // A dead process does nothing.
    }

    fn running(&self) -> Running {
        self.0.current.lock().unwrap().clone().expect("it was started")
    }

    fn run(&self, start: usize, plan: Plan) -> Link {
        let (near_in, far_in) = duplex(plan.pipe);
        let (far_out, near_out) = duplex(plan.pipe);
        let process = Proc::new(1000 + start as u32, plan.stubborn, plan.helpers, plan.stderr.clone());
        let alive = self.0.alive.fetch_add(1, Ordering::Relaxed) + 1;
        self.0.most_alive.fetch_max(alive, Ordering::Relaxed);
        let (orders, ordered) = tokio::sync::mpsc::unbounded_channel();
        *self.0.current.lock().unwrap() = Some(Running { process: process.clone(), orders });
        let tells_unread = plan.tells_unread;
        let body = Body {
            server: self.clone(),
            start,
            process: process.clone(),
            out: Arc::new(tokio::sync::Mutex::new(Some(far_out))),
            stopped: Arc::default(),
            initialized: Arc::default(),
            plan: Arc::new(plan),
        };
        let (server, dying) = (self.clone(), process.clone());
        tokio::spawn(async move {
            tokio::select! {
                biased;
                _ = dying.death() => {}
                () = body.live(far_in, ordered) => {}
            }
            server.0.alive.fetch_sub(1, Ordering::Relaxed);
        });
        let input = Stdin { stream: near_in, process: process.clone(), accepted: 0, tells_unread };
        let process = Arc::new(Handle(process));
        Link::Pipes(Pipes { input: Box::new(input), output: Box::new(near_out), process })
    }
}

impl Transport for Server {
    fn open(&self, _: Epoch) -> BoxFuture<Result<Link, Fault>> {
        let start = {
            let mut starts = self.0.starts.lock().unwrap();
            starts.push(self.0.began.elapsed());
            starts.len()
        };
        let plan = (self.0.plan)(start);
        let server = self.clone();
        Box::pin(async move {
            sleep(plan.spawn_delay).await;
            match plan.cannot_start.clone() {
                Some(fault) => Err(fault),
                None => Ok(server.run(start, plan)),
            }
        })
    }
}

/// A running process.
#[derive(Clone)]
struct Body {
    server: Server,
    start: usize,
    process: Arc<Proc>,
    out: Arc<tokio::sync::Mutex<Option<DuplexStream>>>,
    stopped: Arc<(std::sync::atomic::AtomicBool, Notify)>,
    /// It was told that the handshake is complete.
    initialized: Arc<std::sync::atomic::AtomicBool>,
    plan: Arc<Plan>,
}

impl Body {
    async fn live(self, input: DuplexStream, mut ordered: tokio::sync::mpsc::UnboundedReceiver<Act>) {
        let mut work = tokio::task::JoinSet::new();
        work.spawn(self.clone().perform(self.plan.by_itself.clone()));
        sleep(self.plan.start_delay).await;
        let counted = Counted { stream: input, process: self.process.clone() };
        let mut lines = BufReader::with_capacity(1024, counted).lines();
        loop {
            let line = tokio::select! {
                biased;
                Some(act) = ordered.recv() => {
                    self.clone().perform(vec![act]).await;
                    continue;
                }
                line = lines.next_line(), if !self.stopped.0.load(Ordering::Relaxed) => line,
                () = self.stopped.1.notified() => continue,
            };
            match line {
                Ok(Some(line)) => {
                    // A line that was cut off is none.
                    let Ok(message) = serde_json::from_str::<Value>(&line) else { continue };
                    let heard = Heard {
                        at: self.server.0.began.elapsed(),
                        start: self.start,
                        message: message.clone(),
                        line,
                    };
                    self.server.0.heard.lock().unwrap().push(heard);
                    let acts = match self.is_too_early(&message) {
                        true => {
                            vec![Act::Say(refusal(&message["id"], -32602, "initialization is not complete"))]
                        }
                        false => self.plan.acts(&message),
                    };
                    if acts.iter().any(|act| matches!(act, Act::Wait(_))) {
                        work.spawn(self.clone().perform(acts));
                    } else {
                        self.clone().perform(acts).await;
                    }
                }
                _ => {
                    self.process.end_of_input();
                    std::future::pending::<()>().await;
                }
            }
        }
    }

    /// As servers on some SDKs are: what comes before `initialized` is refused.
    fn is_too_early(&self, message: &Value) -> bool {
        if message["method"] == "notifications/initialized" {
            self.initialized.store(true, Ordering::Relaxed);
        }
        let is_open = matches!(message["method"].as_str(), Some("initialize" | "ping") | None);
        self.plan.strict && !is_open && !message["id"].is_null() && !self.initialized.load(Ordering::Relaxed)
    }

    async fn perform(self, acts: Vec<Act>) {
        for act in acts {
            match act {
                Act::Say(message) => self.write(&format!("{message}\n")).await,
                Act::Write(text) => self.write(&text).await,
                Act::Wait(length) => sleep(length).await,
                Act::Effect(key) => {
                    self.process
                        .if_alive(|| *self.server.0.effects.lock().unwrap().entry(key).or_default() += 1);
                }
                Act::Die(fault) => {
                    self.process.die(fault);
                    std::future::pending::<()>().await;
                }
                Act::CloseOutput => *self.out.lock().await = None,
                Act::StopReading => {
                    self.stopped.0.store(true, Ordering::Relaxed);
                    self.stopped.1.notify_one();
                }
                Act::ReadOn => self.stopped.0.store(false, Ordering::Relaxed),
            }
        }
    }

    async fn write(&self, text: &str) {
        if let Some(out) = self.out.lock().await.as_mut() {
            let _ = out.write_all(text.as_bytes()).await; // Nobody may be reading any more.
        }
    }
}

/// Counts what a process has read. A dead one reads nothing.
struct Counted {
    stream: DuplexStream,
    process: Arc<Proc>,
}

impl AsyncRead for Counted {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let Counted { stream, process } = &mut *self;
        let before = buf.filled().len();
        let read = process.if_alive(|| {
            let read = Pin::new(stream).poll_read(cx, buf);
            process.read.fetch_add((buf.filled().len() - before) as u64, Ordering::Relaxed);
            read
        });
        read.unwrap_or(Poll::Pending)
    }
}
