//! What a scenario finds out: for each promise, whether it was kept.

use std::fmt;

/// What a promise is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Group {
    /// A server's death is noticed without a call.
    Notices,
    /// Every request ends in time.
    Answers,
    /// The connection works again on its own.
    Recovers,
    /// Nothing is executed twice.
    NeverTwice,
    /// No process and no work is left behind.
    LeavesNothing,
    /// Errors say what happened.
    TellsTheTruth,
}

impl Group {
    /// All of them, in the order of reports.
    pub const ALL: [Group; 6] = [
        Group::Notices,
        Group::Answers,
        Group::Recovers,
        Group::NeverTwice,
        Group::LeavesNothing,
        Group::TellsTheTruth,
    ];

    /// Its name for people.
    pub fn name(self) -> &'static str {
        match self {
            Group::Notices => "Notices",
            Group::Answers => "Answers",
            Group::Recovers => "Recovers",
            Group::NeverTwice => "Never twice",
            Group::LeavesNothing => "Leaves nothing",
            Group::TellsTheTruth => "Tells the truth",
        }
    }
}

impl fmt::Display for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Whether a promise was kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Yes.
    Pass,
    /// No; this was seen instead.
    Fail(String),
    /// It cannot be judged, for this reason.
    NotApplicable(String),
}

impl Verdict {
    /// Its name for people and machines.
    pub fn name(&self) -> &'static str {
        match self {
            Verdict::Pass => "pass",
            Verdict::Fail(_) => "fail",
            Verdict::NotApplicable(_) => "not applicable",
        }
    }

    /// What was seen, or the reason.
    pub fn text(&self) -> Option<&str> {
        match self {
            Verdict::Pass => None,
            Verdict::Fail(text) | Verdict::NotApplicable(text) => Some(text),
        }
    }

    /// A pass if it holds; else a failure with what was seen.
    pub(crate) fn of(holds: bool, seen: impl FnOnce() -> String) -> Verdict {
        if holds { Verdict::Pass } else { Verdict::Fail(seen()) }
    }
}

/// One promise, in one scenario, and its verdict.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The scenario's name.
    pub scenario: &'static str,
    /// The numbers that the scenario has in the list of scenarios.
    pub numbers: &'static str,
    /// What the promise is about.
    pub group: Group,
    /// The promise, as a sentence.
    pub promise: &'static str,
    /// Whether it was kept.
    pub verdict: Verdict,
}
