//! The processes that a demo has started, found by a mark in their environment, where there is a `/proc` to tell.

use std::fs;

/// The variable that carries the mark.
pub(super) const MARK: &str = "REGROW_DEMO";

/// Those that carry this mark, and the guard of this `regrow wrap`, which carries nothing; without `regrow wrap` itself.
pub(super) fn of_demo(mark: &str, wrap: u32) -> Vec<u32> {
    let guards = all().filter(|pid| parent(*pid) == Some(wrap));
    guards.chain(marked(mark)).filter(|pid| *pid != wrap).collect()
}

/// Those that carry this mark and live.
pub(super) fn marked(mark: &str) -> Vec<u32> {
    let wanted = format!("{MARK}={mark}").into_bytes();
    let carries = |pid: &u32| {
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|variable| variable == wanted)
    };
    all().filter(carries).filter(|pid| is_alive(*pid)).collect()
}

fn all() -> impl Iterator<Item = u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten();
    entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
}

fn parent(pid: u32) -> Option<u32> {
    stat(pid)?.split(' ').nth(1)?.parse().ok()
}

/// Zombies are dead.
pub(super) fn is_alive(pid: u32) -> bool {
    stat(pid).is_some_and(|stat| !stat.starts_with(['Z', 'X']))
}

/// What follows the name of a process, which may hold anything: its state, its parent, ...
fn stat(pid: u32) -> Option<String> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    Some(stat.rsplit_once(") ")?.1.to_owned())
}
