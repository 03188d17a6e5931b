//! Every fault, and the one table that says its remedy and whether it is charged.

mod words;

use std::time::Duration;

pub use words::{seconds, signal_name};

/// Why an attempt or a session ended, learnt at its source.
///
/// The text completes the sentence "the call failed because ...", and names neither secrets nor the server.
#[derive(Clone, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// There is no such program.
    #[error("the program {program:?} was not found")]
    NotFound {
        /// As the operator wrote it.
        program: String,
    },
    /// The program is there but cannot be run.
    #[error("the program {program:?} cannot be run: {reason}")]
    NotExecutable {
        /// As the operator wrote it.
        program: String,
        /// What the operating system says.
        reason: String,
    },
    /// The working directory is missing or not a directory.
    #[error("the working directory {path:?} cannot be used: {reason}")]
    BadDirectory {
        /// As the operator wrote it.
        path: String,
        /// What the operating system says.
        reason: String,
    },
    /// The system cannot enforce the sandbox that the server requires.
    #[error("the server was not started, because its sandbox is not available: {reason}")]
    Unsandboxed {
        /// What is missing.
        reason: String,
    },
    /// The operating system could not start the program now; later it may.
    #[error("the program {program:?} could not be started: {reason}")]
    SpawnFailed {
        /// As the operator wrote it.
        program: String,
        /// What the operating system says.
        reason: String,
    },
    /// The server started but did not answer the handshake.
    #[error("the handshake timed out after {}", seconds(*.after))]
    HandshakeTimeout {
        /// The limit that passed.
        after: Duration,
    },
    /// The server answered the handshake with an error.
    #[error("the server refused the handshake with error {code}: {message}")]
    HandshakeRefused {
        /// The JSON-RPC error code.
        code: i64,
        /// The server's own words, escaped and cut.
        message: String,
    },
    /// The server speaks the other era; the next attempt uses that one.
    #[error("the server speaks the other protocol era")]
    WrongEra,
    /// The restarted server negotiated another protocol version than the client knows.
    #[error("the restarted server speaks protocol {is} instead of {was}; restart this server in your host")]
    VersionChanged {
        /// What the client's session runs on.
        was: String,
        /// What the new process offered.
        is: String,
    },
    /// The restarted server lacks something that the client has used.
    #[error("the restarted server no longer offers {name}; restart this server in your host")]
    CapabilityLost {
        /// The capability's name in the handshake.
        name: String,
    },
    /// The process ended on its own.
    #[error("the server process exited with code {code}")]
    Exited {
        /// Its exit code.
        code: i32,
    },
    /// The process was ended by a signal.
    #[error("the server process was killed by {}", signal_name(*.signal))]
    Killed {
        /// The signal's number.
        signal: i32,
    },
    /// The process lives but has closed its standard output.
    #[error("the server closed its output but is still running")]
    OutputClosed,
    /// The process lives but has closed its standard input.
    #[error("the server closed its input but is still running")]
    InputClosed,
    /// The server did not answer a probe.
    #[error("the server did not respond for {}", seconds(*.after))]
    Silent {
        /// How long nothing was heard.
        after: Duration,
    },
    /// Reading from or writing to the server failed.
    #[error("the connection to the server broke: {reason}")]
    Broken {
        /// What the operating system says.
        reason: String,
    },
    /// What the operator wrote about the server makes no sense, so it was not even tried.
    #[error("invalid configuration of this server: {reason}")]
    Misconfigured {
        /// Where, and what to do.
        reason: String,
    },
    /// Nobody answers at the server's address, or no connection was made in time.
    #[error("{address} cannot be reached: {reason}")]
    Unreachable {
        /// Host and port.
        address: String,
        /// What the operating system says.
        reason: String,
    },
    /// The server's name leads to no address.
    #[error("the host {host:?} was not found: {reason}")]
    UnknownHost {
        /// As the operator wrote it.
        host: String,
        /// What the resolver says.
        reason: String,
    },
    /// No secure connection, since one side does not trust the other.
    #[error("TLS connection to {host:?} failed: {reason}")]
    Untrusted {
        /// As the operator wrote it.
        host: String,
        /// Which check failed.
        reason: String,
    },
    /// The server wants other credentials than ours, or any.
    #[error("the server refused the credentials (HTTP {code}); provide valid ones")]
    Unauthorized {
        /// The HTTP status.
        code: u16,
    },
    /// The server wants a user to sign in, and only a person can do that.
    #[error("the server requires sign-in (HTTP 401)")]
    SignInNeeded {
        /// What the user runs to sign in.
        command: String,
        /// Whether the next call can ask the user. No client waited for the request that was refused, so nobody was asked yet.
        may_ask: bool,
    },
    /// The access token could not be refreshed. A later attempt may succeed.
    #[error("the access token could not be refreshed: {reason}")]
    RefreshFailed {
        /// What happened. A model reads it, so it has no words of the authorization server.
        reason: String,
    },
    /// The server sends us elsewhere.
    #[error("the server redirects to {to}; use that address if you trust it")]
    Redirected {
        /// Scheme, host, port and path.
        to: String,
    },
    /// What answers at this address does not speak the protocol.
    #[error("there is no MCP server at this address: {found}")]
    NotMcp {
        /// What was found there.
        found: String,
    },
    /// The server no longer knows the session. That is a clean end of the session.
    #[error("the server no longer knows the session")]
    SessionExpired {
        /// Whether the request that told us may have run all the same.
        ran: bool,
    },
    /// The server answered as one that does not know the session. The ledger decides what that means ([`crate::Ledger::rule`]): the
    /// session has expired ([`Fault::as_expiry`]), or this is the server's answer to that one call ([`Fault::as_answer`]).
    #[error("the server no longer knows the session")]
    NoSession {
        /// The HTTP status.
        code: u16,
        /// Empty, or what it says, escaped and cut, after a colon.
        said: String,
        /// What makes us think so.
        evidence: Evidence,
    },
    /// The server asks to come back later.
    #[error("the server responded with HTTP {code} and asked to retry after {}", seconds(*.after))]
    Deferred {
        /// The HTTP status.
        code: u16,
        /// How long.
        after: Duration,
    },
    /// The server, or something before it, answered with an HTTP status and no message.
    #[error("the server responded with HTTP {code}{said}")]
    Status {
        /// The HTTP status.
        code: u16,
        /// Empty, or more about it: what the server says, escaped and cut, after a colon.
        said: String,
    },
    /// The server gave a request back over HTTP/2 before it processed any of it.
    #[error("the server declined the request over HTTP/2 ({how})")]
    Unprocessed {
        /// By which frame.
        how: &'static str,
    },
    /// The answer ended before it was complete.
    #[error("connection closed before the response was complete")]
    AnswerCut,
    /// The server stopped in the middle of a response, or did not begin one.
    #[error("the server sent nothing for {} in the middle of a response", seconds(*.after))]
    Stalled {
        /// The limit that passed.
        after: Duration,
    },
    /// A drain took longer than allowed and the session was replaced under its calls.
    #[error("the connection was restarted on request")]
    Replaced,
    /// An operator wants no session.
    #[error("the server was parked by an operator")]
    Parked,
    /// The connection was closed.
    #[error("the connection was closed")]
    Closed,
}

