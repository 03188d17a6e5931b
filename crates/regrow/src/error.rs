//! What a caller is told when a call ends without the server's answer, in Rust and on the wire.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use regrow_core::{Delivery, Epoch, FailureKind, Fault, Outlook, seconds};
use regrow_protocol::frame::{self, Frame, RawId};
use regrow_protocol::meta;
use regrow_protocol::text::Escaped;
use serde_json::{Value, json};

/// Why a call has no answer of the server, whether it may have run, and what to do.
#[derive(Clone, Debug)]
pub struct CallError {
    /// Which server.
    pub server: Arc<str>,
    /// Which of its sessions had the call, if one had.
    pub epoch: Option<Epoch>,
    /// Whether the call may have run.
    pub delivery: Delivery,
    /// What happened to the call.
    pub kind: ErrorKind,
    /// What happened to the session, where that is the reason.
    pub fault: Option<Arc<Fault>>,
    /// What the connection does now.
    pub outlook: Outlook,
    /// Whether it may be sent again although it may have run: a handshake, or what only reads.
    pub repeatable: bool,
    /// How many attempts to connect have failed while it waited for a session.
    pub attempts: u32,
    /// The tool that was called, if one was.
    pub tool: Option<Arc<str>>,
    /// The first and the last lines of the server's standard error, where the contract lets them out.
    pub stderr: Vec<String>,
}

/// What happened to a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// Its session was lost while it ran.
    Interrupted,
    /// There was no session to send it to.
    Unavailable,
    /// It reached its deadline.
    Timeout,
    /// Too much is pending already.
    Overloaded,
    /// The server has as many sessions of its clients' own as it may have.
    TooManySessions {
        /// How many those are.
        limit: u32,
    },
    /// The request or its answer is larger than the cap.
    TooLarge {
        /// How large it was.
        bytes: u64,
    },
    /// The server's answer could not be read.
    Malformed,
    /// The connection was closed.
    Closed,
    /// An HTTP status came in place of an answer.
    Refused,
    /// Client and server speak different eras of the protocol, and this has no counterpart in the other one.
    NotBridged(Gap),
}

/// What cannot be carried between the eras.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Gap {
    /// Tasks.
    Tasks,
    /// An answer to a question that is not open any more.
    StaleAnswer,
    /// A question that the client cannot answer.
    Question,
    /// An answer that the client refused to give.
    RefusedAnswer,
    /// A server that asks on and on.
    EndlessQuestions,
    /// A subscription that the server does not honour.
    Subscription,
}

impl From<FailureKind> for ErrorKind {
    fn from(kind: FailureKind) -> ErrorKind {
        match kind {
            FailureKind::Interrupted => ErrorKind::Interrupted,
            FailureKind::Unavailable => ErrorKind::Unavailable,
            FailureKind::Timeout => ErrorKind::Timeout,
            FailureKind::Overloaded => ErrorKind::Overloaded,
            FailureKind::Closed => ErrorKind::Closed,
            FailureKind::Refused => ErrorKind::Refused,
        }
    }
}

impl ErrorKind {
    /// Its name on the wire.
    pub fn name(self) -> &'static str {
        match self {
            ErrorKind::Interrupted => "interrupted",
            ErrorKind::Unavailable => "unavailable",
            ErrorKind::Timeout => "timeout",
            ErrorKind::Overloaded => "overloaded",
            ErrorKind::TooManySessions { .. } => "too-many-sessions",
            ErrorKind::TooLarge { .. } => "too-large",
            ErrorKind::Malformed => "malformed",
            ErrorKind::Closed => "closed",
            ErrorKind::Refused => "refused",
            ErrorKind::NotBridged(_) => "not-bridged",
        }
    }

    /// Its JSON-RPC error code: ours, outside the range that JSON-RPC reserves.
    pub fn code(self) -> i64 {
        match self {
            ErrorKind::Interrupted => -31001,
            ErrorKind::Unavailable => -31002,
            ErrorKind::Timeout => -31003,
            ErrorKind::Overloaded => -31004,
            ErrorKind::TooLarge { .. } => -31005,
            ErrorKind::Malformed => -31006,
            ErrorKind::Closed => -31007,
            ErrorKind::Refused => -31008,
            ErrorKind::NotBridged(_) => -31009,
            ErrorKind::TooManySessions { .. } => -31010,
        }
    }
}

