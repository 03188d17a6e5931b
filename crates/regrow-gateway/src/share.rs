//! One connection, shared by the clients of one principal.
//!
//! Each client has a share of it, which looks to its bridge like a connection of its own. What is a client's alone (calls, their
//! progress, streams) the connection tells apart by the number of the share; what the session has only once (log level, subscriptions) is settled for
//! all of them together. The server is greeted by the gateway itself, which offers it nothing: it cannot ask any one client.

mod asking;
mod inbox;
mod leaving;
mod levels;
mod member;
mod setting;
mod subscriptions;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use bytes::Bytes;
use regrow::core::Epoch;
use regrow::{
    Builder, ClientParams, Connection, ErrorKind, HandshakeResult, Inbox, Outcome, Request, ServerSide,
    Upstream,
};
use regrow_protocol::frame::{Frame, RawId};
use regrow_protocol::{method, notification};
use serde_json::json;

use inbox::SharedInbox;
use levels::Levels;
use member::SessionMember;
use subscriptions::Subscriptions;

/// Hears what a shared server tells no client in particular.
pub trait ServerObserver: Send + Sync + 'static {
    /// This notification told that a list has changed.
    fn list_changed(&self, method: &str);

    /// A log message that belongs to no client's call.
    fn logged(&self, message: &Frame);
}

/// A connection that several clients use.
pub struct SharedSession {
    me: Weak<SharedSession>,
    name: Arc<str>,
    connection: Connection,
    observer: Arc<dyn ServerObserver>,
    /// Never locked while the connection, a client or a reply is called: each of them may call us.
    state: Mutex<ShareState>,
}

/// Who is there, and what they want together.
#[derive(Default)]
struct ShareState {
    last: u64,
    members: BTreeMap<u64, Arc<SessionMember>>,
    levels: Levels,
    subscriptions: Subscriptions,
}

impl SharedSession {
    /// Builds the connection to the server of this name, for clients to share. What concerns none of them is told to `observer`.
    pub fn build(
        name: impl Into<Arc<str>>,
        builder: Builder,
        observer: Arc<dyn ServerObserver>,
    ) -> Arc<SharedSession> {
        let hello = ClientParams {
            client_info: json!({ "name": "regrow", "version": env!("CARGO_PKG_VERSION") }),
            capabilities: json!({}),
            legacy_version: None,
        };
        Arc::new_cyclic(|me| SharedSession {
            me: me.clone(),
            name: name.into(),
            // It must not hold us, who hold it open.
            connection: builder
                .client_params(hello)
                .no_stderr_in_errors()
                .unguessable_ids()
                .bridge_to(Arc::new(SharedInbox(me.clone())))
                .build(),
            observer,
            state: Mutex::default(),
        })
    }

    /// The connection itself.
    pub fn connection(&self) -> &Connection {
        &self.connection
    }

    /// How many clients share it.
    pub fn shares(&self) -> usize {
        self.state().members.len()
    }

    /// A share for one client, which is told things in this inbox. Dropping it is leaving.
    pub fn join(self: &Arc<Self>, inbox: Weak<dyn Inbox>) -> Arc<Share> {
        let mut state = self.state();
        state.last += 1;
        let share = state.last;
        let member = Arc::new(SessionMember::new(share, self.name.clone(), inbox));
        state.members.insert(share, member.clone());
        drop(state);
        Arc::new(Share { session: self.clone(), member })
    }

    fn state(&self) -> MutexGuard<'_, ShareState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What one client has of a shared connection.
pub struct Share {
    session: Arc<SharedSession>,
    member: Arc<SessionMember>,
}

impl Upstream for Share {
    fn submit(&self, request: Request) {
        match request.frame.method().unwrap_or_default() {
            method::LOGGING_SET_LEVEL | method::RESOURCES_SUBSCRIBE | method::RESOURCES_UNSUBSCRIBE
                if !self.is_modern() =>
            {
                self.session.set(&self.member, &request.frame, request.id, request.reply);
            }
            // It would show those of all clients.
            method::TASKS_LIST => request.reply.end(Outcome::Refused),
            _ if self.member.is_over() => {
                let error = self.member.error(&request.frame, ErrorKind::Closed);
                request.reply.end(Outcome::Failed(error));
            }
            // A call of this client alone.
            _ => {
                let timeout = self.time_for(&request.frame);
                self.session.connection.submit_for(Some(self.member.share), request, timeout);
                // It may have been dropped from the session meanwhile, by another thread, which could not end this call yet.
                if self.member.is_over() {
                    self.session.end_late_calls(&self.member);
                }
            }
        }
    }

    fn cancel(&self, id: &RawId, notification: &Frame) -> bool {
        self.session.connection.cancel_for(self.member.share, id, notification)
            || self.session.cancel_setting(&self.member, id)
    }

    fn forward(&self, notification: &Frame) -> bool {
        match notification.method().unwrap_or_default() {
            // The session was told when we greeted it.
            notification::INITIALIZED => true,
            // It was offered no roots, and has asked for nothing that could have progress.
            notification::ROOTS_LIST_CHANGED | notification::PROGRESS => false,
            _ => self.session.connection.forward(notification),
        }
    }

    fn hand_over(&self, _: Epoch, _: &RawId, _: Bytes) -> bool {
        false // No client is ever asked.
    }
}

impl ServerSide for Share {
    fn greet_as(&self, _: ClientParams) {} // The gateway greets, for all of them.

    fn welcome(&self) -> Option<HandshakeResult> {
        self.session.connection.welcome()
    }

    fn is_modern(&self) -> bool {
        self.session.connection.is_modern()
    }

    fn time_for(&self, request: &Frame) -> Option<Duration> {
        self.session.connection.time_for(request)
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.session.leave(&self.member);
    }
}
