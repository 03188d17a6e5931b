//! What a request is to us: whether it may be sent again, and whether it has an end.

use crate::Replay;

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
    /// Whether a client shakes hands with it.
    pub fn is_handshake(self) -> bool {
        matches!(self, Nature::Greeting | Nature::Discovery)
    }

    /// The nature of a request. `tool` is looked at for tool calls alone.
    pub fn of(method: &str, tool: ToolSafety, replay: Replay) -> Nature {
        let safe = match method {
            "initialize" => return Nature::Greeting,
            "server/discover" => return Nature::Discovery,
            "subscriptions/listen" => return Nature::Stream,
            "tools/call" => match tool {
                ToolSafety::Unknown => false,
                ToolSafety::Declared => true,
                ToolSafety::Hinted => replay == Replay::Hints,
            },
            "ping"
            | "tools/list"
            | "prompts/list"
            | "prompts/get"
            | "resources/list"
            | "resources/templates/list"
            | "resources/read"
            | "resources/subscribe"
            | "resources/unsubscribe"
            | "completion/complete"
            | "logging/setLevel"
            | "tasks/get"
            | "tasks/list" => true,
            _ => false,
        };
        if safe && replay != Replay::Never { Nature::Read } else { Nature::Effect }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
