//! A client that talks to `regrow wrap` as a host does, and sees everything that a host sees.

#![allow(dead_code, reason = "each test binary uses a part of it")]

use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use regrow_chaos::journal::Journal;
use rustix::process::Signal;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::evidence::{Marked, is_running, kill, slack, wait_until, zombies_of};

/// No single wait of a test is longer, unless it says so.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// How to start `regrow wrap` in front of the chaos server.
pub struct Setup {
    options: Vec<String>,
    plan: String,
    variables: Vec<(String, String)>,
    command: Option<Vec<String>>,
    group: Option<u32>,
    deaf_to_stderr: bool,
    name: String,
    shell: Option<String>,
    remote: Option<(String, Journal)>,
    dashes: bool,
}

impl Setup {
    /// With this plan for the server (see `regrow_chaos`).
    pub fn plan(plan: &str) -> Setup {
        Setup {
            options: vec![],
            plan: plan.into(),
            variables: vec![],
            command: None,
            group: None,
            deaf_to_stderr: false,
            name: "chaos".into(),
            shell: None,
            remote: None,
            dashes: true,
        }
    }

    /// In front of the server at this URL, which writes this journal.
    pub fn remote(url: &str, journal: &Journal) -> Setup {
        Setup { remote: Some((url.into(), journal.clone())), ..Setup::plan("") }
    }

    /// With these options of `regrow wrap`.
    pub fn options(mut self, options: &[&str]) -> Setup {
        self.options.extend(options.iter().map(|option| option.to_string()));
        self
    }

    /// Without `--` before the server's command.
    pub fn without_dashes(mut self) -> Setup {
        self.dashes = false;
        self
    }

    /// With this name for the server, instead of `chaos`.
    pub fn name(mut self, name: &str) -> Setup {
        self.name = name.into();
        self
    }

    /// With this variable in the environment of `regrow wrap`.
    pub fn variable(mut self, name: &str, value: &str) -> Setup {
        self.variables.push((name.into(), value.into()));
        self
    }

    /// In front of this command, instead of the chaos server itself. `{server}` stands for its executable, which
    /// must be run with the argument `chaos-server`.
    pub fn command(mut self, command: &[&str]) -> Setup {
        let server = env!("CARGO_BIN_EXE_regrow");
        self.command = Some(command.iter().map(|word| word.replace("{server}", server)).collect());
        self
    }

    /// From a shell that first does this.
    pub fn after(mut self, script: &str) -> Setup {
        self.shell = Some(script.into());
        self
    }

    /// For a host that holds our standard error open and never reads it.
    pub fn deaf_to_stderr(mut self) -> Setup {
        self.deaf_to_stderr = true;
        self
    }

    /// As a member of this process group, as hosts do that start us without a group of our own.
    pub fn in_group(mut self, group: u32) -> Setup {
        self.group = Some(group);
        self
    }

    /// Starts it, without a handshake.
    pub fn start(self) -> Client {
        let folder = TempDir::new().unwrap();
        let regrow = env!("CARGO_BIN_EXE_regrow");
        let mut command = match &self.shell {
            None => Command::new(regrow),
            Some(script) => {
                let mut shell = Command::new("sh");
                shell.args(["-c", &format!("{script}; exec \"$@\""), "sh", regrow]);
                shell
            }
        };
        let server = self.command.unwrap_or_else(|| vec![regrow.into(), "chaos-server".into()]);
        command.arg("wrap").arg(format!("--name={}", self.name)).args(&self.options);
        match &self.remote {
            Some((url, _)) => command.args(["--no-cache", url]),
            None => command.args(self.dashes.then_some("--")).args(&server),
        };
        for proxy in ["http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"] {
            command.env_remove(proxy); // Nothing here is for the network.
        }
        for screen in ["BROWSER", "DISPLAY", "WAYLAND_DISPLAY"] {
            command.env_remove(screen); // Nobody is to sign in, unless a test says so.
        }
        let marked = Marked::new();
        command
            .env(Marked::VARIABLE, marked.value())
            .env("CHAOS_DIR", folder.path())
            .env("XDG_STATE_HOME", folder.path().join("state")) // Accounts of others are not ours.
            .env("CHAOS", &self.plan)
            .env("CHAOS_LIFE", "120s")
            .envs(self.variables)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        if let Some(group) = self.group {
            command.process_group(group as i32);
        }
        let mut child = command.spawn().unwrap();
        let gate = Arc::new(Gate::default());
        let (lines, received) = channel();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let open = gate.clone();
        thread::spawn(move || {
            for line in stdout.lines() {
                open.pass();
                let Ok(line) = line else { return };
                if lines.send((Instant::now(), line)).is_err() {
                    return;
                }
            }
        });
        let log = Arc::new(Mutex::new(Vec::new()));
        let stderr = BufReader::new(child.stderr.take().unwrap());
        let kept = log.clone();
        let deaf = self.deaf_to_stderr;
        thread::spawn(move || {
            if deaf {
                thread::sleep(Duration::from_secs(120));
            }
            for line in stderr.split(b'\n').map_while(Result::ok) {
                kept.lock().unwrap().push((Instant::now(), String::from_utf8_lossy(&line).into_owned()));
            }
        });
        let stdin = child.stdin.take();
        let journal = self.remote.map_or_else(|| Journal::new(folder.path()), |(_, journal)| journal);
        Client {
            child,
            stdin,
            received,
            log,
            journal,
            marked,
            gate,
            _folder: folder,
            seen: vec![],
            next_id: 0,
        }
    }

