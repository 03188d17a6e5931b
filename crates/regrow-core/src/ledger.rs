//! The calls in flight on a connection, how far each got, and what becomes of each when a session is lost.

use crate::expiry::{Refusals, Ruling};
use crate::{Again, Epoch, Evidence, Fault, Nature, Patience, Policy, Reach, Time};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
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
    /// It waits for the next session; or its time was over before it came here, and it waits to be told so.
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
struct Call<R> {
    reply: R,
    nature: Nature,
    /// Ours (probe, restoration), not a client's.
    own: bool,
    place: Place,
    /// How often it was given to a session, save where that provably never read it.
    sends: u8,
    /// How often it was written to a server at all, whatever became of that.
    written: u8,
    /// Whether a session was given up because it was refused there.
    refused: bool,
    /// Whether its id was given to a session.
    used: bool,
    bytes: usize,
    arrival: u64,
    taken: Time,
    /// Since when it could be sent: since it was taken, or its last pause was over.
    since: Time,
    /// Since when it has no session: since it was taken, or its last session was lost. Its patience starts here.
    waits_since: Time,
    /// How many attempts have failed while it waited.
    attempts: u32,
    /// How often in a row its exchange ended soon, without an answer.
    misses: u32,
    /// What progress gives it anew.
    timeout: Option<Duration>,
    deadline: Option<Time>,
    /// No extension goes beyond this.
    limit: Time,
}

/// What became of a call whose exchange ended without an answer.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum MissedCall<R> {
    /// It is sent again later, or on the next session.
    Kept,
    /// It has ended.
    Over(Ended<R>),
}

/// Where a call is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Place {
    /// For the next session, or for its turn on this one.
    Waiting,
    /// Until then; it goes to the next session if that comes sooner, unless the server asked for the pause.
    Paused(Time, Asked),
    /// Given to this session; the stream position of its first byte, once the OS has accepted that.
    On(Epoch, Option<u64>),
}

/// Whether a server asked for a pause.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Asked {
    No,
    Yes,
}

/// The calls in flight. `R` is whatever the owner needs to answer the caller and to send the call again.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Ledger<R> {
    policy: Arc<Policy>,
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
    /// How many calls pause.
    pauses: usize,
    refusals: Refusals,
}

impl<R> Ledger<R> {
    /// An empty ledger.
    pub fn new(policy: Arc<Policy>) -> Ledger<R> {
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
            _ => timeout.map(|timeout| self.clock(now) + timeout.saturating_sub(waited)),
        };
        if let Some(deadline) = deadline {
            self.deadlines.insert((deadline, id));
        }
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

    /// New calls go to this session; those that wait leave by [`Ledger::dispatch`]. Says whether it takes calls: not if it was
    /// told to hang up meanwhile.
    pub fn open(&mut self, epoch: Epoch) -> bool {
        let opens = epoch > self.held && !self.closed;
        if opens {
            self.live = Some(epoch);
        }
        opens
    }

    /// The session that takes new calls.
    pub fn open_session(&self) -> Option<Epoch> {
        self.live
    }

    /// Whether new calls go to a session.
    pub fn is_open(&self) -> bool {
        self.live.is_some()
    }

    /// New calls wait. What is in flight goes on.
    pub(crate) fn hold(&mut self, epoch: Epoch) {
        self.live = None;
        self.held = self.held.max(epoch);
        self.resume(|_, _, asked| asked == Asked::No);
    }

