//! What goes into a supervisor and its lifecycle, and what comes out: events, effects, notices.

use crate::{Epoch, Fault, Manner, Step, Time};
use std::time::Duration;

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    /// Connect now, without waiting for a call.
    Start,
    /// Calls are waiting for a session.
    Demand,
    /// The attempt has a server; the client must speak first.
    Opened(Epoch),
    /// The handshake of the attempt went on to this step.
    Begun(Epoch, Step),
    /// The attempt became a session.
    Connected(Epoch),
    /// The attempt or session ended on its own, for this reason. Never sent for an epoch that was told to hang up.
    Lost(Epoch, Fault),
    /// Nothing is left of the epoch. How its process ended, where that was not cleanly.
    Gone(Epoch, Option<Fault>),
    /// The last call in flight of a draining session ended.
    Drained(Epoch),
    /// A call reached its deadline. Before the session is ready: the client's handshake did.
    TimedOut(Epoch),
    /// A client cancelled a call that was taken at this time.
    Cancelled(Epoch, Time),
    /// A call's exchange ended in a way that makes us doubt the server.
    Doubted(Epoch),
    /// A probe failed, for this reason.
    ProbeFailed(Epoch, Fault),
    /// The server answered the probe that it was sent at this time.
    ProbeAnswered(Epoch, Time),
    /// The server does not know the probe (but answered, so it lives).
    ProbeRefused(Epoch),
    /// Somebody wants a fresh session.
    Reconnect(Requester),
    /// Something has changed that may mend what only a person can.
    Mended,
    /// An operator wants the session ended until the next call, if nothing is lost by that.
    Rest,
    /// An operator wants no session until they say so; the calls in flight may finish.
    Park,
    /// An operator wants a session, now.
    Wake,
    /// An operator wants past faults forgotten.
    ResetBudget,
    /// The connection must end, but the calls in flight may finish.
    Drain,
    /// The connection must end.
    Close(Manner),
    /// A deadline may have come.
    Tick,
}

/// Who wants a reconnect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Requester {
    /// A person: signal, file watch, admin. Never taken for a fault.
    Person,
    /// A program. Many in a row without a good answer are.
    Program,
}

/// What is known of the newest session when an event happens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Pulse {
    /// When something was last read from the server.
    pub heard: Time,
    /// How many calls of clients are in flight.
    pub calls: usize,
    /// Since when the oldest of those that have gone to the server could be sent.
    pub eldest: Option<Time>,
    /// Whether a call of a client got a good answer in this epoch.
    pub answered: bool,
    /// How many messages were read from the server so far.
    pub read: u64,
    /// How many calls of clients are pending: in flight, waiting or paused. Streams are not counted.
    pub pending: usize,
    /// Whether a client waits for what the server says or does on its own: subscriptions, streams, tasks.
    pub listening: bool,
}

impl Pulse {
    /// Clients often call again in the very millisecond in which a call of theirs has timed out: that is after.
    pub(crate) fn has_call_from_before(&self, time: Time) -> bool {
        self.eldest.is_some_and(|taken| taken < time)
    }

    /// Since when the server has been silent with a call in flight; `now` if none is.
    pub(crate) fn silent_since(&self, now: Time) -> Time {
        self.eldest.map_or(now, |eldest| eldest.max(self.heard))
    }
}

/// Which calls may wait for the next attempt when one has failed, as long as [`crate::Policy::patience`] lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Patience {
    /// None: the server was not healthy shortly before, or the next attempt would fail as well.
    None,
    /// Those taken before this time, when the connection parked: later ones fail fast.
    TakenBefore(Time),
    /// All that did not run.
    All,
}

/// What must be done to sessions and calls.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Effect {
    /// Start an attempt.
    Connect(Epoch),
    /// Probe the server.
    Probe(Epoch),
    /// Let no new call go to this session.
    Hold(Epoch),
    /// Decide, by the ledger, what becomes of the calls on this session.
    Settle(Epoch, Fault),
    /// The server has forgotten this session. Calls keep their exchange until it ends; decide, by the ledger, what becomes of those
    /// that have none.
    Retire(Epoch, Fault),
    /// Fail whatever is still in flight, on any session.
    EndAll(Fault),
    /// Fail the calls that wait for a session.
    FailWaiting(Fault),
    /// The same, except for the client's first handshake, which waits for the next attempt.
    FailCalls(Fault),
    /// The attempt that calls waited for has failed, for this reason. Fail those that may not wait for the next one.
    FailAttempt {
        /// Why.
        fault: Fault,
        /// Whether a client that greets waits for the next one.
        handshakes_wait: bool,
        /// Which calls do.
        patience: Patience,
    },
    /// End the session or attempt.
    Hangup(Epoch, Manner),
    /// Go on without waiting for the rest of this epoch.
    Abandon(Epoch),
    /// Tell observers.
    Notice(Notice),
}

/// What observers are told.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Notice {
    /// An attempt starts.
    Connecting(Epoch),
    /// A session serves calls.
    Ready(Epoch),
    /// A session or attempt ended in a fault, with so many calls in flight.
    Fault(Epoch, Fault, usize),
    /// A session was ended cleanly by the server, which is not counted against the restart budget.
    Retired(Epoch, Fault),
    /// A session is being ended because we want it so.
    Planned(Epoch, Manner),
    /// A session that we ended did not end cleanly; that is not counted against the restart budget.
    Untidy(Epoch, Fault),
    /// A fault surfaced after we had decided to end the session; it counts.
    Late(Epoch, Fault),
    /// The server is probed because a call timed out, or its connection has a problem.
    Doubted(Epoch),
    /// The next attempt starts after a pause.
    Backoff(Duration),
    /// Stopped trying at pace, for this reason; or at all, where an operator wants it so.
    Parked(Fault),
    /// The session was ended because nobody needed it; the next call starts another.
    Resting,
    /// Past faults are forgotten.
    BudgetReset,
    /// A process could not be ended in time; we go on without waiting.
    Abandoned(Epoch),
    /// A timer came so late that the machine must have slept.
    Woke,
    /// The connection ended; nothing is left.
    Closed,
}

impl Event {
    /// The epoch that it is news of, if it is of one.
    pub(crate) fn epoch(&self) -> Option<Epoch> {
        use Event::*;
        match self {
            Opened(epoch) | Begun(epoch, _) | Connected(epoch) | Lost(epoch, _) | Gone(epoch, _) => {
                Some(*epoch)
            }
            Drained(epoch) | TimedOut(epoch) | Cancelled(epoch, _) | ProbeRefused(epoch) => Some(*epoch),
            Doubted(epoch) | ProbeFailed(epoch, _) | ProbeAnswered(epoch, _) => Some(*epoch),
            Start | Demand | Reconnect(_) | Mended | Drain | Close(_) | Tick => None,
            Rest | Park | Wake | ResetBudget => None,
        }
    }
}
