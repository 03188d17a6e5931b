//! What an owner does: hands events to the real `step`, carries out the effects on the real ledger, and reports what
//! follows. As in `regrow/src/owner.rs` and `desk.rs`, without the waiting.

use std::time::Duration;

use crate::moves::may_have_run;
use crate::properties::{self, Goal, Property, require};
use crate::scope::Scope;
use crate::world::{Account, Caller, End, Owed, Process, Truth, World};
use regrow_core::{
    Admission, CallId, Delivery, Effect, Ended, Epoch, Event, Evidence, Fault, Missed, Nature, Notice, Pulse,
    Reach, Ruling, State, Step, Ties,
};

impl World {
    pub(crate) fn pulse(&self, epoch: Epoch) -> Pulse {
        Pulse {
            heard: self.truth.heard,
            calls: self.ledger.seen(epoch, self.read_of(epoch)),
            eldest: self.ledger.eldest(epoch),
            answered: self.ledger.has_answered(epoch),
            read: self.truth.messages,
        }
    }

    pub(crate) fn ties(&self) -> Ties {
        Ties { pending: self.ledger.pending(), listening: self.ledger.has_streams() }
    }

    fn read_of(&self, epoch: Epoch) -> u64 {
        self.process(epoch).map_or(u64::MAX, Process::can_have_read)
    }

    pub(crate) fn step(&mut self, scope: &Scope, event: Event) {
        let before = self.lifecycle.state().clone();
        let expected = properties::expected_charge(self, scope, &before, &event);
        let effects = self.lifecycle.step(self.now, event.clone());
        if self.lifecycle.is_closing() {
            // Before the calls that wait are failed: none may come after.
            self.ledger.close();
        }
        let mut told = vec![];
        for effect in effects {
            self.start(scope, &before, &event, effect, &mut told);
        }
        properties::judge_step(self, scope, &before, &event, expected, &told);
    }

    fn start(
        &mut self,
        scope: &Scope,
        before: &State,
        event: &Event,
        effect: Effect,
        told: &mut Vec<Notice>,
    ) {
        match effect {
            Effect::Connect(epoch) => {
                properties::judge_attempt(self, scope, before, event, epoch);
                self.truth.attempted = Some(self.now);
                self.truth.first.attempt(self.now);
                self.truth.account = Account::default();
                self.truth.asked = None;
                self.truth.processes.push(Process {
                    epoch,
                    alive: true,
                    gone: false,
                    patience: None,
                    abandoned: false,
                    causes: vec![],
                    causes_told: 0,
                    greeted: false,
                    written: 0,
                    read: 0,
                    known_read: None,
                    pipe: vec![],
                    exchanges: scope.exchanges(),
                });
            }
            Effect::Probe(epoch) => {
                require(self, Property::P7, epoch == self.epoch(), "a probe of another epoch");
                self.truth.asked = Some(self.now);
                self.truth.messages = 0; // It was not counted before.
                self.reach(Goal::Probed);
            }
            Effect::Hold(epoch) => self.ledger.hold(epoch),
            Effect::Settle(epoch, fault) => {
                let runs = self.truth.owed.iter().any(|owed| owed.epoch == epoch && owed.written);
                let forgotten = matches!(fault, Fault::SessionExpired { .. }) && runs;
                require(self, Property::P2, !forgotten, "a call loses its exchange with a forgotten session");
                self.settle(epoch);
            }
            Effect::Retire(epoch, _) => self.retire(epoch),
            Effect::EndAll(_) => {
                let over = self.ledger.end_all(self.now);
                self.truth.owed.clear();
                self.fail(over);
            }
            Effect::FailWaiting(fault) => {
                let over = self.ledger.fail_waiting(&fault);
                self.fail(over);
            }
            Effect::FailCalls(_) => {
                let over = self.ledger.fail_calls();
                self.fail(over);
            }
            Effect::FailAttempt { fault, handshakes_wait, patience } => {
                let patient = properties::surely_patient(self, scope, &fault);
                let over = self.ledger.fail_attempt(self.now, &fault, handshakes_wait, patience);
                if over.iter().any(|ended| ended.attempts > 1) {
                    self.reach(Goal::PatienceOver);
                }
                self.fail(over);
                properties::judge_patience(self, &patient);
            }
            Effect::Hangup(epoch, manner) => {
                let until =
                    self.now + scope.policy.ladders.ladder(manner).length() + scope.policy.abandon_after;
                let Some(process) = self.process_mut(epoch).filter(|process| !process.gone) else {
                    return require(self, Property::P1, false, "what does not live is hung up");
                };
                let first = process.patience.is_none();
                if manner.closes_input() {
                    process.known_read = Some(process.can_have_read());
                }
                process.patience = Some(process.patience.map_or(until, |sooner| sooner.min(until)));
                if first && self.truth.account.was_ready && scope.policy.patience.is_some() {
                    self.truth.healthy = Some(self.now);
                }
            }
            Effect::Abandon(epoch) => {
                let now = self.now;
                let waited =
                    self.process(epoch).and_then(|process| process.patience).is_some_and(|t| t <= now);
                require(self, Property::P1, waited, "abandoned before its time was over");
                if let Some(process) = self.process_mut(epoch) {
                    process.abandoned = true;
                    process.causes.clear();
                    process.causes_told = 0;
                }
                self.truth.abandons += 1;
                self.reach(Goal::Abandoned);
            }
            Effect::Notice(notice) => {
                self.hear_notice(&notice);
                told.push(notice);
            }
        }
    }

