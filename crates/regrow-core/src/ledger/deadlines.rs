//! When calls time out, and the clock that this is measured by.

use std::collections::BTreeSet;

use super::call::{Call, Ended};
use super::{CallId, Ledger};
use crate::Time;

/// The deadlines of calls. Their clock can be stopped.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Deadlines {
    due: BTreeSet<(Time, CallId)>,
    /// Since when the clock stands still.
    stopped: Option<Time>,
}

impl Deadlines {
    pub(super) fn insert(&mut self, id: CallId, deadline: Option<Time>) {
        self.due.extend(deadline.map(|deadline| (deadline, id)));
    }

    pub(super) fn remove(&mut self, id: CallId, deadline: Option<Time>) {
        if let Some(deadline) = deadline {
            self.due.remove(&(deadline, id));
        }
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
        while let Some(&(deadline, id)) = self.deadlines.due.first()
            && deadline <= clock
        {
            over.extend(self.cancel(id));
        }
        if self.deadlines.stopped.is_some() {
            let at_limit = |(&id, call): (&CallId, &Call<R>)| (call.ends_by()? <= now).then_some(id);
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
        for (&id, call) in &mut self.calls {
            if let Some(deadline) = &mut call.deadline {
                *deadline = (*deadline + stood).min(call.limit);
                self.deadlines.due.insert((*deadline, id));
            }
        }
    }

    /// When `expire` is due.
    pub fn deadline(&self) -> Option<Time> {
        let first = self.deadlines.due.first().map(|&(deadline, _)| deadline)?;
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
        let Some(call) = self.calls.get_mut(&id) else { return };
        let (Some(old), Some(timeout)) = (call.deadline, call.timeout) else { return };
        let new = (now + timeout).min(call.limit).max(old);
        self.deadlines.remove(id, call.deadline);
        call.deadline = Some(new);
        self.deadlines.insert(id, call.deadline);
    }
}
