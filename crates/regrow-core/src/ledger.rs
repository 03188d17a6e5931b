//! The calls in flight on a connection, how far each got, and what becomes of each when a session is lost.

use crate::{Epoch, Nature, Policy, Time};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

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

/// Where a new call goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Admission {
    /// To the live session.
    Send(Epoch, CallId),
    /// It waits for the next session.
    Wait(CallId),
}

/// Why a call is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Refusal {
    /// Too many calls, or too many bytes, are pending.
    Overloaded,
    /// The connection is closing.
    Closed,
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
    /// Whether the server left because it did not know this question: answer "method not found".
    pub refused: bool,
}

/// A call, from admission to its end.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Call<R> {
    reply: R,
    nature: Nature,
    /// Ours (probe, restoration), not a client's.
    own: bool,
    place: Place,
    sends: u8,
    bytes: usize,
    arrival: u64,
    deadline: Option<Time>,
    /// No extension goes beyond this.
    limit: Time,
}

/// Where a call is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Place {
    /// For the next session; how far it got on those before.
    Waiting(Delivery),
    /// Given to this session; the stream position of its first byte, once the OS has accepted that.
    On(Epoch, Option<u64>),
}

/// The calls in flight. `R` is whatever the owner needs to answer the caller and to send the call again.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Ledger<R> {
    policy: Policy,
    calls: BTreeMap<CallId, Call<R>>,
    /// Waiting calls in the order in which they arrived.
    waiting: BTreeMap<u64, CallId>,
    deadlines: BTreeSet<(Time, CallId)>,
    /// The session that takes new calls.
    live: Option<Epoch>,
    /// Sessions up to this one have been told to hang up: what they say of streams is their end, not the stream's.
    held: Epoch,
    /// The newest epoch in which a client's call got a good answer.
    answered: Option<Epoch>,
    closed: bool,
    bytes: usize,
    last: u64,
    /// Since when deadlines stand still.
    stopped: Option<Time>,
}

impl<R> Ledger<R> {
    /// An empty ledger.
    pub fn new(policy: Policy) -> Ledger<R> {
        Ledger {
            policy,
            calls: BTreeMap::new(),
            waiting: BTreeMap::new(),
            deadlines: BTreeSet::new(),
            live: None,
            held: Epoch(0),
            answered: None,
            closed: false,
            bytes: 0,
            last: 0,
            stopped: None,
        }
    }

    /// Takes a call of a client, or gives it back.
    pub fn admit(
        &mut self,
        now: Time,
        nature: Nature,
        timeout: Option<Duration>,
        bytes: usize,
        reply: R,
    ) -> Result<Admission, (Refusal, R)> {
        if self.closed {
            return Err((Refusal::Closed, reply));
        }
        // One call is always taken, whatever its size.
        let full = self.calls.len() >= self.policy.max_calls
            || (self.bytes > 0 && self.bytes + bytes > self.policy.max_pending_bytes);
        if full {
            return Err((Refusal::Overloaded, reply));
        }
        let place = self.live.map_or(Place::Waiting(Delivery::NotSent), |epoch| Place::On(epoch, None));
        let id = self.insert(now, nature, timeout, bytes, reply, false, place);
        Ok(match place {
            Place::Waiting(_) => Admission::Wait(id),
            Place::On(epoch, _) => Admission::Send(epoch, id),
        })
    }

    /// Takes a call of our own to this session, which need not be open to clients yet. It never moves to another.
    pub fn admit_own(&mut self, now: Time, epoch: Epoch, timeout: Duration, reply: R) -> CallId {
        self.insert(now, Nature::Effect, Some(timeout), 0, reply, true, Place::On(epoch, None))
    }

    #[allow(clippy::too_many_arguments)]
    fn insert(
        &mut self,
        now: Time,
        nature: Nature,
        timeout: Option<Duration>,
        bytes: usize,
        reply: R,
        own: bool,
        place: Place,
    ) -> CallId {
        let id = self.fresh_id();
        let limit =
            now + timeout.map_or(self.policy.call_limit, |timeout| timeout.max(self.policy.call_limit));
        let deadline = match nature {
            Nature::Stream => None,
            _ => timeout.map(|timeout| now + timeout),
        };
        if let Some(deadline) = deadline {
            self.deadlines.insert((deadline, id));
        }
        let waits = matches!(place, Place::Waiting(_));
        let sends = u8::from(!waits);
        self.bytes += bytes;
        self.calls
            .insert(id, Call { reply, nature, own, place, sends, bytes, arrival: id.0, deadline, limit });
        if waits {
            self.waiting.insert(id.0, id);
        }
        id
    }

