//! A server on pipes in memory that does what a test says, and remembers what it was told.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use regrow::core::{Epoch, Fault, Ladder};
use regrow::transport::{BoxFuture, Ended, Link, Pipes, Process, Transport};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, duplex};
use tokio::sync::{mpsc, watch};
use tokio::time::sleep;

pub(super) const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";

/// What it says to a message, and after how long; none: what servers usually say.
type Habit = Box<dyn Fn(&Value) -> Option<Vec<(Duration, Value)>> + Send + Sync>;

/// All that a server is and was. Clones share it.
#[derive(Clone)]
pub(super) struct Server(Arc<Inner>);

struct Inner {
    modern: bool,
    habit: Habit,
    is_quick: bool,
    starts: AtomicUsize,
    heard: Mutex<Vec<Value>>,
    running: Mutex<Option<Running>>,
}

#[derive(Clone)]
struct Running {
    out: mpsc::UnboundedSender<String>,
    exit: watch::Sender<Option<Fault>>,
}

impl Server {
    pub(super) fn new(
        modern: bool,
        habit: impl Fn(&Value) -> Option<Vec<(Duration, Value)>> + Send + Sync + 'static,
    ) -> Server {
        Server::with(modern, false, Box::new(habit))
    }

    /// A legacy server that answers calls with their arguments, and neither reads nor remembers more of them.
    pub(super) fn quick() -> Server {
        Server::with(false, true, Box::new(|_| None))
    }

    fn with(modern: bool, is_quick: bool, habit: Habit) -> Server {
        Server(Arc::new(Inner {
            modern,
            habit,
            is_quick,
            starts: AtomicUsize::new(0),
            heard: Mutex::default(),
            running: Mutex::default(),
        }))
    }

    /// A legacy server that answers calls with what they say.
    pub(super) fn legacy() -> Server {
        Server::new(false, |_| None)
    }

    pub(super) fn starts(&self) -> usize {
        self.0.starts.load(Ordering::Relaxed)
    }

    /// What it was sent of this method.
    pub(super) fn heard_of(&self, method: &str) -> Vec<Value> {
        let heard = self.0.heard.lock().expect("no panic");
        heard.iter().filter(|message| message["method"] == method).cloned().collect()
    }

    /// The answers that it was sent.
    pub(super) fn answers(&self) -> Vec<Value> {
        let heard = self.0.heard.lock().expect("no panic");
        heard.iter().filter(|message| message["method"].is_null()).cloned().collect()
    }

    /// What it has heard until now does not matter any more.
    pub(super) fn forget(&self) {
        self.0.heard.lock().expect("no panic").clear();
    }

    pub(super) fn say(&self, message: &Value) {
        self.running().out.send(format!("{message}\n")).expect("it lives");
    }

    pub(super) fn die(&self) {
        self.running().exit.send_replace(Some(Fault::Killed { signal: 9 }));
    }

    fn running(&self) -> Running {
        self.0.running.lock().expect("no panic").clone().expect("it was started")
    }

    fn usual(&self, message: &Value) -> Vec<Value> {
        let id = &message["id"];
        let capabilities = || json!({ "tools": {}, "resources": { "subscribe": true }, "logging": {} });
        let say = |result: Value| vec![answer(id, result)];
        match message["method"].as_str().unwrap_or_default() {
            "server/discover" if self.0.modern => say(json!({
                "supportedVersions": ["2026-07-28"],
                "capabilities": capabilities(),
                "resultType": "complete",
            })),
            "initialize" if !self.0.modern => say(json!({
                "protocolVersion": "2025-11-25",
                "capabilities": capabilities(),
                "serverInfo": { "name": "fake", "version": "1" },
            })),
            "tools/call" if message["params"]["arguments"]["silent"] == true => vec![],
            "tools/call" => say(json!({ "content": [], "got": message["params"]["arguments"] })),
            "ping" | "logging/setLevel" | "resources/subscribe" | "resources/unsubscribe" => say(json!({})),
            "subscriptions/listen" => vec![json!({
                "jsonrpc": "2.0",
                "method": "notifications/subscriptions/acknowledged",
                "params": { "_meta": { SUBSCRIPTION: id }, "notifications": message["params"]["notifications"] },
            })],
            _ if id.is_null() => vec![],
            _ => {
                vec![json!({ "jsonrpc": "2.0", "id": id, "error": { "code": -32601, "message": "unknown" } })]
            }
        }
    }

