//! The states of a connection; each carries its data and waits for at most one deadline at a time.

use crate::{Fault, Remedy, Time};

/// Where a connection stands.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// Nothing was asked of it yet; or, after the first epoch, nothing since it was told to rest.
    Idle,
    /// An attempt is under way.
    Connecting {
        /// How far its handshake got.
        step: Step,
        /// When the server must have answered; none while it is the client's turn to speak.
        deadline: Option<Time>,
    },
    /// A session serves calls.
    Ready {
        /// Since when.
        since: Time,
        /// What we know of its liveness.
        watch: Watch,
    },
    /// Calls may finish, new ones wait; then the session ends.
    Draining {
        /// When the calls that still run fail.
        deadline: Time,
        /// What comes after the session.
        then: Intent,
    },
    /// The session is being hung up; the next epoch starts only when it is gone.
    Closing {
        /// When it is abandoned.
        deadline: Time,
        /// When its calls end although its process, which may still read, has not; none once they are settled.
        settle_at: Option<Time>,
        /// What comes after it.
        then: Intent,
        /// Why it ended, if that was a fault.
        fault: Option<Fault>,
    },
    /// Waiting before the next attempt.
    Backoff {
        /// When that starts.
        retry_at: Time,
        /// Why the last session or attempt ended, unless that was meant.
        fault: Option<Fault>,
    },
    /// Stopped trying at pace. Slow probes, calls and people wake it; where an operator parked it, only people do.
    Parked {
        /// When the next attempt starts, if one is due.
        probe_at: Option<Time>,
        /// How many slow probes have failed.
        probes: u32,
        /// Why; [`Fault::Parked`] where an operator wants it so.
        fault: Fault,
    },
    /// Over. Nothing is left.
    Closed,
}

/// How far the handshake of an attempt got.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// Starting, or shaking hands.
    Greeting,
    /// Asked for its era.
    Discovering,
    /// Started; the client has not spoken yet.
    ClientsTurn,
}

/// What is known of the liveness of a ready session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Watch {
    /// Nothing to worry about; looks again at this time, if ever.
    Calm {
        /// When to look whether something was read.
        look_at: Option<Time>,
    },
    /// Probed.
    Probed {
        /// When it was asked.
        since: Time,
        /// When silence is an answer.
        deadline: Time,
        /// Whether a call that got no answer was the reason.
        doubt: bool,
    },
    /// Asked beside a call, after it had been silent for the hang timeout.
    Beside {
        /// When it was asked.
        since: Time,
        /// When a server that has answered such a probe before is taken for hung.
        deadline: Time,
        /// How many messages had been read from it when it was asked.
        read: u64,
    },
    /// Did not answer beside a call, and has never answered such a probe: busy is not dead. Left alone until it is heard.
    LeftAlone {
        /// When it was asked.
        since: Time,
        /// When to look again.
        look_at: Time,
    },
    /// Silent, but spared for calls inside their deadlines.
    Spared {
        /// When it was probed.
        since: Time,
        /// When to look again.
        look_at: Time,
        /// When no call is a reason any more.
        until: Time,
    },
}

/// What we mean to do with the place of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Intent {
    /// Put another in its place.
    Replace(Remedy),
    /// Leave it empty until the next call.
    Rest,
    /// Leave it empty until an operator says otherwise.
    Park,
    /// End the connection.
    Close,
}

impl State {
    /// When the state wants a tick.
    pub fn deadline(&self) -> Option<Time> {
        match *self {
            State::Idle | State::Closed => None,
            State::Connecting { deadline, .. } => deadline,
            State::Ready { watch: Watch::Calm { look_at }, .. } => look_at,
            State::Ready { watch: Watch::Probed { deadline, .. }, .. } => Some(deadline),
            State::Ready { watch: Watch::Beside { deadline, .. }, .. } => Some(deadline),
            State::Ready { watch: Watch::LeftAlone { look_at, .. }, .. } => Some(look_at),
            State::Ready { watch: Watch::Spared { look_at, .. }, .. } => Some(look_at),
            State::Draining { deadline, .. } => Some(deadline),
            State::Closing { deadline, settle_at, .. } => Some(settle_at.unwrap_or(deadline)),
            State::Backoff { retry_at, .. } => Some(retry_at),
            State::Parked { probe_at, .. } => probe_at,
        }
    }

    /// Whether there will be no session until an operator says so.
    pub fn is_parked_by_command(&self) -> bool {
        matches!(
            self,
            State::Parked { fault: Fault::Parked, .. }
                | State::Draining { then: Intent::Park, .. }
                | State::Closing { then: Intent::Park, .. }
        )
    }

    /// The state's name, for logs, status and metrics.
    pub fn name(&self) -> &'static str {
        match self {
            State::Idle => "idle",
            State::Connecting { .. } => "connecting",
            State::Ready { .. } => "ready",
            State::Draining { .. } => "draining",
            State::Closing { .. } => "closing",
            State::Backoff { .. } => "backoff",
            State::Parked { .. } => "parked",
            State::Closed => "closed",
        }
    }
}
