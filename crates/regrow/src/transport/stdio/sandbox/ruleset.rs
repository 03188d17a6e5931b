//! Builds the restrictions of a server before its process starts, so that the child only has to set them.

use std::os::fd::OwnedFd;
use std::path::PathBuf;

use landlock::{
    ABI, Access, AccessFs, PathBeneath, PathFd, PathFdError, Ruleset, RulesetAttr, RulesetCreated,
    RulesetCreatedAttr, RulesetError, Scope,
};
use regrow_core::Fault;

use super::super::diagnose;
use super::rules::{self, Rule};
use super::{Sandbox, filter};

/// What this code knows of. Older kernels enforce less, which [`Sandbox::gaps`] tells.
const KNOWN: ABI = ABI::V6;

/// What the child sets for itself.
pub(in super::super) struct Restrictions {
    /// For Landlock, where the kernel has it.
    pub(in super::super) ruleset: Option<OwnedFd>,
    /// For seccomp, where the network is denied.
    pub(in super::super) filter: Option<Vec<libc::sock_filter>>,
}

pub(super) fn restrictions(sandbox: &Sandbox, program: Option<PathBuf>) -> Result<Restrictions, Fault> {
    let failed = |error: RulesetError| Fault::Unsandboxed { reason: error.to_string() };
    let mut ruleset = new_ruleset().map_err(failed)?;
    for rule in rules::rules(sandbox, program) {
        if let Some(path) = open(&rule)? {
            let access = if rule.may_write { AccessFs::from_all(KNOWN) } else { AccessFs::from_read(KNOWN) };
            ruleset = ruleset.add_rule(PathBeneath::new(path, access)).map_err(failed)?;
        }
    }
    let has_seccomp = super::super::system::sandbox_support().seccomp;
    let filter = (!sandbox.net && has_seccomp).then(filter::no_sockets).flatten();
    Ok(Restrictions { ruleset: ruleset.into(), filter })
}

fn new_ruleset() -> Result<RulesetCreated, RulesetError> {
    Ruleset::default().handle_access(AccessFs::from_all(KNOWN))?.scope(Scope::from_all(KNOWN))?.create()
}

/// None for a file that programs may need and that this system does not have.
fn open(rule: &Rule) -> Result<Option<PathFd>, Fault> {
    match (PathFd::new(&rule.path), rule.list) {
        (Ok(path), _) => Ok(Some(path)),
        (Err(_), None) => Ok(None),
        (Err(error), Some(list)) => {
            let why = match error {
                PathFdError::OpenCall { source, .. } => diagnose::words(&source),
                error => error.to_string(),
            };
            let path = &rule.path;
            let reason = format!("sandbox.{list}: {path:?}: {why}; create it, or remove it from the list");
            Err(Fault::Misconfigured { reason })
        }
    }
}
