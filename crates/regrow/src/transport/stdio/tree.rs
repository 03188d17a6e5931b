//! Who is a child of whom, and everybody below.

use std::collections::{HashMap, HashSet};

use rustix::process::Pid;

use super::helper::Helper;
use super::procfs::{self, Stat};

/// All processes at one moment, or nearly.
pub(super) struct Tree(HashMap<Pid, Stat>);

impl Tree {
    pub(super) fn look() -> Tree {
        Tree(procfs::pids().filter_map(|pid| Some((pid, procfs::stat(pid)?))).collect())
    }

    pub(super) fn children_of(&self, parent: Pid) -> impl Iterator<Item = (Pid, Stat)> {
        let parent = parent.as_raw_nonzero().get();
        self.0.iter().filter(move |(_, stat)| stat.parent == parent).map(|(&pid, &stat)| (pid, stat))
    }

    /// These processes, and all that they and those below them have started. Zombies have ended.
    pub(super) fn with_descendants(&self, mut roots: Vec<Pid>) -> Vec<Helper> {
        let mut seen = HashSet::new();
        let mut found = vec![];
        while let Some(pid) = roots.pop() {
            // Each once: what was seen at different moments need not be a tree.
            let Some(&stat) = self.0.get(&pid).filter(|_| seen.insert(pid)) else { continue };
            roots.extend(self.children_of(pid).map(|(child, _)| child));
            found.extend(stat.runs().then(|| open(pid, stat)).flatten());
        }
        found
    }
}

/// The process that had this id when it was looked at.
fn open(pid: Pid, seen: Stat) -> Option<Helper> {
    Helper::open(pid, || procfs::stat(pid).is_some_and(|stat| stat.started_at == seen.started_at))
}
