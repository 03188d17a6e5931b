//! What a lane sees when it looks around: servers, helpers, zombies, and what the program holds.

use std::collections::HashSet;

use regrow_chaos::processes;
use regrow_chaos::sync::wait_until;

use super::Lane;
use crate::Sample;
use crate::checks::{Promise, judge_orphans};
use crate::system::{self, Process};

impl Lane<'_> {
    /// At most one server may live at any instant.
    pub(crate) fn one_server(&mut self) {
        let mut servers = self.far.servers();
        servers.retain(|server| !self.stays.contains(server));
        if servers.len() > 1 {
            self.breaks(Promise::OneServer, format!("{servers:?} live at the same time"));
        }
    }

    /// What of the old server still lives?
    pub(crate) fn tidy(&mut self, name: &str, before: HashSet<Process>) {
        let left = |before: &HashSet<Process>| -> Vec<Process> {
            before.iter().copied().filter(|process| process.is_alive()).collect()
        };
        wait_until(self.tidy_limit(), || left(&before).is_empty());
        let left = with_commands(&left(&before));
        self.record.broken.extend(judge_orphans(&self.name(), name, &left));
    }

    /// The state of the program when it serves again.
    pub(crate) fn look_around(&mut self, name: &str) {
        let (pid, expected) = (self.hand.face.program().pid, self.hand.face.children());
        let mut zombies = system::children(pid).1;
        wait_until(self.tidy_limit(), || {
            let now = system::children(pid).1;
            zombies.retain(|zombie| now.contains(zombie));
            zombies.is_empty()
        });
        if !zombies.is_empty() {
            self.breaks(Promise::NoZombies, format!("{name}: {zombies:?}"));
        }
        let is_right = || expected.is_none_or(|expected| system::children(pid).0.len() == expected);
        if !wait_until(self.tidy_limit(), is_right) {
            let alive = system::children(pid).0;
            self.breaks(Promise::OneServer, format!("{name}: children {alive:?}, expected {expected:?}"));
        }
        let face = self.hand.face.clone();
        if !wait_until(self.tidy_limit(), || face.says_ready() != Some(false)) {
            self.breaks(Promise::Status, format!("{name}: it serves, and says that it is not ready"));
        }
        if let Some(holding) = system::holding(pid) {
            let (at, tasks) = (self.shared.began.elapsed(), self.hand.face.tasks());
            self.record.samples.push(Sample { at, tasks, ..holding });
        }
    }

    /// The processes of the server and its helpers.
    pub(crate) fn belongings(&self) -> HashSet<Process> {
        let own = self.hand.face.program().pid;
        let is_its = |process: &Process| process.pid != own && !self.stays.contains(process);
        system::marked(&self.mark).into_iter().filter(is_its).collect()
    }
}

pub(crate) fn with_commands(processes: &[Process]) -> Vec<(u32, String)> {
    processes.iter().map(|process| (process.pid, processes::command_line(process.pid).join(" "))).collect()
}
