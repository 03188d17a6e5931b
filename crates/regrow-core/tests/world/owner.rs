//! An owner as plain as can be: drives the real lifecycle and the real ledger, and hands on what the world must do.

#![allow(dead_code)] // Each test crate uses its part.

use regrow_core::{
    Admission, CallId, Delivery, Effect, Ended, Epoch, Event, Fault, Ledger, Lifecycle, Missed, Nature,
    Notice, Orderer, Policy, Pulse, Reach, Refusal, Ruling, State, Ties, Time,
};
use std::collections::BTreeMap;
use std::time::Duration;

/// A call as its caller knows it.
pub(crate) type Caller = usize;

/// How a call ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Answered,
    /// The session or the attempt that it needed was lost.
    Failed(Delivery, Fault),
    /// The server left because of this very question.
    NotKnown,
    TimedOut(Delivery),
    Cancelled(Delivery),
    Refused(Refusal),
}

/// What an owner tells the world, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    Connect(Epoch),
    /// Asked at this time.
    Probe(Epoch, Time),
    Hangup(Epoch, regrow_core::Manner),
    Abandon(Epoch),
    Notice(Notice),
    /// This state takes in that event; what follows, up to the next of these, comes of it.
    Step(State, Event),
    /// It was decided what becomes of the calls on this session.
    Settled(Epoch),
    /// The same, but calls keep their exchange.
    Retired(Epoch),
    /// The state has another name than before.
    Moved(&'static str, &'static str),
    /// Bytes of this call go to this session.
    Send(Epoch, CallId, Caller),
    /// The exchange of this call is over, but the call is not.
    Kept(Caller),
    Ended(Caller, Fate),
}

pub(crate) struct Owner {
    pub(crate) lifecycle: Lifecycle,
    pub(crate) ledger: Ledger<Caller>,
    pub(crate) told: Vec<Told>,
    /// When something was last read from the server.
    pub(crate) heard: Time,
    /// How many messages were read from it.
    pub(crate) messages: u64,
    /// How much of its input each session can have read; without an entry, all of it.
    pub(crate) read: BTreeMap<Epoch, u64>,
    /// How many attempts failed while a call that failed waited.
    pub(crate) attempts: BTreeMap<Caller, u32>,
    /// The newest session that shook hands.
    greeted: Epoch,
    calls: Caller,
}

impl Owner {
    pub(crate) fn new(policy: &Policy, seed: u64) -> Owner {
        Owner {
            lifecycle: Lifecycle::new(policy.clone(), seed),
            ledger: Ledger::new(policy.clone()),
            told: vec![],
            heard: Time::ZERO,
            messages: 0,
            read: BTreeMap::new(),
            attempts: BTreeMap::new(),
            greeted: Epoch(0),
            calls: 0,
        }
    }

    pub(crate) fn epoch(&self) -> Epoch {
        self.lifecycle.epoch()
    }

    pub(crate) fn pulse(&self) -> Pulse {
        let epoch = self.epoch();
        Pulse {
            heard: self.heard,
            calls: self.ledger.in_flight(epoch),
            eldest: self.ledger.eldest(epoch),
            answered: self.ledger.has_answered(epoch),
            read: self.messages,
        }
    }

    /// When something is due.
    pub(crate) fn deadline(&self) -> Option<Time> {
        let deadlines = [self.lifecycle.deadline(), self.ledger.deadline(), self.ledger.pause_ends()];
        deadlines.into_iter().flatten().min()
    }

    /// One event, and all that follows from it at once.
    pub(crate) fn event(&mut self, now: Time, event: Event) {
        if matches!(event, Event::Close(_) | Event::Drain) {
            self.ledger.close();
        }
        self.step(now, event);
        self.follow(now);
    }

    /// A caller makes a call.
    pub(crate) fn call(
        &mut self,
        now: Time,
        waited: Duration,
        nature: Nature,
        timeout: Option<Duration>,
        bytes: usize,
    ) -> Caller {
        self.calls += 1;
        let caller = self.calls;
        match self.ledger.admit(now, waited, nature, timeout, bytes, caller) {
            Ok(Admission::Send(epoch, id)) => self.told.push(Told::Send(epoch, id, caller)),
            Ok(Admission::Wait(_)) => {}
            Err((why, caller)) => self.told.push(Told::Ended(caller, Fate::Refused(why))),
        }
        self.follow(now);
        caller
    }

