//! Where all modern requests of one principal at one endpoint meet: one client handle, and for each request an id and a token of our own.
//!
//! A call that was sent away for input comes back as another request, so it must meet the same client handle.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use regrow::{AutoReply, CallInbox, Inbox, Incoming};
use regrow_protocol::frame::{self, Edit, Frame, RawId};
use regrow_protocol::{method, notification};
use tokio::runtime::Handle;
use tokio::time::Instant;

use super::Face;
use super::face_stats::{Counted, FaceStats};
use super::memory::{Account, OutgoingLine};
use super::options::ClientLimits;
use super::reply_stream::{Keep, ReplyStream, Weight};
use super::unread_limit::UnreadLimit;
use crate::admit::{ClientHandle, Principal};

/// See the head of this file.
pub(super) struct ModernEndpoint {
    limits: ClientLimits,
    account: Account,
    face_stats: Arc<FaceStats>,
    last: AtomicU64,
    /// Gives up requests whose client does not read: not from inside a server's message.
    runtime: Handle,
    /// Never locked while the client handle is called: it may call us.
    state: Mutex<EndpointState>,
}

struct EndpointState {
    /// None once the endpoint is closed.
    client: Option<Arc<dyn ClientHandle>>,
    /// The streams of all requests, to end them with the endpoint.
    streams: HashMap<u64, OpenStream>,
    visits: usize,
    seen: Instant,
}

struct OpenStream {
    stream: Arc<ReplyStream>,
    /// Whether it is of a stream, which has no end of its own.
    listens: bool,
}

/// A request as its client knows it. Takes its messages.
pub(super) struct ModernCall {
    endpoint: Arc<ModernEndpoint>,
    pub(super) number: u64,
    id: RawId,
    token: Option<RawId>,
    pub(super) stream: Arc<ReplyStream>,
}

impl ModernEndpoint {
    pub(super) fn new(face: &Face, principal: Principal, now: Instant) -> Arc<ModernEndpoint> {
        let state = EndpointState { client: None, streams: HashMap::new(), visits: 0, seen: now };
        Arc::new(ModernEndpoint {
            limits: face.limits.clone(),
            account: face.account(principal),
            face_stats: face.face_stats.clone(),
            last: AtomicU64::new(0),
            runtime: Handle::current(),
            state: Mutex::new(state),
        })
    }

    pub(super) fn settle_in(&self, client: Arc<dyn ClientHandle>) {
        self.state().client = Some(client);
    }

    /// None once the endpoint is closed.
    pub(super) fn client(&self) -> Option<Arc<dyn ClientHandle>> {
        self.state().client.clone()
    }

    pub(super) fn visit(self: &Arc<ModernEndpoint>) -> ModernPresence {
        self.state().visits += 1;
        ModernPresence { endpoint: self.clone() }
    }

    /// A request begins. None if there are too many.
    pub(super) fn begin(
        self: &Arc<ModernEndpoint>,
        request: &Frame,
        id: RawId,
        now: Instant,
    ) -> Option<ModernCallGuard> {
        let listens = request.method() == Some(method::SUBSCRIPTIONS_LISTEN);
        // A stream without an end of its own is none of the calls that a shutdown waits for.
        let counted = if listens { None } else { Some(self.face_stats.call(self.account.principal)?) };
        let number = self.last.fetch_add(1, Relaxed) + 1;
        let room = Arc::new(UnreadLimit::new(usize::MAX)); // Not room decides here: see `take`.
        let keep = Keep { messages: 0, bytes: 0 };
        let stream = ReplyStream::new(number, keep, room, self.account.clone(), now);
        let mut state = self.state();
        if state.streams.len() >= self.limits.calls_per_session {
            self.face_stats.refuse();
            return None;
        }
        state.streams.insert(number, OpenStream { stream: stream.clone(), listens });
        let token = request.meta_progress_token().and_then(RawId::parse);
        let call = Arc::new(ModernCall { endpoint: self.clone(), number, id, token, stream });
        Some(ModernCallGuard { call, _counted: counted })
    }

