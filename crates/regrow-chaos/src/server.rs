//! The server that misbehaves on command, on stdio or over HTTP.

mod calls;
mod catalog;
mod evidence;
mod http;
mod life;
mod methods;
mod output;
mod peer;
mod start;
mod wire;

use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::io::{self, BufRead};
use std::path::PathBuf;
use std::process::{self, ExitCode};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use self::evidence::Evidence;
use self::http::Http;
use self::life::Death;
use self::output::Output;
use self::peer::{Call, Listen};
use self::wire::{Message, Reply, RpcRequest};
use crate::plan::{Orders, Plan};
use crate::sync::lock;

/// Runs the server on stdin and stdout, or over HTTP with the arguments `--http ADDRESS`, as `CHAOS`, `CHAOS_DIR` and `CHAOS_LIFE` say.
///
/// The program's first argument is taken as what led here (`server`, or the name of a subcommand); those after it
/// are ours, and for the helper processes, which are this program again.
pub fn run() -> ExitCode {
    start::run()
}

/// One life of the server.
struct Server {
    life: u32,
    ends_at: Instant,
    dir: Option<PathBuf>,
    plan: Plan,
    evidence: Evidence,
    /// Where we say what belongs to no request.
    output: Output,
    http: Option<Http>,
    initialized: AtomicBool,
    discovered: AtomicBool,
    ready: AtomicBool,
    stdin_closed: AtomicBool,
    received: AtomicU64,
    calls_answered: AtomicU64,
    tools_added: AtomicU64,
    next_question: AtomicU64,
    /// Calls in flight by their raw id.
    running: Mutex<HashMap<String, Arc<Call>>>,
    /// Questions of ours that the client has not answered.
    questions: Mutex<HashMap<String, Arc<Call>>>,
    subscriptions: Mutex<BTreeSet<String>>,
    listens: Mutex<Vec<Listen>>,
}

impl Server {
    /// Reads and obeys until stdin ends.
    fn serve(self: &Arc<Self>) -> ! {
        self.after_requests(&self.orders(), 0);
        let mut input = io::stdin().lock();
        let mut line = vec![];
        while !self.stdin_closed.load(Ordering::SeqCst) {
            line.clear();
            // An error of reading is an end as good as any.
            if input.read_until(b'\n', &mut line).unwrap_or(0) == 0 {
                self.teardown();
            }
            if line.trim_ascii().is_empty() {
                continue;
            }
            if self.orders().has("ignore-case") {
                line = wire::without_case(&line);
            }
            for message in wire::parse(&line, &self.output) {
                self.receive(message, line.len(), &self.output);
            }
        }
        rest()
    }

    fn receive(self: &Arc<Self>, message: Message, size: usize, output: &Output) {
        match message {
            Message::Request(request) => self.request(request),
            Message::Notification { method, params } => {
                self.evidence.note(&format!("notification {}", one_word(&method)));
                match method.as_str() {
                    "notifications/initialized" => {
                        self.become_ready();
                        self.announce();
                    }
                    "notifications/cancelled" => self.cancel(&params["requestId"]),
                    _ => {}
                }
            }
            Message::Response { id, line } => self.take_answer(&id, line),
            Message::Unreadable => {
                self.evidence.note(&format!("unreadable {size}"));
                let reply = Reply::error(-32700, "this line is not JSON-RPC");
                output.answer(&reply.line("null").unwrap_or_default(), 400);
            }
        }
    }

    fn request(self: &Arc<Self>, mut request: RpcRequest) {
        let orders = self.orders();
        request.modern &= !orders.has("refuse-discover");
        self.evidence.note(&format!("request {} {}", one_word(&request.method), request.id));
        if !matches!(request.method.as_str(), "tools/call" | "ping") {
            self.evidence.note(&format!("params {} {}", one_word(&request.method), request.params));
        }
        let count = self.received.fetch_add(1, Ordering::SeqCst) + 1;
        if orders.number("half-line-and-die").is_some_and(|whole| count > whole) {
            self.half_a_line(&request);
        }
        if request.method == "tools/call" {
            self.call(request, &orders);
        } else {
            let reply = self.answer_to(&request, &orders);
            self.answer(&request, reply);
        }
        self.after_requests(&orders, count);
    }

    /// Does what the plan says for the time after `count` requests.
    fn after_requests(&self, orders: &Orders, count: u64) {
        let due = |name| orders.number(name).is_some_and(|limit| count >= limit);
        if due("close-stdout-after") {
            self.output.close();
        }
        if due("close-stdin-after") {
            self.close_stdin();
        }
        if due("hang-after") {
            self.hang();
        }
    }