    /// Starts it and shakes hands in the legacy era.
    pub fn connect(self) -> Client {
        let mut client = self.start();
        client.shake_hands();
        client.wait_for_log(0, "ready (session"); // What is logged later is about what happens later.
        client
    }
}

/// The client's side of a running `regrow wrap`.
pub struct Client {
    child: Child,
    stdin: Option<ChildStdin>,
    received: Receiver<(Instant, String)>,
    log: Arc<Mutex<Vec<(Instant, String)>>>,
    /// What the server did.
    pub journal: Journal,
    /// Finds every process that descends from this `regrow`.
    pub marked: Marked,
    gate: Arc<Gate>,
    _folder: TempDir,
    /// Messages that were received while waiting for another.
    seen: Vec<Value>,
    next_id: u64,
}

impl Client {
    /// The process id of `regrow wrap` itself.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The process id of the server that runs now.
    pub fn server_pid(&self) -> u32 {
        *self.journal.pids().last().expect("a server was started")
    }

    /// Sends bytes as they are, without a line end.
    pub fn send_bytes(&mut self, bytes: &[u8]) {
        let stdin = self.stdin.as_mut().expect("the client has not left");
        stdin.write_all(bytes).unwrap();
        stdin.flush().unwrap();
    }

    /// Reads nothing of our output any more, as a host does that is stuck.
    pub fn stop_reading(&self) {
        self.gate.set(true);
    }

    /// Reads again.
    pub fn read_again(&self) {
        self.gate.set(false);
    }

    /// Sends a line as it is.
    pub fn send_line(&mut self, line: &str) {
        let stdin = self.stdin.as_mut().expect("the client has not left");
        stdin.write_all(line.as_bytes()).unwrap();
        stdin.write_all(b"\n").unwrap();
        stdin.flush().unwrap();
    }

    /// Sends a message.
    pub fn send(&mut self, message: Value) {
        self.send_line(&message.to_string());
    }

    /// Sends a request and returns its id.
    pub fn ask(&mut self, method: &str, params: Value) -> u64 {
        self.next_id += 1;
        let id = self.next_id;
        self.send(json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
        id
    }

    /// Sends a notification.
    pub fn notify(&mut self, method: &str, params: Value) {
        self.send(json!({ "jsonrpc": "2.0", "method": method, "params": params }));
    }

    /// Starts a tool call and returns its id.
    pub fn begin_call(&mut self, tool: &str, arguments: Value) -> u64 {
        self.ask("tools/call", json!({ "name": tool, "arguments": arguments }))
    }

    /// The next line as it was written; none at the end of the output or when the time is over.
    pub fn next_line(&mut self, limit: Duration) -> Option<String> {
        self.received.recv_timeout(limit).ok().map(|(_, line)| line)
    }

    /// The next message, whatever it is; none at the end of the output or when the time is over.
    pub fn next_message(&mut self, limit: Duration) -> Option<Value> {
        match self.received.recv_timeout(limit) {
            Ok((_, line)) => Some(serde_json::from_str(&line).unwrap_or_else(|e| panic!("{e}: {line:.300}"))),
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => None,
        }
    }

    /// The answer to the request of this id. Everything before it is kept for [`Client::seen`].
    pub fn answer_within(&mut self, id: u64, limit: Duration) -> Value {
        let found = self.seen.iter().position(|message| is_answer(message, id));
        if let Some(at) = found {
            return self.seen.remove(at);
        }
        let deadline = Instant::now() + limit + slack();
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let Some(message) = self.next_message(left) else {
                panic!("no answer to {id} within {limit:?}; log:\n{}", self.log().join("\n"));
            };
            if is_answer(&message, id) {
                return message;
            }
            self.seen.push(message);
        }
    }

    /// The same, with patience.
    pub fn answer(&mut self, id: u64) -> Value {
        self.answer_within(id, PATIENCE)
    }

    /// A request and its answer.
    pub fn request(&mut self, method: &str, params: Value) -> Value {
        let id = self.ask(method, params);
        self.answer(id)
    }

