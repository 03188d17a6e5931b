//! Where helpers are not followed: systems other than Linux.

use std::io;
use std::process::{Child, Command};

use rustix::process::Pid;

use super::launch::Launch;
use super::mark::Mark;

/// Does nothing here. On Linux, helpers of servers are found also where they left their session and cleared their environment.
pub fn follow_helpers() {}

pub(super) fn start_guard(command: &mut Command) -> io::Result<Child> {
    command.spawn()
}

pub(super) fn guard_ended(_: &Child) {}

/// A server.
pub(super) struct Followed(Mark);

impl Followed {
    pub(super) fn start(_: &str, mark: Mark, launch: Launch<'_>) -> io::Result<(Followed, Pid)> {
        Ok((Followed(mark), launch.start()?))
    }

    pub(super) fn mark(&self) -> Mark {
        self.0
    }

    pub(super) fn ended(&self) {}
}
