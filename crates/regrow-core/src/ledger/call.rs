//! One call, from admission to its end: how far it got, and whether it may be sent again.

use std::time::Duration;

use crate::{Epoch, Nature, Policy, Time};

/// The number of a call on the wire. Never used twice on a connection, so never twice in an epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallId(pub u64);

/// How far a call got.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Delivery {
    /// The server cannot have seen it.
    NotSent,
    /// The server may have run it.
    Unknown,
    /// The server answered.
    Answered,
}

impl Delivery {
    /// Its name on the wire.
    pub fn name(self) -> &'static str {
        match self {
            Delivery::NotSent => "not-sent",
            Delivery::Unknown => "unknown",
            Delivery::Answered => "answered",
        }
    }
}

/// A call that has ended without an answer.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Ended<R> {
    /// Its number when it was last sent.
    pub id: CallId,
    /// Who waits.
    pub reply: R,
    /// How far it got.
    pub delivery: Delivery,
    /// The epoch that had it, if one had.
    pub epoch: Option<Epoch>,
    /// When it was taken.
    pub taken: Time,
    /// The time that its deadline allowed.
    pub timeout: Option<Duration>,
    /// What it was to us.
    pub nature: Nature,
    /// Ours (probe, restoration), not a client's.
    pub own: bool,
    /// Whether the server left because it did not know this question: answer "method not found".
    pub refused: bool,
    /// How many attempts have failed while it waited for a session.
    pub attempts: u32,
}

/// A call, from admission to its end.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Call<R> {
    pub(super) reply: R,
    pub(super) nature: Nature,
    /// Ours (probe, restoration), not a client's.
    pub(super) own: bool,
    pub(super) place: Place,
    /// How often it was given to a session, save where that provably never read it.
    pub(super) sends: u8,
    /// How often it was written to a server at all, whatever became of that.
    pub(super) written: u8,
    /// Whether a session was given up because it was refused there.
    pub(super) refused: bool,
    /// Whether its id was given to a session.
    pub(super) used: bool,
    pub(super) bytes: usize,
    pub(super) arrival: u64,
    pub(super) taken: Time,
    /// Since when it could be sent: since it was taken, or its last pause was over.
    pub(super) since: Time,
    /// Since when it has no session: since it was taken, or its last session was lost. Its patience starts here.
    pub(super) waits_since: Time,
    /// How many attempts have failed while it waited.
    pub(super) attempts: u32,
    /// How often in a row its exchange ended soon, without an answer.
    pub(super) misses: u32,
    /// The time that progress gives it again.
    pub(super) timeout: Option<Duration>,
    pub(super) deadline: Option<Time>,
    /// No extension goes beyond this.
    pub(super) limit: Time,
}

/// Where a call is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Place {
    /// For the next session, or for its turn on this one.
    Waiting,
    /// Until then; it goes to the next session if that comes sooner, unless the server asked for the pause.
    Paused(Time, Asked),
    /// Given to this session; the stream position of its first byte, once the OS has accepted that.
    On(Epoch, Option<u64>),
}

/// Whether a server asked for a pause.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Asked {
    No,
    Yes,
}

impl<R> Call<R> {
    /// Whether the call may be sent on the next session (P3).
    pub(super) fn may_move(&self, clock: Time, arrived: bool, policy: &Policy) -> bool {
        if self.own || self.deadline.is_some_and(|deadline| deadline <= clock) {
            return false;
        }
        match self.nature {
            Nature::Greeting | Nature::Stream => true,
            _ if self.written >= policy.max_sends => false, // Whatever became of them.
            _ if !arrived => true,
            Nature::Read | Nature::Discovery => true,
            Nature::Effect => false,
        }
    }

    /// Whether it waits for a session, or for its pause to end.
    pub(super) fn waits(&self) -> bool {
        matches!(self.place, Place::Waiting | Place::Paused(..))
    }

    /// No session has it any more. Only patience asks since when.
    pub(super) fn wait_from(&mut self, now: Time, policy: &Policy) {
        if policy.patience.is_some() {
            self.waits_since = now;
        }
    }

    /// When it ends, whatever extends its deadline.
    pub(super) fn ends_by(&self) -> Option<Time> {
        self.deadline.map(|_| self.limit)
    }

    /// The time that its deadline allows: its timeout, or the limit that no extension goes beyond.
    pub(super) fn allowed(&self) -> Option<Duration> {
        let timeout = self.timeout.filter(|_| self.deadline.is_some())?;
        Some(if self.deadline < Some(self.limit) { timeout } else { timeout.max(self.limit - self.taken) })
    }

    /// How far it got, on this session and on those before.
    pub(super) fn delivery(&self) -> Delivery {
        match self.place {
            Place::On(_, None) => delivery_after(self.sends.saturating_sub(1)),
            Place::On(_, Some(_)) | Place::Waiting | Place::Paused(..) => delivery_after(self.sends),
        }
    }

    /// How long it waits before it is sent again on the same session: longer each time, unless its exchange has lasted.
    pub(super) fn pause(&mut self, now: Time, policy: &Policy) -> Duration {
        let lasted = now - self.since >= policy.backoff.cap;
        self.misses = if lasted { 1 } else { self.misses.saturating_add(1) };
        let times = self.misses.saturating_mul(self.misses);
        policy.resend_pause.saturating_mul(times).min(policy.backoff.cap)
    }
}

/// Whether its time was over before it came here. A stream has none.
pub(super) fn is_late(nature: Nature, timeout: Option<Duration>, waited: Duration) -> bool {
    nature != Nature::Stream && timeout.is_some_and(|timeout| timeout <= waited)
}

pub(super) fn delivery_after(sends: u8) -> Delivery {
    if sends == 0 { Delivery::NotSent } else { Delivery::Unknown }
}

pub(super) fn ended<R>(id: CallId, call: Call<R>) -> Ended<R> {
    let epoch = match call.place {
        Place::Waiting | Place::Paused(..) => None,
        Place::On(epoch, _) => Some(epoch),
    };
    let (delivery, taken, attempts) = (call.delivery(), call.taken, call.attempts);
    let (nature, own, timeout) = (call.nature, call.own, call.allowed());
    Ended { id, reply: call.reply, delivery, epoch, taken, timeout, nature, own, refused: false, attempts }
}
