//! What a server may reach: files through Landlock, the network through seccomp. Linux only.

use std::path::PathBuf;

use regrow_core::{Epoch, Fault};

use super::Stdio;

#[cfg(target_os = "linux")]
mod filter;
#[cfg(target_os = "linux")]
mod rules;
#[cfg(target_os = "linux")]
mod ruleset;

#[cfg(target_os = "linux")]
pub(super) use {filter::IS_AVAILABLE as HAS_FILTER, filter::program, ruleset::Restrictions};

/// What a server and everything that it starts may reach. What is not named is denied, but for what programs need to run at all:
/// their own file, libraries, and a few files of the system.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sandbox {
    /// Files and folders that it may read and run.
    pub read: Vec<PathBuf>,
    /// Files and folders that it may also change.
    pub write: Vec<PathBuf>,
    /// Whether it may open sockets.
    pub net: bool,
    /// Whether it must not start where the system cannot enforce all of this.
    pub required: bool,
}

impl Sandbox {
    /// What this system cannot enforce, for people. Empty where it enforces everything.
    #[cfg(target_os = "linux")]
    pub fn gaps(&self) -> Vec<&'static str> {
        rules::gaps(self, super::system::sandbox_support())
    }

    /// What this system cannot enforce, for people. Empty where it enforces everything.
    #[cfg(not(target_os = "linux"))]
    pub fn gaps(&self) -> Vec<&'static str> {
        vec!["a sandbox is available on Linux only"]
    }
}

/// Of which parts of a sandbox the kernel is capable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg(target_os = "linux")]
pub(super) struct Support {
    /// The version of Landlock's ABI; 0 where there is none.
    pub(super) landlock: i64,
    /// Whether filters of system calls can be set.
    pub(super) seccomp: bool,
}

/// There are none.
#[cfg(not(target_os = "linux"))]
pub(super) struct Restrictions;

/// What the child sets for itself before its exec. The fault says why the server must not start.
pub(super) fn prepare(server: &Stdio, epoch: Epoch) -> Result<Option<Restrictions>, Fault> {
    let Some(sandbox) = &server.sandbox else { return Ok(None) };
    let gaps = sandbox.gaps().join("; ");
    if !gaps.is_empty() && sandbox.required {
        return Err(Fault::Unsandboxed { reason: gaps });
    }
    if !gaps.is_empty() && epoch == Epoch(1) {
        tracing::warn!(server = server.name, "this system does not enforce the whole sandbox: {gaps}");
    }
    #[cfg(target_os = "linux")]
    let restrictions = ruleset::restrictions(sandbox, super::diagnose::locate(server))?;
    #[cfg(not(target_os = "linux"))]
    let restrictions = Restrictions;
    Ok(Some(restrictions))
}