    /// A tool call and its result, which must not be an error.
    pub fn call(&mut self, tool: &str, arguments: Value) -> String {
        let id = self.begin_call(tool, arguments);
        let answer = self.answer(id);
        assert!(!is_failure(&answer), "{tool}: {answer}");
        text(&answer)
    }

    /// A tool call that must fail: its text, and the machine-readable part.
    pub fn failing_call(&mut self, tool: &str, arguments: Value) -> (String, Value) {
        let id = self.begin_call(tool, arguments);
        self.failure(id)
    }

    /// The failure of a call that was begun.
    pub fn failure(&mut self, id: u64) -> (String, Value) {
        let answer = self.answer(id);
        assert!(is_failure(&answer), "{answer}");
        (text(&answer), fault(&answer))
    }

    /// The handshake of the legacy era; returns the server's answer.
    pub fn shake_hands(&mut self) -> Value {
        let answer = self.request(
            "initialize",
            json!({
                "protocolVersion": "2025-11-25",
                "capabilities": { "elicitation": {}, "sampling": {}, "roots": {} },
                "clientInfo": { "name": "scenario", "version": "1" },
            }),
        );
        assert!(answer["result"]["protocolVersion"].is_string(), "{answer}; log:\n{}", self.log().join("\n"));
        self.send(json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
        answer
    }

    /// Messages that came while an answer was waited for, oldest first, and all that have come since.
    pub fn seen(&mut self) -> Vec<Value> {
        while let Some(message) = self.next_message(Duration::ZERO) {
            self.seen.push(message);
        }
        std::mem::take(&mut self.seen)
    }

    /// Waits for a notification or request of this method.
    pub fn wait_for(&mut self, method: &str) -> Value {
        self.wait_where(method, |message| message["method"] == method)
    }

    /// Waits for a message for which this holds.
    pub fn wait_where(&mut self, what: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        if let Some(at) = self.seen.iter().position(&wanted) {
            return self.seen.remove(at);
        }
        let deadline = Instant::now() + PATIENCE;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let Some(message) = self.next_message(left) else {
                panic!("{what} did not come; log:\n{}", self.log().join("\n"))
            };
            if wanted(&message) {
                return message;
            }
            self.seen.push(message);
        }
    }

    /// A request of the modern era; returns its id.
    pub fn ask_modern(&mut self, method: &str, mut params: Value) -> u64 {
        let own = params["_meta"].take();
        params["_meta"] = envelope();
        for (key, value) in own.as_object().into_iter().flatten() {
            params["_meta"][key] = value.clone();
        }
        self.ask(method, params)
    }

    /// A request of the modern era and its answer.
    pub fn request_modern(&mut self, method: &str, params: Value) -> Value {
        let id = self.ask_modern(method, params);
        self.answer(id)
    }

    /// A tool call of the modern era and its answer.
    pub fn call_modern(&mut self, tool: &str, arguments: Value) -> Value {
        self.request_modern("tools/call", json!({ "name": tool, "arguments": arguments }))
    }

    /// How often this was logged so far.
    pub fn logged(&self, part: &str) -> usize {
        self.log().iter().filter(|line| line.contains(part)).count()
    }

    /// Restarts the server as planned, and waits until the next one serves.
    pub fn restart(&mut self) {
        self.replace(self.pid(), Signal::HUP);
    }

    /// The log of `regrow wrap` so far, with the server's stderr in it.
    pub fn log(&self) -> Vec<String> {
        self.log.lock().unwrap().iter().map(|(_, line)| line.clone()).collect()
    }

