//! Deadlines that are noticed late: what has arrived meanwhile is read before anybody is told that nothing came.

use crate::Time;
use std::time::Duration;

/// A deadline that is noticed later than this was missed because Regrow did not run: it was stopped, its container was paused, or
/// the machine was too busy.
const LATE: Duration = Duration::from_millis(100);
/// Then readers get this long to take what lies ready for them.
const ROUND: Duration = Duration::from_millis(100);

/// How long deadlines wait to be judged because Regrow itself was late.
///
/// A response may lie in a pipe or a socket since before its deadline. Timers fire first when a process runs again, so judging
/// them at once would report a timeout for a call that was answered in time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Grace {
    until: Option<Time>,
}

impl Grace {
    /// Whether deadlines may be judged now. `due` is when the earliest that has not been should have been noticed.
    pub fn is_over(&mut self, now: Time, due: Option<Time>) -> bool {
        match (self.until, due) {
            (Some(until), _) if now < until => false,
            (Some(_), _) => {
                self.until = None;
                true
            }
            (None, Some(due)) => {
                self.until = Grace::after(now - due).map(|round| now + round);
                self.until.is_none()
            }
            (None, None) => true,
        }
    }

    /// No deadline is judged before this time.
    pub fn until(&self) -> Option<Time> {
        self.until
    }

    /// What a deadline gets that is noticed so late; none where that is usual.
    pub fn after(late: Duration) -> Option<Duration> {
        (late > LATE).then_some(ROUND)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Time {
        Time::from_millis(millis)
    }

    #[test]
    fn a_deadline_that_is_noticed_in_time_is_judged_at_once() {
        let mut grace = Grace::default();
        assert!(grace.is_over(at(1000), None));
        assert!(grace.is_over(at(1000), Some(at(1000))));
        assert!(grace.is_over(at(1000), Some(at(5000))));
        assert!(grace.is_over(at(1100), Some(at(1000))));
        assert_eq!(grace.until(), None);
    }

    #[test]
    fn one_that_is_noticed_late_waits_one_round_and_no_longer() {
        let mut grace = Grace::default();
        assert!(!grace.is_over(at(3000), Some(at(2000))));
        assert_eq!(grace.until(), Some(at(3100)));
        assert!(!grace.is_over(at(3099), Some(at(2000))), "however often it is asked");
        assert!(grace.is_over(at(3100), Some(at(2000))));
        assert_eq!(grace.until(), None);
    }

    #[test]
    fn a_round_in_which_the_deadline_was_met_leaves_nothing_behind() {
        let mut grace = Grace::default();
        assert!(!grace.is_over(at(3000), Some(at(2000))));
        assert!(grace.is_over(at(3200), None));
        assert!(grace.is_over(at(9000), Some(at(9000))));
    }
}
