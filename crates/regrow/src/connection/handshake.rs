//! The client's own handshake, as far as its requests and their responses tell.

use regrow_core::{Epoch, Event, Step};
use regrow_protocol::frame::Frame;
use regrow_protocol::method;

use super::era::EraKnowledge;

/// What the client's requests tell about it.
pub(crate) struct ClientHandshake {
    /// It has not greeted yet, and its requests tell how far its handshake is.
    open: bool,
    /// Its greeting that has no response yet.
    greeting: Option<GreetingInFlight>,
    /// Which capabilities it has used: a bit each.
    used: u8,
}

/// A greeting on its way.
struct GreetingInFlight {
    on: Epoch,
    /// Whether other requests followed it: the client does not wait for the response.
    followed: bool,
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
        ClientHandshake { open: by_client, greeting: None, used: 0 }
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

    /// The client's first requests tell how far its handshake is. What it sends behind its greeting tells nothing: the server may not
    /// even have read that.
    pub(crate) fn sent(&mut self, epoch: Epoch, request: &Frame, era: &mut EraKnowledge) -> Option<Event> {
        let step = match request.method()? {
            method::INITIALIZE => Step::Greeting,
            method::SERVER_DISCOVER => Step::Discovering,
            method::PING => return None,
            _ => {
                if request.protocol_version().is_some() {
                    era.observe_modern(request.meta());
                    self.open = false;
                } else if let Some(greeting) = self.greeting.as_mut().filter(|greeting| greeting.on == epoch)
                {
                    greeting.followed = true;
                    return None;
                }
                return Some(Event::Connected(epoch));
            }
        };
        self.greeting = Some(GreetingInFlight { on: epoch, followed: false });
        Some(Event::Begun(epoch, step))
    }

    /// A request was answered. If it was the client's handshake, what that means for the session.
    pub(crate) fn answered(&mut self, epoch: Epoch, method: &str, accepted: bool) -> Option<Event> {
        if !method::is_handshake(method) {
            return None;
        }
        let greeting = self.greeting.take_if(|greeting| greeting.on == epoch);
        if accepted {
            self.open = false;
            return Some(Event::Connected(epoch));
        }
        match self.open {
            true if greeting.is_some_and(|greeting| greeting.followed) => Some(Event::Connected(epoch)),
            true => Some(Event::Opened(epoch)), // The client decides what to ask next.
            false => None,
        }
    }
}
