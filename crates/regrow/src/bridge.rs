//! The bridge between eras: a client of either one works with a server of either one.
//!
//! It stands between the relay and the connection. Where both sides speak the same era, frames pass untouched. It
//! decides nothing about retries, deadlines or delivery of calls: all of that is the connection's.

mod calling;
mod calls;
mod held;
mod hello;
mod listening;
mod object;
mod onto_legacy;
mod onto_modern;
mod questions;
mod rounds;
mod streams;
mod subscribing;
mod timer;
mod welcome;
mod words;

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use bytes::Bytes;
use regrow_core::{Delivery, Epoch};

use crate::call::{Outcome, Reply};
use crate::connection::{Builder, Connection, WeakConnection};
use crate::error::{CallError, ErrorKind, Gap, Outlook};
use crate::frame::{Frame, RawId};
use crate::inbox::{Inbox, Incoming, Unasked};
use crate::memory::Welcome;
use crate::relay::{Port, Upstream};
use crate::transport::BoxFuture;
use calls::Calls;
use held::{Held, Request};
use listening::Listening;
use object::Object;
use rounds::Rounds;
use streams::Streams;
use welcome::About;

/// The era that one side speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Speaks {
    Legacy,
    Modern,
}

/// Stands between a client's [`Port`] and the [`Connection`] to its server.
pub struct Bridge {
    me: Weak<Bridge>,
    port: Arc<Port>,
    /// Whoever made us holds it open. We do not, since it holds us.
    connection: OnceLock<WeakConnection>,
    about: OnceLock<Arc<About>>,
    /// Never locked while the connection, the port or a reply is called: each of them may call us.
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// How the client greeted, or what its first request told.
    client: Option<Speaks>,
    server: Option<Speaks>,
    held: Held,
    /// What requests of a legacy client carry towards a modern server.
    envelope: Object,
    rounds: Rounds,
    listening: Listening,
    /// The log level that a legacy server was told for its modern client.
    level: Option<String>,
    calls: Calls,
    streams: Streams,
}

impl Bridge {
    /// Builds this connection with a bridge between it and the client of this port. What the client writes goes to
    /// the bridge, which does not hold the connection open.
    pub fn build(builder: Builder, port: Arc<Port>) -> (Arc<Bridge>, Connection) {
        let bridge = Arc::new_cyclic(|me| Bridge {
            me: me.clone(),
            port,
            connection: OnceLock::new(),
            about: OnceLock::new(),
            state: Mutex::default(),
        });
        let connection = builder.bridge_to(bridge.clone()).build();
        // Nobody else can have set it: the bridge was made here.
        let _ = bridge.connection.set(connection.downgrade());
        (bridge, connection)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn connection(&self) -> Option<Connection> {
        self.connection.get()?.upgrade()
    }

    /// What the server said of itself when it was first greeted.
    fn about(&self) -> Arc<About> {
        let welcome = || self.connection().and_then(|connection| connection.welcome());
        let read = |said: Option<Welcome>| {
            let result = said.map(|said| said.result).unwrap_or_default();
            Arc::new(About::read(&result, self.port.name()))
        };
        self.about.get_or_init(|| read(welcome())).clone()
    }

    /// A request of a client whose server's era is known.
    fn route(&self, request: Request, server: Speaks) {
        match (hello::speaks(&request.frame), server) {
            (Speaks::Legacy, Speaks::Modern) => self.onto_modern(request),
            (Speaks::Modern, Speaks::Legacy) => self.onto_legacy(request),
            _ => self.pass(request.frame, request.id, request.reply),
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

    fn gap(&self, request: &Frame, gap: Gap) -> Outcome {
        Outcome::Failed(self.error(request, ErrorKind::NotBridged(gap)))
    }

    /// Both eras, client's and server's; none while the client has not said anything.
    fn eras(&self) -> Option<(Speaks, Speaks)> {
        let (client, server) = {
            let state = self.state();
            (state.client, state.server)
        };
        // A server may speak before those that wait for its era were let go.
        let found = || match self.connection().is_some_and(|connection| connection.is_modern()) {
            true => Speaks::Modern,
            false => Speaks::Legacy,
        };
        Some((client?, server.unwrap_or_else(found)))
    }
}

impl Upstream for Bridge {
    fn submit(&self, request: Frame, id: RawId, reply: Box<dyn Reply>) {
        let request = Request { frame: request, id, reply };
        let mut state = self.state();
        hello::note(&mut state, &request.frame);
        match state.server {
            Some(server) => {
                drop(state);
                self.route(request, server);
            }
            // Says nothing about who asks, and is allowed before the handshake.
            None if hello::is_early_ping(&request.frame) => {
                drop(state);
                request.reply.end(words::answer(b"{}"));
            }
            None => {
                let taken = state.held.take(request);
                drop(state);
                self.hold(taken);
            }
        }
    }

    fn cancel(&self, id: &RawId, notification: &Frame) -> bool {
        let held = self.state().held.cancel(id);
        held || self.cancel_round(id)
            || self.cancel_subscribing(id)
            || self.cancel_call(id, notification)
            || self.cancel_stream(id)
            || self.connection().is_some_and(|connection| connection.cancel(id, notification))
    }

    fn forward(&self, notification: &Frame) -> bool {
        match self.eras() {
            Some((Speaks::Legacy, Speaks::Modern)) => self.forward_onto_modern(notification),
            _ => self.connection().is_some_and(|connection| connection.forward(notification)),
        }
    }

    fn hand_over(&self, epoch: Epoch, server_id: &RawId, answer: Bytes) -> bool {
        match epoch {
            words::OURS => self.answered(server_id, answer),
            _ => self.connection().is_some_and(|connection| connection.hand_over(epoch, server_id, answer)),
        }
    }
}

impl Inbox for Bridge {
    fn take(&self, incoming: Incoming) -> bool {
        match self.eras() {
            Some((Speaks::Legacy, Speaks::Modern)) => self.take_from_modern(incoming),
            Some((Speaks::Modern, Speaks::Legacy)) => self.take_from_legacy(incoming),
            Some(_) => self.port.take(incoming),
            None => false, // Nobody is there yet.
        }
    }

    fn unasked(&self, method: &str) -> Option<Unasked> {
        match self.eras() {
            Some((client, server)) if client == server => self.port.unasked(method),
            _ if method == "ping" => Some(Unasked::Pong),
            Some((Speaks::Modern, Speaks::Legacy)) if words::capability(method).is_some() => None,
            _ => Some(Unasked::UnknownMethod),
        }
    }

    fn has_room(&self) -> bool {
        self.port.has_room()
    }

    fn room(self: Arc<Self>) -> BoxFuture<()> {
        self.port.clone().room()
    }

    fn lost(&self, epoch: Epoch) {
        self.state().calls.forget_questions(epoch);
        self.port.lost(epoch);
    }

    fn over(&self) {
        self.end_rounds();
        self.end_subscribing();
        self.end_streams();
        self.state().calls = Calls::default(); // Nobody is left to answer for.
        self.port.over();
    }
}
