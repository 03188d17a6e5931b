//! `regrow wrap` under torture: a child of ours with pipes, as a host runs it.

use std::io;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use regrow_chaos::processes;
use regrow_chaos::program::Program;
use rustix::process::Signal;
use serde_json::{Value, json};

use super::face::Face;
use super::history::History;

pub(crate) struct Wrap {
    program: Program,
    children: usize,
    /// Its log can be trusted to be whole: nothing of the server is mixed into it.
    log_is_whole: bool,
    ready: Arc<AtomicBool>,
}

impl Wrap {
    /// Starts it. `children` is how many children it has while all is well.
    pub(crate) fn start(
        command: &mut Command,
        children: usize,
        log_is_whole: bool,
        history: &Arc<History>,
    ) -> io::Result<Wrap> {
        let ready = Arc::new(AtomicBool::new(false));
        let said = ready.clone();
        let hear = move |line: &str| {
            if let Some(ready) = state_said_by(line) {
                said.store(ready, Ordering::SeqCst);
            }
        };
        let history = history.clone();
        let answer = move |line: Option<String>| match line {
            Some(line) => match serde_json::from_str::<Value>(&line) {
                Ok(message) if message.get("method").is_none() => history.answer(&message["id"], &message),
                Ok(_) => {} // A notification.
                Err(_) => history.answer(&Value::Null, &Value::Null),
            },
            None => history.close(),
        };
        let program = Program::start(command.stdin(Stdio::piped()).stdout(Stdio::piped()), answer, hear)?;
        Ok(Wrap { program, children, log_is_whole, ready })
    }
}

impl Face for Wrap {
    fn program(&self) -> &Program {
        &self.program
    }

    fn send(&self, id: u64, method: &str, params: Value) {
        let message = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        self.program.write(message.to_string());
    }

    fn notify(&self, method: &str) {
        self.program.write(json!({ "jsonrpc": "2.0", "method": method }).to_string());
    }

    fn children(&self) -> Option<usize> {
        Some(self.children)
    }

    fn says_ready(&self) -> Option<bool> {
        self.log_is_whole.then(|| self.ready.load(Ordering::SeqCst))
    }

    fn tasks(&self) -> Option<u64> {
        None
    }

    fn restart(&self) {
        processes::signal(self.program.pid, Signal::HUP);
    }
}

/// Whether a line of the log says that the connection is ready, or that it is not.
fn state_said_by(line: &str) -> Option<bool> {
    const NOT_READY: [&str; 7] = [
        "starting the server (",
        "connecting (",
        "ending the",
        "stopping the",
        "next attempt in",
        "parked: ",
        ": closed",
    ];
    if line.contains("ready (session") {
        return Some(true);
    }
    NOT_READY.iter().any(|words| line.contains(words)).then_some(false)
}

#[cfg(test)]
mod tests {
    use super::state_said_by;

    #[test]
    fn the_log_says_where_the_connection_stands() {
        assert_eq!(state_said_by("regrow: x: ready (session 2); what is lost"), Some(true));
        assert_eq!(state_said_by("regrow: x: starting the server (session 3)"), Some(false));
        assert_eq!(state_said_by("regrow: x: warning: killed by SIGKILL"), None);
    }
}