    /// Waits for a log line that contains this, and says when it came. Lines before `from` (see [`Client::log`]) do not count.
    pub fn wait_for_log(&self, from: usize, part: &str) -> Instant {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let found = {
                let log = self.log.lock().unwrap();
                log.iter().skip(from).find(|(_, line)| line.contains(part)).map(|(at, _)| *at)
            };
            match found {
                Some(at) => return at,
                None if Instant::now() > deadline => {
                    panic!("no log line with {part:?}; log:\n{}", self.log().join("\n"))
                }
                None => thread::sleep(Duration::from_millis(1)),
            }
        }
    }

    /// What `regrow wrap` itself said of the server, without the server's stderr.
    pub fn notices(&self) -> Vec<String> {
        self.log().iter().filter_map(|line| line.strip_prefix("regrow: chaos: ").map(str::to_owned)).collect()
    }

    /// Waits until the session of this number serves calls.
    pub fn wait_for_session(&self, number: usize) -> Instant {
        self.wait_for_log(0, &format!("regrow: chaos: ready (session {number})"))
    }

    /// Ends the server with SIGKILL; says when. On return it is dead: one that is dying may still take what is in its
    /// pipe, and nobody can tell that from a call that ran.
    pub fn kill_server(&self) -> Instant {
        let (at, server) = (Instant::now(), self.server_pid());
        kill(server, Signal::KILL);
        wait_until("the server is dead", PATIENCE, || !is_running(server));
        at
    }

    /// Kills the server, and waits until the next one serves.
    pub fn replace_server(&mut self) {
        self.replace(self.server_pid(), Signal::KILL);
    }

    fn replace(&mut self, pid: u32, signal: Signal) {
        self.wait_for_log(0, "ready (session"); // The log may be behind what was answered.
        let from = self.log().len();
        kill(pid, signal);
        self.wait_for_log(from, "ready (session");
    }

    /// Tells that the answer to this request is no longer wanted.
    pub fn cancel(&mut self, id: impl Into<Value>) {
        self.notify(
            "notifications/cancelled",
            json!({ "requestId": id.into(), "reason": "changed my mind" }),
        );
    }

    /// Every answer that has come and that nobody has looked at.
    pub fn unclaimed_answers(&mut self) -> Vec<Value> {
        self.seen().into_iter().filter(|message| message.get("method").is_none()).collect()
    }

    /// Leaves, and sees that everything is over soon and nothing is left.
    pub fn leave_cleanly(&mut self) {
        // A leader is reaped when its group is gone, which may take a moment.
        wait_until("no zombies", PATIENCE, || zombies_of(self.pid()).is_empty());
        let (code, took) = self.leave();
        assert_eq!(code, Some(0), "log:\n{}", self.log().join("\n"));
        assert!(took < Duration::from_secs(4) + slack(), "{took:?}");
        self.marked.assert_none_left(Duration::from_secs(5));
        let unclaimed = self.unclaimed_answers();
        assert!(unclaimed.is_empty(), "answers that nobody asked for: {unclaimed:?}");
    }

    /// Closes our input, and reads on. Returns the exit code and how long it took.
    pub fn leave(&mut self) -> (Option<i32>, Duration) {
        self.close_input();
        self.wait_for_exit()
    }

    /// Closes our input.
    pub fn close_input(&mut self) {
        drop(self.stdin.take());
    }

    /// Leaves as hosts do, though a request is not answered: closes our input, and after two seconds tells us to end. Returns the exit
    /// code and how long it took.
    pub fn leave_as_hosts_do(&mut self) -> (Option<i32>, Duration) {
        let began = Instant::now();
        self.close_input();
        while began.elapsed() < Duration::from_secs(2) {
            if let Some(status) = self.child.try_wait().unwrap() {
                return (status.code(), began.elapsed());
            }
            thread::sleep(Duration::from_millis(1));
        }
        self.wait_for_log(0, "the client closed its input");
        kill(self.pid(), Signal::TERM);
        let (code, _) = self.wait_for_exit();
        (code, began.elapsed())
    }

    /// Waits until `regrow wrap` has ended. Returns the exit code and how long it took.
    pub fn wait_for_exit(&mut self) -> (Option<i32>, Duration) {
        let began = Instant::now();
        loop {
            match self.child.try_wait().unwrap() {
                Some(status) => return (status.code(), began.elapsed()),
                None if began.elapsed() > PATIENCE => {
                    panic!("regrow does not end; log:\n{}", self.log().join("\n"))
                }
                None => thread::sleep(Duration::from_millis(1)),
            }
        }
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        self.marked.end_all();
    }
}

/// What every request of the modern era carries.
pub fn envelope() -> Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": { "name": "scenario", "version": "1" },
        "io.modelcontextprotocol/clientCapabilities": {},
    })
}

/// Shut while the client does not read.
#[derive(Default)]
struct Gate {
    shut: Mutex<bool>,
    moved: Condvar,
}

impl Gate {
    fn set(&self, shut: bool) {
        *self.shut.lock().unwrap() = shut;
        self.moved.notify_all();
    }

    fn pass(&self) {
        drop(self.moved.wait_while(self.shut.lock().unwrap(), |shut| *shut).unwrap());
    }
}

fn is_answer(message: &Value, id: u64) -> bool {
    message["id"] == id && message.get("method").is_none()
}

/// Whether a tool call failed, in either style.
pub fn is_failure(answer: &Value) -> bool {
    answer["result"]["isError"] == true || answer.get("error").is_some()
}

/// What a model would read.
pub fn text(answer: &Value) -> String {
    let text = answer["result"]["content"][0]["text"].as_str().or(answer["error"]["message"].as_str());
    text.unwrap_or_else(|| panic!("no text in {answer}")).to_owned()
}

/// The machine-readable part of a failure.
pub fn fault(answer: &Value) -> Value {
    let key = "dev.regrow/fault";
    match answer.get("error") {
        Some(error) => error["data"][key].clone(),
        None => answer["result"]["_meta"][key].clone(),
    }
}
