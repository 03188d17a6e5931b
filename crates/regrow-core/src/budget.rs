//! Bounds recoveries: so many charges in a sliding window, and no more.

use crate::{BudgetPolicy, Time};
use std::collections::VecDeque;

/// The charges of the last while.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Budget {
    policy: BudgetPolicy,
    charges: VecDeque<Time>,
}

impl Budget {
    /// A budget with nothing charged.
    pub fn new(policy: BudgetPolicy) -> Budget {
        Budget { policy, charges: VecDeque::new() }
    }

    /// Charges one fault.
    pub fn charge(&mut self, now: Time) {
        // One more than allowed is all that need be known.
        if self.charges.len() > self.policy.charges as usize {
            self.charges.pop_front();
        }
        self.charges.push_back(now);
    }

    /// Forgets all charges.
    pub fn forget(&mut self) {
        self.charges.clear();
    }

    /// Faults left before the connection parks.
    pub fn left(&self, now: Time) -> u32 {
        self.policy.charges.saturating_sub(self.spent(now))
    }

    /// Whether more was charged within the window than is allowed.
    pub fn is_over(&self, now: Time) -> bool {
        self.spent(now) > self.policy.charges
    }

    fn spent(&self, now: Time) -> u32 {
        let recent = self.charges.iter().filter(|&&charged| now.since(charged) < self.policy.window);
        u32::try_from(recent.count()).unwrap_or(u32::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn at(seconds: u64) -> Time {
        Time::from_millis(seconds * 1000)
    }

    #[test]
    fn five_are_borne_and_the_sixth_is_over() {
        let mut budget = Budget::new(BudgetPolicy { charges: 5, window: Duration::from_secs(180) });
        for second in 0..5 {
            budget.charge(at(second));
            assert!(!budget.is_over(at(second)));
        }
        assert_eq!(budget.left(at(5)), 0);
        budget.charge(at(5));
        assert!(budget.is_over(at(5)));
    }

    #[test]
    fn what_is_forgotten_is_borne_again() {
        let mut budget = Budget::new(BudgetPolicy { charges: 1, window: Duration::from_secs(180) });
        budget.charge(at(0));
        budget.charge(at(1));
        assert!(budget.is_over(at(2)));
        budget.forget();
        assert_eq!((budget.left(at(2)), budget.is_over(at(2))), (1, false));
    }

    #[test]
    fn charges_hours_apart_never_add_up() {
        let mut budget = Budget::new(BudgetPolicy { charges: 5, window: Duration::from_secs(180) });
        for hour in 0..100 {
            budget.charge(at(hour * 3600));
            assert!(!budget.is_over(at(hour * 3600)));
        }
        assert!(budget.charges.len() <= 6);
    }
}