    /// The client wants to hear no more of a request, if that still runs.
    fn give_up(&self, number: u64, reason: &str) {
        let (client, stream) = {
            let state = self.state();
            let Some(open) = state.streams.get(&number) else { return };
            (state.client.clone(), open.stream.clone())
        };
        stream.close();
        let cancelled = frame::cancellation(&number.into(), Some(reason));
        if let (Some(client), Ok(cancelled)) = (client, Frame::parse(cancelled)) {
            // Whether it still ran makes no difference any more.
            let _ = client.cancel(&RawId::from(number), &cancelled);
        }
    }

    /// Ends the streams that have no end of their own.
    pub(super) fn hush(&self) {
        self.state().streams.values().filter(|open| open.listens).for_each(|open| open.stream.close());
    }

    /// Everybody leaves: what still runs is cancelled, all streams end.
    pub(super) fn end(&self) {
        let client = {
            let mut state = self.state();
            state.streams.values().for_each(|open| open.stream.close());
            state.client.take()
        };
        drop(client);
    }

    pub(super) fn is_idle(&self, now: Instant) -> bool {
        let state = self.state();
        let idle = now.saturating_duration_since(state.seen) > self.limits.modern_idle;
        idle && state.visits == 0 && state.streams.is_empty()
    }

    fn state(&self) -> MutexGuard<'_, EndpointState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CallInbox for ModernCall {
    fn take(&self, incoming: Incoming) -> bool {
        let Some(line) = self.in_its_words(&incoming.frame) else {
            self.endpoint.face_stats.stray();
            return false;
        };
        let taken = self.stream.push(line, Weight::Notification);
        if self.stream.unread() > self.endpoint.limits.unread {
            // One that does not read must not hold up the others.
            self.endpoint.face_stats.refuse();
            tracing::warn!("closed the connection of a client that does not read its response");
            self.stream.close();
            let (endpoint, number) = (self.endpoint.clone(), self.number);
            self.endpoint.runtime.spawn(async move { endpoint.give_up(number, "the client does not read") });
        }
        taken
    }
}

impl Inbox for ModernEndpoint {
    /// In the modern era every message belongs to a request.
    fn take(&self, _: Incoming) -> bool {
        self.face_stats.stray();
        false
    }

    /// No modern client can be asked.
    fn auto_reply(&self, method: &str) -> Option<AutoReply> {
        Some(if method == method::PING { AutoReply::Pong } else { AutoReply::UnknownMethod })
    }

    /// All clients that show the same token, or none.
    fn is_one_client(&self) -> bool {
        false
    }

    fn over(&self) {
        self.end();
    }
}

impl ModernCall {
    /// The message with the client's own id and token; none if it is about a token that the client never gave, or a cancellation, of
    /// which there is none in this direction.
    fn in_its_words(&self, message: &Frame) -> Option<Bytes> {
        if message.method() == Some(notification::CANCELLED) {
            return None;
        }
        match (message.progress_token(), &self.token) {
            (None, _) => Some(message.with_subscription_id(&self.id)),
            (Some(_), Some(token)) => Some(message.with([Edit::ProgressToken(token)])),
            (Some(_), None) => None,
        }
    }
}

/// Somebody is here.
pub(super) struct ModernPresence {
    pub(super) endpoint: Arc<ModernEndpoint>,
}

impl Drop for ModernPresence {
    fn drop(&mut self) {
        let mut state = self.endpoint.state();
        state.visits -= 1;
        if state.visits == 0 {
            state.seen = Instant::now();
        }
    }
}

/// A request that is not answered yet. Dropping it is its end.
pub(super) struct ModernCallGuard {
    pub(super) call: Arc<ModernCall>,
    _counted: Option<Counted>,
}

impl ModernCallGuard {
    /// Answers the call. First makes room for the client's next one, since it may call again at once.
    pub(super) fn answer(self, answer: OutgoingLine, code: Option<i64>) {
        self.free_place();
        self.call.stream.finish(Some(answer), code);
    }

    fn free_place(&self) {
        self.call.endpoint.state().streams.remove(&self.call.number);
    }
}

impl Drop for ModernCallGuard {
    fn drop(&mut self) {
        self.free_place();
        self.call.stream.close();
    }
}

/// A client that waits for its response. Dropping it before there is an answer cancels the request.
pub(super) struct CancelOnDrop {
    pub(super) visit: ModernPresence,
    pub(super) number: u64,
}

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.visit.endpoint.give_up(self.number, "the client closed the response");
    }
}
