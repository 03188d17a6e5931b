//! A connection that somebody else holds open.

use std::sync::{Arc, Weak};
use std::time::Duration;

use bytes::Bytes;
use regrow_core::Epoch;
use regrow_protocol::frame::{Frame, RawId};

use super::{Connection, Handle};
use crate::call::{Outcome, Request};
use crate::error::{CallError, ErrorKind};
use crate::upstream::{ClientParams, HandshakeResult, ServerSide, Upstream};

/// A connection that somebody else holds open. When all who held it have let go, it does nothing.
pub(super) struct WeakConnection {
    pub(super) name: Arc<str>,
    pub(super) handle: Weak<Handle>,
}

impl WeakConnection {
    fn upgrade(&self) -> Option<Connection> {
        self.handle.upgrade().map(|handle| Connection { shared: handle.shared.clone(), handle })
    }
}

impl Upstream for WeakConnection {
    fn submit(&self, request: Request) {
        match self.upgrade() {
            Some(connection) => connection.submit(request),
            None => {
                let error = CallError::unsent(self.name.clone(), &request.frame, ErrorKind::Closed);
                request.reply.end(Outcome::Failed(error));
            }
        }
    }

    fn cancel(&self, id: &RawId, notification: &Frame) -> bool {
        self.upgrade().is_some_and(|connection| connection.cancel(id, notification))
    }

    fn forward(&self, notification: &Frame) -> bool {
        self.upgrade().is_some_and(|connection| connection.forward(notification))
    }

    fn hand_over(&self, epoch: Epoch, server_id: &RawId, answer: Bytes) -> bool {
        self.upgrade().is_some_and(|connection| connection.hand_over(epoch, server_id, answer))
    }

    fn cork(&self) {
        if let Some(connection) = self.upgrade() {
            connection.shared.lock().cork();
        }
    }

    fn uncork(&self) {
        if let Some(connection) = self.upgrade() {
            connection.shared.lock().uncork();
        }
    }
}

impl ServerSide for WeakConnection {
    fn greet_as(&self, hello: ClientParams) {
        if let Some(connection) = self.upgrade() {
            connection.greet_as(hello);
        }
    }

    fn welcome(&self) -> Option<HandshakeResult> {
        self.upgrade()?.welcome()
    }

    fn is_modern(&self) -> bool {
        self.upgrade().is_some_and(|connection| connection.is_modern())
    }

    fn time_for(&self, request: &Frame) -> Option<Duration> {
        self.upgrade()?.time_for(request)
    }
}