/// What tells that a server has forgotten a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Evidence {
    /// It refused the request and says that there is no such session: the request did not run.
    Words,
    /// It refused the request with a status that means so in the protocol, but that a tool may have caused as well.
    Status,
    /// It says so in an ordinary response, so that the request may have run.
    Response,
}

/// What a session was doing when it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Phase {
    /// We asked for the server's era and had no answer yet.
    Discovering,
    /// Starting up to the end of the handshake.
    Greeting,
    /// Ready, with calls in flight.
    Busy,
    /// Ready, nothing in flight, and no good answer yet in this epoch.
    Unproven,
    /// Ready, nothing in flight, after at least one good answer in this epoch.
    Proven,
}

/// What we do about a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Remedy {
    /// Start the next attempt without a pause; only the floor between attempts holds.
    AtOnce,
    /// Start the next attempt after a pause, if the budget allows.
    Retry,
    /// Trying again cannot mend it: park, with no timed probe.
    Park,
}

/// A row of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Verdict {
    /// What we do.
    pub remedy: Remedy,
    /// Whether it costs a charge of the budget. Exactly then the end was a fault (P4).
    pub charged: bool,
}

impl Fault {
    /// The table: remedy and charge for every fault in every phase.
    pub fn verdict(&self, phase: Phase) -> Verdict {
        use Phase::*;
        use Remedy::*;
        let (remedy, charged) = match (self.class(), phase) {
            (Class::Permanent, _) => (Park, true),
            (Class::OtherEra, _) => (AtOnce, false),
            // Several servers die of a question they do not know. That tells their era and is no fault.
            (Class::Orderly | Class::Death, Discovering) => (AtOnce, false),
            (Class::Orderly, Proven) => (AtOnce, false),
            (Class::Orderly, Greeting | Busy | Unproven) => (Retry, true),
            // What else is in flight learns the same, each call on its own.
            (Class::Expired, Busy | Proven) => (AtOnce, false),
            (Class::Expired, Discovering | Greeting | Unproven) => (Retry, true),
            (Class::Deferred, _) => (Retry, false),
            (Class::Death, Greeting | Busy | Unproven | Proven) => (Retry, true),
            (Class::Passing, _) => (Retry, true),
        };
        Verdict { remedy, charged }
    }