impl Gap {
    /// Its name on the wire.
    pub fn name(self) -> &'static str {
        match self {
            Gap::Tasks => "tasks",
            Gap::StaleAnswer => "stale-answer",
            Gap::Question => "question",
            Gap::RefusedAnswer => "refused-answer",
            Gap::EndlessQuestions => "endless-questions",
            Gap::Subscription => "subscription",
        }
    }

    /// What happened, and to which call; with what to do about it.
    fn happened(self) -> (&'static str, &'static str) {
        match self {
            Gap::Tasks => (
                "the server speaks another era of the protocol than the client, and tasks are not the same in both",
                "; call without a task",
            ),
            Gap::StaleAnswer => (
                "the question that this call answers is not open any more",
                "; to be asked again, call without inputResponses and requestState",
            ),
            Gap::Question => {
                ("the server asked for input that the client has not said it can give", " during this call")
            }
            Gap::RefusedAnswer => {
                ("the client did not give the input that the server asked for", " during this call")
            }
            Gap::EndlessQuestions => {
                ("the server asked for input again and again and came to no end", " during this call")
            }
            Gap::Subscription => (
                "the server does not tell when this resource changes",
                ", so it cannot be subscribed to; read it again instead",
            ),
        }
    }
}

impl CallError {
    /// What is told of a request that never left for this server, and will not.
    pub fn unsent(server: Arc<str>, request: &Frame, kind: ErrorKind) -> CallError {
        CallError {
            server,
            epoch: None,
            delivery: Delivery::NotSent,
            kind,
            fault: None,
            outlook: if kind == ErrorKind::Closed { Outlook::Closed } else { Outlook::Serving },
            repeatable: false,
            attempts: 0,
            tool: request.tool().map(Arc::from),
            stderr: vec![],
        }
    }

    /// When trying again makes sense; none where nothing has to be waited for.
    pub fn retry_after(&self) -> Option<Duration> {
        match self.outlook {
            Outlook::Parked(wait) | Outlook::NeedsMending(wait) | Outlook::Deferred(wait) => Some(wait),
            Outlook::Serving | Outlook::Restarting | Outlook::NeedsWaking | Outlook::Closed => None,
        }
    }

    /// The machine-readable part.
    pub fn data(&self) -> Value {
        let mut fault = json!({
            "kind": self.kind.name(),
            "server": &*self.server,
            "delivery": self.delivery.name(),
        });
        let mut put = |key: &str, value: Value| fault[key] = value;
        if let Some(epoch) = self.epoch {
            put("epoch", epoch.0.into());
        }
        if self.attempts > 0 {
            put("attempts", self.attempts.into());
        }
        if let Some(tool) = &self.tool {
            put("tool", (&**tool).into());
        }
        if let Some(cause) = self.fault.as_deref() {
            put("cause", cause.name().into());
            match cause {
                Fault::Exited { code } => put("exitCode", (*code).into()),
                Fault::Killed { signal } => put("signal", regrow_core::signal_name(*signal).into()),
                _ => {}
            }
            if let Some(status) = cause.http_status() {
                put("httpStatus", status.into());
            }
        }
        if let ErrorKind::TooLarge { bytes } = self.kind {
            put("bytes", bytes.into());
        }
        if let ErrorKind::NotBridged(gap) = self.kind {
            put("gap", gap.name().into());
        }
        if let Some(wait) = self.retry_after() {
            put("retryAfterMs", u64::try_from(wait.as_millis()).unwrap_or(u64::MAX).into());
        }
        if !self.stderr.is_empty() {
            put("stderr", self.stderr.clone().into());
        }
        json!({ meta::FAULT: fault })
    }

