//! Drives the real supervisor as plainly as can be: reports what happens, sends calls, and notes what must be done. It decides
//! nothing.

#![allow(dead_code)] // Each test crate uses its part.

use regrow_core::{
    Admission, CallId, Delivery, Epoch, Event, Facts, Failure, FailureKind, Fault, Lifecycle, Missed, Nature,
    Notice, Output, Policy, Reach, Refusal, Requester, Ruling, Supervisor, Time, Transition,
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
    /// What follows, up to the next of these, comes of this step.
    Step(Box<Transition>),
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
    pub(crate) supervisor: Supervisor<Caller>,
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
            supervisor: Supervisor::new(policy.clone(), seed),
            told: vec![],
            heard: Time::ZERO,
            messages: 0,
            read: BTreeMap::new(),
            attempts: BTreeMap::new(),
            greeted: Epoch(0),
            calls: 0,
        }
    }

    pub(crate) fn lifecycle(&self) -> &Lifecycle {
        self.supervisor.lifecycle()
    }

    pub(crate) fn epoch(&self) -> Epoch {
        self.lifecycle().epoch()
    }

    /// What is seen of the newest session. Exchanges stay open until they are missed.
    pub(crate) fn facts(&self) -> Facts {
        let epoch = self.epoch();
        Facts {
            heard: self.heard,
            messages: self.messages,
            read: self.read.get(&epoch).copied().unwrap_or(u64::MAX),
            exchanges: Some(self.supervisor.ledger.iter().map(|(id, _)| id).collect()),
            knows_era: self.greeted == epoch,
            listening: false,
            behind: false,
        }
    }

    /// When something is due.
    pub(crate) fn deadline(&self) -> Option<Time> {
        self.supervisor.deadline()
    }

    /// One event, and all that follows from it at once.
    pub(crate) fn event(&mut self, now: Time, event: Event) {
        let (facts, mut outputs) = (self.facts(), vec![]);
        self.supervisor.handle(now, event, &facts, &mut outputs);
        let mut moved = None;
        for output in outputs {
            if let Output::Step(step) = &output {
                self.told.extend(moved.take());
                let (was, is) = (step.before.name(), step.after.name());
                moved = (was != is).then_some(Told::Moved(was, is));
            }
            self.carry_out(now, output);
        }
        self.told.extend(moved);
    }

    /// The timer fired, or somebody woke the owner.
    pub(crate) fn tick(&mut self, now: Time) {
        self.event(now, Event::Tick);
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
        match self.supervisor.ledger.admit(now, waited, nature, timeout, bytes, caller) {
            Ok(Admission::Send(epoch, id)) => self.told.push(Told::Send(epoch, id, caller)),
            Ok(Admission::Wait(_)) => {}
            Err((why, caller)) => self.told.push(Told::Ended(caller, Fate::Refused(why))),
        }
        self.tick(now);
        caller
    }

    /// A caller gives up. Says whether the call was still pending.
    pub(crate) fn cancel(&mut self, now: Time, caller: Caller) -> bool {
        let Some(id) = self.supervisor.ledger.find(|&c| c == caller) else { return false };
        let Some(ended) = self.supervisor.ledger.cancel(id) else { return false };
        self.told.push(Told::Ended(caller, Fate::Cancelled(ended.delivery)));
        match ended.epoch {
            Some(epoch) => self.event(now, Event::Cancelled(epoch, ended.taken)),
            None => self.tick(now),
        }
        true
    }

    /// The server answered. Says whether somebody had waited for that.
    pub(crate) fn answer(&mut self, now: Time, epoch: Epoch, id: CallId, good: bool) -> Option<Caller> {
        if epoch == self.epoch() {
            self.heard = now;
            self.messages += 1;
        }
        let caller = self.supervisor.ledger.answer(epoch, id, good)?;
        self.told.push(Told::Ended(caller, Fate::Answered));
        self.tick(now);
        Some(caller)
    }

    /// What the exchange of a call has ended with, where a refusal may tell of a forgotten session. `forgotten`: what the server says if
    /// it is asked for that.
    pub(crate) fn judge(&mut self, epoch: Epoch, id: CallId, fault: Fault, forgotten: bool) -> Fault {
        if !matches!(fault, Fault::NoSession { .. }) {
            return fault;
        }
        let expired = match self.supervisor.ledger.rule(epoch, Some(id)) {
            Ruling::Expired => true,
            Ruling::Answer => false,
            Ruling::Ask => {
                if !forgotten {
                    self.supervisor.ledger.session_is_known();
                }
                forgotten
            }
        };
        if expired { fault } else { fault.as_answer() }
    }

    /// The exchange of a call ended without an answer. Says whether that was news.
    pub(crate) fn miss(&mut self, now: Time, epoch: Epoch, id: CallId, fault: &Fault) -> bool {
        let caller = self.supervisor.ledger.reply(id).copied();
        let Some(missed) = self.supervisor.miss(now, epoch, id, fault) else { return false };
        match missed {
            Missed::Kept { dispatch } => {
                self.told.extend(caller.map(Told::Kept));
                dispatch.into_iter().for_each(|next| self.dispatch_all(next));
            }
            Missed::Over(failure) => self.fail(failure),
        }
        self.tick(now);
        true
    }

    /// What one exchange of a session ended with may concern more than its call.
    pub(crate) fn concern(&mut self, now: Time, epoch: Epoch, fault: &Fault) {
        match fault.reach() {
            Reach::Call => {}
            Reach::Doubt => self.event(now, Event::Doubted(epoch)),
            Reach::Session => self.event(now, Event::Lost(epoch, fault.as_expiry())),
        }
    }

    /// Somebody wants a fresh session.
    pub(crate) fn reconnect(&mut self, now: Time, requester: Requester) {
        self.event(now, Event::Reconnect(requester));
    }

    fn carry_out(&mut self, now: Time, output: Output<Caller>) {
        match output {
            Output::Step(step) => self.told.push(Told::Step(step)),
            Output::Connect(epoch) => self.told.push(Told::Connect(epoch)),
            Output::Probe(epoch) => self.told.push(Told::Probe(epoch, now)),
            Output::Hangup(epoch, manner, _) => self.told.push(Told::Hangup(epoch, manner)),
            Output::Abandon(epoch) => self.told.push(Told::Abandon(epoch)),
            Output::Settled(epoch, _) => self.told.push(Told::Settled(epoch)),
            Output::Retired(epoch) => self.told.push(Told::Retired(epoch)),
            Output::CatchUp(_) => {} // Everything is read as it comes.
            Output::Dispatch(epoch) => self.dispatch_all(epoch),
            Output::TimedOut(Failure { call, .. }) => {
                self.told.push(Told::Ended(call.reply, Fate::TimedOut(call.delivery)));
            }
            Output::Failed(failure) => self.fail(failure),
            Output::Notice(notice) => {
                let ready = matches!(notice, Notice::Ready(_));
                self.told.push(Told::Notice(notice));
                if ready {
                    self.open(now);
                }
            }
        }
    }

    /// A session that is ready takes calls.
    fn open(&mut self, now: Time) {
        let epoch = self.epoch();
        self.heard = now;
        self.greeted = epoch;
        self.supervisor.ledger.open(epoch);
        self.dispatch_all(epoch);
    }

    fn dispatch_all(&mut self, epoch: Epoch) {
        while self.dispatch(epoch) {}
    }

    /// The oldest waiting call leaves, if there is one.
    pub(crate) fn dispatch(&mut self, epoch: Epoch) -> bool {
        let ledger = &mut self.supervisor.ledger;
        let Some(id) = ledger.dispatch(epoch) else { return false };
        let caller = *ledger.reply(id).expect("a dispatched call is in the ledger");
        self.told.push(Told::Send(epoch, id, caller));
        true
    }

    fn fail(&mut self, Failure { call, kind, fault, .. }: Failure<Caller>) {
        self.attempts.insert(call.reply, call.attempts);
        let fate = match fault {
            _ if call.refused => Fate::NotKnown,
            Some(fault) if kind != FailureKind::Timeout => Fate::Failed(call.delivery, (*fault).clone()),
            _ => Fate::TimedOut(call.delivery),
        };
        self.told.push(Told::Ended(call.reply, fate));
    }
}