    /// Whether trying again cannot mend it.
    pub fn is_permanent(&self) -> bool {
        self.class() == Class::Permanent
    }

    /// Whether a call can ask the user to fix it, and none has yet.
    pub fn may_ask(&self) -> bool {
        matches!(self, Fault::SignInNeeded { may_ask: true, .. })
    }

    /// Whether the process has ended with it, so that it reads nothing any more.
    pub fn ends_process(&self) -> bool {
        matches!(self.class(), Class::Orderly | Class::Death)
    }

    /// Whether a call that ended with it on an exchange of its own may have run, if it was sent at all.
    pub fn may_have_run(&self) -> bool {
        use Fault::*;
        !matches!(
            self,
            Misconfigured { .. }
                | Unreachable { .. }
                | UnknownHost { .. }
                | Untrusted { .. }
                | Unauthorized { .. }
                | SignInNeeded { .. }
                | RefreshFailed { .. }
                | Redirected { .. }
                | SessionExpired { ran: false }
                | NoSession { evidence: Evidence::Words, .. }
                | Deferred { .. }
                | Unprocessed { .. }
                // Only what refuses a message as such. A tool that ran can answer with 400, 404, 409, 410 or 422.
                | Status { code: 401..=403 | 405..=407 | 411..=415 | 417 | 421 | 426 | 431, .. }
        )
    }

    /// When a call that ended with it on an exchange of its own may be sent again, if it may at all.
    pub fn again(&self) -> Again {
        use Fault::*;
        match self {
            SessionExpired { .. } | NoSession { .. } => Again::NextSession,
            Deferred { after, .. } => Again::After(*after),
            // The same request would get the same answer.
            Status { code: ..500, .. } | NotMcp { .. } | Redirected { .. } => Again::Never,
            Untrusted { .. } | Unauthorized { .. } | SignInNeeded { .. } | Misconfigured { .. } => {
                Again::Never
            }
            _ => Again::Soon,
        }
    }

    /// Whom it concerns when one exchange of a session ended with it.
    pub fn reach(&self) -> Reach {
        use Fault::*;
        match self {
            Status { .. } | Deferred { .. } | NotMcp { .. } | Redirected { .. } | Unprocessed { .. } => {
                Reach::Call
            }
            SessionExpired { .. } | NoSession { .. } => Reach::Session,
            _ => Reach::Doubt,
        }
    }

