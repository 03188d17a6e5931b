//! What one server tells one client on its own.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use regrow::core::Epoch;
use regrow::transport::BoxFuture;
use regrow::{AutoReply, Inbox, Incoming};
use regrow_protocol::frame::Kind;

use super::Client;
use crate::server::{Server, ServerKey};
use crate::upstream::UpstreamSession;

/// The number of a server stands above that of its session: so no two sessions of a client have the same.
const SESSION_BITS: u32 = 40;

/// Takes what one server sends to one client.
pub(super) struct UpstreamInbox {
    client: Weak<Client>,
    server: Weak<Server>,
    key: ServerKey,
    /// What comes here is for one client: that is what the client itself is, or it is for the one call of the session.
    is_one_client: bool,
    /// The session that it is the inbox of.
    session: OnceLock<Weak<UpstreamSession>>,
    is_over: AtomicBool,
}

impl UpstreamInbox {
    pub(super) fn new(client: Weak<Client>, server: &Arc<Server>, is_one_client: bool) -> UpstreamInbox {
        UpstreamInbox {
            client,
            is_one_client,
            session: OnceLock::new(),
            server: Arc::downgrade(server),
            key: server.key,
            is_over: AtomicBool::new(false),
        }
    }

    /// The session that it is the inbox of, once that is made.
    pub(super) fn belongs_to(&self, session: &Arc<UpstreamSession>) {
        let is_first = self.session.set(Arc::downgrade(session)).is_ok();
        debug_assert!(is_first, "each session has an inbox of its own");
    }

    /// Whether nothing comes any more: the connection is closed, or the client was too slow for those that it shared it with.
    pub(super) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    /// The server, as long as it is there.
    pub(super) fn server(&self) -> Option<Arc<Server>> {
        self.server.upgrade()
    }

    fn scoped(&self, epoch: Epoch) -> Epoch {
        Epoch(u64::from(self.key.0) << SESSION_BITS | epoch.0)
    }
}

/// Which server, and which of its sessions.
pub(super) fn split(epoch: Epoch) -> (ServerKey, Epoch) {
    let key = u32::try_from(epoch.0 >> SESSION_BITS).unwrap_or(u32::MAX);
    (ServerKey(key), Epoch(epoch.0 & ((1 << SESSION_BITS) - 1)))
}

impl Inbox for UpstreamInbox {
    fn take(&self, incoming: Incoming) -> bool {
        let Some(client) = self.client.upgrade() else { return false };
        if let Kind::Notification { method } = incoming.frame.kind() {
            if method.ends_with("/list_changed") {
                if let Some(server) = self.server() {
                    server.list_changed(method);
                }
                return true; // The client is told when the catalog has changed.
            }
            if let Some(subscription) = incoming.frame.subscription_id() {
                return client.tell_stream(&subscription, &incoming.frame);
            }
        }
        let session = self.session.get().and_then(Weak::upgrade);
        let incoming = match session.filter(|_| incoming.call.is_none() && self.is_one_client) {
            Some(session) => session.attribute(incoming),
            None => incoming,
        };
        client.take(Incoming { epoch: self.scoped(incoming.epoch), client: 0, ..incoming })
    }

    fn auto_reply(&self, method: &str) -> Option<AutoReply> {
        match self.client.upgrade() {
            Some(client) => client.inbox.auto_reply(method),
            None => Some(AutoReply::UnknownMethod),
        }
    }

    fn is_one_client(&self) -> bool {
        self.is_one_client
    }

    fn has_room(&self) -> bool {
        self.client.upgrade().is_none_or(|client| client.inbox.has_room())
    }

    fn room(self: Arc<Self>) -> BoxFuture<()> {
        match self.client.upgrade() {
            Some(client) => client.inbox.clone().room(),
            None => Box::pin(std::future::ready(())),
        }
    }

    fn over(&self) {
        self.is_over.store(true, Ordering::Relaxed);
    }

    fn lost(&self, epoch: Epoch) {
        if let Some(client) = self.client.upgrade() {
            client.inbox.lost(self.scoped(epoch));
        }
    }
}