    async fn read(self, input: DuplexStream, out: mpsc::UnboundedSender<String>) {
        let mut lines = BufReader::new(input).lines();
        while let Ok(Some(line)) = lines.next_line().await {
            if let Some(said) = self.0.is_quick.then(|| echoed(&line)).flatten() {
                let _ = out.send(said); // A dead server says nothing.
                continue;
            }
            let message: Value = serde_json::from_str(&line).expect("a message");
            self.0.heard.lock().expect("no panic").push(message.clone());
            let usual = || self.usual(&message).into_iter().map(|said| (Duration::ZERO, said)).collect();
            for (after, said) in (self.0.habit)(&message).unwrap_or_else(usual) {
                let out = out.clone();
                let say = move || out.send(format!("{said}\n"));
                if after.is_zero() {
                    let _ = say(); // A dead server says nothing.
                } else {
                    tokio::spawn(async move {
                        sleep(after).await;
                        let _ = say();
                    });
                }
            }
        }
        std::future::pending::<()>().await;
    }
}

/// The answer to a call, found without reading all of it.
fn echoed(line: &str) -> Option<String> {
    let (_, rest) = line.split_once("\"id\":")?;
    let (id, rest) = rest.split_once(',')?;
    let arguments = rest.split_once("\"arguments\":")?.1.strip_suffix("}}")?;
    Some(format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{{\"got\":{arguments}}}}}\n"))
}

pub(super) fn answer(id: &Value, result: Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "result": result })
}

impl Transport for Server {
    fn open(&self, _: Epoch) -> BoxFuture<Result<Link, Fault>> {
        self.0.starts.fetch_add(1, Ordering::Relaxed);
        let (input, far_input) = duplex(1 << 16);
        let (mut far_output, output) = duplex(1 << 16);
        let (out, mut said) = mpsc::unbounded_channel::<String>();
        let (exit, mut exited) = watch::channel(None);
        *self.0.running.lock().expect("no panic") = Some(Running { out: out.clone(), exit: exit.clone() });
        let reads = self.clone().read(far_input, out);
        let writes = async move {
            while let Some(line) = said.recv().await {
                let _ = far_output.write_all(line.as_bytes()).await; // Nobody may be reading any more.
            }
        };
        tokio::spawn(async move {
            tokio::select! {
                biased;
                _ = exited.wait_for(Option::is_some) => {}
                ((), ()) = async { tokio::join!(reads, writes) } => {}
            }
        });
        let pipes = Pipes { input: Box::new(input), output: Box::new(output), process: Arc::new(Body(exit)) };
        Box::pin(std::future::ready(Ok(Link::Pipes(pipes))))
    }
}

struct Body(watch::Sender<Option<Fault>>);

impl Process for Body {
    fn exited(&self) -> BoxFuture<Fault> {
        let mut exit = self.0.subscribe();
        Box::pin(async move {
            let fault = exit.wait_for(Option::is_some).await.ok().and_then(|fault| fault.clone());
            fault.unwrap_or(Fault::Exited { code: 0 })
        })
    }

    fn end(&self, _: Ladder) -> BoxFuture<Ended> {
        self.0.send_if_modified(|exit| exit.replace(Fault::Exited { code: 0 }).is_none());
        let fault = self.0.borrow().clone();
        Box::pin(std::future::ready(Ended { fault, ..Ended::default() }))
    }

    fn stderr(&self) -> regrow::Excerpt {
        std::iter::empty().collect()
    }

    fn pid(&self) -> Option<u32> {
        None
    }
}