    /// What ended the session, if the server has forgotten it.
    pub fn as_expiry(&self) -> Fault {
        match self {
            Fault::NoSession { evidence, .. } => Fault::SessionExpired { ran: *evidence != Evidence::Words },
            fault => fault.clone(),
        }
    }

    /// What the server answered to the call, if it has not.
    pub fn as_answer(&self) -> Fault {
        match self {
            Fault::NoSession { code, said, .. } => Fault::Status { code: *code, said: said.clone() },
            fault => fault.clone(),
        }
    }

    /// The HTTP status that it was learnt from.
    pub fn http_status(&self) -> Option<u16> {
        match self {
            Fault::SignInNeeded { .. } => Some(401),
            Fault::Unauthorized { code } | Fault::Deferred { code, .. } | Fault::Status { code, .. } => {
                Some(*code)
            }
            _ => None,
        }
    }

    /// Whether it happened before the server ever ran or shook hands, so that its stderr tells the cause.
    pub fn is_at_start(&self) -> bool {
        use Fault::*;
        matches!(
            self,
            NotFound { .. }
                | NotExecutable { .. }
                | BadDirectory { .. }
                | SpawnFailed { .. }
                | HandshakeTimeout { .. }
                | HandshakeRefused { .. }
                | VersionChanged { .. }
                | CapabilityLost { .. }
        )
    }

    /// What limits further attempts when the first start of a server fails with it.
    pub(crate) fn first_start_limit(&self) -> FirstStartLimit {
        use Fault::*;
        match self {
            HandshakeTimeout { .. } | WrongEra | Deferred { .. } => FirstStartLimit::HandshakeTime,
            Broken { .. }
            | Unreachable { .. }
            | UnknownHost { .. }
            | RefreshFailed { .. }
            | Status { .. }
            | AnswerCut
            | Stalled { .. } => FirstStartLimit::Time,
            _ => FirstStartLimit::Starts,
        }
    }

    /// A short name for machines: wire, metrics, logs.
    pub fn name(&self) -> &'static str {
        use Fault::*;
        match self {
            NotFound { .. } => "not-found",
            NotExecutable { .. } => "not-executable",
            BadDirectory { .. } => "bad-directory",
            Unsandboxed { .. } => "unsandboxed",
            SpawnFailed { .. } => "spawn-failed",
            HandshakeTimeout { .. } => "handshake-timeout",
            HandshakeRefused { .. } => "handshake-refused",
            WrongEra => "wrong-era",
            VersionChanged { .. } => "version-changed",
            CapabilityLost { .. } => "capability-lost",
            Exited { .. } => "exited",
            Killed { .. } => "killed",
            OutputClosed => "output-closed",
            InputClosed => "input-closed",
            Silent { .. } => "silent",
            Broken { .. } => "broken",
            Misconfigured { .. } => "misconfigured",
            Unreachable { .. } => "unreachable",
            UnknownHost { .. } => "unknown-host",
            Untrusted { .. } => "untrusted",
            Unauthorized { .. } => "unauthorized",
            SignInNeeded { .. } => "sign-in-needed",
            RefreshFailed { .. } => "refresh-failed",
            Redirected { .. } => "redirected",
            NotMcp { .. } => "not-mcp",
            SessionExpired { .. } | NoSession { .. } => "session-expired",
            Deferred { .. } => "deferred",
            Status { .. } => "status",
            Unprocessed { .. } => "unprocessed",
            AnswerCut => "answer-cut",
            Stalled { .. } => "stalled",
            Replaced => "replaced",
            Parked => "parked",
            Closed => "closed",
        }
    }

    fn class(&self) -> Class {
        use Fault::*;
        match self {
            NotFound { .. }
            | NotExecutable { .. }
            | BadDirectory { .. }
            | Unsandboxed { .. }
            | VersionChanged { .. }
            | CapabilityLost { .. }
            | Misconfigured { .. }
            | Untrusted { .. }
            | Unauthorized { .. }
            | SignInNeeded { .. }
            | Redirected { .. }
            | NotMcp { .. } => Class::Permanent,
            WrongEra => Class::OtherEra,
            SessionExpired { .. } | NoSession { .. } => Class::Expired,
            Deferred { .. } => Class::Deferred,
            Exited { code: 0 } => Class::Orderly,
            Exited { .. } | Killed { .. } => Class::Death,
            SpawnFailed { .. }
            | HandshakeTimeout { .. }
            | HandshakeRefused { .. }
            | OutputClosed
            | InputClosed
            | Silent { .. }
            | Broken { .. }
            | Unreachable { .. }
            | UnknownHost { .. }
            | RefreshFailed { .. }
            | Status { .. }
            | Unprocessed { .. }
            | AnswerCut
            | Stalled { .. }
            | Replaced
            | Parked
            | Closed => Class::Passing,
        }
    }
}

