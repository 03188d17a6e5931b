//! What the server sends on its own, and whom of the clients it concerns.

use std::sync::{Arc, Weak};

use regrow::core::Epoch;
use regrow::{AutoReply, Inbox, Incoming};
use regrow_protocol::frame::Kind;
use regrow_protocol::logging_level::LoggingLevel;
use regrow_protocol::{method, notification};

use super::SharedSession;
use super::member::SessionMember;

/// The inbox of a shared connection. It always has room: who does not read must not stop the others, and is dropped.
pub(super) struct SharedInbox(pub(super) Weak<SharedSession>);

impl Inbox for SharedInbox {
    fn take(&self, incoming: Incoming) -> bool {
        self.0.upgrade().is_some_and(|session| session.hear(incoming))
    }

    /// Answers count like all else that a client is told.
    fn answered(&self, client: u64, bytes: usize) {
        let Some(session) = self.0.upgrade() else { return };
        let member = session.state().members.get(&client).cloned();
        if let Some(member) = member.filter(|member| !member.keeps_up(bytes)) {
            session.drop_slow(&member);
        }
    }

    /// The server was told that nobody here can do anything for it.
    fn auto_reply(&self, method: &str) -> Option<AutoReply> {
        Some(if method == method::PING { AutoReply::Pong } else { AutoReply::UnknownMethod })
    }

    fn lost(&self, epoch: Epoch) {
        self.members().iter().for_each(|member| member.lost(epoch));
    }

    fn over(&self) {
        self.members().iter().for_each(|member| member.over());
    }
}

impl SharedInbox {
    fn members(&self) -> Vec<Arc<SessionMember>> {
        self.0
            .upgrade()
            .map(|session| session.state().members.values().cloned().collect())
            .unwrap_or_default()
    }
}

impl SharedSession {
    /// A message of the server. Returns whether somebody took it.
    fn hear(&self, incoming: Incoming) -> bool {
        let frame = &incoming.frame;
        let Kind::Notification { method } = frame.kind() else { return false };
        if incoming.client != 0 && frame.subscription_id().is_some() {
            return self.tell(incoming.client, incoming);
        }
        match method {
            _ if method.ends_with("/list_changed") => {
                self.observer.list_changed(method);
                true
            }
            notification::RESOURCES_UPDATED => self.tell_subscribers(&incoming),
            // In the legacy era the session has one level for all.
            notification::MESSAGE if incoming.call.is_none() || !self.connection.is_modern() => {
                self.observer.logged(frame);
                self.tell_caller(incoming);
                true
            }
            // It takes back what it asked, and was told at once that nobody answers that.
            notification::CANCELLED => true,
            // What belongs to no call may concern any client, so none is told.
            _ => self.tell(incoming.client, incoming),
        }
    }

    /// A log message goes to the client whose call it belongs to, if that has asked for its level. One that came with no call may
    /// be anybody's, so no client is told.
    fn tell_caller(&self, incoming: Incoming) {
        let share = incoming.client;
        let level = incoming.frame.level().as_deref().and_then(LoggingLevel::parse);
        if self.state().levels.includes(share, level) {
            self.tell(share, incoming);
        }
    }

    fn tell_subscribers(&self, incoming: &Incoming) -> bool {
        let Some(uri) = incoming.frame.uri() else { return false };
        let subscribers = self.state().subscriptions.subscribers(&uri);
        let told = subscribers.into_iter().filter(|share| self.tell(*share, incoming.clone()));
        told.count() > 0
    }

    /// Tells one client something. That it belongs to a call of another is none of its business.
    fn tell(&self, share: u64, incoming: Incoming) -> bool {
        let Some(member) = self.state().members.get(&share).cloned() else { return false };
        let is_its_call = incoming.client == share;
        let (call, to) = (incoming.call.filter(|_| is_its_call), incoming.to.filter(|_| is_its_call));
        let (taken, keeps_up) = member.tell(Incoming { call, to, client: 0, ..incoming });
        if !keeps_up {
            self.drop_slow(&member);
        }
        taken
    }
}
