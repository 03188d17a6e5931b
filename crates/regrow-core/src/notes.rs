//! Notifications of a client that came while there was no session to take them.

use crate::{Epoch, Policy};
use std::collections::VecDeque;

use regrow_protocol::notification;

/// To which sessions a client's notification means something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Bearing {
    /// `initialized`: to a session that the client greets itself.
    Handshake,
    /// To the session that it was written for: it is about a request or a task of that session.
    ThisSession,
    /// To every session.
    AnySession,
}

impl Bearing {
    /// Of the notification of this name.
    pub fn of(method: &str) -> Bearing {
        match method {
            notification::INITIALIZED => Bearing::Handshake,
            notification::PROGRESS | notification::CANCELLED | notification::TASKS_STATUS => {
                Bearing::ThisSession
            }
            _ => Bearing::AnySession,
        }
    }
}

/// Notifications that wait for a session, each in its place among the client's calls.
///
/// Calls are counted as they arrive; `arrival` is the number of the last call before the notification.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Notes<N> {
    held: VecDeque<Held<N>>,
    bytes: usize,
    /// The client's `initialized`: sent again where its handshake is.
    initialized: Option<Initialized<N>>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Held<N> {
    arrival: u64,
    bytes: usize,
    note: N,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Initialized<N> {
    arrival: u64,
    note: N,
    /// The last session that has it.
    sent: Option<Epoch>,
}

impl<N> Default for Notes<N> {
    fn default() -> Notes<N> {
        Notes { held: VecDeque::new(), bytes: 0, initialized: None }
    }
}

impl<N: Clone> Notes<N> {
    /// Keeps a notification for the next session. Returns whether there was room.
    pub fn hold(&mut self, policy: &Policy, arrival: u64, bytes: usize, note: N) -> bool {
        let fits = self.held.len() < policy.max_calls
            && self.bytes.saturating_add(bytes) <= policy.max_pending_bytes;
        if fits {
            self.bytes += bytes;
            self.held.push_back(Held { arrival, bytes, note });
        }
        fits
    }

    /// The client says that its handshake is complete.
    pub fn initialized(&mut self, arrival: u64, note: N) {
        self.initialized = Some(Initialized { arrival, note, sent: None });
    }

    /// The client begins another handshake.
    pub fn forget_initialized(&mut self) {
        self.initialized = None;
    }

    /// The next notification for this session that goes before the call with this arrival; without one, the next of all.
    /// `by_client`: the client greets this session itself.
    pub fn next(&mut self, epoch: Epoch, by_client: bool, before: Option<u64>) -> Option<N> {
        let is_next = |arrival: u64| before.is_none_or(|before| arrival < before);
        let first = self.held.front().map(|held| held.arrival);
        if let Some(initialized) = &mut self.initialized
            && by_client
            && initialized.sent.is_none_or(|sent| sent < epoch)
            && is_next(initialized.arrival)
            && first.is_none_or(|first| initialized.arrival <= first)
        {
            initialized.sent = Some(epoch);
            return Some(initialized.note.clone());
        }
        if !is_next(first?) {
            return None;
        }
        let held = self.held.pop_front()?;
        self.bytes -= held.bytes;
        Some(held.note)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: Epoch = Epoch(1);
    const SECOND: Epoch = Epoch(2);

    fn all(
        notes: &mut Notes<&'static str>,
        epoch: Epoch,
        by_client: bool,
        before: Option<u64>,
    ) -> Vec<&'static str> {
        std::iter::from_fn(|| notes.next(epoch, by_client, before)).collect()
    }

    #[test]
    fn each_keeps_its_place_among_the_calls() {
        let (mut notes, policy) = (Notes::default(), Policy::default());
        assert!(notes.hold(&policy, 0, 1, "before all"));
        assert!(notes.hold(&policy, 1, 1, "after the first"));
        assert!(notes.hold(&policy, 1, 1, "then this"));
        assert!(notes.hold(&policy, 2, 1, "after the second"));
        assert_eq!(all(&mut notes, FIRST, false, Some(1)), ["before all"]);
        assert_eq!(all(&mut notes, FIRST, false, Some(2)), ["after the first", "then this"]);
        assert_eq!(all(&mut notes, FIRST, false, None), ["after the second"]);
        assert_eq!(notes, Notes::default());
    }

    #[test]
    fn what_says_that_the_handshake_is_complete_follows_the_handshake_to_every_session() {
        let (mut notes, policy) = (Notes::default(), Policy::default());
        notes.initialized(1, "initialized");
        assert!(notes.hold(&policy, 1, 1, "roots"));
        assert_eq!(all(&mut notes, FIRST, true, Some(1)), [""; 0], "not before the handshake");
        assert_eq!(all(&mut notes, FIRST, true, Some(2)), ["initialized", "roots"]);
        assert_eq!(all(&mut notes, FIRST, true, None), [""; 0], "once for each session");
        assert_eq!(all(&mut notes, SECOND, true, None), ["initialized"]);
        assert_eq!(all(&mut notes, Epoch(3), false, None), [""; 0], "we greet that one ourselves");
        notes.forget_initialized();
        assert_eq!(all(&mut notes, Epoch(4), true, None), [""; 0]);
    }

    #[test]
    fn there_is_room_for_as_many_as_for_calls() {
        let policy = Policy { max_calls: 2, max_pending_bytes: 10, ..Policy::default() };
        let mut notes = Notes::default();
        assert!(notes.hold(&policy, 0, 6, "a"));
        assert!(!notes.hold(&policy, 0, 6, "too many bytes"));
        assert!(notes.hold(&policy, 0, 4, "b"));
        assert!(!notes.hold(&policy, 0, 0, "too many"));
        assert_eq!(all(&mut notes, FIRST, false, None), ["a", "b"]);
        assert!(notes.hold(&policy, 0, 10, "c"));
    }
}
