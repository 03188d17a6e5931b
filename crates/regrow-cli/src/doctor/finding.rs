//! What is wrong or could be better: what was found, where, and what to do next.

use serde::Serialize;

/// One finding. Everything in it is safe to print.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Finding {
    pub(super) level: Level,
    /// A name for machines.
    pub(super) kind: &'static str,
    #[serde(flatten)]
    pub(super) subject: Subject,
    pub(super) what: String,
    pub(super) next: String,
    /// The first and the last lines of a server's stderr.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) stderr: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Level {
    /// Something does not work.
    Broken,
    /// It works, or may work; this would make it better.
    Hint,
}

/// What a finding is about: the machine if all is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct Subject {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) host: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) file: Option<String>,
    /// Of the first server. Counts from one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) line: Option<usize>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) servers: Vec<String>,
}

impl Finding {
    pub(super) fn broken(
        kind: &'static str,
        subject: Subject,
        what: impl Into<String>,
        next: impl Into<String>,
    ) -> Finding {
        Finding { level: Level::Broken, kind, subject, what: what.into(), next: next.into(), stderr: vec![] }
    }

    pub(super) fn hint(
        kind: &'static str,
        subject: Subject,
        what: impl Into<String>,
        next: impl Into<String>,
    ) -> Finding {
        Finding { level: Level::Hint, ..Finding::broken(kind, subject, what, next) }
    }
}
