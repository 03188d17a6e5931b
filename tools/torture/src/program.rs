//! A program under torture: a child of ours, its log, and how it is ended.

use std::collections::VecDeque;
use std::io::{self, BufRead, BufReader};
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use regrow_chaos::processes;
use rustix::process::Signal;

/// How many of its last lines are kept, and how much of each.
const LOG_LINES: usize = 4000;
const LOG_WIDTH: usize = 400;
const GLANCE: Duration = Duration::from_millis(2);

pub(crate) struct Program {
    pub(crate) pid: u32,
    child: Mutex<Child>,
    pub(crate) stdin: Mutex<Option<ChildStdin>>,
    log: Arc<Mutex<VecDeque<String>>>,
}

/// A way to end the program under torture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// Its client leaves.
    Left,
    /// SIGTERM.
    Told,
    /// SIGKILL; what it started must not outlive it even so.
    Killed,
}

impl Program {
    /// Starts it, with its standard output where that is a pipe. Each line of its log is heard as it comes.
    pub(crate) fn start(
        command: &mut Command,
        hear: impl FnMut(&str) + Send + 'static,
    ) -> io::Result<(Program, Option<ChildStdout>)> {
        let mut child = command.stderr(Stdio::piped()).spawn()?;
        let log = Arc::default();
        if let Some(stderr) = child.stderr.take() {
            let log = Arc::clone(&log);
            spawn(move || follow(stderr, &log, hear))?;
        }
        let (pid, stdin, stdout) = (child.id(), Mutex::new(child.stdin.take()), child.stdout.take());
        Ok((Program { pid, child: Mutex::new(child), stdin, log }, stdout))
    }

    /// Whether it has ended, though nobody asked it to.
    pub(crate) fn has_ended(&self) -> bool {
        // An error means that it is no child any more, so that it has ended.
        !matches!(lock(&self.child).try_wait(), Ok(None))
    }

    /// Ends it so. Returns its exit code; none if a signal ended it, or it had to be killed.
    pub(crate) fn end(&self, ending: Ending, limit: Duration) -> Option<i32> {
        let began = Instant::now();
        match ending {
            Ending::Left => drop(lock(&self.stdin).take()),
            Ending::Told => processes::signal(self.pid, Signal::TERM),
            Ending::Killed => processes::signal(self.pid, Signal::KILL),
        }
        let mut child = lock(&self.child);
        while began.elapsed() < limit {
            match child.try_wait() {
                Ok(None) => thread::sleep(GLANCE),
                Ok(Some(status)) => return status.code(),
                Err(_) => break,
            }
        }
        end(&mut child);
        None
    }

    /// Its last words.
    pub(crate) fn log(&self) -> Vec<String> {
        lock(&self.log).iter().cloned().collect()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        end(&mut lock(&self.child));
    }
}

fn follow(stderr: ChildStderr, log: &Mutex<VecDeque<String>>, mut hear: impl FnMut(&str)) {
    for line in BufReader::new(stderr).split(b'\n').map_while(Result::ok) {
        let line: String = String::from_utf8_lossy(&line).chars().take(LOG_WIDTH).collect();
        hear(&line);
        let mut log = lock(log);
        if log.len() == LOG_LINES {
            log.pop_front();
        }
        log.push_back(line);
    }
}

/// Ends what may have ended on its own, which is as well.
fn end(child: &mut Child) {
    let _ = child.kill();
    let _ = child.wait();
}

/// A thread that ends with what it reads.
pub(crate) fn spawn(work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    thread::Builder::new().name("torture-reader".into()).spawn(work).map(drop)
}

/// No holder of these locks panics, and what they hold is whole at any time.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
