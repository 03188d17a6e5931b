//! One connection, as decided: `handle(now, event, facts)` says what must be done. The owner task and the model checker drive it.
//!
//! A call on its way touches only the ledger (admit, sent, answer); everything else that happens goes through `handle`.

use crate::event::{Event, Notice, Pulse};
use crate::{Again, CallId, Epoch, Fault, Grace, Ledger, Lifecycle, Policy, State, Time};
use std::sync::Arc;
use std::time::Duration;

mod facts;
mod output;
mod turn;

pub use facts::Facts;
pub use output::{Failure, FailureKind, Missed, Outlook, Output, Transition};

use crate::ledger::{Ended, MissedCall};
use turn::Turn;

/// Supervises one connection. `R` is whatever its user needs to answer a caller and to send a call again.
#[derive(Clone, Debug)]
pub struct Supervisor<R> {
    policy: Arc<Policy>,
    lifecycle: Lifecycle,
    /// The calls. Public for the hot path; what becomes of them when a session ends is decided by [`Supervisor::handle`].
    pub ledger: Ledger<R>,
    grace: Grace,
    /// When the owner meant to wake at the latest. A deadline that was over before it slept is not late.
    awaited: Option<Time>,
    /// The earliest deadline that calls have brought since the owner last judged any, and that was not over when they came.
    due: Option<Time>,
    history: History,
}

/// What is told of the past. No decision about sessions depends on it.
#[derive(Clone, Debug, Default)]
struct History {
    sessions: u64,
    last_fault: Option<Arc<Fault>>,
    /// Why there is no session; none where that was planned, or nothing is known yet.
    cause: Option<Arc<Fault>>,
}

impl<R> Supervisor<R> {
    /// A connection that has not started. Equal seeds give equal pauses.
    pub fn new(policy: Policy, seed: u64) -> Supervisor<R> {
        let policy = Arc::new(policy);
        Supervisor {
            lifecycle: Lifecycle::new(policy.clone(), seed),
            ledger: Ledger::new(policy.clone()),
            policy,
            grace: Grace::default(),
            awaited: None,
            due: None,
            history: History::default(),
        }
    }

    /// Takes in what happened, and pushes what must be done, in this order.
    pub fn handle(&mut self, now: Time, event: Event, facts: &Facts, outputs: &mut Vec<Output<R>>) {
        let mut turn = Turn::new(self, now, facts, outputs);
        match event {
            Event::Tick => turn.tick(),
            event => turn.step(event),
        }
        turn.finish();
    }

    /// What is known of the newest session.
    pub fn pulse(&self, facts: &Facts) -> Pulse {
        let (ledger, epoch) = (&self.ledger, self.lifecycle.epoch());
        Pulse {
            heard: facts.heard,
            calls: ledger.seen(epoch, facts.read),
            eldest: match &facts.exchanges {
                None => ledger.eldest(epoch),
                // A response that comes on no exchange of its own is uncertain.
                Some(open) => ledger.eldest_of(epoch, |id| open.contains(&id)),
            },
            answered: ledger.has_answered(epoch),
            read: facts.messages,
            pending: ledger.pending(),
            listening: facts.listening || ledger.has_streams(),
        }
    }

    /// When [`Event::Tick`] is due.
    pub fn deadline(&self) -> Option<Time> {
        let deadlines = [self.lifecycle.deadline(), self.ledger.deadline(), self.ledger.pause_ends()];
        deadlines.into_iter().flatten().min().max(self.grace.until())
    }

    /// Whether a tick would find nothing to do, and so needs no facts.
    pub fn is_idle(&self, now: Time) -> bool {
        let is_due = self.deadline().is_some_and(|due| due <= now) || self.grace.is_reading();
        !is_due && !self.is_demanded() && !self.is_drained()
    }

    /// Whether calls wait for a session, and something must be done about that.
    fn is_demanded(&self) -> bool {
        self.lifecycle.heeds_demand() && self.ledger.waiting() > 0
    }

    /// Whether a session drains, and its last call has ended.
    fn is_drained(&self) -> bool {
        let in_flight = || match self.lifecycle.is_closing() {
            true => self.ledger.in_flight_anywhere(),
            false => self.ledger.in_flight(self.lifecycle.epoch()), // What runs on sessions before it runs on.
        };
        matches!(self.lifecycle.state(), State::Draining { .. }) && in_flight() == 0
    }

