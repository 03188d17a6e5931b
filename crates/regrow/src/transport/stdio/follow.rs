//! How helpers are found that left their server's session and cleared their environment: in the server's cgroup, or, where we cannot have one,
//! as orphans that become our children.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use rustix::process::Pid;

use super::adopted;
use super::cgroup::{self, Cgroup};
use super::helper::Helper;
use super::launch::Launch;
use super::mark::Mark;
use super::tree::Tree;

/// With the value `off`, servers get no cgroups.
const SWITCH: &str = "REGROW_CGROUP";
/// Tells the guard where the cgroups of servers are.
pub(super) const BELOW: &str = "REGROW_GUARD_CGROUP";
/// Tells the guard whose children orphans become.
pub(super) const PARENT: &str = "REGROW_GUARD_PARENT";

/// How they are followed. Set when the first server is started, if they are to be followed at all.
static WAY: OnceLock<Way> = OnceLock::new();
/// Whether they are to be followed.
static IS_WANTED: AtomicBool = AtomicBool::new(false);

enum Way {
    /// They are not found.
    None,
    /// Each server has a cgroup in this folder.
    Cgroup(PathBuf),
    /// This process is a subreaper.
    Subreaper,
}

/// Finds helpers of servers also where they left their session and cleared their environment.
///
/// For a program that starts no processes but servers and their guard: orphans below this process may become its children, are reaped, and are
/// ended with the servers that may have started them. To be called before the first server is started. On Linux; elsewhere it does nothing.
pub fn follow_helpers() {
    IS_WANTED.store(true, Relaxed);
}

/// Found out when the first server, or its guard, is about to be started.
fn way() -> Option<&'static Way> {
    IS_WANTED.load(Relaxed).then(|| WAY.get_or_init(find_way))
}

fn find_way() -> Way {
    let is_off = std::env::var_os(SWITCH).is_some_and(|value| value == "off");
    if let Some(below) = (!is_off).then(cgroup::usable).flatten() {
        tracing::debug!("each server gets a cgroup of its own below {}", below.display());
        return Way::Cgroup(below);
    }
    match adopted::begin() {
        Ok(()) => {
            tracing::debug!("orphans of servers become children of this process");
            Way::Subreaper
        }
        Err(reason) => {
            tracing::info!(
                "helpers that left their session and cleared their environment are not found: {reason}"
            );
            Way::None
        }
    }
}

/// Starts the guard's process, and tells it where to look.
pub(super) fn start_guard(command: &mut Command) -> io::Result<Child> {
    match way() {
        Some(Way::Cgroup(below)) => drop(command.env(BELOW, below)),
        Some(Way::Subreaper) => drop(command.env(PARENT, std::process::id().to_string())),
        Some(Way::None) | None => {}
    }
    adopted::start_guard(|| command.spawn(), Pid::from_child)
}

/// The guard's process is reaped.
pub(super) fn guard_ended(guard: &Child) {
    adopted::guard_ended(Pid::from_child(guard));
}

/// A server whose helpers are followed, from before its start.
pub(super) struct Followed {
    name: String,
    mark: Mark,
    since: u64,
    cgroup: Option<Cgroup>,
}

impl Followed {
    /// Starts it, and tells its leader. To be called after its guard is started, which removes what we leave.
    pub(super) fn start(name: &str, mark: Mark, launch: Launch<'_>) -> io::Result<(Followed, Pid)> {
        let way = way();
        let since = adopted::starting(mark.serial, name);
        let mut followed = Followed { name: name.to_owned(), mark, since, cgroup: None };
        let mut entrance = None;
        if let Some(Way::Cgroup(below)) = way {
            match enter(mark, below) {
                Ok((cgroup, opened)) => (followed.cgroup, entrance) = (Some(cgroup), Some(opened)),
                Err(error) => {
                    tracing::warn!(server = name, %error, "cannot make a cgroup; helpers that clear their environment are not found");
                }
            }
        }
        let started = launch.start(entrance)?;
        if followed.cgroup.is_some() && !started.is_in_cgroup {
            tracing::warn!(
                server = name,
                "the server runs outside of its cgroup; helpers that clear their environment are not found"
            );
        }
        adopted::started(mark.serial, started.pid);
        Ok((followed, started.pid))
    }

    pub(super) fn mark(&self) -> Mark {
        self.mark
    }

    /// Its leader is reaped.
    pub(super) fn ended(&self) {
        adopted::ended(self.mark.serial);
    }

    /// Whether orphans of this tree are to end.
    pub(super) fn has_left(&self, tree: Option<&Tree>) -> bool {
        self.cgroup.is_none() && tree.is_some_and(adopted::has_left)
    }

    /// Helpers that it left, after its end. `tree` is as it was then, if orphans are followed.
    pub(super) fn find(&self, tree: Option<&Tree>) -> Vec<Helper> {
        match (&self.cgroup, tree) {
            (Some(cgroup), _) => cgroup.find(),
            (None, Some(tree)) => adopted::find(&self.name, self.since, tree),
            (None, None) => vec![],
        }
    }

    /// Kills them, where all can be killed at once.
    pub(super) fn kill(&self) {
        if let Some(cgroup) = &self.cgroup {
            cgroup.kill();
        }
    }

    /// All helpers that were found have ended, or `left` of them cannot be ended.
    pub(super) fn swept(&self, left: usize) {
        let server = &*self.name;
        if left > 0 {
            tracing::warn!(server, "cannot end {left} processes that the server has started");
        }
        if self.cgroup.as_ref().is_some_and(|cgroup| !cgroup.remove()) {
            tracing::debug!(server, "its cgroup is not empty and stays");
        }
    }
}

impl Drop for Followed {
    fn drop(&mut self) {
        self.ended();
        let Some(cgroup) = self.cgroup.take().filter(|cgroup| !cgroup.try_remove()) else { return };
        let work = move || {
            cgroup.kill();
            cgroup.remove()
        };
        // Without a thread the guard does it when we have ended.
        let _ = std::thread::Builder::new().name("regrow-cgroup".to_owned()).spawn(work);
    }
}

fn enter(mark: Mark, below: &Path) -> io::Result<(Cgroup, OwnedFd)> {
    let cgroup = Cgroup::of(mark, below)?;
    let opened = cgroup.open()?;
    Ok((cgroup, opened))
}
