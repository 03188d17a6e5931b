//! What a supervisor wants done, and what callers are told when a call fails.

use crate::event::{Event, Notice, Pulse};
use crate::{Ended, Epoch, Fault, Ladder, Manner, Refusal, State};
use std::sync::Arc;
use std::time::Duration;

/// What must be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output<R> {
    /// A decision was made; what follows, up to the next of these, comes of it. For logs and tests.
    Step(Box<Transition>),
    /// Start an attempt.
    Connect(Epoch),
    /// Probe the server.
    Probe(Epoch),
    /// End the session or attempt, at this pace. No new call goes to it.
    Hangup(Epoch, Manner, Ladder),
    /// Go on without waiting for the rest of this epoch.
    Abandon(Epoch),
    /// The session is lost for this reason, and it was decided what becomes of its calls.
    Settled(Epoch, Fault),
    /// The server has forgotten this session. Calls with an open exchange keep it; for the others it is the same.
    Retired(Epoch),
    /// Regrow was late: read what is there on this session, and report that ([`Facts::behind`](super::Facts::behind)).
    CatchUp(Epoch),
    /// Calls whose pause is over wait for their turn on this session.
    Dispatch(Epoch),
    /// This call has reached its deadline: withdraw it, and tell its caller.
    TimedOut(Failure<R>),
    /// This call has failed: tell its caller.
    Failed(Failure<R>),
    /// Tell observers.
    Notice(Notice),
}

/// One step of the lifecycle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transition {
    /// What happened.
    pub event: Event,
    /// What was known of the session.
    pub pulse: Pulse,
    /// The state that took it in.
    pub before: State,
    /// The state that came of it.
    pub after: State,
}

/// A call that has ended without an answer, and what its caller is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure<R> {
    /// The call.
    pub call: Ended<R>,
    /// What happened to it.
    pub kind: FailureKind,
    /// What happened to the session, where that is the reason.
    pub fault: Option<Arc<Fault>>,
    /// What the connection does now.
    pub outlook: Outlook,
}

/// What happened to a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FailureKind {
    /// Its session was lost while it ran.
    Interrupted,
    /// There was no session to send it to.
    Unavailable,
    /// It reached its deadline.
    Timeout,
    /// Too much is pending already.
    Overloaded,
    /// The connection was closed.
    Closed,
    /// An HTTP status came instead of a response.
    Refused,
}

/// What a connection does after a call has failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outlook {
    /// Serves on.
    Serving,
    /// Is restarting.
    Restarting,
    /// Serves on, but the server asks to come back after so long.
    Deferred(Duration),
    /// Has failed too often and waits; the next call tries again, from then on.
    Parked(Duration),
    /// Waits for a person to fix the cause; a call tries again, from then on.
    NeedsMending(Duration),
    /// Was parked by an operator, who alone can wake it; until then calls fail at once.
    NeedsWaking,
    /// Is over.
    Closed,
}

/// What became of a call whose exchange ended without an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Missed<R> {
    /// It is sent again later, or on the next session.
    Kept {
        /// The session that it can be sent on now.
        dispatch: Option<Epoch>,
    },
    /// It has ended.
    Over(Failure<R>),
}

impl Refusal {
    /// What the caller of a call that is not taken is told.
    pub fn told(self) -> (FailureKind, Outlook) {
        match self {
            Refusal::Overloaded => (FailureKind::Overloaded, Outlook::Serving),
            Refusal::Closed => (FailureKind::Closed, Outlook::Closed),
        }
    }
}

impl FailureKind {
    /// The kind of a call whose session was lost for this reason.
    pub(super) fn of_loss(fault: &Fault) -> FailureKind {
        match fault {
            Fault::Closed => FailureKind::Closed,
            Fault::HandshakeTimeout { .. } => FailureKind::Timeout,
            _ => FailureKind::Interrupted,
        }
    }
}
