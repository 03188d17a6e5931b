//! Hands what happens to the real supervisor, and takes what it wants done for the truth. It decides nothing.

use std::time::Duration;

use crate::moves::may_have_run;
use crate::properties::{self, Charge, Goal, Property, require};
use crate::scope::Scope;
use crate::world::{Account, Caller, End, Owed, Process, World};
use regrow_core::{
    Admission, CallId, Delivery, Epoch, Event, Evidence, Facts, Failure, FailureKind, Fault, Ladder, Manner,
    Missed, Nature, Notice, Output, Reach, Ruling, Step, Transition,
};

/// A step of the lifecycle while what comes of it is taken in.
pub(crate) struct Judged {
    pub(crate) step: Transition,
    pub(crate) expected: Charge,
    pub(crate) told: Vec<Notice>,
}

impl World {
    pub(crate) fn facts(&self, scope: &Scope) -> Facts {
        let epoch = self.epoch();
        let written = self.truth.owed.iter().filter(|owed| owed.written);
        Facts {
            heard: self.truth.heard,
            messages: self.truth.messages,
            read: self.process(epoch).map_or(u64::MAX, Process::can_have_read),
            exchanges: scope.exchanges().then(|| written.map(|owed| owed.id).collect()),
            knows_era: self.truth.account.was_ready,
            listening: false,
            behind: false,
        }
    }

    /// Gives the first step that came of it.
    pub(crate) fn handle(&mut self, scope: &Scope, event: Event) -> Option<Transition> {
        let (facts, mut outputs) = (self.facts(scope), vec![]);
        self.supervisor.handle(self.now, event, &facts, &mut outputs);
        let (mut first, mut judged): (Option<Transition>, Option<Judged>) = (None, None);
        for output in outputs {
            match output {
                Output::Step(step) => {
                    self.judge(scope, judged.take());
                    first.get_or_insert_with(|| (*step).clone());
                    let expected = properties::expected_charge(self, scope, &step);
                    judged = Some(Judged { step: *step, expected, told: vec![] });
                }
                Output::Notice(notice) => {
                    self.hear_notice(&notice);
                    judged.iter_mut().for_each(|judged| judged.told.push(notice.clone()));
                }
                Output::Connect(epoch) => {
                    if let Some(Judged { step, .. }) = &judged {
                        properties::judge_attempt(self, scope, &step.before, &step.event, epoch);
                    }
                    self.connect(scope, epoch);
                }
                output => self.carry_out(scope, output),
            }
        }
        self.judge(scope, judged);
        first
    }

    fn judge(&mut self, scope: &Scope, judged: Option<Judged>) {
        judged.iter().for_each(|judged| properties::judge_step(self, scope, judged));
    }

