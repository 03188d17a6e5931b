//! Starts a server's process: on Linux with a child that shares our memory until its exec, elsewhere through std.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::process::Pid;

use super::environment::Environment;
use super::system::Steps;

#[cfg(target_os = "linux")]
pub(super) mod shared;

/// What is started.
pub(super) struct Launch<'a> {
    /// A path, or a name looked up in the `PATH` of this environment.
    pub(super) program: &'a OsStr,
    pub(super) args: &'a [OsString],
    pub(super) environment: &'a Environment,
    pub(super) directory: Option<&'a Path>,
    /// Its standard input, output and error.
    pub(super) streams: [OwnedFd; 3],
    /// What its process does before it becomes the program.
    pub(super) steps: Steps,
}

/// A process whose program was loaded.
#[cfg(target_os = "linux")]
pub(super) struct Started {
    pub(super) pid: Pid,
    pub(super) is_in_cgroup: bool,
}

impl Launch<'_> {
    /// Starts it in this cgroup, or outside of it where the kernel refuses. Blocks until its program was loaded.
    #[cfg(target_os = "linux")]
    pub(super) fn start(self, cgroup: Option<OwnedFd>) -> io::Result<Started> {
        shared::start(self, cgroup)
    }

    /// Starts it. Blocks until its program was loaded.
    #[cfg(not(target_os = "linux"))]
    pub(super) fn start(self) -> io::Result<Pid> {
        let [input, output, errors] = self.streams;
        let mut command = std::process::Command::new(self.program);
        command.args(self.args).env_clear().envs(self.environment);
        command.stdin(input).stdout(output).stderr(errors);
        if let Some(directory) = self.directory {
            command.current_dir(directory);
        }
        super::system::before_server(&mut command, self.steps);
        command.spawn().map(|child| Pid::from_child(&child))
    }
}
