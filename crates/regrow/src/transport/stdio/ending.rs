//! Ends a server: the steps of the ladder, until nothing of its group runs.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use regrow_core::Ladder;
use rustix::process::{Pid, Signal};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

#[cfg(target_os = "linux")]
use super::group::Groups;
use super::group::{Group, Leader};
#[cfg(target_os = "linux")]
use super::scan::SharedScan;
use crate::transport::Ended;

/// When the steps are due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Times {
    term_at: Instant,
    kill_at: Instant,
    kill_after: Duration,
}

impl Times {
    pub(super) fn new(now: Instant, ladder: Ladder) -> Times {
        Times {
            term_at: now + ladder.term_after,
            kill_at: now + ladder.length(),
            kill_after: ladder.kill_after,
        }
    }

    /// The earlier of both.
    pub(super) fn or(self, other: Times) -> Times {
        Times {
            term_at: self.term_at.min(other.term_at),
            kill_at: self.kill_at.min(other.kill_at),
            kill_after: self.kill_after.min(other.kill_after),
        }
    }

    /// Those who outlive their leader had their sign: they are asked at once.
    fn orphaned(self, since: Instant) -> Times {
        self.or(Times { term_at: since, kill_at: since + self.kill_after, ..self })
    }
}

/// Takes the steps as they fall due, then reaps the leader. `news` changes when the leader exits.
pub(super) async fn end<T>(
    group: Arc<Group>,
    mut news: watch::Receiver<T>,
    mut times: watch::Receiver<Times>,
) -> Ended {
    let mut ended = Ended::default();
    let mut helpers = BTreeSet::new();
    let mut orphaned_at = None;
    let mut pauses = pauses();
    loop {
        news.mark_unchanged();
        let is_dead = match group.look() {
            Leader::Running => false,
            Leader::Dead(fault) => {
                ended.fault = Some(fault);
                true
            }
            // Its id may be somebody else's by now, so nobody is signalled; the sweep may still find them.
            Leader::Taken => break,
        };
        if is_dead {
            let left = members(&group).await;
            if left.is_empty() {
                break;
            }
            helpers.extend(left.iter().map(|pid| pid.as_raw_nonzero()));
        }
        let now = Instant::now();
        let mut due = *times.borrow_and_update();
        if is_dead {
            due = due.orphaned(*orphaned_at.get_or_insert(now));
        }
        if now >= due.kill_at {
            group.signal(Signal::KILL);
            ended.killed = true;
        } else if now >= due.term_at && !ended.termed {
            group.signal(Signal::TERM);
            group.signal(Signal::CONT); // A stopped process acts on the first only when it goes on.
            ended.termed = true;
        }
        let next_step = match (ended.termed, ended.killed) {
            (_, true) => now + Duration::from_secs(1),
            (true, false) => due.kill_at,
            (false, false) => due.term_at,
        };
        // Nobody tells us of the end of those who are not our children.
        let next_look = if is_dead { now + pauses.next().unwrap_or(LONGEST_PAUSE) } else { next_step };
        tokio::select! {
            biased;
            Ok(()) = news.changed(), if !is_dead => {}
            Ok(()) = times.changed() => {}
            () = sleep_until(next_step.min(next_look)) => {}
        }
    }
    group.reap();
    ended.helpers = helpers.len();
    ended
}

/// Who is left in the group of a leader that has ended. While the runtime shuts down, which drops us and kills the group, nobody knows.
#[cfg(target_os = "linux")]
async fn members(group: &Group) -> Vec<Pid> {
    static GROUPS: SharedScan<Groups> = SharedScan::new(Groups::scan);
    let leader = group.leader();
    GROUPS.result().await.map_or_else(|| vec![leader], |groups| groups.followers(leader).to_vec())
}

#[cfg(not(target_os = "linux"))]
async fn members(group: &Group) -> Vec<Pid> {
    super::group::members(group.leader())
}

const LONGEST_PAUSE: Duration = Duration::from_millis(100);

/// Between looks: short at first, since most end at once.
fn pauses() -> impl Iterator<Item = Duration> {
    [1, 2, 5, 10, 20, 50].into_iter().map(Duration::from_millis)
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ladder(term_after: u64, kill_after: u64) -> Ladder {
        Ladder { term_after: Duration::from_secs(term_after), kill_after: Duration::from_secs(kill_after) }
    }

    #[test]
    fn of_two_ladders_the_earlier_times_hold() {
        let now = Instant::now();
        let gentle = Times::new(now, ladder(5, 2));
        let hasty = Times::new(now + Duration::from_secs(1), ladder(0, 1));
        assert_eq!(gentle.or(hasty), hasty);
        let late = Times::new(now + Duration::from_secs(60), ladder(0, 1));
        assert_eq!((gentle.or(late).term_at, gentle.or(late).kill_at), (gentle.term_at, gentle.kill_at));
    }

    #[test]
    fn those_who_outlive_their_leader_are_asked_at_once_and_killed_soon() {
        let now = Instant::now();
        let died = now + Duration::from_secs(1);
        let times = Times::new(now, ladder(5, 2)).orphaned(died);
        assert_eq!((times.term_at, times.kill_at), (died, died + Duration::from_secs(2)));
    }
}
