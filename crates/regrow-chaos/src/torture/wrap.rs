//! `regrow wrap` under torture: a child of ours with pipes, as a host runs it.

use std::collections::VecDeque;
use std::io::{self, BufRead, BufReader, Write};
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::{Value, json};

use super::face::{Ending, Face, Farewell};
use super::history::History;
use super::system;

/// So many of its last lines are kept, and of each so much.
const LOG_LINES: usize = 400;
const LOG_WIDTH: usize = 400;
const GLANCE: Duration = Duration::from_millis(2);

pub(super) struct Wrap {
    pid: u32,
    children: usize,
    child: Mutex<Child>,
    stdin: Mutex<Option<ChildStdin>>,
    heard: Arc<Heard>,
}

/// What its readers share.
struct Heard {
    /// Its log can be trusted to be whole: nothing of the server is mixed into it.
    log_is_whole: bool,
    log: Mutex<VecDeque<String>>,
    ready: AtomicBool,
    ended: AtomicBool,
}

impl Wrap {
    /// Starts it. `children` is how many children it has while all is well.
    pub(super) fn start(
        command: &mut Command,
        children: usize,
        log_is_whole: bool,
        history: &Arc<History>,
    ) -> io::Result<Wrap> {
        let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = piped.spawn()?;
        let heard = Arc::new(Heard {
            log_is_whole,
            log: Mutex::default(),
            ready: AtomicBool::new(false),
            ended: AtomicBool::new(false),
        });
        if let Some(stdout) = child.stdout.take() {
            let (heard, history) = (heard.clone(), history.clone());
            spawn(move || heard.answers(stdout, &history))?;
        }
        if let Some(stderr) = child.stderr.take() {
            let heard = heard.clone();
            spawn(move || heard.follow_log(stderr))?;
        }
        let (pid, stdin) = (child.id(), Mutex::new(child.stdin.take()));
        Ok(Wrap { pid, children, child: Mutex::new(child), stdin, heard })
    }

    fn write(&self, message: &Value) {
        if let Some(stdin) = &mut *lock(&self.stdin) {
            // If it cannot be written, the program has ended, and that is watched.
            let _ = stdin.write_all(format!("{message}\n").as_bytes());
        }
    }
}

impl Face for Wrap {
    fn send(&self, id: u64, method: &str, params: Value) {
        self.write(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
    }

    fn notify(&self, method: &str) {
        self.write(&json!({ "jsonrpc": "2.0", "method": method }));
    }

    fn pid(&self) -> u32 {
        self.pid
    }

    fn children(&self) -> usize {
        self.children
    }

    fn says_ready(&self) -> Option<bool> {
        self.heard.log_is_whole.then(|| self.heard.ready.load(Ordering::SeqCst))
    }

    fn restart(&self) {
        system::signal(self.pid, Signal::HUP);
    }

    fn has_ended(&self) -> bool {
        self.heard.ended.load(Ordering::SeqCst)
    }

    fn end(&self, ending: Ending, limit: Duration) -> Farewell {
        let began = Instant::now();
        match ending {
            Ending::Left => drop(lock(&self.stdin).take()),
            Ending::Told => system::signal(self.pid, Signal::TERM),
            Ending::Killed => system::signal(self.pid, Signal::KILL),
        }
        let mut child = lock(&self.child);
        while began.elapsed() < limit {
            // An error means that it is no child any more, so that it has ended.
            match child.try_wait() {
                Ok(None) => thread::sleep(GLANCE),
                Ok(Some(status)) => return Farewell { took: began.elapsed(), code: status.code() },
                Err(_) => break,
            }
        }
        end(&mut child);
        Farewell { took: began.elapsed(), code: None }
    }

    fn log(&self) -> Vec<String> {
        lock(&self.heard.log).iter().cloned().collect()
    }
}

impl Drop for Wrap {
    fn drop(&mut self) {
        end(&mut lock(&self.child));
    }
}

impl Heard {
    fn answers(&self, stdout: ChildStdout, history: &History) {
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            match serde_json::from_str::<Value>(&line) {
                Ok(message) if message.get("method").is_none() => history.answer(&message["id"], &message),
                Ok(_) => {} // A notification.
                Err(_) => history.answer(&Value::Null, &Value::Null),
            }
        }
        self.ended.store(true, Ordering::SeqCst);
        history.close();
    }

    fn follow_log(&self, stderr: ChildStderr) {
        for line in BufReader::new(stderr).split(b'\n').map_while(Result::ok) {
            let line: String = String::from_utf8_lossy(&line).chars().take(LOG_WIDTH).collect();
            if let Some(ready) = state_said_by(&line) {
                self.ready.store(ready, Ordering::SeqCst);
            }
            let mut log = lock(&self.log);
            if log.len() == LOG_LINES {
                log.pop_front();
            }
            log.push_back(line);
        }
    }
}

/// Whether a line of the log says that the connection is ready, or that it is not.
fn state_said_by(line: &str) -> Option<bool> {
    const NOT_READY: [&str; 6] =
        ["starting the server (", "connecting (", "ending the", "next attempt in", "parked: ", ": closed"];
    if line.contains("ready (session") {
        return Some(true);
    }
    NOT_READY.iter().any(|words| line.contains(words)).then_some(false)
}

/// Ends what may have ended by itself, which is as well.
fn end(child: &mut Child) {
    let _ = child.kill();
    let _ = child.wait();
}

fn spawn(work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    // It ends with the pipe that it reads.
    thread::Builder::new().name("torture-reader".into()).spawn(work).map(drop)
}

/// No holder of these locks panics, and what they hold is whole at any time.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
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
