//! Finds and ends helpers that a server started outside its process group: by the mark in their environment, and, if they have none, where
//! they are followed.
//!
//! It takes pidfds, so Linux 5.3; on macOS there is no sweep.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::process::Pid;
use tokio::task::spawn_blocking;

use super::follow::Followed;
use super::helper::{self, Helper};
use super::scan::SharedScan;
use super::tree::Tree;
use super::{adopted, mark, procfs};

/// How long after SIGKILL we look whether it helped.
const LAST_LOOK: Duration = Duration::from_secs(1);
/// How long one look waits for ends before the next.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// What is known of all processes at one moment.
struct Processes {
    /// Those of our user that have a mark, by how it begins.
    marked: HashMap<Vec<u8>, Vec<Pid>>,
    /// If orphans are followed.
    tree: Option<Tree>,
}

impl Processes {
    fn scan() -> Processes {
        let mut marked = HashMap::<_, Vec<_>>::new();
        let mut buffer = vec![];
        for pid in candidates() {
            for mark in procfs::environment(pid, &mut buffer).filter_map(mark::prefix_in) {
                marked.entry(mark.to_owned()).or_default().push(pid);
            }
        }
        Processes { marked, tree: adopted::is_subreaper().then(Tree::look) }
    }

    /// Those whose mark begins so, if they still are who they were.
    fn marked(&self, prefix: &str) -> Vec<Helper> {
        let pids = self.marked.get(prefix.as_bytes()).into_iter().flatten();
        let mut buffer = vec![];
        pids.filter_map(|&pid| open(pid, prefix, &mut buffer)).collect()
    }
}

/// Everybody of our user whose environment has an entry that begins with `prefix`.
pub(super) fn find(prefix: &str) -> Vec<Helper> {
    let mut buffer = vec![];
    candidates().filter_map(|pid| open(pid, prefix, &mut buffer)).collect()
}

fn candidates() -> impl Iterator<Item = Pid> {
    let own = rustix::process::getpid();
    procfs::pids().filter(move |&pid| pid != own && procfs::is_ours(pid))
}

fn open(pid: Pid, prefix: &str, buffer: &mut Vec<u8>) -> Option<Helper> {
    let has_mark = || procfs::environment(pid, buffer).any(|entry| entry.starts_with(prefix.as_bytes()));
    Helper::open(pid, has_mark)
}

/// Ends all helpers of a server: asks, and kills after `grace`. Returns how many there were.
pub(super) async fn sweep(server: Arc<Followed>, grace: Duration) -> usize {
    static PROCESSES: SharedScan<Processes> = SharedScan::new(Processes::scan);
    let mut first = PROCESSES.result().await;
    let work = move || {
        let prefix = server.mark().prefix();
        let has_left = |seen: &Processes| {
            seen.marked.contains_key(prefix.as_bytes()) || server.has_left(seen.tree.as_ref())
        };
        let find = || {
            // Those who were there may have started others since, and have ended.
            let clear = first.take().filter(|seen| !has_left(seen));
            let processes = clear.unwrap_or_else(|| Processes::scan().into());
            let hidden = server.find(processes.tree.as_ref());
            processes.marked(&prefix).into_iter().chain(hidden).collect()
        };
        let swept = sweep_with(find, || server.kill(), grace);
        server.swept(swept.left);
        swept.count
    };
    spawn_blocking(work).await.unwrap_or_default() // The runtime is shutting down. The guard sweeps as well.
}

/// How many there were, and how many could not be ended.
#[derive(Debug, PartialEq, Eq)]
struct Swept {
    count: usize,
    left: usize,
}

fn sweep_with(mut find: impl FnMut() -> Vec<Helper>, kill_all: impl Fn(), grace: Duration) -> Swept {
    let begun = Instant::now();
    let mut asked = BTreeSet::new();
    let mut was_empty = true;
    // Not since we began: on a machine that is busy enough, one look takes longer than all that.
    let mut killed_at: Option<Instant> = None;
    let mut helpers: Vec<Helper> = vec![];
    loop {
        // Who was found once is known from then on, also when the parent by whom it was found has ended.
        helpers.retain(Helper::runs);
        for found in find() {
            if !helpers.iter().any(|known| known.pid == found.pid) {
                helpers.push(found);
            }
        }
        // One that is within its exec shows no environment, so where there were some we look twice.
        let is_over = killed_at.is_some_and(|at| at.elapsed() > LAST_LOOK);
        if (helpers.is_empty() && was_empty) || is_over {
            return Swept { count: asked.len(), left: helpers.len() };
        }
        was_empty = helpers.is_empty();
        let kill = begun.elapsed() >= grace;
        if kill {
            kill_all();
            killed_at.get_or_insert_with(Instant::now);
        }
        helper::signal(&helpers, &mut asked, kill);
        helper::wait(&helpers, LOOK_EVERY);
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;
    use std::thread;

    use super::*;

    #[test]
    fn a_helper_is_ended_also_where_a_look_takes_longer_than_the_time_for_all() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let pid = Pid::from_child(&child);
        let mut first_look = Some(LAST_LOOK + Duration::from_millis(10));
        let slowly = || {
            thread::sleep(first_look.take().unwrap_or_default());
            Helper::open(pid, || procfs::runs(pid)).into_iter().collect()
        };
        let swept = sweep_with(slowly, || {}, Duration::ZERO);
        let _ = child.kill(); // Had it been missed, nobody should wait for it.
        child.wait().unwrap();
        assert_eq!(swept, Swept { count: 1, left: 0 });
    }
}
