//! The calls in flight on a connection: taken, given to a session, answered or cancelled.

use crate::expiry::{Refusals, Ruling};
use crate::{Epoch, Nature, Policy, Time};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

mod call;
mod calls;
mod deadlines;
mod loss;
mod queries;

use call::{Asked, Call, Place, ended, is_late};
pub use call::{CallId, Delivery, Ended};
use calls::Calls;
use deadlines::Deadlines;
pub(crate) use loss::MissedCall;

/// Where a new call goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Admission {
    /// To the live session.
    Send(Epoch, CallId),
    /// It waits for the next session; or its time was over before it came here, and it waits for its error.
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

/// The calls in flight. `R` is whatever the owner needs to answer the caller and to send the call again.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Ledger<R> {
    policy: Arc<Policy>,
    calls: Calls<Call<R>>,
    /// Waiting calls in the order in which they arrived.
    waiting: BTreeMap<u64, CallId>,
    deadlines: Deadlines,
    /// The session that takes new calls.
    live: Option<Epoch>,
    /// Sessions up to this one have been told to hang up: what they say of streams is their end, not the stream's.
    held: Epoch,
    /// The newest epoch in which a client's call got a good answer.
    answered: Option<Epoch>,
    closed: bool,
    bytes: usize,
    last: u64,
    /// How many calls pause.
    pauses: usize,
    refusals: Refusals,
}

impl<R> Ledger<R> {
    /// An empty ledger.
    pub fn new(policy: Arc<Policy>) -> Ledger<R> {
        Ledger {
            policy,
            calls: Calls::new(),
            waiting: BTreeMap::new(),
            deadlines: Deadlines::default(),
            live: None,
            held: Epoch(0),
            answered: None,
            closed: false,
            bytes: 0,
            last: 0,
            pauses: 0,
            refusals: Refusals::default(),
        }
    }

    /// Takes a call of a client, or gives it back. What it has waited elsewhere is taken from its time.
    pub fn admit(
        &mut self,
        now: Time,
        waited: Duration,
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
        let live = self.live.filter(|_| !is_late(nature, timeout, waited));
        let place = live.map_or(Place::Waiting, |epoch| Place::On(epoch, None));
        let id = self.insert(now, waited, nature, timeout, bytes, reply, false, place);
        Ok(match live {
            None => Admission::Wait(id),
            Some(epoch) => Admission::Send(epoch, id),
        })
    }

    /// Takes a call of our own to this session, which need not be open to clients yet. It never moves to another.
    pub fn admit_own(&mut self, now: Time, epoch: Epoch, timeout: Duration, reply: R) -> CallId {
        let place = Place::On(epoch, None);
        self.insert(now, Duration::ZERO, Nature::Effect, Some(timeout), 0, reply, true, place)
    }

    #[allow(clippy::too_many_arguments)]
    fn insert(
        &mut self,
        now: Time,
        waited: Duration,
        nature: Nature,
        timeout: Option<Duration>,
        bytes: usize,
        reply: R,
        own: bool,
        place: Place,
    ) -> CallId {
        let id = self.fresh_id();
        let late = is_late(nature, timeout, waited);
        let at_most = if late { waited } else { timeout.unwrap_or_default().max(self.policy.call_limit) };
        let limit = now + at_most.saturating_sub(waited);
        let deadline = match nature {
            Nature::Stream => None,
            _ => timeout.map(|timeout| self.deadlines.clock(now) + timeout.saturating_sub(waited)),
        };
        self.deadlines.insert(deadline);
        let waits = matches!(place, Place::Waiting);
        let (sends, used) = (u8::from(!waits), !waits);
        self.bytes += bytes;
        self.calls.insert(
            id,
            Call {
                reply,
                nature,
                own,
                place,
                sends,
                written: 0,
                refused: false,
                used,
                bytes,
                arrival: id.0,
                taken: now,
                since: now,
                waits_since: now,
                attempts: 0,
                misses: 0,
                timeout,
                deadline,
                limit,
            },
        );
        if waits && !late {
            self.waiting.insert(id.0, id);
        }
        id
    }

    /// New calls go to this session; those that wait leave by [`Ledger::dispatch`]. Returns whether it takes calls: not if it was
    /// told to hang up meanwhile.
    pub fn open(&mut self, epoch: Epoch) -> bool {
        let opens = epoch > self.held && !self.closed;
        if opens {
            self.live = Some(epoch);
        }
        opens
    }

    /// New calls wait. What is in flight goes on.
    pub(crate) fn hold(&mut self, epoch: Epoch) {
        self.live = None;
        self.held = self.held.max(epoch);
        self.resume(|_, _, asked| asked == Asked::No);
    }

    /// Calls whose pause is over wait for their turn. Returns whether there were any.
    pub(crate) fn end_pauses(&mut self, now: Time) -> bool {
        self.resume(|call, until, _| {
            let over = until <= now;
            if over {
                call.since = until;
            }
            over
        })
    }

    fn resume(&mut self, wanted: impl Fn(&mut Call<R>, Time, Asked) -> bool) -> bool {
        let mut any = false;
        if self.pauses == 0 {
            return any;
        }
        for (id, call) in self.calls.iter_mut() {
            if let Place::Paused(until, asked) = call.place
                && wanted(call, until, asked)
            {
                call.place = Place::Waiting;
                self.waiting.insert(call.arrival, id);
                self.pauses -= 1;
                any = true;
            }
        }
        any
    }

