//! A proxy under test that is driven over its standard input and output, as a host does it.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::{Value, json};

use super::exchange::{INITIALIZED, answer_of, request_of};
use super::{Answer, Driver, Outcome, Task, Ticket, end_of};
use crate::processes::signal;
use crate::suite::process::Process;

/// Hosts tell a program to end when it still runs so long after the end of its input.
const TOLD_AFTER: Duration = Duration::from_secs(2);

/// A proxy that speaks MCP on its pipes.
pub(crate) struct Pipe {
    process: Process,
    last: Ticket,
    greeting: Option<Ticket>,
    version: Option<String>,
    early: HashMap<Ticket, Answer>,
}

impl Pipe {
    pub(crate) fn new(process: Process) -> Pipe {
        Pipe { process, last: 0, greeting: None, version: None, early: HashMap::new() }
    }

    fn hear(&mut self, line: &str) {
        let message: Value = serde_json::from_str(line).unwrap_or_default();
        if message.get("method").is_some() {
            if let Some(id) = message.get("id") {
                // A question of the server's. We can do nothing for it, and say so.
                let error = json!({ "code": -32601, "message": "Method not found" });
                self.process.write(json!({ "jsonrpc": "2.0", "id": id, "error": error }).to_string());
            }
            return;
        }
        let asked = message["id"].as_u64().filter(|ticket| *ticket <= self.last);
        let Some(ticket) = asked else { return };
        let answer = answer_of(&message);
        if self.greeting == Some(ticket) && answer.ok {
            self.greeting = None;
            let by = &message["result"]["serverInfo"];
            self.version = by["name"].as_str().map(str::to_owned);
            self.process.write(INITIALIZED.to_owned());
        }
        self.early.entry(ticket).or_insert(answer);
    }
}

impl Driver for Pipe {
    fn begin(&mut self, task: Task) -> Ticket {
        self.last += 1;
        let ticket = self.last;
        match &task {
            Task::Connect { .. } => self.greeting = Some(ticket),
            Task::Close => {
                self.process.close_input();
                self.early.insert(ticket, Answer { ok: true, text: String::new() });
            }
            _ => {}
        }
        match request_of(&task, ticket) {
            Some(request) => self.process.write(request.to_string()),
            None => {
                let text = "unknown".to_owned();
                self.early.entry(ticket).or_insert(Answer { ok: true, text });
            }
        }
        ticket
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

    fn give_up(&mut self, ticket: Ticket) {
        let params = json!({ "requestId": ticket, "reason": "it took too long" });
        let line = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": params });
        self.process.write(line.to_string());
    }

    /// As the protocol describes it: ends its input, and tells a program to end that goes on, since a request may be unanswered.
    fn leave(&mut self) {
        self.process.close_input();
        if self.process.exit_within(TOLD_AFTER).is_none() {
            signal(self.process.pid(), Signal::TERM);
        }
    }

    fn process(&mut self) -> &mut Process {
        &mut self.process
    }

    fn version(&self) -> Option<String> {
        self.version.clone()
    }
}
