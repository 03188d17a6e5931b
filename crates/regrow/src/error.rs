//! What a caller is told when a call ends without the server's answer, in Rust and on the wire.

mod text;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use regrow_core::{Delivery, Epoch, FailureKind, Fault, Outlook};
use regrow_protocol::frame::{self, Frame, RawId};
use regrow_protocol::meta;
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
    /// The time that the call had, if it had a limit.
    pub timeout: Option<Duration>,
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
    /// An HTTP status came instead of a response.
    Refused,
    /// What would be called has changed since a person approved it.
    NotApproved(Unapproved),
    /// Client and server speak different eras of the protocol, and this has no counterpart in the other one.
    NotBridged(Gap),
}

/// What has changed since it was approved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Unapproved {
    /// The definition of the tool or prompt.
    Definition,
    /// The server's command, an argument or its URL.
    Command,
    /// Nobody knows: the record of what was approved is damaged.
    DamagedPins,
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
            ErrorKind::NotApproved(_) => "not-approved",
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
            ErrorKind::NotApproved(_) => -31011,
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
}

impl CallError {
    /// What is told of a request that never left for this server, and will not.
    pub fn unsent(server: Arc<str>, request: &Frame, kind: ErrorKind) -> CallError {
        CallError { tool: request.tool().map(Arc::from), ..CallError::new(server, kind) }
    }

    /// The same of a request that could not be read.
    pub(crate) fn new(server: Arc<str>, kind: ErrorKind) -> CallError {
        CallError {
            server,
            epoch: None,
            delivery: Delivery::NotSent,
            kind,
            fault: None,
            outlook: if kind == ErrorKind::Closed { Outlook::Closed } else { Outlook::Serving },
            repeatable: false,
            attempts: 0,
            timeout: None,
            tool: None,
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

#[cfg(test)]
mod tests {
    use super::*;

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
            NotApproved(Unapproved::Definition),
        ] {
            assert!(!(-32768..=-32000).contains(&kind.code()));
        }
    }
}