    /// As a tool result that a model can act on. Never with structured content, which some clients would check.
    pub fn tool_result(&self, id: &RawId, modern: bool) -> Bytes {
        let mut result = json!({
            "content": [{ "type": "text", "text": self.to_string() }],
            "isError": true,
            "_meta": self.data(),
        });
        if modern {
            result["resultType"] = "complete".into();
        }
        frame::response(id, result.to_string().as_bytes())
    }

    /// As a JSON-RPC error.
    pub fn rpc_error(&self, id: &RawId) -> Bytes {
        let data = self.data().to_string();
        frame::error(Some(id), self.kind.code(), &self.to_string(), Some(data.as_bytes()))
    }
}

impl std::error::Error for CallError {}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Happened { what, call } = self.happened();
        write!(f, "{}: {what}", self.server)?;
        match &self.tool {
            Some(tool) => write!(f, "{call} ({}).", Escaped(tool))?,
            None => write!(f, "{call}.")?,
        }
        write!(f, " {}", self.may_have_run())?;
        if self.attempts > 1 {
            write!(f, " {} attempts to connect failed while it waited.", self.attempts)?;
        }
        if let Some(next) = self.what_now() {
            write!(f, " {next}")?;
        }
        if !self.stderr.is_empty() {
            write!(f, " Its stderr:")?;
            for line in &self.stderr {
                write!(f, "\n{line}")?;
            }
        }
        Ok(())
    }
}

/// The first sentence: what happened, and to which call.
struct Happened {
    what: String,
    call: &'static str,
}

impl CallError {
    fn happened(&self) -> Happened {
        let say = |what: String, call| Happened { what, call };
        let fault = self.fault.as_deref();
        match (self.kind, fault) {
            (ErrorKind::Interrupted, Some(fault)) if self.delivery == Delivery::NotSent => {
                say(fault.to_string(), " before it could read this call")
            }
            (ErrorKind::Interrupted, Some(fault)) => say(fault.to_string(), " while this call was running"),
            (ErrorKind::Interrupted, None) => {
                say("the session was lost".into(), " while this call was running")
            }
            (ErrorKind::Unavailable, Some(fault)) => {
                say(fault.to_string(), ", so there is no session for this call")
            }
            (ErrorKind::Unavailable, None) => say("there is no session".into(), " for this call"),
            (ErrorKind::Timeout, Some(fault @ Fault::HandshakeTimeout { .. })) => say(fault.to_string(), ""),
            (ErrorKind::Timeout, Some(fault)) => say(fault.to_string(), "; the time for this call is over"),
            (ErrorKind::Timeout, None) => {
                say("the server gave no answer in the time".into(), " allowed for this call")
            }
            (ErrorKind::Overloaded, _) => {
                say("too many calls are pending already".into(), ", so this call was refused")
            }
            (ErrorKind::TooManySessions { limit }, _) => {
                let sessions = if limit == 1 { "session" } else { "sessions" };
                say(
                    format!("it already has {limit} private {sessions}, the most that maxSessions allows"),
                    ", so there is none for this call",
                )
            }
            (ErrorKind::TooLarge { bytes }, _) => say(
                format!("a message of {bytes} bytes is over the limit"),
                " and was dropped: it belonged to this call",
            ),
            (ErrorKind::Malformed, _) => say("the server sent a malformed response".into(), " to this call"),
            (ErrorKind::Refused, Some(fault)) => say(fault.to_string(), " instead of answering this call"),
            (ErrorKind::Refused, None) => say("the server refused".into(), " this call"),
            (ErrorKind::Closed, _) if self.retry_after().is_some() => {
                say("Regrow is shutting down".into(), ", so this call was refused")
            }
            (ErrorKind::Closed, _) => {
                say("the connection was closed".into(), " before this call was answered")
            }
            (ErrorKind::NotBridged(gap), _) => {
                let (what, call) = gap.happened();
                say(what.into(), call)
            }
        }
    }