    fn hear_notice(&mut self, notice: &Notice) {
        match notice {
            Notice::Ready(epoch) => {
                self.truth.account.was_ready = true;
                self.truth.first.ready();
                self.truth.slow = false;
                self.truth.parked = None;
                if *epoch > Epoch(1) {
                    self.reach(Goal::ReadyAgain);
                }
            }
            Notice::Parked(Fault::Parked) => self.reach(Goal::ParkedByOrder),
            Notice::Resting => self.reach(Goal::Rested),
            Notice::BudgetReset => {
                self.truth.charges.clear();
                self.truth.free_in_a_row = 0;
                self.truth.slow = false;
                self.truth.parked = None;
            }
            Notice::Parked(fault) => {
                self.truth.parked.get_or_insert(self.now);
                self.truth.slow |= !fault.is_permanent();
                self.reach(if fault.is_permanent() { Goal::ParkedForGood } else { Goal::Parked });
            }
            Notice::Retired(_, Fault::SessionExpired { .. }) => self.reach(Goal::Forgotten),
            Notice::Retired(_, Fault::Deferred { .. }) => self.reach(Goal::Deferred),
            Notice::Retired(..) => self.reach(Goal::Retired),
            Notice::Fault(_, Fault::SessionExpired { .. }, _) => self.reach(Goal::ForgottenCharged),
            Notice::Fault(..) => self.reach(Goal::Fault),
            Notice::Late(..) => self.reach(Goal::LateFault),
            Notice::Doubted(_) => self.reach(Goal::Doubted),
            Notice::Woke => self.reach(Goal::Woke),
            Notice::Planned(..) => self.reach(Goal::Planned),
            Notice::Connecting(_)
            | Notice::Backoff(_)
            | Notice::Abandoned(_)
            | Notice::Untidy(..)
            | Notice::Closed => {}
        }
    }

    /// What an owner reports by itself after every turn: calls that wait, and a drain that is done.
    pub(crate) fn follow(&mut self, scope: &Scope) {
        let epoch = self.epoch();
        if self.lifecycle.heeds_demand() && self.ledger.waiting() > 0 {
            self.step(scope, Event::Demand);
        }
        let in_flight = match self.lifecycle.is_closing() {
            true => self.ledger.in_flight_anywhere(),
            false => self.ledger.in_flight(epoch),
        };
        if matches!(self.lifecycle.state(), State::Draining { .. }) && in_flight == 0 {
            self.step(scope, Event::Drained(epoch));
        }
    }

    pub(crate) fn call(&mut self, scope: &Scope, nature: Nature) {
        let caller = self.truth.calls.len();
        let timeout = match nature {
            Nature::Greeting | Nature::Discovery => Some(scope.policy.connect_timeout),
            _ => scope.policy.call_timeout,
        };
        let ends_by = timeout.filter(|_| nature != Nature::Stream).map(|timeout| self.now + timeout);
        self.truth.calls.push(crate::world::Call {
            nature,
            runs: 0,
            sends: 0,
            written: 0,
            refused: None,
            missed: false,
            taken: self.now,
            waits_since: self.now,
            ends_by,
            end: None,
        });
        match self.ledger.admit(self.now, Duration::ZERO, nature, timeout, 1, caller) {
            Ok(Admission::Send(epoch, id)) => self.send(scope, epoch, id, caller),
            Ok(Admission::Wait(_)) => {}
            Err(_) => {
                let closing = self.lifecycle.is_closing();
                require(self, Property::P2, closing, "a call is refused though nothing closes");
                self.end(caller, Delivery::NotSent);
                self.reach(Goal::Refused);
            }
        }
    }