    /// Calls whose pause is over wait for their turn. Says whether there were any.
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
        for (&id, call) in &mut self.calls {
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

    /// The number of the call that arrived last, wherever it is now. A call keeps its number as it moves.
    pub fn last_arrival(&self) -> u64 {
        self.last
    }

    /// The number of the call that [`Ledger::dispatch`] gives next.
    pub fn next_arrival(&self) -> Option<u64> {
        self.waiting.first_key_value().map(|(&arrival, _)| arrival)
    }

    /// The waiting streams, now on this session: they are a part of what it is told before it takes calls.
    pub fn dispatch_streams(&mut self, epoch: Epoch) -> Vec<CallId> {
        let is_stream = |id: &CallId| self.calls.get(id).is_some_and(|call| call.nature == Nature::Stream);
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
        let mut call = self.calls.remove(&id)?;
        let used = std::mem::replace(&mut call.used, true);
        call.place = Place::On(epoch, None);
        call.sends = call.sends.saturating_add(1);
        // Late news of the first send must not be taken for news of the second, even if the server never read it.
        let fresh = if used { self.fresh_id() } else { id };
        if let Some(deadline) = call.deadline {
            self.deadlines.remove(&(deadline, id));
            self.deadlines.insert((deadline, fresh));
        }
        self.calls.insert(fresh, call);
        Some(fresh)
    }

    /// The OS accepted the first byte of this call, which lies at this position of the session's input.
    pub fn sent(&mut self, id: CallId, position: u64) {
        if let Some(Call { place: Place::On(_, start), written, .. }) = self.calls.get_mut(&id) {
            start.get_or_insert(position);
            *written = written.saturating_add(1);
        }
    }

    /// Whether this very session owes an answer to this call.
    pub fn is_on(&self, epoch: Epoch, id: CallId) -> bool {
        self.calls.get(&id).is_some_and(|call| matches!(call.place, Place::On(on, _) if on == epoch))
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

    /// Progress: the deadline starts anew, up to the limit.
    pub fn extend(&mut self, now: Time, id: CallId) {
        let now = self.clock(now);
        let Some(call) = self.calls.get_mut(&id) else { return };
        let (Some(old), Some(timeout)) = (call.deadline, call.timeout) else { return };
        let new = (now + timeout).min(call.limit).max(old);
        self.deadlines.remove(&(old, id));
        self.deadlines.insert((new, id));
        call.deadline = Some(new);
    }

    /// What it means that this session refused a request with [`Fault::NoSession`]; none: a message that wants no answer. To be
    /// asked before `miss`, which takes [`Fault::as_answer`] where that is the ruling.
    pub fn rule(&mut self, epoch: Epoch, id: Option<CallId>) -> Ruling {
        let call = id.and_then(|id| self.calls.get(&id));
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

    /// The exchange of this one call has ended without an answer, for this reason. It may be sent again, on this session or on the
    /// next; or it ends here.
    pub(crate) fn miss(
        &mut self,
        now: Time,
        epoch: Epoch,
        id: CallId,
        fault: &Fault,
    ) -> Option<MissedCall<R>> {
        let Place::On(on, start) = self.calls.get(&id)?.place else { return None };
        if on != epoch {
            return None;
        }
        if fault.reach() == Reach::Session && self.live == Some(epoch) {
            self.hold(epoch); // Its owner hears of that, too; until then calls would go where nobody knows us.
        }
        let evidence = match fault {
            Fault::NoSession { evidence, .. } => Some(*evidence),
            _ => None,
        };
        if evidence == Some(Evidence::Response) {
            self.refusals.believed_a_response();
        }
        let clock = self.clock(now);
        let call = self.calls.get_mut(&id)?;
        let arrived = start.is_some() && fault.may_have_run();
        // A status that means expiry in the protocol is believed once, though the call may have caused it.
        let may_repeat = !arrived || evidence == Some(Evidence::Status);
        let refused_again = evidence.is_some() && std::mem::replace(&mut call.refused, true);
        if !arrived {
            call.sends = call.sends.saturating_sub(1);
        }
        let pause = call.pause(now, &self.policy);
        let place = match fault.again() {
            Again::Never => None,
            Again::After(wait) if wait > self.policy.defer_limit => None,
            Again::After(wait) => Some(Place::Paused(now + wait.max(pause), Asked::Yes)),
            Again::Soon if epoch > self.held => Some(Place::Paused(now + pause, Asked::No)),
            Again::Soon | Again::NextSession => Some(Place::Waiting),
        };
        let in_time = |place: &Place| match (place, call.deadline) {
            (Place::Paused(until, _), Some(deadline)) => *until < deadline + (now - clock),
            _ => true,
        };
        let may_move = !self.closed && !refused_again && call.may_move(clock, !may_repeat, &self.policy);
        match place.filter(in_time).filter(|_| may_move) {
            Some(place) => {
                call.place = place;
                call.wait_from(now, &self.policy);
                match place {
                    Place::Waiting => drop(self.waiting.insert(call.arrival, id)),
                    _ => self.pauses += 1,
                }
                Some(MissedCall::Kept)
            }
            None => {
                let call = self.remove(id)?;
                let delivery = delivery_after(call.sends);
                Some(MissedCall::Over(Ended { delivery, ..ended(id, call) }))
            }
        }
    }

    /// The session is lost. Of its input the server can have read `read` bytes, no more. Calls that may be sent again
    /// wait for the next session, in the order in which they arrived; the others end here.
    pub(crate) fn settle(&mut self, now: Time, epoch: Epoch, read: u64, greeted: bool) -> Vec<Ended<R>> {
        self.settle_calls(now, read, greeted, |on, _, _| on == epoch, Some(epoch))
    }

    /// The server has forgotten the session. Calls whose exchange is open keep it, for their answer may come yet; the others are
    /// settled.
    pub(crate) fn retire(
        &mut self,
        now: Time,
        epoch: Epoch,
        has_exchange: impl Fn(CallId) -> bool,
    ) -> Vec<Ended<R>> {
        let lost = |on: Epoch, id: CallId, call: &Call<R>| {
            let is_call = !call.own && call.nature != Nature::Stream && !call.nature.is_handshake();
            let keeps = is_call && matches!(call.place, Place::On(_, Some(_))) && has_exchange(id);
            on == epoch && !keeps
        };
        self.settle_calls(now, u64::MAX, true, lost, Some(epoch))
    }

    /// Whatever is in flight on any session is settled: nobody will hear an answer.
    pub(crate) fn end_all(&mut self, now: Time) -> Vec<Ended<R>> {
        let live = self.live;
        self.settle_calls(now, u64::MAX, true, |_, _, _| true, live)
    }

    fn settle_calls(
        &mut self,
        now: Time,
        read: u64,
        greeted: bool,
        is_lost: impl Fn(Epoch, CallId, &Call<R>) -> bool,
        session: Option<Epoch>,
    ) -> Vec<Ended<R>> {
        if self.live == session {
            self.live = None;
        }
        let lost: Vec<CallId> = self
            .calls
            .iter()
            .filter(|(id, call)| matches!(call.place, Place::On(on, _) if is_lost(on, **id, call)))
            .map(|(&id, _)| id)
            .collect();
        let clock = self.clock(now);
        let mut over = vec![];
        for id in lost {
            let Some(call) = self.calls.get_mut(&id) else { continue };
            let arrived = matches!(call.place, Place::On(_, Some(start)) if start < read);
            if !arrived {
                call.sends = call.sends.saturating_sub(1);
            }
            let refused = call.nature == Nature::Discovery && !greeted && arrived;
            if !refused && !self.closed && call.may_move(clock, arrived, &self.policy) {
                call.place = Place::Waiting;
                call.wait_from(now, &self.policy);
                self.waiting.insert(call.arrival, id);
            } else if let Some(call) = self.remove(id) {
                let delivery = delivery_after(call.sends);
                over.push(Ended { delivery, refused, ..ended(id, call) });
            }
        }
        over
    }

    /// No session will come soon for the calls that wait, for this reason. Streams wait on, unless retrying cannot help or
    /// the connection is over.
    pub(crate) fn fail_waiting(&mut self, fault: &Fault) -> Vec<Ended<R>> {
        let for_good = self.closed || fault.is_permanent();
        self.fail_where(|call| for_good || call.nature != Nature::Stream)
    }

    /// The next attempt is too far away for the calls that wait. A client's first handshake waits for it, and so do streams.
    pub(crate) fn fail_calls(&mut self) -> Vec<Ended<R>> {
        self.fail_where(|call| !matches!(call.nature, Nature::Greeting | Nature::Stream))
    }

    /// The attempt that these calls waited for has failed, for this reason. Those that may wait for the next one do, and so do
    /// streams; the others fail.
    pub(crate) fn fail_attempt(
        &mut self,
        now: Time,
        fault: &Fault,
        handshakes_wait: bool,
        patience: Patience,
    ) -> Vec<Ended<R>> {
        let waits = |call: &&mut Call<R>| matches!(call.place, Place::Waiting | Place::Paused(..));
        for call in self.calls.values_mut().filter(waits) {
            call.attempts = call.attempts.saturating_add(1);
        }
        let for_good = self.closed || fault.is_permanent();
        let longest = self.policy.patience.unwrap_or_default();
        self.fail_where(|call| {
            let may_wait = match patience {
                _ if call.nature == Nature::Stream => return for_good,
                _ if call.nature == Nature::Greeting && handshakes_wait => return for_good,
                Patience::None => false,
                Patience::TakenBefore(parked) => call.taken < parked,
                Patience::All => true,
            };
            let did_not_run = call.delivery() == Delivery::NotSent;
            for_good || !(may_wait && did_not_run && now < call.waits_since + longest)
        })
    }

    fn fail_where(&mut self, fails: impl Fn(&Call<R>) -> bool) -> Vec<Ended<R>> {
        let waits = |call: &Call<R>| matches!(call.place, Place::Waiting | Place::Paused(..));
        let failing = self.calls.iter().filter(|(_, call)| waits(call) && fails(call));
        let ids: Vec<CallId> = failing.map(|(&id, _)| id).collect();
        ids.into_iter().filter_map(|id| self.cancel(id)).collect()
    }

    /// The calls whose time has come. Goes on with the clock when it has stood for the call limit.
    pub(crate) fn expire(&mut self, now: Time) -> Vec<Ended<R>> {
        if self.stopped.is_some_and(|stopped| now >= stopped + self.policy.call_limit) {
            self.start_clock(now);
        }
        let clock = self.clock(now);
        let mut over = vec![];
        while let Some(&(deadline, id)) = self.deadlines.first()
            && deadline <= clock
        {
            over.extend(self.cancel(id));
        }
        if self.stopped.is_some() {
            let at_limit = |(&id, call): (&CallId, &Call<R>)| (call.ends_by()? <= now).then_some(id);
            let ids: Vec<CallId> = self.calls.iter().filter_map(at_limit).collect();
            over.extend(ids.into_iter().filter_map(|id| self.cancel(id)));
        }
        over
    }

    /// Deadlines stand still: a person is being asked, or the client does not read. The call limit does not.
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
                *deadline = (*deadline + stood).min(call.limit);
                self.deadlines.insert((*deadline, id));
            }
        }
    }