    fn may_have_run(&self) -> &'static str {
        match (self.delivery, self.kind) {
            (Delivery::NotSent, _) => "It did not run.",
            // Not said of tools: one that the server may have died of should not be called on and on.
            (Delivery::Unknown, _) if self.repeatable && self.tool.is_none() => {
                "This call can safely be repeated."
            }
            (Delivery::Unknown, ErrorKind::Timeout) => {
                "It may have run or may still be running; check before repeating it."
            }
            (Delivery::Unknown, _) => "It may have run; check before repeating it.",
            (Delivery::Answered, _) => "It did run; do not repeat it blindly.",
        }
    }

    fn what_now(&self) -> Option<String> {
        if matches!(self.kind, ErrorKind::TooManySessions { .. }) {
            return Some("Close another client of this server, or raise maxSessions.".into());
        }
        match self.outlook {
            Outlook::Serving | Outlook::Deferred(_) => None,
            Outlook::Restarting => Some("The connection is already restarting.".into()),
            Outlook::Parked(wait) if wait.is_zero() => Some(
                "The server has failed too often to be restarted at once; the next call tries again.".into(),
            ),
            Outlook::Parked(wait) => Some(format!(
                "The server has failed too often to be restarted at once; a call in {} tries again.",
                seconds(wait)
            )),
            Outlook::NeedsMending(_) => {
                Some("Trying again will not help until this is mended; then just call again.".into())
            }
            Outlook::NeedsWaking => Some("Calls fail until an operator wakes it.".into()),
            Outlook::Closed => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn killed() -> CallError {
        CallError {
            server: "github".into(),
            epoch: Some(Epoch(3)),
            delivery: Delivery::Unknown,
            kind: ErrorKind::Interrupted,
            fault: Some(Arc::new(Fault::Killed { signal: 9 })),
            outlook: Outlook::Restarting,
            repeatable: false,
            attempts: 0,
            tool: Some("create_issue".into()),
            stderr: vec![],
        }
    }

    #[test]
    fn the_text_says_which_server_what_happened_whether_it_ran_and_what_now() {
        assert_eq!(
            killed().to_string(),
            "github: the server process was killed by SIGKILL while this call was running (create_issue). \
             It may have run; check before repeating it. The connection is already restarting."
        );
    }

    #[test]
    fn a_call_that_was_never_read_is_said_not_to_have_run() {
        let error = CallError { delivery: Delivery::NotSent, ..killed() };
        assert!(error.to_string().contains("before it could read this call (create_issue). It did not run."));
    }

    #[test]
    fn a_handshake_that_got_no_answer_is_not_said_to_have_run() {
        let after = Duration::from_secs(60);
        let error = CallError {
            kind: ErrorKind::Timeout,
            fault: Some(Arc::new(Fault::HandshakeTimeout { after })),
            repeatable: true,
            tool: None,
            ..killed()
        };
        assert_eq!(
            error.to_string(),
            "github: the server did not answer the handshake within 60 s. This call can safely be repeated. \
             The connection is already restarting."
        );
    }

    #[test]
    fn names_cannot_forge_lines_or_drive_a_terminal() {
        let error = CallError { tool: Some("a\nb\u{1b}[2J\u{202e}c\u{2028}d".into()), ..killed() };
        assert!(error.to_string().contains("(a\\nb\\u{1b}[2J\\u{202e}c\\u{2028}d)"));
    }

    #[test]
    fn no_code_lies_in_the_range_that_json_rpc_reserves() {
        use ErrorKind::*;
        let not_bridged = NotBridged(Gap::Tasks);
        let too_large = TooLarge { bytes: 1 };
        let sessions = TooManySessions { limit: 1 };
        for kind in [
            Interrupted,
            Unavailable,
            Timeout,
            Overloaded,
            sessions,
            too_large,
            Malformed,
            Closed,
            not_bridged,
        ] {
            assert!(!(-32768..=-32000).contains(&kind.code()));
        }
    }
}