    /// The session takes calls from now on; those that waited go first.
    pub(crate) fn open(&mut self, scope: &Scope, epoch: Epoch) {
        self.ledger.open(epoch);
        self.dispatch(scope, epoch);
    }

    fn dispatch(&mut self, scope: &Scope, epoch: Epoch) {
        while let Some(id) = self.ledger.dispatch(epoch) {
            let Some(&caller) = self.ledger.reply(id) else {
                return require(self, Property::P2, false, "a dispatched call is lost");
            };
            self.send(scope, epoch, id, caller);
        }
    }

    fn send(&mut self, scope: &Scope, epoch: Epoch, id: CallId, caller: Caller) {
        properties::judge_send(self, epoch, caller);
        self.truth.owed.push(Owed { epoch, id, caller, written: false, ran: false });
        self.truth.calls[caller].sends += 1;
        if !self.truth.calls[caller].missed {
            self.truth.account.last_sent = Some(caller);
        }
        if !scope.slow_writes && self.process(epoch).is_some_and(|process| process.alive) {
            self.write(scope, caller);
        }
        if self.truth.greeting_open {
            let news = match self.truth.calls[caller].nature {
                Nature::Greeting => Event::Begun(epoch, Step::Greeting),
                Nature::Discovery => Event::Begun(epoch, Step::Discovering),
                _ => Event::Connected(epoch),
            };
            self.step(scope, news);
        }
    }

    pub(crate) fn answer(&mut self, scope: &Scope, epoch: Epoch, id: CallId, good: bool) {
        let Some(owed) = self.truth.owed.iter().find(|owed| (owed.epoch, owed.id) == (epoch, id)).cloned()
        else {
            return;
        };
        if epoch == self.epoch() {
            self.truth.heard = self.now;
            self.truth.messages += 1;
        }
        let got = self.ledger.answer(epoch, id, good);
        let nature = self.truth.calls[owed.caller].nature;
        require(self, Property::P7, got.is_none_or(|c| c == owed.caller), "an answer for somebody else");
        require(
            self,
            Property::P2,
            got.is_some() || nature == Nature::Stream,
            "an answer that is owed is lost",
        );
        if got.is_none() {
            return;
        }
        let handshake = matches!(nature, Nature::Greeting | Nature::Discovery);
        if good && !handshake && epoch == self.epoch() {
            self.truth.account.answered = true;
        }
        self.end(owed.caller, Delivery::Answered);
        self.reach(Goal::Answered);
        if epoch > Epoch(1) {
            self.reach(Goal::AnsweredAfterRestart);
        }
        if self.truth.calls[owed.caller].runs > 1 {
            self.reach(Goal::AnsweredAfterReplay);
        }
        if handshake && good {
            self.truth.greeting_open = false;
            self.step(scope, Event::Connected(epoch));
        } else if handshake && self.truth.greeting_open {
            self.step(scope, Event::Opened(epoch));
        }
    }

    /// The exchange of a call ends without an answer. What else that concerns, the owner hears later, if it is the session.
    pub(crate) fn miss(&mut self, scope: &Scope, epoch: Epoch, id: CallId, fault: &Fault) {
        let Some(owed) = self.truth.owed.iter().find(|owed| (owed.epoch, owed.id) == (epoch, id)).cloned()
        else {
            return;
        };
        if fault.http_status().is_some() {
            self.truth.heard = self.now;
        }
        // What may have run may yet run; what is said not to have run never does.
        if let Some(process) = self.process_mut(epoch) {
            process.pipe.retain(|&(unread, _)| unread != id || may_have_run(fault));
        }
        let fault = &self.rule(epoch, id, owed.caller, fault);
        let kept = self.process(epoch).is_some_and(|process| process.patience.is_none());
        if let Some(process) = self.process_mut(epoch)
            && kept
            && fault.reach() == Reach::Session
            && process.causes.is_empty()
        {
            process.causes.push(fault.as_expiry());
        }
        self.truth.owed.retain(|owed| owed.id != id);
        match self.ledger.miss(self.now, epoch, id, fault) {
            None => require(self, Property::P2, false, "a miss of a call that is owed is no news"),
            Some(Missed::Kept) => {
                self.truth.calls[owed.caller].missed = true;
                self.truth.calls[owed.caller].waits_since = self.now;
                self.reach(Goal::MissedAndKept);
            }
            Some(Missed::Over(ended)) => {
                self.end(ended.reply, ended.delivery);
                self.reach(Goal::MissedAndOver);
            }
        }
        if epoch != self.epoch() && self.ledger.is_open() {
            self.dispatch(scope, self.epoch()); // The next session is there already.
        }
        if kept && fault.reach() == Reach::Doubt {
            let pulse = self.pulse(epoch);
            self.step(scope, Event::Doubted(epoch, pulse));
        }
    }

