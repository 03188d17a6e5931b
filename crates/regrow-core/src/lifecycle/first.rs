//! The first start: until a session has been ready once, a failing server is reported soon, in its own words.

use super::Lifecycle;
use crate::fault::FirstStartLimit;
use crate::{Fault, Time};

/// How the first start went so far.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct FirstStart {
    /// When the first handshake began.
    began: Option<Time>,
    /// Whether an attempt has failed.
    has_failed: bool,
    /// How many starts failed on their own, rather than for want of a network.
    failed: u8,
}

impl FirstStart {
    pub(super) fn attempt_begins(&mut self, now: Time) {
        self.began.get_or_insert(now);
    }

    /// A server that waits for its client to speak uses up no time.
    pub(super) fn handshake_begins(&mut self, now: Time) {
        if !self.has_failed {
            self.began = Some(now);
        }
    }

    /// Whether the first attempt of all found out that the server speaks the other era: what follows is its second half, and need not wait.
    pub(super) fn guessed_wrong(&self, fault: &Fault) -> bool {
        !self.has_failed && *fault == Fault::WrongEra
    }

    pub(super) fn failed(&mut self, fault: &Fault) {
        self.has_failed = true;
        if fault.first_start_limit() == FirstStartLimit::Starts {
            self.failed = self.failed.saturating_add(1);
        }
    }
}

impl Lifecycle {
    /// Whether a client that greets is told of this failed attempt, rather than kept waiting for the next one. A server that
    /// was ready before is waited for as long as a handshake may take.
    pub(super) fn is_first_start_over(&self, now: Time, fault: &Fault) -> bool {
        let Some(first) = &self.first else { return fault.is_permanent() };
        let limits = self.policy.first_start;
        let tried_for = |limit| first.began.is_some_and(|began| now - began >= limit);
        fault.is_permanent()
            || match fault.first_start_limit() {
                FirstStartLimit::Starts => self.has_used_up_starts() || tried_for(limits.within),
                FirstStartLimit::Time => tried_for(limits.unreachable_for),
                FirstStartLimit::HandshakeTime => false,
            }
    }

    /// Whether the server has failed as often as a first start allows.
    pub(super) fn has_used_up_starts(&self) -> bool {
        self.first.as_ref().is_some_and(|first| first.failed >= self.policy.first_start.starts)
    }

    /// When the next attempt may start, if nobody asks for one: a server that has used up its starts is left alone for the rest
    /// of its time.
    pub(super) fn first_start_floor(&self) -> Time {
        let began = self.first.as_ref().and_then(|first| first.began);
        match began.filter(|_| self.has_used_up_starts()) {
            Some(began) => began + self.policy.first_start.within,
            None => Time::ZERO,
        }
    }
}
