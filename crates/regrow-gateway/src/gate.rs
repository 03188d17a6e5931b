//! How many calls of all clients a server gets at once, and how fast.
//!
//! [`Gate`] decides, and is told the time; [`Limiter`] lets calls through as it says. What need not wait (pings, cancellations,
//! streams) does not come here.

mod bucket;
mod limiter;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use regrow::core::Time;

use crate::admit::Principal;
use crate::config::Options;
use crate::shares::is_left;
use bucket::Bucket;
pub use limiter::{Limiter, Permit, Rejected};

/// What a server is spared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// More calls than this do not run at once.
    pub concurrency: Option<u32>,
    /// More calls than this do not begin in such a time.
    pub rate: Option<(u32, Duration)>,
    /// More calls than this do not wait.
    pub queue: u32,
}

impl Limits {
    /// Those of a server with these options.
    pub fn of(options: &Options) -> Limits {
        Limits { concurrency: options.concurrency, rate: options.rate, queue: options.queue }
    }

    /// Whether nothing ever has to wait.
    pub fn are_none(&self) -> bool {
        self.concurrency.is_none() && self.rate.is_none()
    }
}

/// What becomes of a call that comes to the gate.
#[derive(Debug, PartialEq, Eq)]
pub enum Arrival<T> {
    /// It may go at once.
    Go(T),
    /// It waits for its turn.
    Wait,
    /// Too many wait already.
    Full(T),
}

/// Lets calls through: those of one principal in the order in which they came, and the principals in turn, so that nobody waits for all
/// calls of another.
#[derive(Debug)]
pub struct Gate<T> {
    concurrency: u32,
    bucket: Option<Bucket>,
    queue: usize,
    is_one_principal: bool,
    running: u32,
    last: u64,
    waiting: BTreeMap<u64, WaitingCall<T>>,
    /// Who waits, and with which calls. The first has the next turn.
    turns: VecDeque<(Principal, BTreeSet<u64>)>,
    deadlines: BTreeSet<(Time, u64)>,
}

#[derive(Debug)]
struct WaitingCall<T> {
    ticket: T,
    principal: Principal,
    deadline: Option<Time>,
}

impl<T> Gate<T> {
    /// A gate that nobody has gone through. One of several principals gets a share of the queue.
    pub fn new(limits: Limits, is_one_principal: bool) -> Gate<T> {
        Gate {
            concurrency: limits.concurrency.unwrap_or(u32::MAX),
            bucket: limits.rate.map(|(count, per)| Bucket::full(count, per)),
            queue: limits.queue as usize,
            is_one_principal,
            running: 0,
            last: 0,
            waiting: BTreeMap::new(),
            turns: VecDeque::new(),
            deadlines: BTreeSet::new(),
        }
    }

    /// A call of this principal comes, and waits no longer than until its deadline.
    pub fn arrive(
        &mut self,
        now: Time,
        deadline: Option<Time>,
        principal: Principal,
        ticket: T,
    ) -> Arrival<T> {
        if self.waiting.is_empty() && self.admit(now) {
            return Arrival::Go(ticket);
        }
        let at = self.turns.iter().position(|(known, _)| *known == principal);
        let own = at.map_or(0, |at| self.turns[at].1.len());
        if !is_left(self.queue, self.waiting.len(), own, self.is_one_principal) {
            return Arrival::Full(ticket);
        }
        self.last += 1;
        match at {
            Some(at) => drop(self.turns[at].1.insert(self.last)),
            None => self.turns.push_back((principal, BTreeSet::from([self.last]))),
        }
        self.deadlines.extend(deadline.map(|deadline| (deadline, self.last)));
        self.waiting.insert(self.last, WaitingCall { ticket, principal, deadline });
        Arrival::Wait
    }

    /// A call that went through has ended.
    pub fn leave(&mut self) {
        debug_assert!(self.running > 0, "who leaves has gone in");
        self.running = self.running.saturating_sub(1);
    }

    /// The calls whose turn it is. Take out first those that have waited too long.
    pub fn due(&mut self, now: Time) -> Vec<T> {
        let mut due = vec![];
        while !self.waiting.is_empty() && self.admit(now) {
            // Whose turn it was waits for the others now.
            self.turns.rotate_left(1);
            let first = self.turns.back().and_then(|(_, calls)| calls.first().copied());
            due.extend(first.and_then(|number| self.take(number)));
        }
        due
    }

    /// The calls that have waited too long.
    pub fn expire(&mut self, now: Time) -> Vec<T> {
        let mut expired = vec![];
        while let Some(&(deadline, number)) = self.deadlines.first()
            && deadline <= now
        {
            expired.extend(self.take(number));
        }
        expired
    }

    /// When [`Gate::due`] or [`Gate::expire`] has something to give, if nobody leaves before.
    pub fn next_due(&self) -> Option<Time> {
        let deadline = self.deadlines.first().map(|(deadline, _)| *deadline);
        let is_held_by_rate = !self.waiting.is_empty() && self.running < self.concurrency;
        let turn = self.bucket.as_ref().filter(|_| is_held_by_rate).map(Bucket::next);
        deadline.into_iter().chain(turn).min()
    }

    /// Takes out all that wait and for which this holds.
    pub fn withdraw(&mut self, mut wanted: impl FnMut(&T) -> bool) -> Vec<T> {
        let numbers: Vec<u64> =
            self.waiting.iter().filter(|(_, waiting)| wanted(&waiting.ticket)).map(|(&n, _)| n).collect();
        numbers.into_iter().filter_map(|number| self.take(number)).collect()
    }

    /// The same with the newest of them alone.
    pub fn withdraw_newest(&mut self, mut wanted: impl FnMut(&T) -> bool) -> Option<T> {
        let number =
            self.waiting.iter().rev().find(|(_, waiting)| wanted(&waiting.ticket)).map(|(&n, _)| n)?;
        self.take(number)
    }

    /// How many wait.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// How many have gone through and not left.
    pub fn running(&self) -> u32 {
        self.running
    }

    /// Whether one more may go now; it is counted then.
    fn admit(&mut self, now: Time) -> bool {
        let goes =
            self.running < self.concurrency && self.bucket.as_mut().is_none_or(|bucket| bucket.take(now));
        self.running += u32::from(goes);
        goes
    }

    fn take(&mut self, number: u64) -> Option<T> {
        let WaitingCall { ticket, principal, deadline } = self.waiting.remove(&number)?;
        if let Some(at) = self.turns.iter().position(|(known, _)| *known == principal) {
            self.turns[at].1.remove(&number);
            if self.turns[at].1.is_empty() {
                self.turns.remove(at);
            }
        }
        if let Some(deadline) = deadline {
            self.deadlines.remove(&(deadline, number));
        }
        Some(ticket)
    }
}
