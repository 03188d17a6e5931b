//! What the guard process does: it waits for our end, and then ends our servers.

use std::collections::{BTreeMap, BTreeSet};
use std::process::ExitCode;
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process_group};

use super::group;
#[cfg(target_os = "linux")]
use super::group::Groups;
use super::guard::NONCE;
#[cfg(target_os = "linux")]
use super::hidden::Hidden;
use super::privacy::keep_private;
use super::record::{News, Record};

/// From asking to killing.
const GRACE: Duration = Duration::from_millis(500);
/// What then still runs cannot be ended.
const LIMIT: Duration = Duration::from_secs(4);
/// Between looks.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// The guard process, from its start to its end. Its standard input is the pipe that [`Guard`](super::Guard) holds.
pub fn guard_main() -> ExitCode {
    keep_private();
    let nonce = std::env::var(NONCE).ok().and_then(|nonce| nonce.parse().ok());
    let mut known = Known { nonce, ..Known::default() };
    let mut buffer = [0; Record::SIZE * 64];
    loop {
        #[cfg(target_os = "linux")]
        known.hidden.watch_until_readable(&rustix::stdio::stdin(), &known.groups);
        match rustix::io::read(rustix::stdio::stdin(), &mut buffer) {
            Err(Errno::INTR) => {}
            Ok(0) | Err(_) => break, // They have ended.
            // Records are written whole, and the buffer holds a whole number of them.
            Ok(count) => buffer[..count].as_chunks().0.iter().for_each(|record| known.hear(record)),
        }
    }
    known.end_all();
    #[cfg(target_os = "linux")]
    if let Some(nonce) = known.nonce {
        known.hidden.remove_cgroups(nonce);
    }
    ExitCode::SUCCESS
}

/// What we were told.
#[derive(Default)]
struct Known {
    groups: BTreeMap<u64, Pid>,
    nonce: Option<u64>,
    #[cfg(target_os = "linux")]
    hidden: Hidden,
}

impl Known {
    fn hear(&mut self, record: &[u8; Record::SIZE]) {
        let Some(record) = Record::from_bytes(record) else { return };
        let pid = (record.pid > 0).then(|| Pid::from_raw(record.pid)).flatten();
        match (record.news, pid) {
            (News::Born, Some(pid)) if group::is_foreign(pid) => drop(self.groups.insert(record.serial, pid)),
            (News::Born, _) => {}
            (News::Gone, _) => drop(self.groups.remove(&record.serial)),
        }
    }

    /// Asks all groups and their helpers to end, and kills those who do not.
    fn end_all(&mut self) {
        let begun = Instant::now();
        let mut asked = BTreeSet::new();
        let mut asked_helpers = BTreeSet::new();
        let mut was_empty = false;
        loop {
            let elapsed = begun.elapsed();
            let kill = elapsed >= GRACE;
            // An empty group is forgotten at once, for its id may now go to somebody else.
            self.forget_empty_groups();
            for &group in self.groups.values() {
                // Who ended since we looked cannot be signalled, and need not be.
                if kill {
                    let _ = kill_process_group(group, Signal::KILL);
                } else if asked.insert(group.as_raw_nonzero()) {
                    let _ = kill_process_group(group, Signal::TERM);
                    let _ = kill_process_group(group, Signal::CONT);
                }
            }
            let is_empty = !self.signal_helpers(&mut asked_helpers, kill) && self.groups.is_empty();
            // We look twice, for one that is within its exec shows no environment. And however late we are, nobody is given up who was not killed.
            if is_empty && was_empty || elapsed >= LIMIT {
                return;
            }
            was_empty = is_empty;
            sleep(LOOK_EVERY);
        }
    }

    /// One scan is enough for all of them. It must follow the look at their leaders: one of them may have started somebody and ended meanwhile.
    #[cfg(target_os = "linux")]
    fn forget_empty_groups(&mut self) {
        let ended: BTreeSet<_> = self
            .groups
            .iter()
            .filter(|(_, leader)| !super::procfs::runs(**leader))
            .map(|(serial, _)| *serial)
            .collect();
        if !ended.is_empty() {
            let groups = Groups::scan();
            self.groups
                .retain(|serial, leader| !ended.contains(serial) || !groups.followers(*leader).is_empty());
        }
    }

    #[cfg(not(target_os = "linux"))]
    fn forget_empty_groups(&mut self) {
        self.groups.retain(|_, group| !group::members(*group).is_empty());
    }

    /// Also those of servers that are gone: they may have been killed before they swept.
    #[cfg(target_os = "linux")]
    fn signal_helpers(&mut self, asked: &mut BTreeSet<i32>, kill: bool) -> bool {
        let Some(nonce) = self.nonce else { return false };
        let helpers = super::sweep::find(&super::mark::prefix_of_all(nonce));
        super::helper::signal(&helpers, asked, kill);
        let are_hidden = self.hidden.signal(nonce, asked, kill);
        are_hidden || !helpers.is_empty()
    }

    #[cfg(not(target_os = "linux"))]
    fn signal_helpers(&mut self, _: &mut BTreeSet<i32>, _: bool) -> bool {
        let _ = self.nonce; // There is no sweep.
        false
    }
}
