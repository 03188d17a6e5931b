//! The bridge between eras: a client of either one works with a server of either one.
//!
//! It stands between the client's side and the connection. Until the server's era is known, requests wait here. From then on it is
//! needed only where the eras differ ([`Bridge::is_needed_for`]); frames of the same era pass it untouched. It decides nothing about
//! retries, deadlines or delivery of calls: all of that is the connection's.

mod calling;
mod calls;
mod held;
mod hello;
mod listening;
mod object;
mod onto_legacy;
mod onto_modern;
mod polish;
mod questions;
mod rounds;
mod streams;
mod subscribing;
mod timer;
mod welcome;
mod words;

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use bytes::Bytes;
use regrow_core::Epoch;
use regrow_protocol::frame::{Frame, RawId};
use regrow_protocol::method;

use crate::call::{Outcome, Request};
use crate::connection::{Builder, Connection};
use crate::error::{CallError, ErrorKind, Gap};
use crate::inbox::{AutoReply, Inbox, Incoming};
use crate::transport::BoxFuture;
use crate::upstream::{HandshakeResult, ServerSide, Upstream};
use calls::Calls;
use held::HeldRequests;
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

/// Stands between a client and the [`Connection`] to its server.
pub struct Bridge {
    me: Weak<Bridge>,
    name: Arc<str>,
    /// Where everything goes that the client is told, such as its [`Port`](crate::Port).
    client: Arc<dyn Inbox>,
    /// Set once, by who makes the bridge. It does not hold a connection open, which may hold us.
    far: OnceLock<Arc<dyn ServerSide>>,
    /// Set when the server's era is known and nothing waits here any more, under the lock of the state.
    server: OnceLock<Speaks>,
    /// Whether a legacy client is told of changed lists of a modern server.
    listens_to_lists: bool,
    about: OnceLock<Arc<About>>,
    /// Never locked while the far side, the client or a reply is called: each of them may call us.
    state: Mutex<BridgeState>,
}

#[derive(Default)]
struct BridgeState {
    /// How the client greeted, or what its first request told.
    client: Option<Speaks>,
    held: HeldRequests,
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
    /// Builds this connection with a bridge between it and this client. What the client writes goes to
    /// the bridge, which does not hold the connection open.
    pub fn build(builder: Builder, client: Arc<dyn Inbox>) -> (Arc<Bridge>, Connection) {
        let bridge = Bridge::towards(builder.name().clone(), client, true);
        let connection = builder.bridge_to(bridge.clone()).build();
        bridge.lead_to(connection.server_side());
        (bridge, connection)
    }

    /// A bridge for a program that hears of changed lists itself. Before its first use it must be told where it leads to.
    pub fn new(name: impl Into<Arc<str>>, client: Arc<dyn Inbox>) -> Arc<Bridge> {
        Bridge::towards(name.into(), client, false)
    }

    /// Where the bridge leads to, once. What the server sends goes into the bridge; the far side must not hold it.
    pub fn lead_to(&self, far: Arc<dyn ServerSide>) {
        let is_first = self.far.set(far).is_ok();
        debug_assert!(is_first, "a bridge leads to one place");
    }

    fn towards(name: Arc<str>, client: Arc<dyn Inbox>, listens_to_lists: bool) -> Arc<Bridge> {
        Arc::new_cyclic(|me| Bridge {
            me: me.clone(),
            name,
            client,
            far: OnceLock::new(),
            server: OnceLock::new(),
            listens_to_lists,
            about: OnceLock::new(),
            state: Mutex::default(),
        })
    }

