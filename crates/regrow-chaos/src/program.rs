//! A program that runs as a child of ours: lines to it and from it, its log, and its end.

use std::collections::VecDeque;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};

use crate::sync::{lock, wait_until};

/// A longer line is cut there, and is then no JSON.
const LONGEST_LINE: u64 = 16 << 20;
/// At most this many lines wait until the program reads them.
const LINES: usize = 4096;
/// Of its log, the last lines are kept, and the beginning of each.
const LOG_LINES: usize = 4000;
const LOG_WIDTH: usize = 400;

/// A running program. It is killed with its group when it is dropped.
pub struct Program {
    /// Its process id, and that of its group.
    pub pid: u32,
    child: Mutex<Child>,
    stdin: Mutex<Option<SyncSender<String>>>,
    log: Arc<Mutex<VecDeque<String>>>,
}

impl Program {
    /// Starts it in a group of its own. Each line of its standard output is handed to `said` as it comes, and at the end None;
    /// each line of its standard error to `logged`. What is not a pipe is not read.
    pub fn start(
        command: &mut Command,
        mut said: impl FnMut(Option<String>) + Send + 'static,
        mut logged: impl FnMut(&str) + Send + 'static,
    ) -> io::Result<Program> {
        let mut child = command.stderr(Stdio::piped()).process_group(0).spawn()?;
        let log: Arc<Mutex<VecDeque<String>>> = Arc::default();
        if let Some(stdout) = child.stdout.take() {
            thread::spawn(move || {
                each_line(stdout, |line| said(Some(line)));
                said(None);
            });
        }
        if let Some(stderr) = child.stderr.take() {
            let kept = Arc::clone(&log);
            thread::spawn(move || {
                each_line(stderr, |line| {
                    logged(&line);
                    let mut kept = lock(&kept);
                    if kept.len() == LOG_LINES {
                        kept.pop_front();
                    }
                    kept.push_back(line.chars().take(LOG_WIDTH).collect());
                });
            });
        }
        let stdin = Mutex::new(child.stdin.take().map(writer));
        Ok(Program { pid: child.id(), child: Mutex::new(child), stdin, log })
    }

    /// Writes a line. One that reads nothing is no reason for us to wait.
    pub fn write(&self, line: String) {
        if let Some(stdin) = &*lock(&self.stdin) {
            let _ = stdin.try_send(line); // A program that does not take it does not answer, which is what is judged.
        }
    }

    /// Ends its input, once it has read what was written.
    pub fn close_input(&self) {
        lock(&self.stdin).take();
    }

    /// How it ended, if it has.
    pub fn exit(&self) -> Option<ExitStatus> {
        lock(&self.child).try_wait().ok().flatten()
    }

    /// Waits for it to end on its own.
    pub fn exit_within(&self, limit: Duration) -> Option<ExitStatus> {
        wait_until(limit, || self.exit().is_some());
        self.exit()
    }

    /// The last lines of its standard error.
    pub fn log(&self) -> Vec<String> {
        lock(&self.log).iter().cloned().collect()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // Not reaped yet, so that the group is still its own.
        if self.exit().is_none()
            && let Some(group) = i32::try_from(self.pid).ok().and_then(Pid::from_raw)
        {
            let _ = kill_process_group(group, Signal::KILL); // It may end at this moment.
        }
        let _ = lock(&self.child).wait(); // Killed, so it ends.
    }
}

/// The program, without what the user has set for other servers, in a group of its own: Ctrl-C is for us alone.
pub fn clean(program: &Path) -> Command {
    let mut command = Command::new(program);
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("REGROW_") || text.starts_with("CHAOS") {
            command.env_remove(name);
        }
    }
    command.process_group(0);
    command
}

/// Takes lines to a program that may not read them.
fn writer(mut stdin: ChildStdin) -> SyncSender<String> {
    let (lines, waiting) = sync_channel::<String>(LINES);
    thread::spawn(move || {
        for line in waiting {
            // A program that has closed its input is seen by its answers, or by its end.
            if stdin.write_all(format!("{line}\n").as_bytes()).is_err() {
                return;
            }
        }
    });
    lines
}

fn each_line(stream: impl Read, mut take: impl FnMut(String)) {
    let mut reader = BufReader::new(stream);
    let mut line = vec![];
    while let Ok(1..) = (&mut reader).take(LONGEST_LINE).read_until(b'\n', &mut line) {
        take(String::from_utf8_lossy(&line).trim_end_matches(['\n', '\r']).to_owned());
        line.clear();
    }
}