    /// A caller gives up. Says whether the call was still pending.
    pub(crate) fn cancel(&mut self, now: Time, caller: Caller) -> bool {
        let Some(id) = self.ledger.find(|&c| c == caller) else { return false };
        let Some(ended) = self.ledger.cancel(id) else { return false };
        self.told.push(Told::Ended(caller, Fate::Cancelled(ended.delivery)));
        if let Some(epoch) = ended.epoch {
            let pulse = self.pulse();
            self.step(now, Event::Cancelled(epoch, ended.taken, pulse));
        }
        self.follow(now);
        true
    }

    /// The server answered. Says whether somebody had waited for that.
    pub(crate) fn answer(&mut self, now: Time, epoch: Epoch, id: CallId, good: bool) -> Option<Caller> {
        if epoch == self.epoch() {
            self.heard = now;
            self.messages += 1;
        }
        let caller = self.ledger.answer(epoch, id, good)?;
        self.told.push(Told::Ended(caller, Fate::Answered));
        self.follow(now);
        Some(caller)
    }

    /// What the exchange of a call has ended with, where a refusal may tell of a forgotten session. `forgotten`: what the server says if
    /// it is asked for that.
    pub(crate) fn judge(&mut self, epoch: Epoch, id: CallId, fault: Fault, forgotten: bool) -> Fault {
        if !matches!(fault, Fault::NoSession { .. }) {
            return fault;
        }
        let expired = match self.ledger.rule(epoch, Some(id)) {
            Ruling::Expired => true,
            Ruling::Answer => false,
            Ruling::Ask => {
                if !forgotten {
                    self.ledger.session_is_known();
                }
                forgotten
            }
        };
        if expired { fault } else { fault.as_answer() }
    }

    /// The exchange of a call ended without an answer. Says whether that was news.
    pub(crate) fn miss(&mut self, now: Time, epoch: Epoch, id: CallId, fault: &Fault) -> bool {
        let caller = self.ledger.reply(id).copied();
        let Some(missed) = self.ledger.miss(now, epoch, id, fault) else { return false };
        match missed {
            Missed::Kept => self.told.extend(caller.map(Told::Kept)),
            Missed::Over(ended) => self.fail(vec![ended], &fault.as_expiry()),
        }
        let live = self.epoch();
        if epoch != live && self.ledger.is_open() {
            while self.dispatch(live) {} // The next session is there already.
        }
        self.follow(now);
        true
    }

    /// What one exchange of a session ended with may concern more than its call.
    pub(crate) fn concern(&mut self, now: Time, epoch: Epoch, fault: &Fault) {
        let pulse = self.pulse();
        match fault.reach() {
            Reach::Call => {}
            Reach::Doubt => self.event(now, Event::Doubted(epoch, pulse)),
            Reach::Session => self.event(now, Event::Lost(epoch, fault.as_expiry(), pulse)),
        }
    }

    /// The timer fired.
    pub(crate) fn tick(&mut self, now: Time) {
        for Ended { reply, delivery, epoch, .. } in self.ledger.expire(now) {
            self.told.push(Told::Ended(reply, Fate::TimedOut(delivery)));
            if let Some(epoch) = epoch {
                let pulse = self.pulse();
                self.step(now, Event::TimedOut(epoch, pulse));
            }
        }
        if self.lifecycle.deadline().is_some_and(|deadline| deadline <= now) {
            let pulse = self.pulse();
            self.step(now, Event::Tick(pulse));
        }
        let epoch = self.epoch();
        if self.ledger.end_pauses(now) && self.ledger.is_open() {
            while self.dispatch(epoch) {}
        }
        self.follow(now);
    }

    /// Somebody wants a fresh session.
    pub(crate) fn reconnect(&mut self, now: Time, orderer: Orderer) {
        let pulse = self.pulse();
        self.event(now, Event::Reconnect(orderer, pulse));
    }

    /// An operator finds that nobody needs the session.
    pub(crate) fn rest(&mut self, now: Time) {
        let (ties, pulse) = (self.ties(), self.pulse());
        self.event(now, Event::Rest(ties, pulse));
    }

