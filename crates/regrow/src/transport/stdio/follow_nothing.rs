//! Where helpers are not followed: systems other than Linux.

use std::io;
use std::process::{Child, Command};

use rustix::process::Pid;

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
    pub(super) fn prepare(_: &str, mark: Mark, _: &mut Command) -> Followed {
        Followed(mark)
    }

    pub(super) fn spawn(&self, command: &mut Command) -> io::Result<Pid> {
        command.spawn().map(|child| Pid::from_child(&child))
    }

    pub(super) fn mark(&self) -> Mark {
        self.0
    }

    pub(super) fn ended(&self) {}
}
