//! Commands of an operator: rest, park, wake, and a fresh budget.

use super::Lifecycle;
use crate::event::{Effect, Notice, Pulse};
use crate::state::{Intent, State};
use crate::{Fault, Manner, Requester, Time};

impl Lifecycle {
    /// Whether the session may end until the next call without anybody losing something.
    pub(super) fn may_rest(&self, pulse: Pulse) -> bool {
        matches!(self.state, State::Ready { .. }) && pulse.pending == 0 && !pulse.listening
    }

    /// Whether calls that wait for a session are news: something must be done about them.
    pub fn heeds_demand(&self) -> bool {
        let asleep = matches!(self.state, State::Idle | State::Backoff { .. } | State::Parked { .. });
        asleep || self.state.is_parked_by_command()
    }

    /// Nobody needs the session. It has nothing in flight, so there is nothing to drain.
    pub(super) fn rest(&mut self, now: Time, pulse: Pulse) -> Vec<Effect> {
        self.remember_health(now, pulse);
        self.hangup(now, Manner::Planned, Intent::Rest)
    }

    pub(super) fn rested(&mut self) -> Vec<Effect> {
        self.state = State::Idle;
        vec![Effect::Notice(Notice::Resting)]
    }

    /// No session from here on. The calls in flight may finish, in the time that a drain has; those that wait fail.
    pub(super) fn park_by_order(&mut self, now: Time, pulse: Pulse) -> Vec<Effect> {
        if self.state.is_parked_by_command() || self.is_closing() {
            return vec![];
        }
        self.remember_health(now, pulse);
        let mut effects = vec![Effect::FailWaiting(Fault::Parked)];
        match &mut self.state {
            State::Ready { .. } => return self.drain(now, Intent::Park),
            State::Draining { then, .. } | State::Closing { then, .. } => *then = Intent::Park,
            State::Connecting { .. } => effects.extend(self.hangup(now, Manner::Planned, Intent::Park)),
            State::Idle | State::Backoff { .. } | State::Parked { .. } => {
                effects.extend(self.parked_by_order());
            }
            State::Closed => {}
        }
        effects
    }

    pub(super) fn parked_by_order(&mut self) -> Vec<Effect> {
        self.state = State::Parked { probe_at: None, probes: self.probes.unwrap_or(0), fault: Fault::Parked };
        // Those whose exchange was missed in the drain, and who pause.
        vec![Effect::FailWaiting(Fault::Parked), Effect::Notice(Notice::Parked(Fault::Parked))]
    }

    /// One attempt, as soon as the floor between attempts allows; none where one runs, or has led to a session.
    pub(super) fn wake(&mut self, now: Time) -> Vec<Effect> {
        match self.state {
            State::Idle | State::Backoff { .. } | State::Parked { .. } => {
                self.connect_soon(now, Requester::Person)
            }
            State::Draining { then: Intent::Park, .. } => self.hurry(),
            State::Closing { then, .. } if then != Intent::Close => self.hurry(),
            _ => vec![],
        }
    }

    /// Past faults are forgotten. Where they alone are why it is parked, it need not be any longer.
    pub(super) fn reset_budget(&mut self, now: Time) -> Vec<Effect> {
        self.accounts.forget();
        self.backoff.start_over();
        self.probes = None;
        self.parked = None;
        let mut effects = vec![Effect::Notice(Notice::BudgetReset)];
        if let State::Parked { fault, .. } = &self.state
            && !fault.is_permanent()
            && *fault != Fault::Parked
        {
            effects.extend(self.connect_soon(now, Requester::Person));
        }
        effects
    }
}