    /// What deadlines are measured by: `now`, or when the clock was stopped.
    fn clock(&self, now: Time) -> Time {
        self.stopped.unwrap_or(now)
    }

    /// When `expire` is due.
    pub fn deadline(&self) -> Option<Time> {
        let first = self.deadlines.first().map(|&(deadline, _)| deadline)?;
        match self.stopped {
            None => Some(first),
            Some(stopped) => {
                let limit = self.calls.values().filter_map(Call::ends_by).min();
                limit.map(|limit| limit.min(stopped + self.policy.call_limit))
            }
        }
    }

    /// When `end_pauses` is due.
    pub fn pause_ends(&self) -> Option<Time> {
        let ends = |call: &Call<R>| match call.place {
            Place::Paused(until, _) => Some(until),
            Place::Waiting | Place::On(..) => None,
        };
        if self.pauses == 0 { None } else { self.calls.values().filter_map(ends).min() }
    }

    /// How many calls wait for a session and would wake one. Streams alone do not.
    pub fn waiting(&self) -> usize {
        let wakes = |id: &&CallId| self.calls.get(id).is_some_and(|call| call.nature != Nature::Stream);
        self.waiting.values().filter(wakes).count()
    }

    /// How many calls of clients are in flight on this session. Streams are not counted.
    pub fn in_flight(&self, epoch: Epoch) -> usize {
        self.count(|call| matches!(call.place, Place::On(on, _) if on == epoch))
    }

