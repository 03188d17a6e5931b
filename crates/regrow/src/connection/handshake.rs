//! The client's own handshake, seen in passing: how far it is, and what the client has relied on since.

use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

use regrow_core::{Epoch, Event, Step};
use regrow_protocol::frame::Frame;
use regrow_protocol::method;

use super::shared::Shared;

/// What the client's requests tell about it.
pub(crate) struct Handshake {
    /// It has not greeted yet, and its requests tell how far its handshake is.
    open: AtomicBool,
    /// Which capabilities it has used: a bit each.
    used: AtomicU8,
}

/// Methods, and the capability that a client relies on when it uses them.
const CAPABILITIES: [(&str, &str); 5] = [
    ("tools/", "tools"),
    ("prompts/", "prompts"),
    ("resources/", "resources"),
    ("completion/", "completions"),
    ("logging/", "logging"),
];

impl Handshake {
    pub(crate) fn new(by_client: bool) -> Handshake {
        Handshake { open: AtomicBool::new(by_client), used: AtomicU8::new(0) }
    }

    /// Whether the client has still to greet.
    pub(crate) fn is_open(&self) -> bool {
        self.open.load(Ordering::Relaxed)
    }

    fn close(&self) {
        self.open.store(false, Ordering::Relaxed);
    }

    /// The client uses this method.
    pub(crate) fn note_use(&self, method: &str) {
        let bit = CAPABILITIES.iter().position(|(prefix, _)| method.starts_with(prefix));
        if let Some(bit) = bit
            && self.used.load(Ordering::Relaxed) & (1 << bit) == 0
        {
            self.used.fetch_or(1 << bit, Ordering::Relaxed);
        }
    }

    /// The capabilities that the client has used.
    pub(crate) fn used(&self) -> impl Iterator<Item = &'static str> {
        let used = self.used.load(Ordering::Relaxed);
        let is_used = move |(bit, _): &(usize, _)| used & (1 << bit) != 0;
        CAPABILITIES.iter().enumerate().filter(is_used).map(|(_, (_, name))| *name)
    }
}

impl Shared {
    /// The client's first requests tell how far its handshake is.
    pub(crate) fn greeting_step(&self, epoch: Epoch, request: &Frame) -> Option<Event> {
        match request.method()? {
            method::INITIALIZE => Some(Event::Begun(epoch, Step::Greeting)),
            method::SERVER_DISCOVER => Some(Event::Begun(epoch, Step::Discovering)),
            method::PING => None,
            _ => {
                if request.protocol_version().is_some() {
                    self.memory().observe_modern(request);
                    self.handshake.close();
                }
                Some(Event::Connected(epoch))
            }
        }
    }

    /// The client's own handshake was answered; says what that means for the session.
    pub(crate) fn greeting_answered(&self, epoch: Epoch, request: &Frame, result: Option<&[u8]>) {
        let method = request.method().unwrap_or_default();
        if !method::is_handshake(method) {
            return;
        }
        match result {
            Some(_) => {
                self.handshake.close();
                self.tell(Event::Connected(epoch));
            }
            // The client decides what to ask next.
            None if self.handshake.is_open() => self.tell(Event::Opened(epoch)),
            None => {}
        }
    }
}