    /// No call is taken any more.
    pub(crate) fn close(&mut self) {
        self.live = None;
        self.closed = true;
    }

    /// The next waiting call, now on this session, under the id it must be sent with.
    pub fn dispatch(&mut self, epoch: Epoch) -> Option<CallId> {
        let (_, id) = self.waiting.pop_first()?;
        self.launch(epoch, id)
    }

    /// The waiting streams, now on this session: they are a part of what it is told before it takes calls.
    pub fn dispatch_streams(&mut self, epoch: Epoch) -> Vec<CallId> {
        let is_stream = |id: &CallId| self.calls.get(*id).is_some_and(|call| call.nature == Nature::Stream);
        let streams: Vec<(u64, CallId)> = self
            .waiting
            .iter()
            .filter(|(_, id)| is_stream(id))
            .map(|(&arrival, &id)| (arrival, id))
            .collect();
        streams
            .into_iter()
            .filter_map(|(arrival, id)| {
                self.waiting.remove(&arrival);
                self.launch(epoch, id)
            })
            .collect()
    }

    fn launch(&mut self, epoch: Epoch, id: CallId) -> Option<CallId> {
        let mut call = self.calls.remove(id)?;
        let used = std::mem::replace(&mut call.used, true);
        call.place = Place::On(epoch, None);
        call.sends = call.sends.saturating_add(1);
        // Late news of the first send must not be taken for news of the second, even if the server never read it.
        let fresh = if used { self.fresh_id() } else { id };
        self.calls.insert(fresh, call);
        Some(fresh)
    }

    /// The OS accepted the first byte of this call, which lies at this position of the session's input.
    pub fn sent(&mut self, id: CallId, position: u64) {
        if let Some(Call { place: Place::On(_, start), written, .. }) = self.calls.get_mut(id) {
            start.get_or_insert(position);
            *written = written.saturating_add(1);
        }
    }

    /// The caller is given the response while it arrives on this session: from now on the call is never sent again. Returns whether this
    /// very session owes it an answer.
    pub fn begin_response(&mut self, epoch: Epoch, id: CallId) -> bool {
        match self.calls.get_mut(id) {
            Some(call) if matches!(call.place, Place::On(on, _) if on == epoch) => {
                call.nature = Nature::Effect;
                true
            }
            _ => false,
        }
    }

    /// The server answered. Returns the caller, if this very session owes it an answer (P7). `good`: with a result.
    pub fn answer(&mut self, epoch: Epoch, id: CallId, good: bool) -> Option<R> {
        let call = self.calls.get(id)?;
        if !matches!(call.place, Place::On(on, _) if on == epoch) {
            return None;
        }
        if call.nature == Nature::Stream && epoch <= self.held {
            return None;
        }
        if good && !call.own && !call.nature.is_handshake() {
            self.answered = self.answered.max(Some(epoch));
            self.refusals.answered();
        }
        self.remove(id).map(|call| call.reply)
    }

    /// The caller no longer wants it.
    pub fn cancel(&mut self, id: CallId) -> Option<Ended<R>> {
        self.remove(id).map(|call| ended(id, call))
    }

    /// What it means that this session refused a request with [`Fault::NoSession`](crate::Fault::NoSession); none: a message that wants no answer. To be
    /// asked before `miss`, which takes [`Fault::as_answer`](crate::Fault::as_answer) where that is the ruling.
    pub fn rule(&mut self, epoch: Epoch, id: Option<CallId>) -> Ruling {
        let call = id.and_then(|id| self.calls.get(id));
        match call {
            Some(call) if call.refused => self.refusals.request(true),
            _ if epoch <= self.held => Ruling::Expired, // It is being replaced already.
            Some(call) if !call.own => self.refusals.request(false),
            None if self.live != Some(epoch) => Ruling::Expired, // The handshake has failed.
            // It is not sent again, so that nothing would be learnt from that.
            Some(_) | None => Ruling::Ask,
        }
    }

    /// The same where our own ping was refused.
    pub fn rule_ping(&mut self, epoch: Epoch) -> Ruling {
        if epoch <= self.held { Ruling::Expired } else { self.refusals.ping() }
    }

    /// Our own ping was answered.
    pub fn ping_answered(&mut self) {
        self.refusals.ping_answered();
    }

    /// The same, of one that followed from [`Ruling::Ask`].
    pub fn session_is_known(&mut self) {
        self.refusals.session_is_known();
    }

    /// Whether a new session is to be pinged: the last one was left because it refused a ping, as every session of this server may.
    pub fn doubts_pings(&self) -> bool {
        self.refusals.doubts_pings()
    }

    /// When `end_pauses` is due.
    pub fn pause_ends(&self) -> Option<Time> {
        let ends = |call: &Call<R>| match call.place {
            Place::Paused(until, _) => Some(until),
            Place::Waiting | Place::On(..) => None,
        };
        if self.pauses == 0 { None } else { self.calls.values().filter_map(ends).min() }
    }

    fn remove(&mut self, id: CallId) -> Option<Call<R>> {
        let call = self.calls.remove(id)?;
        self.bytes -= call.bytes;
        self.deadlines.remove(call.deadline);
        match call.place {
            Place::Waiting => drop(self.waiting.remove(&call.arrival)),
            Place::Paused(..) => self.pauses -= 1,
            Place::On(..) => {}
        }
        Some(call)
    }

    fn fresh_id(&mut self) -> CallId {
        self.last += 1;
        CallId(self.last)
    }
}

#[cfg(test)]
mod tests;