    fn connect(&mut self, scope: &Scope, epoch: Epoch) {
        self.truth.epoch = epoch;
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

    fn carry_out(&mut self, scope: &Scope, output: Output<Caller>) {
        match output {
            // What is there to read is read in another move.
            Output::Step(_) | Output::Notice(_) | Output::Connect(_) | Output::CatchUp(_) => {}
            Output::Probe(epoch) => {
                require(self, Property::P7, epoch == self.epoch(), "a probe of another epoch");
                self.truth.asked = Some(self.now);
                self.truth.messages = 0; // It was not counted before.
                self.reach(Goal::Probed);
            }
            Output::Settled(epoch, fault) => self.settled(epoch, &fault),
            Output::Retired(epoch) => {
                let ledger = &self.supervisor.ledger;
                self.truth.owed.retain(|owed| owed.epoch != epoch || ledger.is_on(epoch, owed.id));
            }
            Output::Hangup(epoch, manner, ladder) => self.hang_up(scope, epoch, manner, ladder),
            Output::Abandon(epoch) => self.abandon(epoch),
            Output::Dispatch(epoch) => self.dispatch(scope, epoch),
            Output::TimedOut(failure) => {
                let read = !self.truth.just_woke;
                require(self, Property::P2, read, "a call times out before what arrived in a sleep is read");
                self.end(failure.call.reply, failure.call.delivery);
                self.reach(Goal::TimedOut);
            }
            Output::Failed(failure) => self.fail(scope, failure),
        }
    }

    fn hang_up(&mut self, scope: &Scope, epoch: Epoch, manner: Manner, ladder: Ladder) {
        let until = self.now + ladder.length() + scope.policy.abandon_after;
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

    fn abandon(&mut self, epoch: Epoch) {
        let now = self.now;
        let waited = self.process(epoch).and_then(|process| process.patience).is_some_and(|t| t <= now);
        require(self, Property::P1, waited, "abandoned before its time was over");
        if let Some(process) = self.process_mut(epoch) {
            process.abandoned = true;
            process.causes.clear();
            process.causes_told = 0;
        }
        self.truth.abandons += 1;
        self.reach(Goal::Abandoned);
    }

    fn settled(&mut self, epoch: Epoch, fault: &Fault) {
        let runs = self.truth.owed.iter().any(|owed| owed.epoch == epoch && owed.written);
        let forgotten = matches!(fault, Fault::SessionExpired { .. }) && runs;
        require(self, Property::P2, !forgotten, "a call loses its exchange with a forgotten session");
        for owed in self.truth.owed.iter().filter(|owed| owed.epoch == epoch) {
            self.truth.calls[owed.caller].waits_since = self.now;
        }
        self.truth.owed.retain(|owed| owed.epoch != epoch);
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
        match self.supervisor.ledger.admit(self.now, Duration::ZERO, nature, timeout, 1, caller) {
            Ok(Admission::Send(epoch, id)) => self.send(scope, epoch, id, caller),
            Ok(Admission::Wait(_)) => {}
            Err(_) => {
                let closing = self.lifecycle().is_closing();
                require(self, Property::P2, closing, "a call is refused though nothing closes");
                self.end(caller, Delivery::NotSent);
                self.reach(Goal::Refused);
            }
        }
    }

    /// The session takes calls from now on; those that waited go first.
    pub(crate) fn open(&mut self, scope: &Scope, epoch: Epoch) {
        let opens = self.supervisor.ledger.open(epoch);
        require(self, Property::P9, opens, "a session that is ready takes no calls");
        self.dispatch(scope, epoch);
    }

    fn dispatch(&mut self, scope: &Scope, epoch: Epoch) {
        while let Some(id) = self.supervisor.ledger.dispatch(epoch) {
            let Some(&caller) = self.supervisor.ledger.reply(id) else {
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
            self.handle(scope, news);
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
        let got = self.supervisor.ledger.answer(epoch, id, good);
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
            self.handle(scope, Event::Connected(epoch));
        } else if handshake && self.truth.greeting_open {
            self.handle(scope, Event::Opened(epoch));
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
        match self.supervisor.miss(self.now, epoch, id, fault) {
            None => require(self, Property::P2, false, "a miss of a call that is owed is no news"),
            Some(Missed::Kept { dispatch }) => {
                self.truth.calls[owed.caller].missed = true;
                self.truth.calls[owed.caller].waits_since = self.now;
                self.reach(Goal::MissedAndKept);
                dispatch.into_iter().for_each(|next| self.dispatch(scope, next));
            }
            Some(Missed::Over(failure)) => {
                self.end(failure.call.reply, failure.call.delivery);
                self.reach(Goal::MissedAndOver);
            }
        }
        if kept && fault.reach() == Reach::Doubt {
            self.handle(scope, Event::Doubted(epoch));
        }
    }

    /// What a refusal means that may tell of a forgotten session. A server that says so in words has forgotten it, and says so again
    /// if it is asked; one that only answers with a status knows it.
    fn rule(&mut self, epoch: Epoch, id: CallId, caller: Caller, fault: &Fault) -> Fault {
        let Fault::NoSession { evidence, .. } = fault else { return fault.clone() };
        let expired = match self.supervisor.ledger.rule(epoch, Some(id)) {
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

    pub(crate) fn cancel(&mut self, scope: &Scope, caller: Caller) {
        let ledger = &mut self.supervisor.ledger;
        let ended = ledger.find(|&c| c == caller).and_then(|id| ledger.cancel(id));
        let Some(ended) = ended else {
            return require(self, Property::P2, false, "a pending call is not in the ledger");
        };
        self.end(caller, ended.delivery);
        self.reach(Goal::Cancelled);
        if let Some(epoch) = ended.epoch {
            self.handle(scope, Event::Cancelled(epoch, ended.taken));
        }
    }

    fn fail(&mut self, scope: &Scope, Failure { call, kind, fault, .. }: Failure<Caller>) {
        properties::judge_patience(self, scope, call.reply, fault.as_deref());
        if kind == FailureKind::Unavailable && call.attempts > 1 {
            self.reach(Goal::PatienceOver);
        }
        self.reach(match call.delivery {
            _ if call.refused => Goal::MethodNotKnown,
            Delivery::NotSent => Goal::FailedNotSent,
            _ => Goal::FailedUnknown,
        });
        self.end(call.reply, call.delivery);
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