    fn state(&self) -> MutexGuard<'_, BridgeState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn far(&self) -> &dyn ServerSide {
        &**self.far.get().expect("set where the bridge is made, before anybody has it")
    }

    /// Whether this request must go through the bridge: the server's era is not known yet, or is not the request's. A handshake tells
    /// the bridge who the client is.
    pub fn is_needed_for(&self, request: &Frame) -> bool {
        request.method().is_some_and(method::is_handshake)
            || self.server.get() != Some(&hello::speaks(request))
    }

    /// Whether what the server sends must go through the bridge: the eras differ, or are not known yet.
    pub fn is_needed(&self) -> bool {
        self.eras().is_none_or(|(client, server)| client != server)
    }

    /// Whether a client is away to answer, or waits for one of the calls here.
    pub fn has_calls(&self) -> bool {
        !self.state().calls.open.is_empty()
    }

    /// Whether a client was sent away with this, and has not come back.
    pub fn awaits(&self, request_state: &str) -> bool {
        self.state().calls.open.values().any(|call| call.state.as_deref() == Some(request_state))
    }

    /// What the server said of itself when it was first greeted.
    fn about(&self) -> Arc<About> {
        let read = |said: Option<HandshakeResult>| {
            let result = said.map(|said| said.result).unwrap_or_default();
            Arc::new(About::read(&result, &self.name))
        };
        self.about.get_or_init(|| read(self.far().welcome())).clone()
    }

    /// A request of a client whose server's era is known.
    fn route(&self, request: Request, server: Speaks) {
        match (hello::speaks(&request.frame), server) {
            (Speaks::Legacy, Speaks::Modern) => self.onto_modern(request),
            (Speaks::Modern, Speaks::Legacy) => self.onto_legacy(request),
            _ => self.pass(request),
        }
    }

    /// A notification of this client to a server whose era is known.
    fn forward_to(&self, client: Option<Speaks>, server: Speaks, notification: &Frame) -> bool {
        match (client, server) {
            (Some(Speaks::Legacy), Speaks::Modern) => self.forward_onto_modern(notification),
            _ => self.far().forward(notification),
        }
    }

    /// A request to the server, as it is.
    fn pass(&self, request: Request) {
        self.far().submit(request);
    }

    /// What a client is told of a request that never left the bridge.
    fn error(&self, request: &Frame, kind: ErrorKind) -> CallError {
        CallError::unsent(self.name.clone(), request, kind)
    }

    fn gap(&self, request: &Frame, gap: Gap) -> Outcome {
        Outcome::Failed(self.error(request, ErrorKind::NotBridged(gap)))
    }

    /// Both eras, client's and server's; none while the client has not said anything.
    fn eras(&self) -> Option<(Speaks, Speaks)> {
        let client = self.state().client;
        // A server may speak before those that wait for its era were let go.
        let found = || match self.far().is_modern() {
            true => Speaks::Modern,
            false => Speaks::Legacy,
        };
        Some((client?, self.server.get().copied().unwrap_or_else(found)))
    }
}

impl Upstream for Bridge {
    fn submit(&self, request: Request) {
        hello::note(&mut self.state(), &request.frame);
        match self.server.get() {
            Some(&server) => self.route(request, server),
            // Says nothing about who asks, and is allowed before the handshake.
            None if hello::is_early_ping(&request.frame) => request.reply.end(words::answer(b"{}")),
            None => self.hold(request),
        }
    }

    fn cancel(&self, id: &RawId, notification: &Frame) -> bool {
        let held = self.state().held.cancel(id);
        held || self.cancel_round(id)
            || self.cancel_subscribing(id)
            || self.cancel_call(id, notification)
            || self.cancel_stream(id)
            || self.far().cancel(id, notification)
    }

    fn forward(&self, notification: &Frame) -> bool {
        let (client, server) = {
            let mut state = self.state();
            match self.server.get() {
                Some(&server) => (state.client, server),
                None => return state.held.take_note(notification, &self.name),
            }
        };
        self.forward_to(client, server, notification)
    }

    fn hand_over(&self, epoch: Epoch, server_id: &RawId, answer: Bytes) -> bool {
        match epoch {
            words::OURS => self.answered(server_id, answer),
            _ => self.far().hand_over(epoch, server_id, answer),
        }
    }

    fn cork(&self) {
        self.far().cork();
    }

    fn uncork(&self) {
        self.far().uncork();
    }
}

impl Inbox for Bridge {
    fn take(&self, incoming: Incoming) -> bool {
        match self.eras() {
            Some((Speaks::Legacy, Speaks::Modern)) => self.take_from_modern(incoming),
            Some((Speaks::Modern, Speaks::Legacy)) => self.take_from_legacy(incoming),
            Some(_) => self.client.take(incoming),
            None => false, // Nobody is there yet.
        }
    }

    fn auto_reply(&self, method: &str) -> Option<AutoReply> {
        match self.eras() {
            Some((client, server)) if client == server => self.client.auto_reply(method),
            _ if method == method::PING => Some(AutoReply::Pong),
            Some((Speaks::Modern, Speaks::Legacy)) if method::client_capability(method).is_some() => None,
            _ => Some(AutoReply::UnknownMethod),
        }
    }

    fn is_one_client(&self) -> bool {
        self.client.is_one_client()
    }

    fn has_room(&self) -> bool {
        self.client.has_room()
    }

    fn cork(&self) {
        self.client.cork();
    }

    fn uncork(&self) {
        self.client.uncork();
    }

    fn room(self: Arc<Self>) -> BoxFuture<()> {
        self.client.clone().room()
    }

    fn lost(&self, epoch: Epoch) {
        self.state().calls.forget_questions(epoch);
        self.client.lost(epoch);
    }

    fn over(&self) {
        self.end_rounds();
        self.end_subscribing();
        self.end_streams();
        self.state().calls = Calls::default(); // Nobody is left to answer for.
        self.client.over();
    }
}
