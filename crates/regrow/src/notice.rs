//! What observers of a connection are told, and where it stands.

use std::sync::Arc;
use std::time::Duration;

use regrow_core::{Epoch, Fault, Manner, State, seconds};
use tokio::sync::broadcast;
use tokio::time::Instant;

/// Something that happened to a connection.
#[derive(Clone, Debug)]
pub struct Notice {
    /// Which server.
    pub server: Arc<str>,
    /// How long after the connection was made.
    pub at: Duration,
    /// What.
    pub what: regrow_core::Notice,
    /// Whether the connection had a session before this.
    pub again: bool,
    /// Whether the server runs elsewhere, rather than being started by us.
    pub remote: bool,
}

impl Notice {
    /// As a sentence for a log.
    pub fn text(&self) -> String {
        use regrow_core::Notice::*;
        match &self.what {
            Connecting(epoch) if self.remote => format!("connecting (session {epoch})"),
            Connecting(epoch) => format!("starting the server (session {epoch})"),
            Ready(epoch) if self.again && self.remote => {
                format!("ready (session {epoch}); state that the server kept for the old session may be lost")
            }
            Ready(epoch) if self.again => {
                format!("ready (session {epoch}); in-memory state of the old server process is lost")
            }
            Ready(epoch) => format!("ready (session {epoch})"),
            Fault(_, fault, 0) => format!("{fault}"),
            Fault(_, fault, 1) => format!("{fault}, with 1 call in flight"),
            Fault(_, fault, calls) => format!("{fault}, with {calls} calls in flight"),
            Retired(_, fault) => format!("{fault}; not counted against the restart budget"),
            Planned(_, manner) => match manner {
                Manner::Planned => "ending the session as requested".into(),
                Manner::ClientLeft if self.remote => "the client disconnected; ending the session".into(),
                Manner::Told if self.remote => "shutting down; ending the session".into(),
                Manner::ClientLeft => "the client disconnected; stopping the server".into(),
                Manner::Told => "shutting down; stopping the server".into(),
                Manner::Failed => "ending the failed session".into(),
            },
            Untidy(_, fault) => {
                format!("{fault} when it was stopped; not counted against the restart budget")
            }
            Late(_, fault) => format!("{fault}, just before it was stopped as planned"),
            Doubted(_) if self.remote => "the connection has a problem; probing the server".into(),
            Doubted(_) => "a call timed out; probing the server".into(),
            Backoff(pause) => format!("next attempt in {}", seconds(*pause)),
            Parked(regrow_core::Fault::Parked) => {
                "parked by an operator; calls fail until it is woken".into()
            }
            Resting if self.remote => "resting; the next call connects again".into(),
            Resting => "resting; the next call starts the server again".into(),
            BudgetReset => "the restart budget was reset".into(),
            Parked(fault @ regrow_core::Fault::SignInNeeded { command, .. }) => {
                format!("parked: {fault}; run: {command}")
            }
            Parked(fault) => match fault.is_permanent() {
                true => format!("parked: {fault}; retrying will not help until this is fixed"),
                false => "parked: too many faults; retrying slowly, and on the next call".into(),
            },
            Abandoned(epoch) => {
                format!("session {epoch} could not be stopped in time; continuing without it")
            }
            Woke => "the machine seems to have slept; probing the server first".into(),
            Closed => "closed".into(),
        }
    }

    /// Whether it is bad news.
    pub fn is_bad(&self) -> bool {
        use regrow_core::Notice::*;
        match &self.what {
            Parked(fault) => *fault != regrow_core::Fault::Parked, // That was meant.
            what => matches!(what, Fault(..) | Late(..) | Abandoned(_)),
        }
    }
}

/// The notices of a connection from now on.
#[derive(Debug)]
pub struct Notices(pub(crate) broadcast::Receiver<Arc<Notice>>);

impl Notices {
    /// The next notice; none when the connection is over. A reader that is far too slow misses the oldest.
    pub async fn next(&mut self) -> Option<Notice> {
        loop {
            match self.0.recv().await {
                Ok(notice) => return Some(Arc::unwrap_or_clone(notice)),
                Err(broadcast::error::RecvError::Lagged(missed)) => {
                    tracing::warn!(missed, "a slow reader missed notices");
                }
                Err(broadcast::error::RecvError::Closed) => return None,
            }
        }
    }
}

/// Where a connection stands: the truth.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// The state of its lifecycle.
    pub state: State,
    /// When it entered that state.
    pub since: Instant,
    /// The number of the newest session or attempt.
    pub epoch: Epoch,
    /// Why the last session or attempt failed, if one ever did. Orders of an operator leave it as it is.
    pub last_fault: Option<Arc<Fault>>,
    /// Faults left before it parks.
    pub budget_left: u32,
    /// How many calls are pending.
    pub pending: usize,
    /// How many sessions were ready.
    pub sessions: u64,
    /// The server's process id.
    pub pid: Option<u32>,
    /// What the server sent that could not be used.
    pub anomalies: Anomalies,
}

impl Status {
    /// Whether a session serves calls.
    pub fn is_ready(&self) -> bool {
        matches!(self.state, State::Ready { .. } | State::Draining { .. })
    }

    /// Whether it had a session, which was ended until the next call because nobody needed it.
    pub fn is_resting(&self) -> bool {
        self.state == State::Idle && self.epoch > Epoch(0)
    }

    /// Whether there is no session because an operator wants none.
    pub fn is_parked_by_command(&self) -> bool {
        self.state.is_parked_by_command()
    }

    /// The name of its state; what an operator has brought about is told apart from what came of itself.
    pub fn standing(&self) -> &'static str {
        match &self.state {
            State::Idle if self.is_resting() => "resting",
            State::Parked { .. } if self.is_parked_by_command() => "parked-by-order",
            state => state.name(),
        }
    }

    /// Whether everything is over.
    pub fn is_closed(&self) -> bool {
        self.state == State::Closed
    }
}

/// What a server or client sent that could not be used. Counted, never silently dropped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Anomalies {
    /// Lines of the server that are not messages.
    pub garbage: u64,
    /// Lines over the cap.
    pub too_long: u64,
    /// Answers that nobody waits for: unknown, late, or given twice.
    pub stray: u64,
    /// Messages that could not be delivered: there was no session, nobody who receives them, or no room.
    pub undelivered: u64,
    /// Members of messages, in both directions, that no envelope has. They were left out.
    pub dropped_members: u64,
}