    /// New calls go to this session; those that wait leave by [`Ledger::dispatch`].
    pub fn open(&mut self, epoch: Epoch) {
        self.live = Some(epoch);
    }

    /// New calls wait. What is in flight goes on.
    pub fn hold(&mut self, epoch: Epoch) {
        self.live = None;
        self.held = self.held.max(epoch);
    }

    /// No call is taken any more.
    pub fn close(&mut self) {
        self.live = None;
        self.closed = true;
    }

    /// The next waiting call, now on this session, under the id it must be sent with.
    pub fn dispatch(&mut self, epoch: Epoch) -> Option<CallId> {
        let (_, id) = self.waiting.pop_first()?;
        let mut call = self.calls.remove(&id)?;
        let first = call.sends == 0;
        call.place = Place::On(epoch, None);
        call.sends = call.sends.saturating_add(1);
        // A later answer to the first send must not be taken for one to the second.
        let fresh = if first { id } else { self.fresh_id() };
        if let Some(deadline) = call.deadline {
            self.deadlines.remove(&(deadline, id));
            self.deadlines.insert((deadline, fresh));
        }
        self.calls.insert(fresh, call);
        Some(fresh)
    }

    /// The OS accepted the first byte of this call, which lies at this position of the session's input.
    pub fn sent(&mut self, id: CallId, position: u64) {
        if let Some(Call { place: Place::On(_, start @ None), .. }) = self.calls.get_mut(&id) {
            *start = Some(position);
        }
    }

    /// Who waits for this call.
    pub fn reply(&self, id: CallId) -> Option<&R> {
        self.calls.get(&id).map(|call| &call.reply)
    }

    /// The server answered. Gives the caller, if this very session owes it an answer (P7). `good`: with a result.
    pub fn answer(&mut self, epoch: Epoch, id: CallId, good: bool) -> Option<R> {
        let call = self.calls.get(&id)?;
        if !matches!(call.place, Place::On(on, _) if on == epoch) {
            return None;
        }
        if call.nature == Nature::Stream && epoch <= self.held {
            return None;
        }
        if good && !call.own && !matches!(call.nature, Nature::Greeting | Nature::Discovery) {
            self.answered = Some(epoch);
        }
        self.remove(id).map(|call| call.reply)
    }

    /// The caller no longer wants it.
    pub fn cancel(&mut self, id: CallId) -> Option<Ended<R>> {
        self.remove(id).map(|call| ended(id, call))
    }

    /// Progress: the deadline starts anew, up to the limit.
    pub fn extend(&mut self, now: Time, id: CallId) {
        let Some(timeout) = self.policy.call_timeout else { return };
        let Some(call) = self.calls.get_mut(&id) else { return };
        let Some(old) = call.deadline else { return };
        let new = (now + timeout).min(call.limit).max(old);
        self.deadlines.remove(&(old, id));
        self.deadlines.insert((new, id));
        call.deadline = Some(new);
    }

    /// The session is lost. Of its input the server can have read `read` bytes, no more. Calls that may be sent again
    /// wait for the next session, in the order in which they arrived; the others end here.
    pub fn settle(&mut self, now: Time, epoch: Epoch, read: u64, greeted: bool) -> Vec<Ended<R>> {
        if self.live == Some(epoch) {
            self.live = None;
        }
        let lost: Vec<CallId> = self
            .calls
            .iter()
            .filter(|(_, call)| matches!(call.place, Place::On(on, _) if on == epoch))
            .map(|(&id, _)| id)
            .collect();
        let mut over = vec![];
        for id in lost {
            let Some(call) = self.calls.get_mut(&id) else { continue };
            let delivery = match call.place {
                Place::On(_, Some(start)) if start < read => Delivery::Unknown,
                _ => Delivery::NotSent,
            };
            let refused = call.nature == Nature::Discovery && !greeted && delivery == Delivery::Unknown;
            if !refused && !self.closed && call.may_move(now, delivery, &self.policy) {
                if delivery == Delivery::NotSent {
                    call.sends = call.sends.saturating_sub(1); // It never arrived.
                }
                call.place =
                    Place::Waiting(if call.sends == 0 { Delivery::NotSent } else { Delivery::Unknown });
                self.waiting.insert(call.arrival, id);
            } else if let Some(call) = self.remove(id) {
                over.push(Ended { delivery, epoch: Some(epoch), refused, ..ended(id, call) });
            }
        }
        over
    }

