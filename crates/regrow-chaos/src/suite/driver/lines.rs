//! A client under test, driven over the line protocol (docs/chaos.md).

use std::collections::HashMap;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{Answer, Driver, Outcome, Task, Ticket, end_of};
use crate::suite::process::Process;

/// Interpreters and frameworks may take so long to load.
const LOADING: Duration = Duration::from_secs(90);
/// The deadline of all calls, for frameworks that have one for all.
const CALLS: Duration = Duration::from_secs(5);

/// A client that says hello, then does what it is told.
pub(crate) struct Lines {
    process: Process,
    calls: Duration,
    version: Option<String>,
    last: Ticket,
    early: HashMap<Ticket, Answer>,
}

impl Lines {
    /// Takes a client that was just started, tells it where the server is, and waits until it has loaded.
    pub(crate) fn greet(mut process: Process, server: &Value, patience: u32) -> Result<Lines, String> {
        process.write(json!({ "server": server }).to_string());
        let loading = LOADING * patience;
        let calls = CALLS * patience;
        let deadline = Instant::now() + loading;
        loop {
            match process.line(deadline.saturating_duration_since(Instant::now())) {
                Ok(Some(line)) => {
                    let said: Value = serde_json::from_str(&line).unwrap_or_default();
                    if let Some(version) = said["hello"].as_str() {
                        let version = Some(version.to_owned());
                        return Ok(Lines { process, calls, version, last: 0, early: HashMap::new() });
                    }
                    // Frameworks print what they like before that.
                }
                Ok(None) => return Err(format!("it said no hello within {} s", loading.as_secs())),
                Err(()) => {
                    let end = end_of(&mut process);
                    return Err(format!(
                        "it said no hello; {end}; its last words: {}",
                        process.stderr().pop().unwrap_or_default()
                    ));
                }
            }
        }
    }

    fn hear(&mut self, line: &str) {
        let said: Value = serde_json::from_str(line).unwrap_or_default();
        let (Some(id), Some(ok)) = (said["id"].as_u64(), said["ok"].as_bool()) else {
            return; // What a framework prints is no answer.
        };
        if id > self.last {
            return; // Nobody asked.
        }
        let text = said[if ok { "text" } else { "error" }].as_str().unwrap_or_default().to_owned();
        self.early.entry(id).or_insert(Answer { ok, text });
    }
}

impl Driver for Lines {
    fn begin(&mut self, task: Task) -> Ticket {
        self.last += 1;
        let mut line = match task {
            Task::Connect { timeout } => {
                let (timeout, calls) = (timeout.as_millis() as u64, self.calls.as_millis() as u64);
                json!({ "do": "connect", "timeout_ms": timeout, "call_timeout_ms": calls })
            }
            Task::List => json!({ "do": "list" }),
            Task::Call { tool, arguments, timeout } => {
                let timeout = timeout.as_millis() as u64;
                json!({ "do": "call", "tool": tool, "arguments": arguments, "timeout_ms": timeout })
            }
            Task::Status => json!({ "do": "status" }),
            Task::Close => json!({ "do": "close" }),
        };
        line["id"] = self.last.into();
        self.process.write(line.to_string());
        self.last
    }

    fn outcome(&mut self, ticket: Ticket, limit: Duration) -> Outcome {
        let deadline = Instant::now() + limit;
        loop {
            if let Some(answer) = self.early.remove(&ticket) {
                return Outcome::Answered(answer);
            }
            match self.process.line(deadline.saturating_duration_since(Instant::now())) {
                Ok(Some(line)) => self.hear(&line),
                Ok(None) => return Outcome::Silent,
                Err(()) => return Outcome::Over(end_of(&mut self.process)),
            }
        }
    }

    /// The client was told the deadline, and gives up on its own.
    fn give_up(&mut self, _ticket: Ticket) {}

    fn leave(&mut self) {
        self.process.close_input();
    }

    fn process(&mut self) -> &mut Process {
        &mut self.process
    }

    fn version(&self) -> Option<String> {
        self.version.clone()
    }
}
