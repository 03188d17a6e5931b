//! What a visit to a server has found out.

use std::time::Duration;

use regrow_gateway::config::{Message, Problems};
use serde::{Serialize, Serializer};

/// What is known of a server now. Everything in it is safe to print, but for the name.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Finding {
    pub(crate) name: String,
    pub(crate) state: State,
    /// Which era it speaks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) era: Option<&'static str>,
    /// How many tools it has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) tools: Option<usize>,
    /// From its start to the end of the handshake.
    #[serde(rename = "startMs", serialize_with = "millis", skip_serializing_if = "Option::is_none")]
    pub(crate) start: Option<Duration>,
    /// What the system does not enforce of its sandbox.
    #[serde(rename = "sandboxGaps", skip_serializing_if = "Vec::is_empty")]
    pub(crate) sandbox_gaps: Vec<&'static str>,
    /// Variables that are set here, and that it may be missing.
    #[serde(rename = "missingVariables", skip_serializing_if = "Vec::is_empty")]
    pub(crate) missing: Vec<String>,
    #[serde(flatten)]
    pub(crate) problem: Option<Problem>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum State {
    Ok,
    Broken,
    Disabled,
}

/// Why it is broken.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Problem {
    #[serde(rename = "problem")]
    pub(crate) text: String,
    /// The fault's name for machines, where it is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) fault: Option<&'static str>,
    /// The first and the last lines of its standard error.
    pub(crate) stderr: Vec<String>,
    /// What is wrong with its entry in the configuration.
    #[serde(rename = "problems", skip_serializing_if = "Vec::is_empty")]
    pub(crate) entry: Vec<Message>,
}

impl Problem {
    /// The entry has these problems, so the server was not visited.
    pub(crate) fn of_entry(problems: &Problems) -> Problem {
        Problem { text: problems.to_string(), fault: None, stderr: vec![], entry: problems.0.clone() }
    }
}

impl State {
    pub(crate) fn name(self) -> &'static str {
        match self {
            State::Ok => "ok",
            State::Broken => "broken",
            State::Disabled => "disabled",
        }
    }
}

impl Finding {
    /// A server that is switched off, and was not visited.
    pub(crate) fn disabled(name: String) -> Finding {
        let sandbox_gaps = vec![];
        Finding {
            name,
            state: State::Disabled,
            era: None,
            tools: None,
            start: None,
            sandbox_gaps,
            missing: vec![],
            problem: None,
        }
    }
}

fn millis<S: Serializer>(length: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
    length.map(|length| length.as_millis() as u64).serialize(serializer)
}
