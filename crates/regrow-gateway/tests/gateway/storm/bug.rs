//! Bugs that can be planted between the gateway and its clients or servers. The checker must find each.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::history::{End, Key};

/// One bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// A call never ends.
    Swallows,
    /// A call ends twice.
    EndsTwice,
    /// A call ends long after its deadline.
    EndsLate,
    /// A call comes to its server twice.
    CallsTwice,
    /// A client is told that a call did not run, though it may have.
    Lies,
    /// A client gets the answer to another call of its own.
    AnswersCross,
    /// A client gets the answer to a call of another.
    CrossesClients,
    /// A client hears what was meant for another.
    Overhears,
    /// What a server said before its answer reaches the client after it.
    Disorders,
    /// A client that has left is kept.
    KeepsClient,
    /// A server that never comes back.
    StaysDown,
    /// None: all passes as it is, but through the same hands.
    Harmless,
    /// Somebody throws real dice.
    ThrowsDice,
}

impl Bug {
    /// All that break a promise, and which.
    pub const ALL: [(Bug, &str); 11] = [
        (Bug::Swallows, "P2"),
        (Bug::EndsTwice, "P2"),
        (Bug::EndsLate, "P2"),
        (Bug::CallsTwice, "P3"),
        (Bug::Lies, "P3"),
        (Bug::AnswersCross, "P7"),
        (Bug::CrossesClients, "P14"),
        (Bug::Overhears, "P14"),
        (Bug::Disorders, "order"),
        (Bug::KeepsClient, "P6"),
        (Bug::StaysDown, "recovery"),
    ];
}

/// The bug of a life, and what it needs to remember.
#[derive(Clone)]
pub struct Planted {
    bug: Option<Bug>,
    /// The last answer.
    kept: Arc<Mutex<Option<(Key, String)>>>,
}

impl Planted {
    pub fn new(bug: Option<Bug>) -> Planted {
        Planted { bug, kept: Arc::default() }
    }

    pub fn is(&self, bug: Bug) -> bool {
        self.bug == Some(bug)
    }

    /// What a client sees instead of this end of a call, and how much later.
    pub fn instead(&self, key: Key, end: End) -> Vec<(Duration, End)> {
        let now = |end: End| vec![(Duration::ZERO, end)];
        match (self.bug, end) {
            (Some(Bug::Swallows), End::Answered(_)) => vec![],
            (Some(Bug::EndsTwice), end) => [now(end.clone()), now(end)].concat(),
            (Some(Bug::EndsLate), end) => vec![(Duration::from_secs(300), end)],
            (Some(Bug::Lies), End::Unknown(kind)) => now(End::NotRun(kind)),
            (Some(bug @ (Bug::AnswersCross | Bug::CrossesClients)), End::Answered(text)) => {
                let mut kept = self.kept.lock().expect("nobody panics with it");
                let crosses =
                    |(of, _): &(Key, String)| (of.client == key.client) == (bug == Bug::AnswersCross);
                let other = kept.replace((key, text.clone())).filter(crosses);
                now(End::Answered(other.map_or(text, |(_, other)| other)))
            }
            (_, end) => now(end),
        }
    }
}