    /// What a refusal means that may tell of a forgotten session. A server that says so in words has forgotten it, and says so again
    /// if it is asked; one that only answers with a status knows it.
    fn rule(&mut self, epoch: Epoch, id: CallId, caller: Caller, fault: &Fault) -> Fault {
        let Fault::NoSession { evidence, .. } = fault else { return fault.clone() };
        let expired = match self.ledger.rule(epoch, Some(id)) {
            Ruling::Expired => true,
            Ruling::Answer => false,
            Ruling::Ask => *evidence != Evidence::Status,
        };
        let again = self.truth.calls[caller].refused.is_some();
        require(self, Property::P3, !(again && expired), "a call that is refused again ends a session");
        if !expired {
            return fault.as_answer();
        }
        self.truth.calls[caller].refused = Some(*evidence);
        fault.clone()
    }

    /// Calls whose pause is over leave, if there is a session to go to.
    pub(crate) fn end_pauses(&mut self, scope: &Scope) {
        let epoch = self.epoch();
        let any = self.ledger.end_pauses(self.now);
        require(self, Property::P9, any, "a pause that is over does not end");
        if self.ledger.is_open() {
            self.dispatch(scope, epoch);
        }
    }

    pub(crate) fn cancel(&mut self, scope: &Scope, caller: Caller) {
        let ended = self.ledger.find(|&c| c == caller).and_then(|id| self.ledger.cancel(id));
        let Some(ended) = ended else {
            return require(self, Property::P2, false, "a pending call is not in the ledger");
        };
        self.end(caller, ended.delivery);
        self.reach(Goal::Cancelled);
        if let Some(epoch) = ended.epoch {
            let pulse = self.pulse(epoch);
            self.step(scope, Event::Cancelled(epoch, ended.taken, pulse));
        }
    }

    /// The calls whose time has come.
    pub(crate) fn expire(&mut self, scope: &Scope) {
        let epoch = self.epoch();
        let ready = matches!(self.lifecycle.state(), State::Ready { .. });
        let over = self.ledger.expire(self.now);
        let handshake = |nature| matches!(nature, Nature::Greeting | Nature::Discovery);
        let tells = over.iter().any(|ended| {
            ended.epoch == Some(epoch) && (ready || handshake(self.truth.calls[ended.reply].nature))
        });
        for ended in over {
            self.end(ended.reply, ended.delivery);
            self.reach(Goal::TimedOut);
        }
        if tells {
            let pulse = self.pulse(epoch);
            self.step(scope, Event::TimedOut(epoch, pulse));
        }
    }

    fn settle(&mut self, epoch: Epoch) {
        let greeted = self.truth.account.was_ready;
        let over = self.ledger.settle(self.now, epoch, self.read_of(epoch), greeted);
        for owed in self.truth.owed.iter().filter(|owed| owed.epoch == epoch) {
            self.truth.calls[owed.caller].waits_since = self.now;
        }
        self.truth.owed.retain(|owed| owed.epoch != epoch);
        if over.iter().any(|ended| ended.refused) {
            self.reach(Goal::MethodNotKnown);
        }
        self.fail(over);
    }

    /// The session was forgotten: calls that the server works on keep their exchange.
    fn retire(&mut self, epoch: Epoch) {
        let Truth { owed, .. } = &self.truth;
        let has_exchange = |id| owed.iter().any(|owed| owed.id == id && owed.written);
        let over = self.ledger.retire(self.now, epoch, has_exchange);
        let ledger = &self.ledger;
        self.truth.owed.retain(|owed| owed.epoch != epoch || ledger.is_on(epoch, owed.id));
        self.fail(over);
    }

    fn fail(&mut self, over: Vec<Ended<Caller>>) {
        for ended in over {
            self.reach(match ended.delivery {
                Delivery::NotSent => Goal::FailedNotSent,
                _ => Goal::FailedUnknown,
            });
            self.end(ended.reply, ended.delivery);
        }
    }

    /// A caller is told.
    fn end(&mut self, caller: Caller, delivery: Delivery) {
        let call = &mut self.truth.calls[caller];
        let again = call.end.is_some();
        let ran = call.runs > 0;
        call.ends_by = None;
        call.end = Some(if delivery == Delivery::NotSent { End::ToldNotSent } else { End::Told });
        self.truth.owed.retain(|owed| owed.caller != caller);
        require(self, Property::P2, !again, "a call ends twice");
        require(
            self,
            Property::P3,
            delivery != Delivery::NotSent || !ran,
            "a call that ran is said to be not sent",
        );
    }
}
