//! The bridge between eras: a client of either one works with a server of either one.
//!
//! It stands between the relay and the connection. Where both sides speak the same era, frames pass untouched. It
//! decides nothing about retries, deadlines or delivery: all of that is the connection's.

mod held;
mod hello;

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use bytes::Bytes;
use regrow_core::{Delivery, Epoch};

use crate::call::{Outcome, Reply};
use crate::connection::{Builder, Connection, WeakConnection};
use crate::error::{CallError, ErrorKind, Outlook};
use crate::frame::{Frame, RawId};
use crate::inbox::{Inbox, Incoming, Unasked};
use crate::relay::{Port, Upstream};
use crate::transport::BoxFuture;
use held::{Held, Request};

/// The era that one side speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Speaks {
    Legacy,
    Modern,
}

/// Stands between a client's [`Port`] and the [`Connection`] to its server.
pub struct Bridge {
    port: Arc<Port>,
    /// Whoever made us holds it open. We do not, since it holds us.
    connection: OnceLock<WeakConnection>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// How the client greeted, or what its first request told.
    client: Option<Speaks>,
    server: Option<Speaks>,
    held: Held,
}

impl Bridge {
    /// Builds this connection with a bridge between it and the client of this port. What the client writes goes to the bridge.
    ///
    /// The bridge does not hold the connection open.
    pub fn build(builder: Builder, port: Arc<Port>) -> (Arc<Bridge>, Connection) {
        let bridge = Arc::new(Bridge { port, connection: OnceLock::new(), state: Mutex::default() });
        let connection = builder.bridge_to(bridge.clone()).build();
        // Nobody else can have set it: we made the bridge here.
        let _ = bridge.connection.set(connection.downgrade());
        (bridge, connection)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn connection(&self) -> Option<Connection> {
        self.connection.get()?.upgrade()
    }

    /// A request of a client whose server's era is known.
    fn route(&self, request: Request, server: Speaks) {
        let Request { frame, id, reply } = request;
        match (hello::speaks(&frame), server) {
            (client, server) if client == server => self.pass(frame, id, reply),
            _ => reply.end(Outcome::Failed(self.error(&frame, ErrorKind::Unavailable))),
        }
    }

    /// A request to the connection, as it is.
    fn pass(&self, request: Frame, id: RawId, reply: Box<dyn Reply>) {
        match self.connection() {
            Some(connection) => connection.submit(request, id, reply),
            None => reply.end(Outcome::Failed(self.error(&request, ErrorKind::Closed))),
        }
    }

    /// What a client is told of a request that never left the bridge.
    fn error(&self, request: &Frame, kind: ErrorKind) -> CallError {
        CallError {
            server: self.port.name().clone(),
            epoch: None,
            delivery: Delivery::NotSent,
            kind,
            fault: None,
            outlook: if kind == ErrorKind::Closed { Outlook::Closed } else { Outlook::Serving },
            repeatable: false,
            tool: request.name().filter(|_| request.method() == Some("tools/call")).map(Arc::from),
            stderr: vec![],
        }
    }
}

impl Upstream for Arc<Bridge> {
    fn submit(&self, request: Frame, id: RawId, reply: Box<dyn Reply>) {
        let request = Request { frame: request, id, reply };
        let mut state = self.state();
        hello::note(&mut state.client, &request.frame);
        match state.server {
            Some(server) => {
                drop(state);
                self.route(request, server);
            }
            None => {
                let taken = state.held.take(request);
                drop(state);
                self.hold(taken);
            }
        }
    }

    fn cancel(&self, id: &RawId, notification: &Frame) -> bool {
        self.state().held.cancel(id) || self.connection().is_some_and(|c| c.cancel(id, notification))
    }

    fn forward(&self, notification: &Frame) -> bool {
        self.connection().is_some_and(|connection| connection.forward(notification))
    }

    fn hand_over(&self, epoch: Epoch, server_id: &RawId, answer: Bytes) -> bool {
        self.connection().is_some_and(|connection| connection.hand_over(epoch, server_id, answer))
    }
}

impl Inbox for Bridge {
    fn take(&self, incoming: Incoming) -> bool {
        self.port.take(incoming)
    }

    fn unasked(&self, method: &str) -> Option<Unasked> {
        self.port.unasked(method)
    }

    fn has_room(&self) -> bool {
        self.port.has_room()
    }

    fn room(self: Arc<Self>) -> BoxFuture<()> {
        self.port.clone().room()
    }

    fn lost(&self, epoch: Epoch) {
        self.port.lost(epoch);
    }
}
