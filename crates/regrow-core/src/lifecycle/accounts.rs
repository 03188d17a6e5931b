//! What the end of a session costs: a charge of the budget, or nothing, but not nothing forever.

use super::Lifecycle;
use crate::event::{Patience, Pulse};
use crate::state::{State, Step};
use crate::{Again, Budget, BudgetPolicy, Epoch, Fault, Phase, Policy, Remedy, Time, Verdict};

/// What past sessions have cost.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Accounts {
    budget: Budget,
    /// The newest epoch that was charged. Each is charged once, for its first cause.
    charged: Option<Epoch>,
    /// Ends in a row that were not charged and followed no good answer.
    free_in_a_row: u32,
}

impl Accounts {
    pub(super) fn new(policy: BudgetPolicy) -> Accounts {
        Accounts { budget: Budget::new(policy), charged: None, free_in_a_row: 0 }
    }

    /// Faults left before the budget is spent.
    pub(super) fn left(&self, now: Time) -> u32 {
        self.budget.left(now)
    }

    /// Whether one more free end would be one too many: the last ones followed no good answer, and neither does this.
    pub(super) fn leads_nowhere(&self, answered: bool, policy: &Policy) -> bool {
        !answered && self.free_in_a_row >= policy.free_reconnects
    }

    fn settle(&mut self, now: Time, epoch: Epoch, Verdict { remedy, charged }: Verdict, answered: bool) {
        self.free_in_a_row = match remedy {
            _ if charged || answered => 0,
            Remedy::AtOnce => self.free_in_a_row.saturating_add(1),
            Remedy::Retry | Remedy::Park => self.free_in_a_row, // Its pause bounds it.
        };
        if charged && self.charged != Some(epoch) {
            self.charged = Some(epoch);
            self.budget.charge(now);
        }
    }

    /// Past faults count no longer.
    pub(super) fn forget(&mut self) {
        self.budget.forget();
        self.free_in_a_row = 0;
    }
}

impl Lifecycle {
    /// Which calls may wait for the next attempt although this one has failed. A server that is only restarting was healthy
    /// shortly before; one that has parked the connection is not expected back soon.
    pub(super) fn patience(&self, now: Time, fault: &Fault) -> Patience {
        let healthy = self.healthy.is_some_and(|ended| now - ended <= self.policy.healthy_within);
        let soon = !fault.is_permanent() && !matches!(fault.again(), Again::After(_));
        match self.parked {
            _ if !healthy || !soon => Patience::None,
            Some(parked) => Patience::TakenBefore(parked),
            None => Patience::All,
        }
    }

    pub(super) fn phase(&self, pulse: Pulse) -> Phase {
        match self.step {
            Some(Step::Discovering) => Phase::Discovering,
            Some(Step::Greeting | Step::ClientsTurn) => Phase::Greeting,
            None if pulse.calls > 0 => Phase::Busy,
            None if pulse.answered => Phase::Proven,
            None => Phase::Unproven,
        }
    }

    pub(super) fn verdict(&self, fault: &Fault, pulse: Pulse) -> Verdict {
        let verdict = fault.verdict(self.phase(pulse));
        let at_once = verdict.remedy == Remedy::AtOnce;
        let leads_nowhere = self.accounts.leads_nowhere(pulse.answered, &self.policy);
        let exits_again = fault.ends_process() && self.has_used_up_starts();
        if at_once && (leads_nowhere || exits_again) {
            // Free ends that lead nowhere would be a loop without a bound.
            return Verdict { remedy: Remedy::Retry, charged: true };
        }
        verdict
    }

    /// Charges the epoch if it ended in a fault, and remembers what it proved.
    pub(super) fn settle_accounts(&mut self, now: Time, verdict: Verdict, pulse: Pulse) {
        self.remember_health(now, pulse);
        self.accounts.settle(now, self.epoch, verdict, pulse.answered);
    }

    pub(super) fn remember_health(&mut self, now: Time, pulse: Pulse) {
        if let State::Ready { since, .. } = self.state
            && pulse.answered
        {
            self.backoff.proven(now - since);
        }
    }

    /// Whether the budget is spent. Charges grow old while it is parked; that alone is no reason to try at the old
    /// pace again, only a session is.
    pub(super) fn has_spent(&self, now: Time) -> bool {
        self.accounts.budget.is_over(now) || self.probes.is_some()
    }

    pub(super) fn is_charged(&self) -> bool {
        self.accounts.charged == Some(self.epoch)
    }

    pub(super) fn is_mended(&self) -> bool {
        self.mended == Some(self.epoch)
    }
}
