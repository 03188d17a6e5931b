//! What a failed call says: which server, what happened, whether the call may have run, and what to do.

use std::fmt;

use regrow_core::{Delivery, Fault, Outlook, seconds};
use regrow_protocol::text::Escaped;

use super::{CallError, ErrorKind, Gap, Unapproved};

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (what, call) = self.happened();
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

impl CallError {
    /// The first sentence: what happened, and to which call.
    fn happened(&self) -> (String, &'static str) {
        let say = |what: String, call| (what, call);
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
            (ErrorKind::Timeout, Some(fault)) => say(fault.to_string(), "; this call timed out"),
            (ErrorKind::Timeout, None) if self.delivery == Delivery::NotSent => {
                say(self.timed_out(), " before this call could be sent")
            }
            (ErrorKind::Timeout, None) => {
                say(self.timed_out() + ": no response from the server", " to this call")
            }
            (ErrorKind::Overloaded, _) if self.delivery == Delivery::Answered => say(
                "this client uses more than its share of the gateway's memory".into(),
                ", so the response to this call was dropped",
            ),
            (ErrorKind::Overloaded, _) => {
                say("too many calls are pending".into(), ", so this call was refused")
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
            (ErrorKind::Refused, Some(fault)) => say(fault.to_string(), "; this call failed"),
            (ErrorKind::Refused, None) => say("the server refused".into(), " this call"),
            (ErrorKind::Closed, _) if self.retry_after().is_some() => {
                say("Regrow is shutting down".into(), ", so this call was refused")
            }
            (ErrorKind::Closed, _) => {
                say("the connection was closed".into(), " before this call got a response")
            }
            (ErrorKind::NotApproved(what), _) => say(what.happened().into(), ", so this call was refused"),
            (ErrorKind::NotBridged(gap), _) => {
                let (what, call) = gap.happened();
                say(what.into(), call)
            }
        }
    }

    fn timed_out(&self) -> String {
        let after = self.timeout.map(|timeout| format!(" after {}", seconds(timeout)));
        format!("timed out{}", after.unwrap_or_default())
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
            (Delivery::Answered, _) => "It ran; do not repeat it blindly.",
        }
    }

    fn what_now(&self) -> Option<String> {
        if matches!(self.kind, ErrorKind::TooManySessions { .. }) {
            return Some("Close another client of this server, or raise maxSessions.".into());
        }
        if matches!(self.kind, ErrorKind::NotApproved(_)) {
            return Some(format!(
                "Calls fail until an operator approves it: regrow approve {}.",
                self.server
            ));
        }
        if let Some(Fault::SignInNeeded { command, .. }) = self.fault.as_deref() {
            return Some(format!("Ask the user to run `{}`, then call again.", Escaped(command)));
        }
        match self.outlook {
            Outlook::Serving | Outlook::Deferred(_) => None,
            Outlook::Restarting => Some("The connection is already restarting.".into()),
            Outlook::Parked(wait) if wait.is_zero() => {
                Some("The server failed too often and is parked; the next call retries.".into())
            }
            Outlook::Parked(wait) => {
                Some(format!("The server failed too often and is parked; calls retry in {}.", seconds(wait)))
            }
            Outlook::NeedsMending(_) => Some("Retrying will not help until this is fixed.".into()),
            Outlook::NeedsWaking => Some("Calls fail until an operator wakes it.".into()),
            Outlook::Closed => None,
        }
    }
}

impl Unapproved {
    fn happened(self) -> &'static str {
        match self {
            Unapproved::Definition => "the definition has changed since it was approved",
            Unapproved::Command => "the command or the URL of the server has changed since it was approved",
            Unapproved::DamagedPins => "the record of what was approved of the server is damaged",
        }
    }
}

impl Gap {
    /// What happened, and to which call; with what to do about it.
    fn happened(self) -> (&'static str, &'static str) {
        match self {
            Gap::Tasks => (
                "client and server use different protocol eras, and tasks cannot be translated between them",
                "; call without a task",
            ),
            Gap::StaleAnswer => (
                "the question that this call answers is no longer open",
                "; to be asked again, call without inputResponses and requestState",
            ),
            Gap::Question => {
                ("the server asked for input that the client does not support", " during this call")
            }
            Gap::RefusedAnswer => {
                ("the client did not provide the input that the server asked for", " during this call")
            }
            Gap::EndlessQuestions => ("the server kept asking for input", " during this call"),
            Gap::Subscription => (
                "the server does not announce changes to this resource",
                ", so it cannot be subscribed to; read it again instead",
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use regrow_core::Epoch;

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
            timeout: None,
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
    fn a_server_that_requires_sign_in_names_the_command_for_it() {
        let error = CallError {
            delivery: Delivery::NotSent,
            kind: ErrorKind::Unavailable,
            fault: Some(Arc::new(Fault::SignInNeeded {
                command: "regrow login github".into(),
                may_ask: false,
            })),
            outlook: Outlook::NeedsMending(Duration::from_secs(10)),
            ..killed()
        };
        assert_eq!(
            error.to_string(),
            "github: the server requires sign-in (HTTP 401), so there is no session for this call (create_issue). \
             It did not run. Ask the user to run `regrow login github`, then call again."
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
            "github: the handshake timed out after 60 s. This call can safely be repeated. \
             The connection is already restarting."
        );
    }

    #[test]
    fn a_timeout_says_after_how_long() {
        let error = CallError {
            kind: ErrorKind::Timeout,
            fault: None,
            timeout: Some(Duration::from_secs(6)),
            outlook: Outlook::Serving,
            ..killed()
        };
        assert_eq!(
            error.to_string(),
            "github: timed out after 6 s: no response from the server to this call (create_issue). \
             It may have run or may still be running; check before repeating it."
        );
        let waited = CallError { delivery: Delivery::NotSent, ..error };
        assert_eq!(
            waited.to_string(),
            "github: timed out after 6 s before this call could be sent (create_issue). It did not run."
        );
    }

    #[test]
    fn names_cannot_forge_lines_or_drive_a_terminal() {
        let error = CallError { tool: Some("a\nb\u{1b}[2J\u{202e}c\u{2028}d".into()), ..killed() };
        assert!(error.to_string().contains("(a\\nb\\u{1b}[2J\\u{202e}c\\u{2028}d)"));
    }
}