    /// The same, on every session: also on those that their servers have forgotten.
    pub fn in_flight_anywhere(&self) -> usize {
        self.count(|call| matches!(call.place, Place::On(..)))
    }

    /// How many of those on this session the server may have seen, if it read so many bytes of its input.
    pub fn seen(&self, epoch: Epoch, read: u64) -> usize {
        self.count(|call| matches!(call.place, Place::On(on, Some(start)) if on == epoch && start < read))
    }

    /// Since when the oldest of the calls that have gone to this session could be sent.
    pub fn eldest(&self, epoch: Epoch) -> Option<Time> {
        self.eldest_of(epoch, |_| true)
    }

    /// The same, of these calls alone.
    pub fn eldest_of(&self, epoch: Epoch, wanted: impl Fn(CallId) -> bool) -> Option<Time> {
        let gone = |call: &Call<R>| matches!(call.place, Place::On(on, Some(_)) if on == epoch);
        let of_clients = |call: &Call<R>| !call.own && call.nature != Nature::Stream;
        let calls = self.calls.iter().filter(|(id, call)| of_clients(call) && gone(call) && wanted(**id));
        calls.map(|(_, call)| call.since).min()
    }

    /// How many calls of clients are pending, wherever they are. Streams are not counted.
    pub fn pending(&self) -> usize {
        self.count(|_| true)
    }

    /// Whether a client has a stream open, or wants one.
    pub fn has_streams(&self) -> bool {
        self.calls.values().any(|call| call.nature == Nature::Stream)
    }

