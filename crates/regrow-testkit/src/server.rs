//! A server on pipes that behaves as its plan says, and remembers what it was told and when.

use std::collections::BTreeMap;
use std::io;
use std::ops::Deref;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use regrow::core::{Epoch, Fault};
use regrow::transport::{BoxFuture, Link, Pipes, Transport};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWriteExt, BufReader, DuplexStream, ReadBuf, duplex};
use tokio::sync::{Notify, mpsc};
use tokio::time::sleep;

use crate::log::Log;
use crate::process::{Handle, Proc, Stdin};
use crate::script::{Act, Plan, refusal};

/// A server whose processes are on pipes. It dereferences to its log; clones share it.
#[derive(Clone)]
pub struct Server(Arc<Inner>);

struct Inner {
    log: Log,
    plan: Box<dyn Fn(usize) -> Plan + Send + Sync>,
    alive: AtomicUsize,
    most_alive: AtomicUsize,
    /// By the number of the start.
    processes: Mutex<BTreeMap<usize, Running>>,
}

/// How a test reaches into a process.
#[derive(Clone)]
struct Running {
    process: Arc<Proc>,
    orders: mpsc::UnboundedSender<Act>,
}

impl Deref for Server {
    type Target = Log;

    fn deref(&self) -> &Log {
        &self.0.log
    }
}

impl Server {
    /// The n-th start (from 1) follows the plan of n.
    pub fn new(plan: impl Fn(usize) -> Plan + Send + Sync + 'static) -> Server {
        Server(Arc::new(Inner {
            log: Log::new(),
            plan: Box::new(plan),
            alive: AtomicUsize::new(0),
            most_alive: AtomicUsize::new(0),
            processes: Mutex::default(),
        }))
    }

    /// Every start follows the same plan.
    pub fn always(plan: Plan) -> Server {
        Server::new(move |_| plan.clone())
    }

    /// How many processes of it live now.
    pub fn alive(&self) -> usize {
        self.0.alive.load(Ordering::Relaxed)
    }

    /// How many lived at once at most.
    pub fn most_alive(&self) -> usize {
        self.0.most_alive.load(Ordering::Relaxed)
    }

    /// Whether it was ever started, and can be reached into.
    pub fn is_running(&self) -> bool {
        !self.0.processes.lock().unwrap().is_empty()
    }

    /// The newest process dies here and now.
    pub fn die(&self, fault: Fault) {
        self.newest().process.die(fault);
    }

    /// Every process dies.
    pub fn die_all(&self, fault: &Fault) {
        let processes = self.0.processes.lock().unwrap().clone();
        processes.values().for_each(|running| running.process.die(fault.clone()));
    }

    /// The newest process sends this on its own.
    pub fn say(&self, message: Value) {
        self.act(Act::Say(message));
    }

    pub fn act(&self, act: Act) {
        let _ = self.newest().orders.send(act); // A dead process does nothing.
    }

    /// The process of this start does this, if there is one.
    pub fn act_in(&self, start: usize, act: Act) {
        if let Some(running) = self.0.processes.lock().unwrap().get(&start) {
            let _ = running.orders.send(act); // A dead process does nothing.
        }
    }

    fn newest(&self) -> Running {
        let processes = self.0.processes.lock().unwrap();
        processes.values().next_back().cloned().expect("it was started")
    }

    fn run(&self, start: usize, plan: Plan) -> Link {
        let (near_in, far_in) = duplex(plan.pipe);
        let (far_out, near_out) = duplex(plan.pipe);
        let process = Proc::new(1000 + start as u32, plan.stubborn, plan.helpers, plan.stderr.clone());
        let alive = self.0.alive.fetch_add(1, Ordering::Relaxed) + 1;
        self.0.most_alive.fetch_max(alive, Ordering::Relaxed);
        let (orders, ordered) = mpsc::unbounded_channel();
        self.0.processes.lock().unwrap().insert(start, Running { process: process.clone(), orders });
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
        let start = self.0.log.start();
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
    stopped: Arc<(AtomicBool, Notify)>,
    /// It was told that the handshake is complete.
    initialized: Arc<AtomicBool>,
    plan: Arc<Plan>,
}

impl Body {
    async fn live(self, input: DuplexStream, mut ordered: mpsc::UnboundedReceiver<Act>) {
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
                    self.server.0.log.hear(self.start, message.clone(), line);
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
                Act::Say(message) | Act::SayElsewhere(message) => self.write(&format!("{message}\n")).await,
                Act::Write(text) => self.write(&text).await,
                Act::Wait(length) => sleep(length).await,
                Act::Effect(key) => drop(self.process.if_alive(|| self.server.0.log.effect(key))),
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
                Act::Elsewhere | Act::Fail(_) | Act::Stay | Act::Forget => {} // There is no exchange.
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