    /// The owner goes to sleep. Returns when it must wake.
    pub fn sleep(&mut self, now: Time) -> Option<Time> {
        let deadline = self.deadline();
        self.awaited = deadline.map(|deadline| deadline.max(now));
        deadline
    }

    /// A call was admitted. If Regrow is stopped before the owner hears of it, its deadline is noticed late all the same.
    pub fn note_deadline(&mut self, now: Time) {
        let deadline = self.ledger.deadline().filter(|deadline| *deadline > now);
        self.due = [self.due, deadline].into_iter().flatten().min();
    }

    /// Whether a sleeping owner would miss the deadline of a call that came since.
    pub fn oversleeps(&self) -> bool {
        match (self.ledger.deadline(), self.awaited) {
            (Some(deadline), Some(awaited)) => deadline < awaited,
            (deadline, awaited) => deadline.is_some() && awaited.is_none(),
        }
    }

    /// The lifecycle, to be looked at.
    pub fn lifecycle(&self) -> &Lifecycle {
        &self.lifecycle
    }

    /// How many sessions were ready.
    pub fn sessions(&self) -> u64 {
        self.history.sessions
    }

    /// Why the last session or attempt failed, if one ever did. An operator's commands leave it as it is.
    pub fn last_fault(&self) -> Option<&Arc<Fault>> {
        self.history.last_fault.as_ref()
    }

    /// The exchange of this one call has ended without an answer, for this reason. None if this session does not owe it one.
    pub fn miss(&mut self, now: Time, epoch: Epoch, id: CallId, fault: &Fault) -> Option<Missed<R>> {
        Some(match self.ledger.miss(now, epoch, id, fault)? {
            MissedCall::Kept => {
                // The exchange of an earlier session: the next one may be there already.
                Missed::Kept { dispatch: self.ledger.open_session().filter(|&open| open != epoch) }
            }
            MissedCall::Over(call) => Missed::Over(self.missed(call, fault.as_expiry())),
        })
    }

    fn missed(&self, call: Ended<R>, fault: Fault) -> Failure<R> {
        let kind = match fault.http_status() {
            Some(_) => FailureKind::Refused,
            None if matches!(fault, Fault::Unprocessed { .. }) => FailureKind::Interrupted,
            None if call.delivery == crate::Delivery::NotSent => FailureKind::Unavailable,
            None => FailureKind::Interrupted,
        };
        let outlook = match fault.again() {
            _ if fault.is_permanent() => Outlook::NeedsMending(self.policy.permanent_demand_floor),
            Again::After(wait) => Outlook::Deferred(wait),
            _ => Outlook::Serving,
        };
        Failure { call, kind, fault: Some(Arc::new(fault)), outlook }
    }

    fn failure(&self, now: Time, call: Ended<R>, kind: FailureKind, fault: Option<Arc<Fault>>) -> Failure<R> {
        let outlook = match fault.as_ref().map(|fault| fault.again()) {
            Some(Again::After(wait)) => Outlook::Deferred(wait),
            _ => self.outlook(now, kind),
        };
        Failure { call, kind, fault, outlook }
    }

    /// What the connection does now, for a caller whose call has failed so.
    fn outlook(&self, now: Time, kind: FailureKind) -> Outlook {
        let lifecycle = &self.lifecycle;
        let wait = || lifecycle.next_attempt().map_or(Duration::ZERO, |at| at - now);
        let permanent = self.last_fault().is_some_and(|fault| fault.is_permanent());
        match lifecycle.state() {
            _ if kind == FailureKind::Closed || lifecycle.is_closing() => Outlook::Closed,
            state if state.is_parked_by_command() => Outlook::NeedsWaking,
            State::Ready { .. } | State::Draining { .. } => Outlook::Serving,
            _ if lifecycle.parks(now) && permanent => Outlook::NeedsMending(wait()),
            _ if lifecycle.parks(now) => Outlook::Parked(wait()),
            _ => Outlook::Restarting,
        }
    }
}

impl History {
    fn note(&mut self, notice: &Notice) {
        match notice {
            Notice::Fault(_, fault, _) | Notice::Late(_, fault) => {
                self.last_fault = Some(Arc::new(fault.clone()));
                self.cause = self.last_fault.clone();
            }
            Notice::Retired(_, fault @ Fault::Deferred { .. }) => self.cause = Some(Arc::new(fault.clone())),
            Notice::Ready(_) => {
                self.sessions += 1;
                self.cause = None;
            }
            _ => {}
        }
    }
}
