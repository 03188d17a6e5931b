//! What a visit to a server has found out.

use std::time::Duration;

use regrow_gateway::config::{Message, Problems};
use serde_json::{Value, json};

/// What is known of a server now. Everything in it is safe to print, but for the name.
#[derive(Debug)]
pub(super) struct Finding {
    pub(super) name: String,
    pub(super) state: State,
    /// Which era it speaks.
    pub(super) era: Option<&'static str>,
    /// How many tools it has.
    pub(super) tools: Option<usize>,
    /// From its start to the end of the handshake.
    pub(super) start: Option<Duration>,
    pub(super) problem: Option<Problem>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Ok,
    Broken,
    Disabled,
}

/// Why it is broken.
#[derive(Debug)]
pub(super) struct Problem {
    pub(super) text: String,
    /// The fault's name for machines, where it is one.
    pub(super) fault: Option<&'static str>,
    /// The first and the last lines of its standard error.
    pub(super) stderr: Vec<String>,
    /// What is wrong with its entry in the configuration.
    pub(super) entry: Vec<Message>,
}

impl Problem {
    /// The entry has these problems, so the server was not visited.
    pub(super) fn of_entry(problems: &Problems) -> Problem {
        Problem { text: problems.to_string(), fault: None, stderr: vec![], entry: problems.0.clone() }
    }
}

impl State {
    pub(super) fn name(self) -> &'static str {
        match self {
            State::Ok => "ok",
            State::Broken => "broken",
            State::Disabled => "disabled",
        }
    }
}

impl Finding {
    /// A server that is switched off, and was not visited.
    pub(super) fn disabled(name: String) -> Finding {
        Finding { name, state: State::Disabled, era: None, tools: None, start: None, problem: None }
    }

    pub(super) fn json(&self) -> Value {
        let mut finding = json!({ "name": self.name, "state": self.state.name() });
        let mut put = |key: &str, value: Value| finding[key] = value;
        if let Some(era) = self.era {
            put("era", era.into());
        }
        if let Some(tools) = self.tools {
            put("tools", tools.into());
        }
        if let Some(start) = self.start {
            put("startMs", u64::try_from(start.as_millis()).unwrap_or(u64::MAX).into());
        }
        if let Some(problem) = &self.problem {
            put("problem", problem.text.as_str().into());
            put("stderr", problem.stderr.clone().into());
            if let Some(fault) = problem.fault {
                put("fault", fault.into());
            }
            if !problem.entry.is_empty() {
                put("problems", problem.entry.iter().map(problem_json).collect());
            }
        }
        finding
    }
}

/// A problem of a configuration, for a machine.
pub(super) fn problem_json(message: &Message) -> Value {
    json!({
        "file": &*message.place.file,
        "line": message.place.line,
        "column": message.place.column,
        "server": message.server,
        "field": message.field,
        "text": message.text,
    })
}
