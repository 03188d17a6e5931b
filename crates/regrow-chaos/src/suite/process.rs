//! A program under test: a process group of its own, with a mark in its environment by which all that it leaves is found.

use std::collections::VecDeque;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

use crate::processes::{Stat, all, command_line, marked, signal, variable};

/// A longer line is cut there, and is then no JSON.
const LONGEST_LINE: u64 = 16 << 20;
/// At most this many lines wait to be looked at; then the program waits for us.
const LINES: usize = 4096;
/// So much of what it says on standard error is kept.
const STDERR_LINES: usize = 20;

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

    /// Ends all of them, whatever they are.
    pub(super) fn end_all(&self) {
        for pid in self.alive().unwrap_or_default() {
            signal(pid, Signal::KILL);
        }
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
    child: Child,
    stdin: Option<SyncSender<String>>,
    lines: Receiver<String>,
    stderr: Arc<Mutex<VecDeque<String>>>,
    pub(super) mark: Mark,
}

impl Process {
    /// Starts a program in a group of its own.
    pub(super) fn start(command: &[String], variables: &[(&str, String)], mark: Mark) -> io::Result<Process> {
        let (program, arguments) = command.split_first().ok_or(io::ErrorKind::InvalidInput)?;
        let mut starting = Command::new(program);
        starting
            .args(arguments)
            .env(MARK, mark.value())
            .envs(variables.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0);
        for proxy in ["http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"] {
            starting.env_remove(proxy); // Nothing here is for the network.
        }
        let mut child = starting.spawn()?;
        let (line_in, lines) = sync_channel(LINES);
        let stderr = Arc::new(Mutex::new(VecDeque::new()));
        if let Some(stdout) = child.stdout.take() {
            thread::spawn(move || {
                // Nobody is left to hear it when this fails.
                each_line(stdout, |line| line_in.send(line).is_ok());
            });
        }
        if let Some(said) = child.stderr.take() {
            let kept = Arc::clone(&stderr);
            thread::spawn(move || {
                each_line(said, |line| {
                    let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
                    kept.push_back(line.chars().take(300).collect());
                    if kept.len() > STDERR_LINES {
                        kept.pop_front();
                    }
                    true
                });
            });
        }
        let stdin = child.stdin.take().map(writer);
        Ok(Process { child, stdin, lines, stderr, mark })
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Writes a line. One that reads nothing is no reason for us to wait.
    pub(super) fn write(&mut self, line: String) {
        if let Some(stdin) = &self.stdin {
            let _ = stdin.try_send(line); // A program that does not take it does not answer, which is what is judged.
        }
    }

    /// Ends its input, once it has read what was written.
    pub(super) fn close_input(&mut self) {
        self.stdin = None;
    }

    /// The next line; none when the time is over, an error when there will be none any more.
    pub(super) fn line(&self, limit: Duration) -> Result<Option<String>, ()> {
        match self.lines.recv_timeout(limit) {
            Ok(line) => Ok(Some(line)),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => Err(()),
        }
    }

    /// How it ended, if it has.
    pub(super) fn exit(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// Waits for it to end on its own.
    pub(super) fn exit_within(&mut self, limit: Duration) -> Option<ExitStatus> {
        let deadline = Instant::now() + limit;
        loop {
            let exit = self.exit();
            if exit.is_some() || Instant::now() >= deadline {
                return exit;
            }
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// The last lines of its standard error.
    pub(super) fn stderr(&self) -> Vec<String> {
        self.stderr.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Not reaped yet, so that the group is still its own.
        if let Some(group) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw)
            && self.exit().is_none()
        {
            let _ = kill_process_group(group, Signal::KILL); // It may end at this moment.
        }
        let _ = self.child.wait(); // Killed, so it ends.
        self.mark.end_all();
    }
}

/// Takes lines to a program that may not read them.
fn writer(mut stdin: ChildStdin) -> SyncSender<String> {
    let (lines, waiting) = sync_channel::<String>(LINES);
    thread::spawn(move || {
        for line in waiting {
            // A program that has closed its input is seen by its answers, or by its end.
            if stdin.write_all(line.as_bytes()).and_then(|()| stdin.write_all(b"\n")).is_err() {
                return;
            }
        }
    });
    lines
}

fn each_line(stream: impl Read, mut take: impl FnMut(String) -> bool) {
    let mut reader = BufReader::new(stream);
    let mut line = vec![];
    loop {
        line.clear();
        match (&mut reader).take(LONGEST_LINE).read_until(b'\n', &mut line) {
            Ok(0) | Err(_) => return,
            Ok(_) => {
                let text = String::from_utf8_lossy(&line);
                if !take(text.trim_end_matches(['\n', '\r']).to_owned()) {
                    return;
                }
            }
        }
    }
}
