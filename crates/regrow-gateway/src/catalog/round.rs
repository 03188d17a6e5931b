//! When one list is fetched next.

use std::time::Duration;

use tokio::time::Instant;

/// Changes that are told within so long are one.
pub(super) const SETTLE: Duration = Duration::from_millis(100);
/// One list is not fetched again sooner than this after the last time.
pub(super) const FLOOR: Duration = Duration::from_secs(1);

/// Whether a list rests, waits for its time, or is being fetched.
#[derive(Debug, Default)]
pub(super) struct Round {
    phase: Phase,
    /// When it was last begun.
    begun: Option<Instant>,
}

#[derive(Debug, Default)]
enum Phase {
    #[default]
    Rest,
    Due(Instant),
    Running {
        /// Something changed meanwhile: what comes may be out of date.
        again: bool,
    },
}

impl Round {
    /// When to begin, if it is to begin.
    pub(super) fn due(&self) -> Option<Instant> {
        match self.phase {
            Phase::Due(at) => Some(at),
            Phase::Rest | Phase::Running { .. } => None,
        }
    }

    pub(super) fn is_running(&self) -> bool {
        matches!(self.phase, Phase::Running { .. })
    }

    /// The server says that the list has changed. A burst of that is one round; during a round, one more.
    pub(super) fn changed(&mut self, now: Instant) {
        self.plan(now + SETTLE);
    }

    /// The list is needed now.
    pub(super) fn need(&mut self, now: Instant) {
        self.plan(now);
    }

    /// Not wanted any more.
    pub(super) fn rest(&mut self) {
        self.phase = Phase::Rest;
    }

    pub(super) fn begin(&mut self, now: Instant) {
        self.begun = Some(now);
        self.phase = Phase::Running { again: false };
    }

    /// It is over; the next is so far away, if there is to be one.
    pub(super) fn end(&mut self, now: Instant, next: Option<Duration>) {
        let Phase::Running { again } = std::mem::take(&mut self.phase) else { return };
        if again {
            self.plan(now);
        } else if let Some(next) = next {
            self.plan(now + next);
        }
    }

    /// The earlier time counts.
    fn plan(&mut self, at: Instant) {
        let at = self.begun.map_or(at, |begun| at.max(begun + FLOOR));
        match &mut self.phase {
            Phase::Rest => self.phase = Phase::Due(at),
            Phase::Due(before) => *before = at.min(*before),
            Phase::Running { again } => *again = true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hundred_changes_are_one_round_and_a_hundred_during_it_one_more() {
        let start = Instant::now();
        let mut round = Round::default();
        (0..100).for_each(|n| round.changed(start + Duration::from_millis(n)));
        assert_eq!(round.due(), Some(start + SETTLE));
        round.begin(start + SETTLE);
        assert_eq!(round.due(), None);
        (0..100).for_each(|_| round.changed(start + SETTLE));
        round.end(start + SETTLE, None);
        assert_eq!(round.due(), Some(start + SETTLE + FLOOR));
        round.begin(start + SETTLE + FLOOR);
        round.end(start + SETTLE + FLOOR, None);
        assert_eq!(round.due(), None);
    }

    #[test]
    fn a_change_comes_before_the_planned_look() {
        let start = Instant::now();
        let mut round = Round::default();
        round.need(start);
        round.begin(start);
        round.end(start, Some(Duration::from_secs(60)));
        assert_eq!(round.due(), Some(start + Duration::from_secs(60)));
        round.changed(start + Duration::from_secs(5));
        assert_eq!(round.due(), Some(start + Duration::from_secs(5) + SETTLE));
    }
}
