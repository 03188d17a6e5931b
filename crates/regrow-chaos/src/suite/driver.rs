//! A program under test, and the way to talk with it: a client over the line protocol (docs/chaos.md), a proxy over its
//! standard input and output as a host does it, or a proxy over HTTP.

mod messages;
mod remote;

use std::collections::HashMap;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::{Value, json};

use self::messages::{INITIALIZED, answer_of, command_of, request_of};
use self::remote::Remote;
use super::place::Near;
use super::process::Process;
use crate::processes::signal;

/// Interpreters and frameworks may take so long to load.
const LOADING: Duration = Duration::from_secs(90);
/// The deadline of all calls, for frameworks that have one for all.
const CALLS: Duration = Duration::from_secs(5);
/// Hosts tell a program to end when it still runs so long after the end of its input.
const TOLD_AFTER: Duration = Duration::from_secs(2);
/// At most this many lines of a program's log are quoted.
const LAST_WORDS: usize = 20;
/// How the complaint about a proxy begins that has ended before it served anybody.
pub(super) const ENDED_EARLY: &str = "it ended before it listened";

/// Something to do.
#[derive(Clone, Debug)]
pub(super) enum Task {
    Connect { timeout: Duration },
    List,
    Call { tool: &'static str, arguments: Value, timeout: Duration },
    Status,
    Close,
}

/// The number of a task that was begun.
pub(super) type Ticket = u64;

/// How a task ended.
#[derive(Clone, Debug)]
pub(super) struct Answer {
    pub(super) ok: bool,
    /// The result's text, or the error's.
    pub(super) text: String,
}

/// What came of waiting for an answer.
#[derive(Clone, Debug)]
pub(super) enum Outcome {
    Answered(Answer),
    /// None within the limit.
    Silent,
    /// None, and there will be none: the program has ended, or its output has.
    Over(String),
}

/// A running program under test.
pub(super) struct Driver {
    pub(super) process: Process,
    /// What it calls itself.
    pub(super) version: Option<String>,
    way: Way,
    last: Ticket,
    answers: HashMap<Ticket, Answer>,
}

enum Way {
    /// A client, with the deadline of all its calls.
    Lines(Duration),
    /// A proxy on its pipes.
    Pipe,
    Remote(Remote),
}

impl Driver {
    /// Takes a client that was just started, tells it where the server is, and waits until it has loaded.
    pub(super) fn client(process: Process, server: &Value, patience: u32) -> Result<Driver, String> {
        process.program.write(json!({ "server": server }).to_string());
        let loading = LOADING * patience;
        let mut driver = Driver::new(process, Way::Lines(CALLS * patience));
        let deadline = Instant::now() + loading;
        loop {
            match driver.next(deadline) {
                Ok(Some(said)) => {
                    // Frameworks print what they like before that.
                    if let Some(version) = said["hello"].as_str() {
                        driver.version = Some(version.to_owned());
                        return Ok(driver);
                    }
                }
                Ok(None) => return Err(format!("it said no hello within {} s", loading.as_secs())),
                Err(()) => {
                    let end = driver.end();
                    let last = driver.process.program.log().pop().unwrap_or_default();
                    return Err(format!("it said no hello; {end}; its last words: {last}"));
                }
            }
        }
    }

    /// A proxy that speaks MCP on its pipes.
    pub(super) fn pipe(process: Process) -> Driver {
        Driver::new(process, Way::Pipe)
    }

    /// A proxy that serves HTTP. Waits until it listens.
    pub(super) fn remote(process: Process, near: Near, limit: Duration) -> Result<Driver, String> {
        let address = near.address;
        let driver = Driver::new(process, Way::Remote(Remote::new(near)));
        let deadline = Instant::now() + limit;
        while std::net::TcpStream::connect(address).is_err() {
            if let Some(status) = driver.process.program.exit() {
                let said = driver.process.program.log();
                let said = said[said.len().saturating_sub(LAST_WORDS)..].join(" | ");
                return Err(format!("{ENDED_EARLY} ({status}); its last words: {said}"));
            }
            if Instant::now() >= deadline {
                return Err(format!("it did not listen within {} s", limit.as_secs()));
            }
            thread::sleep(Duration::from_millis(20));
        }
        Ok(driver)
    }

    fn new(process: Process, way: Way) -> Driver {
        Driver { process, version: None, way, last: 0, answers: HashMap::new() }
    }

