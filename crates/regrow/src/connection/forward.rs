//! Notifications of a client on their way to the server: now, or when there is a session, in their place among its requests.

use regrow_core::{Bearing, Epoch};
use regrow_protocol::frame::Frame;

use super::memory::Greeting;
use super::shared::Shared;
use super::state::Desk;

impl Shared {
    /// Hands on a notification of a client. Says whether it reached the server, or will.
    pub(crate) fn forward(&self, notification: &Frame) -> bool {
        let line = notification.to_line();
        let mut desk = self.desk();
        let taken = match Bearing::of(notification.method().unwrap_or_default()) {
            Bearing::Handshake => {
                self.forward_initialized(&mut desk, notification);
                true
            }
            Bearing::ThisSession => self.post_on(&mut desk, None, line),
            Bearing::AnySession if desk.takes_notes().is_some() => self.post_on(&mut desk, None, line),
            Bearing::AnySession => {
                let arrival = desk.supervisor.ledger.last_arrival();
                let kept = desk.notes.hold(&self.settings.policy, arrival, line.len(), line);
                desk.oddities.undelivered += u64::from(!kept);
                kept
            }
        };
        let first = !taken && desk.oddities.undelivered == 1;
        drop(desk);
        if first {
            let server = &*self.settings.name;
            let method = notification.method().unwrap_or_default().escape_debug();
            tracing::warn!(
                server,
                "dropped {method} of the client: no session can take it (further ones are only counted)"
            );
        }
        taken
    }

    /// The client says that its handshake is complete. Towards a session that we greet, we do so ourselves.
    fn forward_initialized(&self, desk: &mut Desk, notification: &Frame) {
        let by_client = match &desk.session {
            Some(session) => session.greeted_by_client,
            None => matches!(self.memory().greeting, Greeting::ByClient),
        };
        if by_client {
            let arrival = desk.supervisor.ledger.last_arrival();
            desk.notes.initialized(arrival, notification.to_line());
            if let Some(epoch) = desk.takes_notes() {
                desk.write_notes(epoch, None);
            }
        }
    }
}

impl Desk {
    /// The session that takes a client's notifications at once, if there is one.
    fn takes_notes(&mut self) -> Option<Epoch> {
        let session = self.session.as_mut().filter(|_| self.supervisor.ledger.is_open())?;
        let epoch = session.epoch;
        session.input().map(|_| epoch)
    }

    /// Writes the notifications that waited for this session and go before the call of this arrival.
    pub(crate) fn write_notes(&mut self, epoch: Epoch, before: Option<u64>) {
        let by_client = self.session_of(epoch).is_some_and(|session| session.greeted_by_client);
        while let Some(line) = self.notes.next(epoch, by_client, before) {
            self.write(None, line);
        }
    }
}