    /// Writes the answer to a request, in the form of its era.
    fn answer(self: &Arc<Self>, request: &RpcRequest, reply: Reply) {
        let status = http::status_of(request, &reply);
        let Some(line) = self.in_form(request, reply).line(&request.id) else { return };
        request.output.answer(&line, status);
        if request.modern {
            self.become_ready();
        }
        if request.method == "tools/call" {
            let answered = self.calls_answered.fetch_add(1, Ordering::SeqCst) + 1;
            if self.orders().number("exit-after-calls").is_some_and(|limit| answered >= limit) {
                self.end("exit-after-calls", Death::Exit(0));
            }
        }
    }

    /// The handshake is over: the moment from which `drop-after` counts.
    fn become_ready(self: &Arc<Self>) {
        if self.ready.swap(true, Ordering::SeqCst) {
            return;
        }
        let orders = self.orders();
        if orders.has("crash-after-handshake") {
            self.end("crash-after-handshake", Death::Exit(1));
        }
        if let Some(pause) = orders.time("drop-after") {
            let server = Arc::clone(self);
            self.spawn(move || {
                thread::sleep(pause);
                server.end("drop-after", Death::Exit(1))
            });
        }
    }

    /// Some servers tell every new client that their tools have changed.
    fn announce(self: &Arc<Self>) {
        match self.orders().time("announce") {
            Some(Duration::ZERO) => self.say_tools_changed(false),
            Some(pause) => {
                let server = Arc::clone(self);
                self.spawn(move || {
                    thread::sleep(pause);
                    server.say_tools_changed(false);
                });
            }
            None => {}
        }
    }

    /// What the end of stdin does to us.
    fn teardown(&self) -> ! {
        self.evidence.note(&format!("eof {}", process::id()));
        let orders = self.orders();
        if orders.has("ignore-eof") {
            rest();
        }
        while orders.has("finish-on-eof") && !lock(&self.running).is_empty() {
            thread::sleep(Duration::from_millis(1));
        }
        thread::sleep(orders.time("slow-exit").unwrap_or_default());
        if orders.has("noisy-teardown") {
            self.output
                .raw(b"Traceback (most recent call last):\n  \xff\xfe trash\n{\"jsonrpc\":\"2.0\",\"id\":");
            eprintln!("regrow-chaos: BrokenPipeError: noise at teardown");
            self.end("eof", if self.life % 2 == 1 { Death::Exit(1) } else { Death::Abort });
        }
        self.end("eof", Death::Exit(0))
    }

    /// Ends this life, not in the middle of somebody's line.
    fn end(&self, reason: &str, death: Death) -> ! {
        let _turn = self.output.seize_soon();
        self.evidence.note(&format!("end {} {reason}", process::id()));
        death.die()
    }

    /// Reads nothing and writes nothing any more. Only for the thread that reads.
    fn hang(&self) -> ! {
        if let Some(http) = &self.http {
            http.hang();
        }
        let _turn = self.output.seize();
        rest()
    }

    fn close_stdin(&self) {
        output::close_stdin();
        self.stdin_closed.store(true, Ordering::SeqCst);
    }

    fn half_a_line(&self, request: &RpcRequest) -> ! {
        request.output.raw(format!(r#"{{"jsonrpc":"2.0","id":{},"resu"#, request.id).as_bytes());
        self.end("half-line-and-die", Death::Exit(1))
    }

    /// The plan for this life as it stands now; the control file is read again.
    fn orders(&self) -> Orders {
        let control = self.dir.as_ref().and_then(|dir| fs::read_to_string(dir.join("control")).ok());
        match Plan::parse(control.as_deref().unwrap_or_default()) {
            Ok(control) => self.plan.clone().then(control).for_life(self.life),
            Err(error) => {
                eprintln!("regrow-chaos: control: {error}");
                self.end("bad-control", Death::Exit(64))
            }
        }
    }

    fn spawn(&self, work: impl FnOnce() + Send + 'static) {
        if let Err(error) = thread::Builder::new().stack_size(128 * 1024).spawn(work) {
            eprintln!("regrow-chaos: no thread: {error}");
            self.end("no-thread", Death::Exit(71));
        }
    }
}

/// Does nothing until the time of this life is up.
fn rest() -> ! {
    loop {
        thread::park();
    }
}

fn one_word(text: &str) -> String {
    text.replace(char::is_whitespace, "_")
}