/// What limits the attempts of a first start that keeps failing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FirstStartLimit {
    /// A number of starts: the server runs, and says no.
    Starts,
    /// A length of time: the server may not be up yet.
    Time,
    /// The time of the client's handshake: the server is silent, or asks for the wait.
    HandshakeTime,
}

/// When a call may be sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Again {
    /// Not at all.
    Never,
    /// After a short pause.
    Soon,
    /// When the server has asked for it.
    After(Duration),
    /// On the next session, not on this one.
    NextSession,
}

/// Whom it concerns when one of a session's exchanges ends without an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reach {
    /// Its call alone. The server lives.
    Call,
    /// Its call, and perhaps the server: it is probed.
    Doubt,
    /// The whole session, which is over.
    Session,
}

/// The rows of the table.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    /// Only a person can mend it.
    Permanent,
    /// The server answered, in the other era.
    OtherEra,
    /// The server ended cleanly.
    Orderly,
    /// The process died.
    Death,
    /// The server has forgotten the session.
    Expired,
    /// The server asks us to come back later.
    Deferred,
    /// Everything else; it may pass.
    Passing,
}

#[cfg(test)]
mod tests {
    use super::words::SIGBUS;
    use super::*;

    const PHASES: [Phase; 5] =
        [Phase::Discovering, Phase::Greeting, Phase::Busy, Phase::Unproven, Phase::Proven];

    #[test]
    fn a_permanent_fault_parks_in_every_phase() {
        for phase in PHASES {
            let verdict = Fault::NotFound { program: "x".into() }.verdict(phase);
            assert_eq!(verdict, Verdict { remedy: Remedy::Park, charged: true });
        }
    }

    #[test]
    fn exit_0_is_free_only_after_a_good_answer_with_nothing_in_flight() {
        let charged = PHASES.map(|phase| Fault::Exited { code: 0 }.verdict(phase).charged);
        assert_eq!(charged, [false, true, true, true, false]);
    }

    #[test]
    fn a_kill_is_charged_whenever_the_server_was_more_than_asked_for_its_era() {
        let charged = PHASES.map(|phase| Fault::Killed { signal: 9 }.verdict(phase).charged);
        assert_eq!(charged, [false, true, true, true, true]);
    }

    #[test]
    fn a_process_that_is_only_silent_or_deaf_may_still_read() {
        assert!(Fault::Exited { code: 0 }.ends_process() && Fault::Killed { signal: 9 }.ends_process());
        let living = [
            Fault::Silent { after: Duration::ZERO },
            Fault::OutputClosed,
            Fault::InputClosed,
            Fault::Broken { reason: String::new() },
        ];
        assert!(!living.iter().any(Fault::ends_process));
    }

    #[test]
    fn texts_name_what_happened() {
        assert_eq!(Fault::Killed { signal: 9 }.to_string(), "the server process was killed by SIGKILL");
        assert_eq!(Fault::Exited { code: 3 }.to_string(), "the server process exited with code 3");
        assert_eq!(Fault::Killed { signal: 64 }.to_string(), "the server process was killed by signal 64");
        let silent = Fault::Silent { after: Duration::from_millis(1500) };
        assert_eq!(silent.to_string(), "the server did not respond for 1.5 s");
    }

