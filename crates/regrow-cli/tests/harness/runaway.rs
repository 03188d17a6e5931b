//! A server with a helper that hides: a session of its own, no environment, and no parent that lives.

use std::fs;
use std::path::Path;
use std::sync::LazyLock;

use rustix::process::{Signal, geteuid};

use crate::client::PATIENCE;
use crate::evidence::{is_running, kill, wait_until};

/// For `sh -c`, with our executable as `$0`: starts the helper, and becomes a server when that is in place.
pub const SERVER: &str = r#"
    (setsid env -i sh -c 'echo $$ > "$0.new"; mv "$0.new" "$0"; exec sleep 300' "$CHAOS_DIR/runaway-$$" \
        < /dev/null > /dev/null 2>&1 &)
    while [ ! -e "$CHAOS_DIR/runaway-$$" ]; do sleep 0.01; done
    exec "$0" chaos-server
"#;

/// How Regrow finds such helpers, and the variable that makes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mechanism {
    Cgroup,
    Subreaper,
}

impl Mechanism {
    /// Those that this machine has. Only one of them depends on the machine.
    pub fn all() -> Vec<Mechanism> {
        static HAS_CGROUP: LazyLock<bool> = LazyLock::new(has_cgroup);
        let mut all = vec![Mechanism::Subreaper];
        match *HAS_CGROUP {
            true => all.push(Mechanism::Cgroup),
            false => eprintln!("this machine has no cgroup v2 that we may change: tested without"),
        }
        all
    }

    /// The value of `REGROW_CGROUP`.
    pub fn variable(self) -> &'static str {
        match self {
            Mechanism::Cgroup => "on",
            Mechanism::Subreaper => "off",
        }
    }

    /// What is logged where it is in force.
    pub fn log_line(self) -> &'static str {
        match self {
            Mechanism::Cgroup => "each server gets a cgroup of its own below",
            Mechanism::Subreaper => "orphans of servers become children of this process",
        }
    }
}

/// Whether we may make a group below our own. Not as the code decides it: as a person would try.
fn has_cgroup() -> bool {
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap();
    let Some(own) = groups.lines().find_map(|line| line.strip_prefix("0::")) else { return false };
    let mounts = fs::read_to_string("/proc/mounts").unwrap();
    let mount = mounts.lines().find_map(|line| {
        let mut fields = line.split(' ');
        let (_, place, kind) = (fields.next()?, fields.next()?, fields.next()?);
        (kind == "cgroup2").then(|| place.to_owned())
    });
    let Some(mount) = mount else { return false };
    let folder = format!("{mount}{own}/regrow-test-{}", std::process::id());
    let works = fs::create_dir(&folder).is_ok();
    if works {
        let moved = std::process::Command::new("sh")
            .args(["-c", "echo 0 > \"$0/cgroup.procs\"", &folder])
            .stderr(std::process::Stdio::null())
            .status()
            .unwrap()
            .success();
        wait_until("our own group is gone", PATIENCE, || fs::remove_dir(&folder).is_ok());
        return moved;
    }
    false
}

/// The helper of a server, by the server's folder and process. Ended with this, should a test fail.
pub struct Runaway(pub u32);

impl Runaway {
    pub fn of(folder: &Path, server: u32) -> Runaway {
        let runaway = fs::read_to_string(folder.join(format!("runaway-{server}"))).unwrap();
        let runaway = Runaway(runaway.trim().parse().unwrap());
        assert!(is_running(runaway.0));
        let environment = fs::read(format!("/proc/{}/environ", runaway.0)).unwrap();
        assert!(!String::from_utf8_lossy(&environment).contains("REGROW"), "it has no mark");
        runaway
    }

    pub fn assert_ends(&self, when: &str) {
        wait_until(&format!("the helper has ended {when}"), PATIENCE, || !is_running(self.0));
    }
}

impl Drop for Runaway {
    fn drop(&mut self) {
        if is_running(self.0) {
            kill(self.0, Signal::KILL);
        }
    }
}

/// The mechanisms that this machine has and whose guard can be looked into.
pub fn with_guard() -> Vec<Mechanism> {
    let mut all = Mechanism::all();
    if !geteuid().is_root() {
        assert!(std::env::var_os("REGROW_CI").is_none(), "this test must run as root in CI");
        eprintln!("only root can see what the guard knows of orphans: tested without");
        all.retain(|mechanism| *mechanism == Mechanism::Cgroup);
    }
    all
}

/// Whether the guard holds a handle of the helper.
pub fn guard_knows(guard: u32, helper: u32) -> bool {
    let line = format!("Pid:\t{helper}");
    let files = fs::read_dir(format!("/proc/{guard}/fdinfo")).into_iter().flatten().flatten();
    let mut infos = files.filter_map(|file| fs::read_to_string(file.path()).ok());
    infos.any(|info| info.lines().any(|found| found == line))
}

/// Waits until the guard would end this process after a SIGKILL of its `regrow`: it holds a handle of it.
pub fn wait_until_guard_knows(guard: u32, helper: u32) {
    wait_until("the guard knows the helper", PATIENCE, || guard_knows(guard, helper));
}