    /// The attempt that these calls waited for has failed. A client's first handshake and streams go on waiting,
    /// unless nothing will come (`for_good`).
    pub fn fail_waiting(&mut self, for_good: bool) -> Vec<Ended<R>> {
        let waiting: Vec<CallId> = self.waiting.values().copied().collect();
        let patient = |call: &Call<R>| matches!(call.nature, Nature::Greeting | Nature::Stream);
        let mut over = vec![];
        for id in waiting {
            if !for_good && self.calls.get(&id).is_some_and(patient) {
                continue;
            }
            over.extend(self.cancel(id));
        }
        over
    }

    /// The calls whose time has come.
    pub fn expire(&mut self, now: Time) -> Vec<Ended<R>> {
        if self.stopped.is_some() {
            return vec![];
        }
        let mut over = vec![];
        while let Some(&(deadline, id)) = self.deadlines.first()
            && deadline <= now
        {
            over.extend(self.cancel(id));
        }
        over
    }

    /// Deadlines stand still: a person is being asked, or the client does not read. Not for longer than the call limit.
    pub fn stop_clock(&mut self, now: Time) {
        self.stopped.get_or_insert(now);
    }

    /// Deadlines go on, later by as long as they stood still.
    pub fn start_clock(&mut self, now: Time) {
        let Some(stopped) = self.stopped.take() else { return };
        let stood = now - stopped;
        self.deadlines.clear();
        for (&id, call) in &mut self.calls {
            if let Some(deadline) = &mut call.deadline {
                *deadline = (*deadline + stood).min(call.limit.max(*deadline));
                self.deadlines.insert((*deadline, id));
            }
        }
    }

    /// When [`Ledger::expire`] or, with clocks stopped, [`Ledger::start_clock`] is due.
    pub fn deadline(&self) -> Option<Time> {
        let first = self.deadlines.first().map(|&(deadline, _)| deadline)?;
        Some(match self.stopped {
            Some(stopped) => stopped + self.policy.call_limit,
            None => first,
        })
    }

    /// How many calls wait for a session and would wake one. Streams alone do not.
    pub fn waiting(&self) -> usize {
        let wakes = |id: &&CallId| self.calls.get(id).is_some_and(|call| call.nature != Nature::Stream);
        self.waiting.values().filter(wakes).count()
    }

    /// How many calls of clients are in flight on this session. Streams are not counted.
    pub fn in_flight(&self, epoch: Epoch) -> usize {
        let counts = |call: &&Call<R>| {
            !call.own
                && call.nature != Nature::Stream
                && matches!(call.place, Place::On(on, _) if on == epoch)
        };
        self.calls.values().filter(counts).count()
    }

    /// How many calls are pending in all.
    pub fn len(&self) -> usize {
        self.calls.len()
    }

    /// Whether nothing is pending.
    pub fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    /// Whether a client's call got a good answer in this epoch.
    pub fn has_answered(&self, epoch: Epoch) -> bool {
        self.answered == Some(epoch)
    }

    /// The newest call for which this holds.
    pub fn find(&self, mut wanted: impl FnMut(&R) -> bool) -> Option<CallId> {
        self.calls.iter().rev().find(|(_, call)| wanted(&call.reply)).map(|(&id, _)| id)
    }

    fn remove(&mut self, id: CallId) -> Option<Call<R>> {
        let call = self.calls.remove(&id)?;
        self.bytes -= call.bytes;
        if let Some(deadline) = call.deadline {
            self.deadlines.remove(&(deadline, id));
        }
        if matches!(call.place, Place::Waiting(_)) {
            self.waiting.remove(&call.arrival);
        }
        Some(call)
    }

    fn fresh_id(&mut self) -> CallId {
        self.last += 1;
        CallId(self.last)
    }
}

impl<R> Call<R> {
    /// Whether the call may be sent on the next session (P3).
    fn may_move(&self, now: Time, delivery: Delivery, policy: &Policy) -> bool {
        if self.own || self.deadline.is_some_and(|deadline| deadline <= now) {
            return false;
        }
        match (self.nature, delivery) {
            (Nature::Greeting | Nature::Stream, _) => true,
            (_, Delivery::NotSent) => true,
            (Nature::Read | Nature::Discovery, _) => self.sends < policy.max_sends,
            (Nature::Effect, _) => false,
        }
    }
}

fn ended<R>(id: CallId, call: Call<R>) -> Ended<R> {
    let (epoch, delivery) = match call.place {
        Place::Waiting(delivery) => (None, delivery),
        Place::On(epoch, None) => (Some(epoch), Delivery::NotSent),
        Place::On(epoch, Some(_)) => (Some(epoch), Delivery::Unknown),
    };
    Ended { id, reply: call.reply, delivery, epoch, refused: false }
}