    #[test]
    fn signals_have_their_names() {
        let known = [1, 2, 3, 4, 5, 6, SIGBUS, 8, 9, 11, 13, 14, 15].map(signal_name);
        let names = [
            "HUP", "INT", "QUIT", "ILL", "TRAP", "ABRT", "BUS", "FPE", "KILL", "SEGV", "PIPE", "ALRM", "TERM",
        ];
        assert_eq!(known, names.map(|name| format!("SIG{name}")));
        assert_eq!(signal_name(12), "signal 12");
    }

    #[test]
    fn stderr_tells_the_cause_of_what_happened_before_the_server_shook_hands() {
        assert!(Fault::HandshakeTimeout { after: Duration::ZERO }.is_at_start());
        assert!(Fault::NotFound { program: "x".into() }.is_at_start());
        assert!(!Fault::Killed { signal: 9 }.is_at_start());
    }

    /// A row: the fault; its name and text; its verdict while greeting, busy, unproven and proven; whom it concerns, when its call
    /// may be sent again, and whether that may have run.
    struct Row(Fault, &'static str, &'static str, [&'static str; 4], Reach, Again, bool);

    fn rows() -> Vec<Row> {
        use {Again::*, Fault::*, Reach::*};
        const PARKS: [&str; 4] = ["parks"; 4];
        const PASSES: [&str; 4] = ["charged"; 4];
        const WAITS: [&str; 4] = ["waits"; 4];
        const EXPIRES: [&str; 4] = ["charged", "free", "charged", "free"];
        let (address, host, reason) = ("localhost:80".to_owned(), "acme".to_owned(), "refused".to_owned());
        let (said, after) = (": gone".to_owned(), Duration::from_secs(2));
        #[rustfmt::skip]
        let rows = vec![
            Row(Unreachable { address, reason: reason.clone() }, "unreachable",
                "localhost:80 cannot be reached: refused", PASSES, Doubt, Soon, false),
            Row(UnknownHost { host: host.clone(), reason: reason.clone() }, "unknown-host",
                "the host \"acme\" was not found: refused", PASSES, Doubt, Soon, false),
            Row(Misconfigured { reason: reason.clone() }, "misconfigured",
                "invalid configuration of this server: refused", PARKS, Doubt, Never, false),
            Row(Untrusted { host, reason }, "untrusted",
                "TLS connection to \"acme\" failed: refused", PARKS, Doubt, Never, false),
            Row(Unauthorized { code: 401 }, "unauthorized",
                "the server refused the credentials (HTTP 401); provide valid ones", PARKS, Doubt, Never, false),
            Row(SignInNeeded { command: "regrow login acme".into(), may_ask: false }, "sign-in-needed",
                "the server requires sign-in (HTTP 401)", PARKS, Doubt, Never, false),
            Row(RefreshFailed { reason: "timed out".into() }, "refresh-failed",
                "the access token could not be refreshed: timed out", PASSES, Doubt, Soon, false),
            Row(Redirected { to: "https://elsewhere".into() }, "redirected",
                "the server redirects to https://elsewhere; use that address if you trust it", PARKS, Call, Never, false),
            Row(NotMcp { found: "a web page".into() }, "not-mcp",
                "there is no MCP server at this address: a web page", PARKS, Call, Never, true),
            Row(SessionExpired { ran: false }, "session-expired",
                "the server no longer knows the session", EXPIRES, Session, NextSession, false),
            Row(SessionExpired { ran: true }, "session-expired",
                "the server no longer knows the session", EXPIRES, Session, NextSession, true),
            Row(NoSession { code: 404, said: said.clone(), evidence: Evidence::Words }, "session-expired",
                "the server no longer knows the session", EXPIRES, Session, NextSession, false),
            Row(NoSession { code: 404, said: said.clone(), evidence: Evidence::Status }, "session-expired",
                "the server no longer knows the session", EXPIRES, Session, NextSession, true),
            Row(Deferred { code: 429, after }, "deferred",
                "the server responded with HTTP 429 and asked to retry after 2 s", WAITS, Call, After(after), false),
            Row(Status { code: 404, said }, "status",
                "the server responded with HTTP 404: gone", PASSES, Call, Never, true),
            Row(Status { code: 502, said: String::new() }, "status",
                "the server responded with HTTP 502", PASSES, Call, Soon, true),
            Row(Unprocessed { how: "REFUSED_STREAM" }, "unprocessed",
                "the server declined the request over HTTP/2 (REFUSED_STREAM)", PASSES, Call, Soon, false),
            Row(AnswerCut, "answer-cut",
                "connection closed before the response was complete", PASSES, Doubt, Soon, true),
            Row(Stalled { after }, "stalled",
                "the server sent nothing for 2 s in the middle of a response", PASSES, Doubt, Soon, true),
        ];
        rows
    }

    #[test]
    fn the_table_of_the_faults_of_exchanges() {
        let verdict = |fault: &Fault, phase| match fault.verdict(phase) {
            Verdict { remedy: Remedy::AtOnce, charged: false } => "free",
            Verdict { remedy: Remedy::Retry, charged: true } => "charged",
            Verdict { remedy: Remedy::Retry, charged: false } => "waits",
            Verdict { remedy: Remedy::Park, charged: true } => "parks",
            _ => "makes no sense",
        };
        for Row(fault, name, text, verdicts, reach, again, may_have_run) in rows() {
            assert_eq!((fault.name(), &*fault.to_string()), (name, text));
            let [discovering, known @ ..] = PHASES.map(|phase| verdict(&fault, phase));
            assert_eq!(known, verdicts, "{name}");
            assert_eq!(discovering, known[0], "{name}: the question for the era is a part of the handshake");
            assert_eq!((fault.reach(), fault.again()), (reach, again), "{name}");
            assert_eq!(fault.may_have_run(), may_have_run, "{name}");
            assert_eq!(fault.is_permanent(), verdicts[0] == "parks", "{name}");
            assert!(!fault.ends_process() && !fault.is_at_start(), "{name}: there is no process");
        }
    }

    #[test]
    fn a_fault_that_was_learnt_from_an_http_status_names_it() {
        let coded = |fault: &Fault| fault.to_string().contains("HTTP ");
        for Row(fault, ..) in rows() {
            assert_eq!(fault.http_status().is_some(), coded(&fault), "{fault}");
        }
        assert_eq!(Fault::Unauthorized { code: 403 }.http_status(), Some(403));
    }

    #[test]
    fn a_refusal_in_a_session_is_an_expiry_or_an_answer() {
        let refusal = |evidence| Fault::NoSession { code: 404, said: ": gone".into(), evidence };
        let ran = [Evidence::Words, Evidence::Status, Evidence::Response].map(|e| refusal(e).as_expiry());
        assert_eq!(ran, [false, true, true].map(|ran| Fault::SessionExpired { ran }));
        let answer = refusal(Evidence::Words).as_answer();
        assert_eq!(answer, Fault::Status { code: 404, said: ": gone".into() });
        assert!(answer.may_have_run(), "nobody can tell what the server did before it answered");
        assert_eq!(
            (Fault::AnswerCut.as_expiry(), Fault::AnswerCut.as_answer()),
            (Fault::AnswerCut, Fault::AnswerCut)
        );
    }

    #[test]
    fn only_what_reaches_the_server_may_have_run() {
        let codes = |code| Fault::Status { code, said: String::new() }.may_have_run();
        assert!([200, 302, 400, 404, 408, 409, 422, 499, 500, 502, 503, 504, 599].into_iter().all(codes));
        assert!(![401, 405, 406, 411, 413, 415, 431].into_iter().any(codes));
        // What ends a process may have run whatever it had read.
        assert!(
            Fault::Killed { signal: 9 }.may_have_run()
                && Fault::Broken { reason: String::new() }.may_have_run()
        );
    }
}
