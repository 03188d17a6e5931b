//! What is left of a test: processes that carry its mark, and open files.

#![allow(dead_code, reason = "each test binary uses a part of it")]

use std::fs;
use std::io::ErrorKind;
use std::process::{Child, Command};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// A mark in the environment of everything that descends from one `regrow`.
pub struct Marked(String);

impl Marked {
    pub const VARIABLE: &str = "REGROW_SCENARIO";

    pub fn new() -> Marked {
        static LAST: AtomicU64 = AtomicU64::new(0);
        Marked(format!("{}-{}", std::process::id(), LAST.fetch_add(1, Ordering::Relaxed)))
    }

    pub fn value(&self) -> &str {
        &self.0
    }

    /// The processes that carry the mark and are no zombies. (The guard carries none: it does not get our environment.)
    pub fn alive(&self) -> Vec<u32> {
        let wanted = format!("{}={}", Marked::VARIABLE, self.0).into_bytes();
        let carries = |pid: &u32| {
            fs::read(format!("/proc/{pid}/environ"))
                .is_ok_and(|environ| environ.split(|byte| *byte == 0).any(|variable| variable == wanted))
        };
        processes().filter(carries).filter(|pid| !is_zombie(*pid)).collect()
    }

    /// Waits until nothing carries the mark any more; panics with what still does.
    pub fn assert_none_left(&self, limit: Duration) {
        let limit = limit + slack();
        let deadline = Instant::now() + limit;
        while !self.alive().is_empty() {
            let left: Vec<_> = self.alive().into_iter().map(|pid| (pid, command_line(pid))).collect();
            assert!(Instant::now() < deadline, "still alive after {limit:?}: {left:?}");
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Ends what a failed test left.
    pub fn end_all(&self) {
        for pid in self.alive() {
            kill(pid, Signal::KILL);
        }
    }
}

/// Signals a process that the test started.
pub fn kill(pid: u32, signal: Signal) {
    if let Some(pid) = Pid::from_raw(pid as i32) {
        let _ = kill_process(pid, signal); // It may be gone by itself.
    }
}

/// Stops a process and waits until it has: one that is about to stop may still take what is in its pipe.
pub fn stop(pid: u32) {
    kill(pid, Signal::STOP);
    let is_stopped = || stat_fields(pid).first().is_some_and(|state| state == "T");
    wait_until("it is stopped", slack(), is_stopped);
}

/// The children of a process that are zombies.
pub fn zombies_of(parent: u32) -> Vec<u32> {
    processes().filter(|pid| is_zombie(*pid) && parent_of(*pid) == Some(parent)).collect()
}

/// The children of a process.
pub fn children_of(parent: u32) -> Vec<u32> {
    processes().filter(|pid| parent_of(*pid) == Some(parent)).collect()
}

/// Whether a process runs. Zombies are dead.
pub fn is_running(pid: u32) -> bool {
    !is_zombie(pid)
}

/// Waits for what must come.
pub fn wait_until(what: &str, limit: Duration, mut holds: impl FnMut() -> bool) {
    let limit = limit + slack();
    let deadline = Instant::now() + limit;
    while !holds() {
        assert!(Instant::now() < deadline, "not within {limit:?}: {what}");
        thread::sleep(Duration::from_millis(2));
    }
}

/// Starts a program that was copied a moment ago. It is busy for as long as a process that another test forked meanwhile has not reached
/// its exec: until then that has the copy open for writing.
pub fn spawn_copy(command: &mut Command) -> Child {
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        match command.spawn() {
            Err(error) if error.kind() == ErrorKind::ExecutableFileBusy && Instant::now() < deadline => {
                thread::sleep(Duration::from_millis(2));
            }
            spawned => return spawned.unwrap(),
        }
    }
}

/// How many files a process has open.
pub fn open_files(pid: u32) -> usize {
    fs::read_dir(format!("/proc/{pid}/fd")).map(Iterator::count).unwrap_or(0)
}

/// Waits until these processes are gone; panics with those that are not.
pub fn assert_gone(pids: &[u32], limit: Duration) {
    let limit = limit + slack();
    let deadline = Instant::now() + limit;
    for &pid in pids {
        while !is_zombie(pid) {
            assert!(Instant::now() < deadline, "still alive after {limit:?}: {pid} {}", command_line(pid));
            thread::sleep(Duration::from_millis(5));
        }
    }
}

/// Added to every bound on real time. A bound tells "at once" from "never"; how fast an idle machine is, benchmarks tell.
pub fn slack() -> Duration {
    Duration::from_secs(30)
}

/// The most memory that a process ever had resident, in KiB.
pub fn peak_kib(pid: u32) -> u64 {
    status_field(pid, "VmHWM:").and_then(|value| value.parse().ok()).unwrap_or(0)
}

/// How many bytes a process has written so far, to whatever.
pub fn bytes_written(pid: u32) -> u64 {
    let io = fs::read_to_string(format!("/proc/{pid}/io")).unwrap_or_default();
    io.lines().find_map(|line| line.strip_prefix("wchar: ")?.parse().ok()).unwrap_or(0)
}

/// The processor time that a process has used.
pub fn processor_time(pid: u32) -> Duration {
    let fields = stat_fields(pid);
    let ticks: u64 = [11, 12].iter().filter_map(|at| fields.get(*at)?.parse::<u64>().ok()).sum();
    Duration::from_millis(ticks * 10)
}

pub fn command_line(pid: u32) -> String {
    let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&line).replace('\0', " ")
}

fn processes() -> impl Iterator<Item = u32> {
    fs::read_dir("/proc").unwrap().filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
}

fn is_zombie(pid: u32) -> bool {
    matches!(stat_fields(pid).first().map(String::as_str), Some("Z" | "X") | None)
}

fn parent_of(pid: u32) -> Option<u32> {
    stat_fields(pid).get(1)?.parse().ok()
}

/// The fields of /proc/PID/stat after the name, which may contain anything.
fn stat_fields(pid: u32) -> Vec<String> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let after_name = stat.rsplit_once(')').map(|(_, rest)| rest).unwrap_or_default();
    after_name.split_whitespace().map(str::to_owned).collect()
}

fn status_field(pid: u32, name: &str) -> Option<String> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find(|line| line.starts_with(name))?;
    line.split_whitespace().nth(1).map(str::to_owned)
}