    fn count(&self, wanted: impl Fn(&Call<R>) -> bool) -> usize {
        self.clients(wanted).count()
    }

    /// The calls of clients for which this holds. Streams are none.
    fn clients(&self, wanted: impl Fn(&Call<R>) -> bool) -> impl Iterator<Item = &Call<R>> {
        self.calls.values().filter(move |call| !call.own && call.nature != Nature::Stream && wanted(call))
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

    /// Whether no call is taken any more.
    pub fn is_closed(&self) -> bool {
        self.closed
    }

    /// The calls, oldest first.
    pub fn iter(&self) -> impl Iterator<Item = (CallId, &R)> {
        self.calls.iter().map(|(&id, call)| (id, &call.reply))
    }

    /// The calls that pause before they are sent again.
    pub fn paused(&self) -> impl Iterator<Item = &R> {
        let paused = self.calls.values().filter(|call| matches!(call.place, Place::Paused(..)));
        paused.map(|call| &call.reply)
    }

    /// Who waits for this call, to note something about it.
    pub fn reply_mut(&mut self, id: CallId) -> Option<&mut R> {
        self.calls.get_mut(&id).map(|call| &mut call.reply)
    }

    /// The newest call for which this holds.
    pub fn find(&self, mut wanted: impl FnMut(&R) -> bool) -> Option<CallId> {
        self.calls.iter().rev().find(|(_, call)| wanted(&call.reply)).map(|(&id, _)| id)
    }

    /// All calls for which this holds, oldest first.
    pub fn find_all(&self, mut wanted: impl FnMut(&R) -> bool) -> Vec<CallId> {
        self.calls.iter().filter(|(_, call)| wanted(&call.reply)).map(|(&id, _)| id).collect()
    }

    fn remove(&mut self, id: CallId) -> Option<Call<R>> {
        let call = self.calls.remove(&id)?;
        self.bytes -= call.bytes;
        if let Some(deadline) = call.deadline {
            self.deadlines.remove(&(deadline, id));
        }
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

impl<R> Call<R> {
    /// Whether the call may be sent on the next session (P3).
    fn may_move(&self, clock: Time, arrived: bool, policy: &Policy) -> bool {
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

    /// No session has it any more. Only patience asks since when.
    fn wait_from(&mut self, now: Time, policy: &Policy) {
        if policy.patience.is_some() {
            self.waits_since = now;
        }
    }

    /// When it ends, whatever extends its deadline.
    fn ends_by(&self) -> Option<Time> {
        self.deadline.map(|_| self.limit)
    }

    /// The time that its deadline allows: its timeout, or the limit that no extension goes beyond.
    fn allowed(&self) -> Option<Duration> {
        let deadline = self.deadline?;
        if deadline < self.limit { self.timeout } else { Some(self.limit - self.taken) }
    }

    /// How far it got, on this session and on those before.
    fn delivery(&self) -> Delivery {
        match self.place {
            Place::On(_, None) => delivery_after(self.sends.saturating_sub(1)),
            Place::On(_, Some(_)) | Place::Waiting | Place::Paused(..) => delivery_after(self.sends),
        }
    }

    /// How long it waits before it is sent again on the same session: longer each time, unless its exchange has lasted.
    fn pause(&mut self, now: Time, policy: &Policy) -> Duration {
        let lasted = now - self.since >= policy.backoff.cap;
        self.misses = if lasted { 1 } else { self.misses.saturating_add(1) };
        let times = self.misses.saturating_mul(self.misses);
        policy.resend_pause.saturating_mul(times).min(policy.backoff.cap)
    }
}

/// Whether its time was over before it came here. A stream has none.
fn is_late(nature: Nature, timeout: Option<Duration>, waited: Duration) -> bool {
    nature != Nature::Stream && timeout.is_some_and(|timeout| timeout <= waited)
}

fn delivery_after(sends: u8) -> Delivery {
    if sends == 0 { Delivery::NotSent } else { Delivery::Unknown }
}

fn ended<R>(id: CallId, call: Call<R>) -> Ended<R> {
    let epoch = match call.place {
        Place::Waiting | Place::Paused(..) => None,
        Place::On(epoch, _) => Some(epoch),
    };
    let (delivery, taken, attempts) = (call.delivery(), call.taken, call.attempts);
    let (nature, own, timeout) = (call.nature, call.own, call.allowed());
    Ended { id, reply: call.reply, delivery, epoch, taken, timeout, nature, own, refused: false, attempts }
}

#[cfg(test)]
mod tests;
