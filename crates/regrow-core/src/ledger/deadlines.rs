//! When calls time out, and the clock that this is measured by.

use std::collections::BTreeMap;

use super::call::{Call, Ended};
use super::{CallId, Ledger};
use crate::Time;

/// The deadlines of calls. Their clock can be stopped.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Deadlines {
    /// How many calls there are for each. Which ones is asked only when their time has come.
    due: BTreeMap<Time, usize>,
    /// Since when the clock stands still.
    stopped: Option<Time>,
}

impl Deadlines {
    pub(super) fn insert(&mut self, deadline: Option<Time>) {
        if let Some(deadline) = deadline {
            *self.due.entry(deadline).or_default() += 1;
        }
    }

    pub(super) fn remove(&mut self, deadline: Option<Time>) {
        let Some(deadline) = deadline else { return };
        match self.due.get_mut(&deadline) {
            Some(count) if *count > 1 => *count -= 1,
            _ => drop(self.due.remove(&deadline)),
        }
    }

    fn first(&self) -> Option<Time> {
        self.due.first_key_value().map(|(&deadline, _)| deadline)
    }

    /// What deadlines are measured by: `now`, or when the clock was stopped.
    pub(super) fn clock(&self, now: Time) -> Time {
        self.stopped.unwrap_or(now)
    }
}

impl<R> Ledger<R> {
    /// The calls whose time has come. Goes on with the clock when it has stood for the call limit.
    pub(crate) fn expire(&mut self, now: Time) -> Vec<Ended<R>> {
        if self.deadlines.stopped.is_some_and(|stopped| now >= stopped + self.policy.call_limit) {
            self.start_clock(now);
        }
        let clock = self.deadlines.clock(now);
        let mut over = vec![];
        if self.deadlines.first().is_some_and(|first| first <= clock) {
            let is_due = |call: &Call<R>| call.deadline.filter(|deadline| *deadline <= clock);
            let mut due: Vec<(Time, CallId)> =
                self.calls.iter().filter_map(|(id, call)| Some((is_due(call)?, id))).collect();
            due.sort_unstable();
            over.extend(due.into_iter().filter_map(|(_, id)| self.cancel(id)));
        }
        if self.deadlines.stopped.is_some() {
            let at_limit = |(id, call): (CallId, &Call<R>)| (call.ends_by()? <= now).then_some(id);
            let ids: Vec<CallId> = self.calls.iter().filter_map(at_limit).collect();
            over.extend(ids.into_iter().filter_map(|id| self.cancel(id)));
        }
        over
    }

    /// Deadlines stand still: a person is being asked, or the client does not read. The call limit does not.
    pub fn stop_clock(&mut self, now: Time) {
        self.deadlines.stopped.get_or_insert(now);
    }

    /// Deadlines go on, later by as long as they stood still.
    pub fn start_clock(&mut self, now: Time) {
        let Some(stopped) = self.deadlines.stopped.take() else { return };
        let stood = now - stopped;
        self.deadlines.due.clear();
        for (_, call) in self.calls.iter_mut() {
            call.deadline = call.deadline.map(|deadline| (deadline + stood).min(call.limit));
            self.deadlines.insert(call.deadline);
        }
    }

    /// When `expire` is due.
    pub fn deadline(&self) -> Option<Time> {
        let first = self.deadlines.first()?;
        match self.deadlines.stopped {
            None => Some(first),
            Some(stopped) => {
                let limit = self.calls.values().filter_map(Call::ends_by).min();
                limit.map(|limit| limit.min(stopped + self.policy.call_limit))
            }
        }
    }

    /// Progress resets the deadline, up to the limit.
    pub fn extend(&mut self, now: Time, id: CallId) {
        let now = self.deadlines.clock(now);
        let Some(call) = self.calls.get_mut(id) else { return };
        let (Some(old), Some(timeout)) = (call.deadline, call.timeout) else { return };
        let new = (now + timeout).min(call.limit).max(old);
        self.deadlines.remove(call.deadline);
        call.deadline = Some(new);
        self.deadlines.insert(call.deadline);
    }
}
