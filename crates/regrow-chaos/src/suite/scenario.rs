//! What a scenario is, and which server it needs.

use super::Transport;
use super::verdict::{Finding, Group, Verdict};

/// How the server is started at first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Start {
    Plain,
    /// Under a shell that stays.
    Shell,
    /// Not at all: there is no such program, or nobody listens.
    Missing,
}

/// A way in which things go wrong, and what must be seen then.
pub struct Scenario {
    /// What it is called on the command line.
    pub name: &'static str,
    /// Its numbers in the project's list of scenarios.
    pub numbers: &'static str,
    /// What goes wrong.
    pub what: &'static str,
    pub(super) transports: &'static [Transport],
    pub(super) start: Start,
    pub(super) plan: &'static str,
}

impl Scenario {
    pub(super) fn finding(&self, group: Group, promise: &'static str, verdict: Verdict) -> Finding {
        Finding { scenario: self.name, numbers: self.numbers, group, promise, verdict }
    }
}
