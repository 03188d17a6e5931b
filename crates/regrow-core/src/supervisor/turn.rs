//! One turn of a supervisor: an event, the steps that follow from it, and what they do to the calls.

use super::{Facts, FailureKind, Output, Supervisor, Transition};
use crate::event::{Effect, Event, Notice};
use crate::grace::Judgement;
use crate::{Ended, Fault, State, Time};
use std::sync::Arc;

pub(super) struct Turn<'a, R> {
    on: &'a mut Supervisor<R>,
    now: Time,
    facts: &'a Facts,
    outputs: &'a mut Vec<Output<R>>,
    /// A pause began in this turn, and observers have not been told how long it is.
    pauses: bool,
}

impl<'a, R> Turn<'a, R> {
    pub(super) fn new(
        on: &'a mut Supervisor<R>,
        now: Time,
        facts: &'a Facts,
        outputs: &'a mut Vec<Output<R>>,
    ) -> Turn<'a, R> {
        Turn { on, now, facts, outputs, pauses: false }
    }

    /// Time has passed: what is due?
    pub(super) fn tick(&mut self) {
        let now = self.now;
        let due = self.on.due.take().into_iter().chain(self.on.awaited).min();
        // Nobody is told that nothing came before what came is read.
        match self.on.grace.judge(now, due, self.facts.behind) {
            Judgement::Now => {
                if self.on.lifecycle.deadline().is_some_and(|deadline| deadline <= now) {
                    self.step(Event::Tick);
                }
                self.expire();
            }
            Judgement::Later => {}
            Judgement::CatchUp => self.outputs.push(Output::CatchUp(self.on.lifecycle.epoch())),
        }
        if self.on.ledger.end_pauses(now) {
            self.outputs.extend(self.on.ledger.open_session().map(Output::Dispatch));
        }
    }

    /// What follows from the calls rather than from an event: those that wait, and a drain that is done.
    pub(super) fn finish(mut self) {
        if self.on.is_demanded() {
            self.step(Event::Demand);
        }
        if self.on.is_drained() {
            self.step(Event::Drained(self.on.lifecycle.epoch()));
        }
        // Calls that wait make a pause shorter, or end it: only now it is known.
        if self.pauses
            && let State::Backoff { retry_at, .. } = *self.on.lifecycle.state()
        {
            self.notify(Notice::Backoff(retry_at - self.now));
        }
    }

    /// Hands an event to the lifecycle, and does to the calls what comes of it.
    pub(super) fn step(&mut self, event: Event) {
        let pulse = self.on.pulse(self.facts);
        let before = self.on.lifecycle.state().clone();
        let effects = self.on.lifecycle.step(self.now, event.clone(), pulse);
        let after = self.on.lifecycle.state().clone();
        self.outputs.push(Output::Step(Box::new(Transition { event, pulse, before, after })));
        if self.on.lifecycle.is_closing() {
            self.on.ledger.close(); // Before the calls that wait are failed: none may come after.
        }
        for effect in effects {
            self.start(effect);
        }
    }

    fn start(&mut self, effect: Effect) {
        let (now, facts) = (self.now, self.facts);
        match effect {
            Effect::Connect(epoch) => self.outputs.push(Output::Connect(epoch)),
            Effect::Probe(epoch) => self.outputs.push(Output::Probe(epoch)),
            Effect::Hold(epoch) => self.on.ledger.hold(epoch),
            Effect::Hangup(epoch, manner) => {
                let ladder = self.on.policy.ladders.ladder(manner);
                self.outputs.push(Output::Hangup(epoch, manner, ladder));
            }
            Effect::Abandon(epoch) => self.outputs.push(Output::Abandon(epoch)),
            Effect::Settle(epoch, fault) => {
                let ended = self.on.ledger.settle(now, epoch, facts.read, facts.knows_era);
                self.outputs.push(Output::Settled(epoch, fault.clone()));
                self.fail(ended, FailureKind::of_loss(&fault), fault);
            }
            Effect::Retire(epoch, fault) => {
                let ended = self.on.ledger.retire(now, epoch, |id| facts.has_exchange(id));
                self.outputs.push(Output::Retired(epoch));
                self.fail(ended, FailureKind::of_loss(&fault), fault);
            }
            Effect::EndAll(fault) => {
                let ended = self.on.ledger.end_all(now);
                self.fail(ended, FailureKind::of_loss(&fault), fault);
            }
            Effect::FailWaiting(fault) => {
                let ended = self.on.ledger.fail_waiting(&fault);
                self.fail_waiting(ended, fault);
            }
            Effect::FailCalls(fault) => {
                let ended = self.on.ledger.fail_calls();
                self.fail_waiting(ended, fault);
            }
            Effect::FailAttempt { fault, handshakes_wait, patience } => {
                let ended = self.on.ledger.fail_attempt(now, &fault, handshakes_wait, patience);
                self.fail_waiting(ended, fault);
            }
            Effect::Notice(Notice::Backoff(_)) => self.pauses = true,
            Effect::Notice(notice) => self.notify(notice),
        }
    }

    /// Calls whose time has come.
    fn expire(&mut self) {
        let Supervisor { lifecycle, ledger, .. } = &mut *self.on;
        if ledger.deadline().is_none_or(|deadline| deadline > self.now) {
            return;
        }
        let expired = ledger.expire(self.now);
        let (epoch, ready) = (lifecycle.epoch(), matches!(lifecycle.state(), State::Ready { .. }));
        let tells = |ended: &Ended<R>| {
            ended.epoch == Some(epoch) && !ended.own && (ready || ended.nature.is_handshake())
        };
        let first = self.outputs.len();
        // First: callers are told what the connection does then.
        if expired.iter().any(tells) {
            self.step(Event::TimedOut(epoch));
        }
        let failures: Vec<_> = expired.into_iter().map(|ended| self.timed_out(ended)).collect();
        self.outputs.splice(first..first, failures); // They are withdrawn before their session ends.
    }

    fn timed_out(&self, ended: Ended<R>) -> Output<R> {
        let fault = match ended.epoch {
            None => self.on.history.cause.clone(),
            // A client's handshake has the time of the attempt. Whichever of the two ends first, this is what happened.
            Some(_) if ended.nature.is_handshake() => {
                Some(Arc::new(Fault::HandshakeTimeout { after: self.on.policy.connect_timeout }))
            }
            Some(_) => None,
        };
        Output::TimedOut(self.on.failure(self.now, ended, FailureKind::Timeout, fault))
    }

    /// Calls that waited for a session, and get none.
    fn fail_waiting(&mut self, ended: Vec<Ended<R>>, fault: Fault) {
        let closing = self.on.lifecycle.is_closing();
        self.fail(ended, if closing { FailureKind::Closed } else { FailureKind::Unavailable }, fault);
    }

    fn fail(&mut self, ended: Vec<Ended<R>>, kind: FailureKind, fault: Fault) {
        let fault = Arc::new(fault);
        for ended in ended {
            let failure = self.on.failure(self.now, ended, kind, Some(fault.clone()));
            self.outputs.push(Output::Failed(failure));
        }
    }

    fn notify(&mut self, notice: Notice) {
        self.on.history.note(&notice);
        self.outputs.push(Output::Notice(notice));
    }
}
