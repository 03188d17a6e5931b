//! The client's own handshake, as far as its requests and their responses tell.

use regrow_core::{Epoch, Event, Step};
use regrow_protocol::frame::Frame;
use regrow_protocol::method;

use super::era::EraKnowledge;

/// What the client's requests tell about it.
pub(crate) struct ClientHandshake {
    /// It has not greeted yet, and its requests tell how far its handshake is.
    open: bool,
    /// Which capabilities it has used: a bit each.
    used: u8,
}

/// Methods, and the capability that a client relies on when it uses them.
const CAPABILITIES: [(&str, &str); 5] = [
    ("tools/", "tools"),
    ("prompts/", "prompts"),
    ("resources/", "resources"),
    ("completion/", "completions"),
    ("logging/", "logging"),
];

impl ClientHandshake {
    pub(crate) fn new(by_client: bool) -> ClientHandshake {
        ClientHandshake { open: by_client, used: 0 }
    }

    /// Whether the client has still to greet.
    pub(crate) fn is_open(&self) -> bool {
        self.open
    }

    /// The client uses this method.
    pub(crate) fn note_use(&mut self, method: &str) {
        if let Some(bit) = CAPABILITIES.iter().position(|(prefix, _)| method.starts_with(prefix)) {
            self.used |= 1 << bit;
        }
    }

    /// The first capability that the client has used and for which this holds.
    pub(crate) fn find_used(&self, holds: impl Fn(&str) -> bool) -> Option<&'static str> {
        let is_used =
            |(bit, (_, name)): &(usize, &(&str, &'static str))| self.used & (1 << bit) != 0 && holds(name);
        CAPABILITIES.iter().enumerate().find(is_used).map(|(_, (_, name))| *name)
    }

    /// The client's first requests tell how far its handshake is.
    pub(crate) fn sent(&mut self, epoch: Epoch, request: &Frame, era: &mut EraKnowledge) -> Option<Event> {
        match request.method()? {
            method::INITIALIZE => Some(Event::Begun(epoch, Step::Greeting)),
            method::SERVER_DISCOVER => Some(Event::Begun(epoch, Step::Discovering)),
            method::PING => None,
            _ => {
                if request.protocol_version().is_some() {
                    era.observe_modern(request.meta());
                    self.open = false;
                }
                Some(Event::Connected(epoch))
            }
        }
    }

    /// A request was answered. If it was the client's handshake, what that means for the session.
    pub(crate) fn answered(&mut self, epoch: Epoch, method: &str, accepted: bool) -> Option<Event> {
        match method::is_handshake(method) {
            true if accepted => {
                self.open = false;
                Some(Event::Connected(epoch))
            }
            true if self.open => Some(Event::Opened(epoch)), // The client decides what to ask next.
            _ => None,
        }
    }
}
