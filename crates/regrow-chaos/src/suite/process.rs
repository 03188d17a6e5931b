//! A program under test, with a mark in its environment by which all that it leaves is found.

use std::io;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::Duration;

use rustix::process::Signal;

use crate::processes::{Stat, all, command_line, marked, signal, variable};
use crate::program::Program;

/// At most this many lines wait to be looked at; then the program waits for us.
const LINES: usize = 4096;

/// The variable that carries the mark.
pub(super) const MARK: &str = "REGROW_CHAOS_MARK";

/// The value of the mark: the same in everything that descends from one program under test.
#[derive(Clone, Debug)]
pub(super) struct Mark(String);

impl Mark {
    pub(super) fn new() -> Mark {
        static LAST: AtomicU64 = AtomicU64::new(0);
        Mark(format!("{}-{}", std::process::id(), LAST.fetch_add(1, Ordering::Relaxed)))
    }

    pub(super) fn value(&self) -> &str {
        &self.0
    }

    /// Those who carry it and live. Zombies are dead. None where there is no `/proc` to tell.
    pub(super) fn alive(&self) -> Option<Vec<u32>> {
        Stat::of(std::process::id()).map(|_| marked(MARK, &self.0).collect())
    }
}

/// Ends all who carry a mark that was made here.
pub(super) fn end_all_marked() {
    let ours = format!("{}-", std::process::id());
    for pid in all().filter(|pid| variable(*pid, MARK).is_some_and(|mark| mark.starts_with(&ours))) {
        signal(pid, Signal::KILL);
    }
}

/// Whether a process stands still after SIGSTOP.
pub(super) fn is_stopped(pid: u32) -> bool {
    Stat::of(pid).is_some_and(|stat| stat.state == 'T')
}

/// The name of a process's program and its first argument.
pub(super) fn what_is(pid: u32) -> String {
    let line = command_line(pid);
    let name = line.first().and_then(|program| program.rsplit('/').next()).unwrap_or_default();
    format!("{name} {}", line.get(1).map_or("", String::as_str)).trim().to_owned()
}

/// A running program under test.
pub(super) struct Process {
    pub(super) program: Program,
    lines: Receiver<String>,
    /// Dropped after the program, which could start others until it is dead.
    _left: LeftBehind,
}

/// Ends all who carry the mark when it is dropped.
struct LeftBehind(Mark);

impl Drop for LeftBehind {
    fn drop(&mut self) {
        for pid in self.0.alive().unwrap_or_default() {
            signal(pid, Signal::KILL);
        }
    }
}

impl Process {
    pub(super) fn start(command: &[String], variables: &[(&str, String)], mark: Mark) -> io::Result<Process> {
        let (program, arguments) = command.split_first().ok_or(io::ErrorKind::InvalidInput)?;
        let mut starting = Command::new(program);
        starting
            .args(arguments)
            .env(MARK, mark.value())
            .envs(variables.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        for proxy in ["http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"] {
            starting.env_remove(proxy); // Nothing here is for the network.
        }
        let (said, lines) = sync_channel(LINES);
        let hear = move |line: Option<String>| {
            // Nobody is left to hear it when this fails.
            line.map(|line| said.send(line));
        };
        let program = Program::start(&mut starting, hear, |_| ())?;
        Ok(Process { program, lines, _left: LeftBehind(mark) })
    }

    /// The next line; none when the time is over, an error when there will be none any more.
    pub(super) fn line(&self, limit: Duration) -> Result<Option<String>, ()> {
        match self.lines.recv_timeout(limit) {
            Ok(line) => Ok(Some(line)),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => Err(()),
        }
    }
}
