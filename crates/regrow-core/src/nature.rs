//! What a request is to us: whether it may be sent again, whether it has an end, and how long it may take.

use std::time::Duration;

use regrow_protocol::method::{self, Class};

use crate::{Policy, Replay};

/// What a request is to us.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Nature {
    /// The client's handshake. Sent again until it is answered or its time is over.
    Greeting,
    /// The question for the server's era.
    Discovery,
    /// Safe to send again.
    Read,
    /// May change the world; sent again only if it provably never arrived.
    Effect,
    /// A subscription stream: no deadline, opened again on every session.
    Stream,
}

/// What is known of a tool's safety.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ToolSafety {
    /// Nothing.
    Unknown,
    /// The operator declared it safe to repeat.
    Declared,
    /// Its own annotations say that it only reads, or is idempotent.
    Hinted,
}

impl Nature {
    /// Whether it is a client's handshake.
    pub fn is_handshake(self) -> bool {
        matches!(self, Nature::Greeting | Nature::Discovery)
    }

    /// The nature of a request. `tool` is looked at for tool calls alone.
    pub fn of(method: &str, tool: ToolSafety, replay: Replay) -> Nature {
        let safe = match method::class(method) {
            Class::Initialize => return Nature::Greeting,
            Class::Discover => return Nature::Discovery,
            Class::Listen => return Nature::Stream,
            Class::CallTool => match tool {
                ToolSafety::Unknown => false,
                ToolSafety::Declared => true,
                ToolSafety::Hinted => replay == Replay::Hints,
            },
            Class::Repeatable => true,
            Class::Effect => false,
        };
        if safe && replay != Replay::Never { Nature::Read } else { Nature::Effect }
    }
}

/// How long Regrow waits for the response to a client's request of this method. `None`: the request has no deadline.
pub fn timeout_of(method: &str, policy: &Policy) -> Option<Duration> {
    match method {
        _ if method::is_handshake(method) => Some(policy.connect_timeout),
        _ if method::waits_by_design(method) => None,
        _ => policy.call_timeout,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every request that a client can send, in both eras.
    #[test]
    fn every_method_of_both_eras_is_classified() {
        use Nature::*;
        let policy = Policy::default();
        let (connect, call) = (Some(policy.connect_timeout), policy.call_timeout);
        let table = [
            ("initialize", Greeting, connect),
            ("server/discover", Discovery, connect),
            ("ping", Read, call),
            ("tools/list", Read, call),
            ("tools/call", Effect, call),
            ("prompts/list", Read, call),
            ("prompts/get", Read, call),
            ("resources/list", Read, call),
            ("resources/templates/list", Read, call),
            ("resources/read", Read, call),
            ("resources/subscribe", Read, call),
            ("resources/unsubscribe", Read, call),
            ("completion/complete", Read, call),
            ("logging/setLevel", Read, call),
            ("tasks/list", Read, call),
            ("tasks/get", Read, call),
            // It blocks until the task has ended, and reading a result changes nothing.
            ("tasks/result", Read, None),
            // A second cancellation is refused, so the client would be told that the first one failed.
            ("tasks/cancel", Effect, call),
            // It carries answers to the task's questions.
            ("tasks/update", Effect, call),
            ("subscriptions/listen", Stream, None),
            ("acme/anything", Effect, call),
        ];
        for (method, nature, timeout) in table {
            assert_eq!(Nature::of(method, ToolSafety::Unknown, Replay::Safe), nature, "{method}");
            assert_eq!(timeout_of(method, &policy), timeout, "{method}");
        }
    }

    #[test]
    fn a_task_that_must_not_be_asked_for_twice_still_has_no_deadline() {
        assert_eq!(Nature::of("tasks/result", ToolSafety::Unknown, Replay::Never), Nature::Effect);
        assert_eq!(timeout_of("tasks/result", &Policy::default()), None);
    }

    #[test]
    fn a_tool_call_is_safe_only_when_declared_or_when_hints_are_trusted() {
        use {Nature::*, ToolSafety::*};
        let natures =
            |tool| [Replay::Never, Replay::Safe, Replay::Hints].map(|r| Nature::of("tools/call", tool, r));
        assert_eq!(natures(Unknown), [Effect, Effect, Effect]);
        assert_eq!(natures(Hinted), [Effect, Effect, Read]);
        assert_eq!(natures(Declared), [Effect, Read, Read]);
    }

    #[test]
    fn what_the_protocol_reads_is_safe_unless_nothing_is_sent_again() {
        for method in ["ping", "tools/list", "resources/read", "completion/complete", "tasks/get"] {
            let nature = |replay| Nature::of(method, ToolSafety::Unknown, replay);
            assert_eq!([Replay::Never, Replay::Safe].map(nature), [Nature::Effect, Nature::Read], "{method}");
        }
    }

    #[test]
    fn handshakes_and_streams_are_what_they_are_whatever_is_sent_again() {
        let natures = ["initialize", "server/discover", "subscriptions/listen"]
            .map(|method| Nature::of(method, ToolSafety::Unknown, Replay::Never));
        assert_eq!(natures, [Nature::Greeting, Nature::Discovery, Nature::Stream]);
        assert_eq!(natures.map(Nature::is_handshake), [true, true, false]);
    }

    #[test]
    fn what_is_not_known_may_change_the_world() {
        assert_eq!(Nature::of("acme/doSomething", ToolSafety::Unknown, Replay::Hints), Nature::Effect);
        assert_eq!(Nature::of("tasks/cancel", ToolSafety::Unknown, Replay::Hints), Nature::Effect);
    }
}