    pub(crate) fn ties(&self) -> Ties {
        Ties { pending: self.ledger.pending(), listening: self.ledger.has_streams() }
    }

    /// An operator wants no session.
    pub(crate) fn park(&mut self, now: Time) {
        let pulse = self.pulse();
        self.event(now, Event::Park(pulse));
    }

    /// What an owner reports by itself: calls that wait, and a drain that is done.
    fn follow(&mut self, now: Time) {
        let epoch = self.epoch();
        let in_flight = match self.lifecycle.is_closing() {
            true => self.ledger.in_flight_anywhere(),
            false => self.ledger.in_flight(epoch),
        };
        if matches!(self.lifecycle.state(), State::Draining { .. }) && in_flight == 0 {
            self.step(now, Event::Drained(epoch));
        }
        if self.lifecycle.heeds_demand() && self.ledger.waiting() > 0 {
            self.step(now, Event::Demand);
        }
    }

    fn step(&mut self, now: Time, event: Event) {
        let was = self.lifecycle.state().name();
        self.told.push(Told::Step(self.lifecycle.state().clone(), event.clone()));
        let effects = self.lifecycle.step(now, event);
        let is = self.lifecycle.state().name();
        for effect in effects {
            self.start(now, effect);
        }
        if was != is {
            self.told.push(Told::Moved(was, is));
        }
    }

    fn start(&mut self, now: Time, effect: Effect) {
        match effect {
            Effect::Connect(epoch) => self.told.push(Told::Connect(epoch)),
            Effect::Probe(epoch) => self.told.push(Told::Probe(epoch, now)),
            Effect::Hangup(epoch, manner) => self.told.push(Told::Hangup(epoch, manner)),
            Effect::Abandon(epoch) => self.told.push(Told::Abandon(epoch)),
            Effect::Hold(epoch) => self.ledger.hold(epoch),
            Effect::Settle(epoch, fault) => {
                self.told.push(Told::Settled(epoch));
                let read = self.read.get(&epoch).copied().unwrap_or(u64::MAX);
                let over = self.ledger.settle(now, epoch, read, self.greeted == epoch);
                self.fail(over, &fault);
            }
            Effect::Retire(epoch, fault) => {
                self.told.push(Told::Retired(epoch));
                let over = self.ledger.retire(now, epoch, |_| true);
                self.fail(over, &fault);
            }
            Effect::EndAll(fault) => {
                let over = self.ledger.end_all(now);
                self.fail(over, &fault);
            }
            Effect::FailWaiting(fault) => {
                let over = self.ledger.fail_waiting(&fault);
                self.fail(over, &fault);
            }
            Effect::FailCalls(fault) => {
                let over = self.ledger.fail_calls();
                self.fail(over, &fault);
            }
            Effect::FailAttempt { fault, handshakes_wait, patience } => {
                let over = self.ledger.fail_attempt(now, &fault, handshakes_wait, patience);
                self.fail(over, &fault);
            }
            Effect::Notice(notice) => {
                let ready = matches!(notice, Notice::Ready(_));
                self.told.push(Told::Notice(notice));
                if ready {
                    self.open(now);
                }
            }
        }
    }

    fn open(&mut self, now: Time) {
        let epoch = self.epoch();
        self.heard = now;
        self.greeted = epoch;
        self.ledger.open(epoch);
        while self.dispatch(epoch) {}
    }

    /// The oldest waiting call leaves, if there is one.
    pub(crate) fn dispatch(&mut self, epoch: Epoch) -> bool {
        let Some(id) = self.ledger.dispatch(epoch) else { return false };
        let caller = *self.ledger.reply(id).expect("a dispatched call is in the ledger");
        self.told.push(Told::Send(epoch, id, caller));
        true
    }

    fn fail(&mut self, over: Vec<Ended<Caller>>, fault: &Fault) {
        for Ended { reply, delivery, refused, attempts, .. } in over {
            self.attempts.insert(reply, attempts);
            let fate = if refused { Fate::NotKnown } else { Fate::Failed(delivery, fault.clone()) };
            self.told.push(Told::Ended(reply, fate));
        }
    }
}
