//! What the guard knows of helpers that hide: in which cgroups they are, or who became a child of the process that it guards.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::time::Duration;

use rustix::process::{Pid, getpid};

use super::cgroup::{self, Cgroup};
use super::follow;
use super::helper::{self, Helper};
use super::procfs::{self, Stat};
use super::tree::Tree;

/// Orphans are looked for so often: one that is younger when its parent is killed may be missed.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// At most this many are remembered. Members of cgroups are killed in any case.
const LIMIT: usize = 1000;

/// How they are found after the end of the process that we guard.
pub(super) struct Hidden {
    /// Where the cgroups of its servers are.
    below: Option<PathBuf>,
    /// Whose children orphans become.
    parent: Option<Pid>,
    /// Who was found so far. In the end, everybody below them as well.
    found: Vec<Helper>,
}

impl Default for Hidden {
    fn default() -> Hidden {
        let parent = std::env::var(follow::PARENT).ok().and_then(|pid| pid.parse().ok());
        Hidden {
            below: std::env::var_os(follow::BELOW).map(PathBuf::from),
            parent: parent.and_then(Pid::from_raw),
            found: vec![],
        }
    }
}

impl Hidden {
    /// When the parent is dead its children are nobody's, so they are noted before. Leaders of groups are none of ours.
    pub(super) fn watch_until_readable(&mut self, pipe: &impl AsFd, leaders: &BTreeMap<u64, Pid>) {
        let Some(parent) = self.parent else { return };
        while !helper::is_any_readable([pipe].into_iter(), LOOK_EVERY) {
            self.found.retain(|child| child.runs() && !leaders.values().any(|leader| *leader == child.pid));
            for pid in procfs::children_of(parent) {
                if pid != getpid() && !leaders.values().any(|leader| *leader == pid) {
                    let is_child = |stat: Stat| stat.parent == parent.as_raw_nonzero().get() && stat.runs();
                    self.add(pid, || Helper::open(pid, || procfs::stat(pid).is_some_and(is_child)));
                }
            }
        }
    }

    /// One round after the end of the parent: asks all to end, or kills them. Whether somebody is left.
    pub(super) fn signal(&mut self, nonce: u64, asked: &mut BTreeSet<i32>, kill: bool) -> bool {
        for cgroup in self.cgroups(nonce) {
            if kill {
                cgroup.kill();
            }
            for member in cgroup.find() {
                self.add(member.pid, || Some(member));
            }
        }
        if self.parent.is_some() && !self.found.is_empty() {
            let tree = Tree::look();
            // Who has ended by now may have been somebody else when we looked.
            self.found.retain(Helper::runs);
            for below in tree.with_descendants(self.found.iter().map(|helper| helper.pid).collect()) {
                self.add(below.pid, || Some(below));
            }
        }
        self.found.retain(Helper::runs);
        helper::signal(&self.found, asked, kill);
        !self.found.is_empty()
    }

    /// Removes what is left of cgroups, and with it everybody who was not found there.
    pub(super) fn remove_cgroups(&self, nonce: u64) {
        for cgroup in self.cgroups(nonce) {
            cgroup.kill();
            let _ = cgroup.remove(); // Nobody is there to be told.
        }
    }

    fn cgroups(&self, nonce: u64) -> Vec<Cgroup> {
        self.below.as_ref().map(|below| cgroup::all_of(nonce, below)).unwrap_or_default()
    }

    fn add(&mut self, pid: Pid, helper: impl FnOnce() -> Option<Helper>) {
        if self.found.len() < LIMIT && !self.found.iter().any(|known| known.pid == pid) {
            self.found.extend(helper());
        }
    }
}
