//! A plain client for the tests: starts lives of the server in one folder, and never waits for ever.

#![allow(dead_code, unreachable_pub, reason = "each test file uses a part of it")]
#![allow(clippy::unwrap_used, reason = "a test may panic")]

pub mod http;

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::rc::Rc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use regrow_chaos::Journal;
use serde_json::{Value, json};

pub const LIMIT: Duration = Duration::from_secs(60);
/// Long enough to see that nothing comes.
pub const QUIET: Duration = Duration::from_millis(150);

/// A folder, and the plan of the servers that live in it.
pub struct World {
    dir: Rc<tempfile::TempDir>,
    plan: String,
    pub journal: Journal,
}

pub fn world(plan: &str) -> World {
    let dir = Rc::new(tempfile::tempdir().unwrap());
    let journal = Journal::new(dir.path());
    World { dir, plan: plan.to_owned(), journal }
}

impl World {
    pub fn start(&self) -> Life {
        self.start_with(&[])
    }

    pub fn start_with(&self, variables: &[(&str, &str)]) -> Life {
        let mut child = Command::new(env!("CARGO_BIN_EXE_regrow-chaos"))
            .arg("server")
            .env("CHAOS", &self.plan)
            .env("CHAOS_DIR", self.dir.path())
            .env("CHAOS_LIFE", "30s")
            .envs(variables.iter().copied())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let (sender, lines) = mpsc::channel();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        thread::spawn(move || {
            let mut line = vec![];
            while stdout.read_until(b'\n', &mut line).unwrap() > 0 {
                if sender.send(std::mem::take(&mut line)).is_err() {
                    return;
                }
            }
        });
        let (sender, errors) = mpsc::channel();
        let mut stderr = child.stderr.take().unwrap();
        thread::spawn(move || {
            let mut text = vec![];
            stderr.read_to_end(&mut text).unwrap();
            // The test may not care.
            let _ = sender.send(text);
        });
        Life { stdin: child.stdin.take(), child, lines, errors, next_id: 1, _dir: Rc::clone(&self.dir) }
    }

    /// A life after its handshake.
    pub fn ready(&self) -> Life {
        let mut life = self.start();
        life.handshake();
        life
    }
}

/// One life, as its client sees it.
pub struct Life {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<Vec<u8>>,
    errors: Receiver<Vec<u8>>,
    next_id: u64,
    /// The folder stays as long as a life is in it.
    _dir: Rc<tempfile::TempDir>,
}

impl Life {
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn send(&mut self, message: &Value) {
        self.try_send(message).unwrap();
    }

    pub fn try_send(&mut self, message: &Value) -> std::io::Result<()> {
        self.stdin.as_mut().unwrap().write_all(format!("{message}\n").as_bytes())
    }

    /// Sends a request and returns its id.
    pub fn request(&mut self, method: &str, params: Value) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        id
    }

    pub fn call(&mut self, tool: &str, arguments: Value) -> u64 {
        self.request("tools/call", json!({"name": tool, "arguments": arguments}))
    }

    /// Calls a tool and returns the text of its result.
    pub fn text(&mut self, tool: &str, arguments: Value) -> String {
        let id = self.call(tool, arguments);
        let answer = self.answer(id);
        answer["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned()
    }

    pub fn ask(&mut self, method: &str, params: Value) -> Value {
        let id = self.request(method, params);
        self.answer(id)
    }

    pub fn handshake(&mut self) -> Value {
        let params = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "0"}});
        let answer = self.ask("initialize", params);
        self.notify("notifications/initialized", json!({}));
        answer
    }

    pub fn notify(&mut self, method: &str, params: Value) {
        self.send(&json!({"jsonrpc": "2.0", "method": method, "params": params}));
    }

    /// The next message, which must be JSON.
    pub fn next(&self) -> Value {
        let line = self.line();
        serde_json::from_slice(&line).unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&line)))
    }

    pub fn line(&self) -> Vec<u8> {
        self.lines.recv_timeout(LIMIT).expect("a line from the server")
    }

    /// The answer to `id`, which must be the next message.
    pub fn answer(&self, id: u64) -> Value {
        let message = self.next();
        assert_eq!(message["id"], id, "{message}");
        message
    }

    pub fn is_quiet(&self) -> bool {
        matches!(self.lines.recv_timeout(QUIET), Err(RecvTimeoutError::Timeout))
    }

    /// True when stdout reaches its end without another line.
    pub fn stdout_ends(&self) -> bool {
        matches!(self.lines.recv_timeout(LIMIT), Err(RecvTimeoutError::Disconnected))
    }

    pub fn close_stdin(&mut self) {
        self.stdin = None;
    }

    pub fn runs(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    /// How it ended: `exit 1`, `signal 9`.
    pub fn end(&mut self) -> String {
        let deadline = Instant::now() + LIMIT;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return describe(status);
            }
            assert!(Instant::now() < deadline, "the server did not end");
            thread::sleep(Duration::from_millis(2));
        }
    }

    pub fn errors(&self) -> Vec<u8> {
        self.errors.recv_timeout(LIMIT).expect("the end of stderr")
    }

    pub fn kill(&mut self) {
        self.child.kill().unwrap();
    }

    pub fn terminate(&self) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    }
}

impl Drop for Life {
    fn drop(&mut self) {
        // It may have ended already, which is as well.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn describe(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => status.to_string(),
    }
}

pub fn kill_pid(pid: u32) {
    let pid = rustix::process::Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    // It may be gone already, which is as well.
    let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
}
