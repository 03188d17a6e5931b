//! What only the I/O side sees of a session.

use crate::{CallId, Time};
use std::collections::BTreeSet;

/// What the I/O side sees of the newest session when something happens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// When something was last read from the server.
    pub heard: Time,
    /// How many messages were read from the server so far.
    pub messages: u64,
    /// How many bytes of its input the server can have read.
    pub read: u64,
    /// The calls whose exchange is open; none where all calls share one stream.
    pub exchanges: Option<BTreeSet<CallId>>,
    /// Whether the client has agreed on an era with the server, so that it does not ask for one again.
    pub knows_era: bool,
    /// Whether a client waits for what the server says or does on its own: subscriptions, tasks.
    pub listening: bool,
    /// Whether its reader was asked to read what is there ([`Output::CatchUp`](super::Output::CatchUp)), and has not.
    pub behind: bool,
}

impl Default for Facts {
    /// Nothing was heard, and the server may have read everything.
    fn default() -> Facts {
        Facts {
            heard: Time::ZERO,
            messages: 0,
            read: u64::MAX,
            exchanges: None,
            knows_era: false,
            listening: false,
            behind: false,
        }
    }
}

impl Facts {
    /// Whether a response to this call can come on an exchange of its own.
    pub(super) fn has_exchange(&self, id: CallId) -> bool {
        self.exchanges.as_ref().is_some_and(|open| open.contains(&id))
    }
}
