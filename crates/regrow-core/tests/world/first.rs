//! What the design says of a first start, told apart from the code that does it.

use regrow_core::{Event, Fault, Policy, Requester, State, Time};

/// The first start of a connection, until a session was ready.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct FirstStart {
    is_done: bool,
    began: Option<Time>,
    has_failed: bool,
    failed: u8,
    /// The first attempt has just told the era.
    guessed_wrong: bool,
    /// Somebody ordered the next attempt.
    is_ordered: bool,
}

impl FirstStart {
    pub(crate) fn ready(&mut self) {
        *self = FirstStart { is_done: true, ..FirstStart::default() };
    }

    pub(crate) fn attempt(&mut self, now: Time) {
        if !self.is_done {
            self.began.get_or_insert(now);
            self.is_ordered = false;
            self.guessed_wrong = false;
        }
    }

    /// What is told may be an order, which does not wait.
    pub(crate) fn told(&mut self, event: &Event) {
        let by_person = matches!(event, Event::Reconnect(Requester::Person));
        let is_order = by_person || matches!(event, Event::Wake | Event::ResetBudget | Event::Mended);
        self.is_ordered |= is_order && !self.is_done;
    }

    pub(crate) fn handshake(&mut self, now: Time) {
        if !self.is_done && !self.has_failed {
            self.began = Some(now);
        }
    }

    /// An attempt failed. Says whether that is a fault although it may only have told the era.
    pub(crate) fn lost(&mut self, before: &State, fault: &Fault, policy: &Policy) -> bool {
        if self.is_done || !matches!(before, State::Connecting { .. }) {
            return false;
        }
        self.guessed_wrong |= !self.has_failed && *fault == Fault::WrongEra;
        self.has_failed = true;
        if counts(fault) {
            self.failed = self.failed.saturating_add(1);
        }
        let ended = matches!(fault, Fault::Exited { .. } | Fault::Killed { .. });
        ended && self.has_used_up_starts(policy)
    }

    /// Whether the next attempt need not wait.
    pub(crate) fn has_guessed_wrong(&self) -> bool {
        self.guessed_wrong
    }

    fn has_used_up_starts(&self, policy: &Policy) -> bool {
        !self.is_done && self.failed >= policy.first_start.starts
    }

    /// Whether the client's handshake may wait on after this fault.
    pub(crate) fn may_wait(&self, now: Time, fault: &Fault, policy: &Policy) -> bool {
        let limits = policy.first_start;
        let passed = self.began.map_or(limits.within, |began| now - began);
        self.is_done
            || match fault {
                Fault::HandshakeTimeout { .. } | Fault::WrongEra | Fault::Deferred { .. } => true,
                fault if counts(fault) => !self.has_used_up_starts(policy) && passed < limits.within,
                _ => passed < limits.unreachable_for,
            }
    }

    /// Whether no attempt may start now, unless somebody orders one.
    pub(crate) fn is_held(&self, now: Time, policy: &Policy) -> bool {
        let until = self.began.map(|began| began + policy.first_start.within);
        !self.is_ordered && self.has_used_up_starts(policy) && until.is_some_and(|until| now < until)
    }
}

/// Whether a fault is the server's own no, rather than a network that may not be up yet.
fn counts(fault: &Fault) -> bool {
    !matches!(
        fault,
        Fault::HandshakeTimeout { .. }
            | Fault::WrongEra
            | Fault::Deferred { .. }
            | Fault::Broken { .. }
            | Fault::Unreachable { .. }
            | Fault::UnknownHost { .. }
            | Fault::Status { .. }
            | Fault::AnswerCut
            | Fault::Stalled { .. }
    )
}
