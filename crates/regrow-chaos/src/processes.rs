//! Processes, as `/proc` shows them. Where there is no `/proc`, only whether one lives is known.

use std::fs;

use rustix::process::{Pid, Signal, kill_process, test_kill_process};

/// What the system says about a process.
#[derive(Clone, Copy, Debug)]
pub struct Stat {
    /// `R`, `S`, `T`, `Z` and so on.
    pub state: char,
    /// Its parent's number.
    pub parent: u32,
    /// When it was started: it tells a process from a later one with the same number.
    pub started: u64,
}

impl Stat {
    /// None if there is no such process.
    pub fn of(pid: u32) -> Option<Stat> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The name before it is in parentheses and may hold any character.
        let mut fields = stat.rsplit_once(") ")?.1.split(' ');
        let state = fields.next()?.chars().next()?;
        let parent = fields.next()?.parse().ok()?;
        let started = fields.nth(17)?.parse().ok()?;
        Some(Stat { state, parent, started })
    }

    /// Zombies are dead.
    pub fn is_dead(&self) -> bool {
        matches!(self.state, 'Z' | 'X')
    }
}

/// Whether a process is gone, or a zombie.
pub fn is_dead(pid: u32) -> bool {
    if cfg!(target_os = "linux") {
        return Stat::of(pid).is_none_or(|stat| stat.is_dead());
    }
    known(pid).is_none_or(|pid| test_kill_process(pid).is_err())
}

/// All processes that we may see.
pub fn all() -> impl Iterator<Item = u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten();
    entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
}

/// The value of a variable in the environment that a process was started with.
pub fn variable(pid: u32, name: &str) -> Option<String> {
    let environment = fs::read(format!("/proc/{pid}/environ")).ok()?;
    let value = |variable: &[u8]| {
        let value = variable.strip_prefix(name.as_bytes())?.strip_prefix(b"=")?;
        Some(String::from_utf8_lossy(value).into_owned())
    };
    environment.split(|byte| *byte == 0).find_map(value)
}

/// The living processes that have this variable with this value.
pub fn marked(name: &str, value: &str) -> impl Iterator<Item = u32> {
    all().filter(move |pid| variable(*pid, name).is_some_and(|found| found == value) && !is_dead(*pid))
}

/// The words that a process was started with.
pub fn command_line(pid: u32) -> Vec<String> {
    let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&line).trim_end_matches('\0').split('\0').map(str::to_owned).collect()
}

/// Signals a process that descends from us. It may have ended on its own.
pub fn signal(pid: u32, signal: Signal) {
    if let Some(pid) = known(pid) {
        let _ = kill_process(pid, signal);
    }
}

fn known(pid: u32) -> Option<Pid> {
    i32::try_from(pid).ok().and_then(Pid::from_raw)
}
