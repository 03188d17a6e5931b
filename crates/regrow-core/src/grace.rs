//! Deadlines that are noticed late: what has arrived meanwhile is read before anybody is told that nothing came.

use crate::Time;
use std::time::Duration;

/// A deadline that is noticed later than this was missed because Regrow did not run: it was stopped, its container was paused, or
/// the machine was too busy.
const LATE: Duration = Duration::from_millis(100);
/// Then the tasks of Regrow get this long to run.
const ROUND: Duration = Duration::from_millis(100);
/// After that, the reader gets this long to report that nothing is left to read.
const CATCH_UP: Duration = Duration::from_secs(1);

/// Keeps deadlines from being judged because Regrow itself was late.
///
/// A response may lie in a pipe or a socket since before its deadline. Timers fire first when a process runs again, so judging
/// them at once would report a timeout for a call that was answered in time. No length of time is enough on a busy machine, so the
/// reader itself says when it has read what was there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Grace {
    /// Regrow runs as it should.
    #[default]
    Unneeded,
    /// Regrow was late: its tasks get time to run.
    Round {
        /// The end of this.
        until: Time,
    },
    /// The reader still reads what is there.
    Reading {
        /// The end of this.
        until: Time,
    },
}

/// What to do about deadlines that have passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Judgement {
    /// They count.
    Now,
    /// They do not count yet.
    Later,
    /// They do not count yet, and the reader must be asked to read what is there.
    CatchUp,
}

impl Grace {
    /// Whether deadlines count now. `due` is when the earliest that was not judged should have been noticed; `behind` is whether the
    /// reader was asked to catch up, and has not.
    pub(crate) fn judge(&mut self, now: Time, due: Option<Time>, behind: bool) -> Judgement {
        let (next, judgement) = match *self {
            Grace::Unneeded => match due.and_then(|due| Grace::after(now - due)) {
                Some(round) => (Grace::Round { until: now + round }, Judgement::CatchUp),
                None => (Grace::Unneeded, Judgement::Now),
            },
            Grace::Round { until } if now < until => (*self, Judgement::Later),
            Grace::Round { .. } if behind => (Grace::Reading { until: now + CATCH_UP }, Judgement::Later),
            Grace::Round { .. } => (Grace::Unneeded, Judgement::Now),
            Grace::Reading { until } if behind && now < until => (*self, Judgement::Later),
            Grace::Reading { .. } => (Grace::Unneeded, Judgement::Now),
        };
        *self = next;
        judgement
    }

    /// No deadline counts before this time, unless the reader catches up sooner.
    pub(crate) fn until(&self) -> Option<Time> {
        match *self {
            Grace::Unneeded => None,
            Grace::Round { until } | Grace::Reading { until } => Some(until),
        }
    }

    /// Whether the reader decides.
    pub(crate) fn is_reading(&self) -> bool {
        matches!(self, Grace::Reading { .. })
    }

    /// What a deadline gets that is noticed so late; none where that is usual.
    pub fn after(late: Duration) -> Option<Duration> {
        (late > LATE).then_some(ROUND)
    }
}

#[cfg(test)]
mod tests {
    use super::Judgement::{CatchUp, Later, Now};
    use super::*;

    fn at(millis: u64) -> Time {
        Time::from_millis(millis)
    }

    #[test]
    fn a_deadline_that_is_noticed_in_time_is_judged_at_once() {
        let mut grace = Grace::default();
        assert_eq!(grace.judge(at(1000), None, false), Now);
        assert_eq!(grace.judge(at(1000), Some(at(1000)), false), Now);
        assert_eq!(grace.judge(at(1000), Some(at(5000)), false), Now);
        assert_eq!(grace.judge(at(1100), Some(at(1000)), false), Now);
        assert_eq!(grace.until(), None);
    }

    #[test]
    fn one_that_is_noticed_late_waits_one_round_if_nothing_is_left_to_read() {
        let mut grace = Grace::default();
        assert_eq!(grace.judge(at(3000), Some(at(2000)), false), CatchUp);
        assert_eq!(grace.until(), Some(at(3100)));
        assert_eq!(grace.judge(at(3099), Some(at(2000)), false), Later, "however often it is asked");
        assert_eq!(grace.judge(at(3100), Some(at(2000)), false), Now);
        assert_eq!(grace.until(), None);
    }

    #[test]
    fn a_reader_that_takes_longer_is_waited_for() {
        let mut grace = Grace::default();
        assert_eq!(grace.judge(at(3000), Some(at(2000)), false), CatchUp);
        assert_eq!(grace.judge(at(3100), Some(at(2000)), true), Later);
        assert!(grace.is_reading());
        assert_eq!(grace.judge(at(3900), Some(at(2000)), true), Later);
        assert_eq!(grace.judge(at(3901), Some(at(2000)), false), Now);
        assert_eq!(grace.until(), None);
    }

    #[test]
    fn a_reader_that_never_catches_up_does_not_hold_deadlines_forever() {
        let mut grace = Grace::default();
        assert_eq!(grace.judge(at(3000), Some(at(2000)), false), CatchUp);
        assert_eq!(grace.judge(at(3100), Some(at(2000)), true), Later);
        assert_eq!(grace.judge(at(4099), Some(at(2000)), true), Later);
        assert_eq!(grace.judge(at(4100), Some(at(2000)), true), Now);
    }

    #[test]
    fn a_round_in_which_the_deadline_was_met_leaves_nothing_behind() {
        let mut grace = Grace::default();
        assert_eq!(grace.judge(at(3000), Some(at(2000)), false), CatchUp);
        assert_eq!(grace.judge(at(3100), None, false), Now);
        assert_eq!(grace.judge(at(9000), Some(at(9000)), false), Now);
    }
}