    /// Begins a task and goes on.
    pub(super) fn begin(&mut self, task: &Task) -> Ticket {
        self.last += 1;
        let message = match &self.way {
            Way::Lines(calls) => Some(command_of(task, self.last, *calls)),
            Way::Pipe | Way::Remote(_) => request_of(task, self.last),
        };
        match message {
            Some(message) => self.send(message),
            // No request of the protocol does it.
            None => drop(self.answers.insert(self.last, Answer { ok: true, text: "unknown".to_owned() })),
        }
        self.last
    }

    /// Waits at most so long for the end of a task.
    pub(super) fn outcome(&mut self, ticket: Ticket, limit: Duration) -> Outcome {
        let deadline = Instant::now() + limit;
        loop {
            if let Some(answer) = self.answers.remove(&ticket) {
                return Outcome::Answered(answer);
            }
            match self.next(deadline) {
                Ok(Some(message)) => self.hear(&message),
                Ok(None) => return Outcome::Silent,
                Err(()) => return Outcome::Over(self.end()),
            }
        }
    }

    /// Stops waiting for a task and says so. A client was told the deadline, and gives up on its own.
    pub(super) fn give_up(&self, ticket: Ticket) {
        if !matches!(self.way, Way::Lines(_)) {
            let params = json!({ "requestId": ticket, "reason": "it took too long" });
            self.send(json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": params }));
        }
    }

    /// Closes its input. A proxy that still runs then gets SIGTERM, because a request may be unanswered; one that serves HTTP gets it at
    /// once, because nothing else tells it that its client has left.
    pub(super) fn leave(&self) {
        self.process.program.close_input();
        let is_told = match self.way {
            Way::Lines(_) => false,
            Way::Pipe => self.process.program.exit_within(TOLD_AFTER).is_none(),
            Way::Remote(_) => true,
        };
        if is_told {
            signal(self.process.program.pid, Signal::TERM);
        }
    }

    fn send(&self, message: Value) {
        match &self.way {
            Way::Remote(remote) => remote.post(message),
            Way::Lines(_) | Way::Pipe => self.process.program.write(message.to_string()),
        }
    }

    /// The next message; none when the time is over, an error when there will be none any more. What is no JSON is null.
    fn next(&self, deadline: Instant) -> Result<Option<Value>, ()> {
        let limit = deadline.saturating_duration_since(Instant::now());
        match &self.way {
            Way::Remote(remote) => match remote.messages.recv_timeout(limit) {
                Ok(message) => Ok(Some(message)),
                Err(_) if self.process.program.exit().is_some() => Err(()),
                Err(_) => Ok(None),
            },
            Way::Lines(_) | Way::Pipe => {
                let line = self.process.line(limit)?;
                Ok(line.map(|line| serde_json::from_str(&line).unwrap_or_default()))
            }
        }
    }

    fn hear(&mut self, message: &Value) {
        let ticket = message["id"].as_u64().filter(|ticket| *ticket <= self.last);
        let answer = match self.way {
            Way::Lines(_) => {
                let Some(ok) = message["ok"].as_bool() else { return }; // What a framework prints is no answer.
                let text = message[if ok { "text" } else { "error" }].as_str().unwrap_or_default();
                Answer { ok, text: text.to_owned() }
            }
            Way::Pipe | Way::Remote(_) if message.get("method").is_some() => {
                if let Some(id) = message.get("id") {
                    // A question of the server's. We can do nothing for it, and say so.
                    let error = json!({ "code": -32601, "message": "Method not found" });
                    self.send(json!({ "jsonrpc": "2.0", "id": id, "error": error }));
                }
                return;
            }
            Way::Pipe | Way::Remote(_) => answer_of(message),
        };
        let Some(ticket) = ticket else { return }; // Nobody asked.
        let result = &message["result"];
        if matches!(self.way, Way::Pipe) && result.get("protocolVersion").is_some() {
            self.version = result["serverInfo"]["name"].as_str().map(str::to_owned);
            self.process.program.write(INITIALIZED.to_owned());
        }
        self.answers.entry(ticket).or_insert(answer);
    }

    /// How a program ended that should not have.
    fn end(&self) -> String {
        match self.process.program.exit_within(Duration::from_millis(500)) {
            Some(status) => format!("it ended itself ({status})"),
            None => "it closed its output".to_owned(),
        }
    }
}
