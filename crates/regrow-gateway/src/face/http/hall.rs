//! Where all modern requests of one principal at one endpoint meet: one client handle, and for each request an id and a token of our own.
//!
//! A call that was sent away for input comes back as another request, so it must meet the same client handle.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use bytes::Bytes;
use regrow::{AutoReply, Inbox, Incoming};
use regrow_protocol::frame::{self, Edit, Frame, RawId};
use regrow_protocol::{method, notification};
use tokio::runtime::Handle;
use tokio::time::Instant;

use super::census::{Census, Counted};
use super::lane::{Keep, Lane, Weight};
use super::options::Limits;
use super::room::Room;
use crate::admit::ClientHandle;

/// See the head of this file.
pub(super) struct Hall {
    me: Weak<Hall>,
    limits: Limits,
    census: Arc<Census>,
    last: AtomicU64,
    /// Gives up requests whose client does not read: not from inside a server's message.
    runtime: Handle,
    /// Never locked while the client handle is called: it may call us.
    state: Mutex<State>,
}

struct State {
    /// None once the hall is closed.
    client: Option<Arc<dyn ClientHandle>>,
    calls: HashMap<u64, Call>,
    visits: usize,
    seen: Instant,
}

/// A request as its client knows it.
struct Call {
    id: RawId,
    token: Option<RawId>,
    lane: Arc<Lane>,
    /// Whether it is a stream, without an end of its own.
    listens: bool,
}

impl Hall {
    pub(super) fn new(limits: &Limits, census: &Arc<Census>, now: Instant) -> Arc<Hall> {
        let state = State { client: None, calls: HashMap::new(), visits: 0, seen: now };
        Arc::new_cyclic(|me| Hall {
            me: me.clone(),
            limits: limits.clone(),
            census: census.clone(),
            last: AtomicU64::new(0),
            runtime: Handle::current(),
            state: Mutex::new(state),
        })
    }

    pub(super) fn settle_in(&self, client: Arc<dyn ClientHandle>) {
        self.state().client = Some(client);
    }

    /// None once the hall is closed.
    pub(super) fn client(&self) -> Option<Arc<dyn ClientHandle>> {
        self.state().client.clone()
    }

    pub(super) fn visit(self: &Arc<Hall>) -> Visit {
        self.state().visits += 1;
        Visit { hall: self.clone() }
    }

    /// A request begins. None if there are too many.
    pub(super) fn begin(self: &Arc<Hall>, request: &Frame, id: RawId, now: Instant) -> Option<Ticket> {
        let listens = request.method() == Some(method::SUBSCRIPTIONS_LISTEN);
        // A stream without an end of its own is none of the calls that a shutdown waits for.
        let counted = if listens { None } else { Some(self.census.call(self.limits.calls)?) };
        let number = self.last.fetch_add(1, Relaxed) + 1;
        let room = Arc::new(Room::new(usize::MAX)); // Not room decides here: see `take`.
        let lane = Lane::new(number, Keep { messages: 0, bytes: 0 }, room, now);
        let mut state = self.state();
        if state.calls.len() >= self.limits.calls_per_session {
            self.census.refuse();
            return None;
        }
        let token = request.meta_progress_token().and_then(RawId::parse);
        state.calls.insert(number, Call { id, token, lane: lane.clone(), listens });
        Some(Ticket { hall: self.clone(), number, lane, _counted: counted })
    }

    /// The client wants to hear no more of a request.
    fn give_up(&self, number: u64, reason: &str) {
        let (client, lane) = {
            let state = self.state();
            let Some(call) = state.calls.get(&number) else { return };
            (state.client.clone(), call.lane.clone())
        };
        lane.close();
        let cancelled = frame::cancellation(&number.into(), Some(reason));
        if let (Some(client), Ok(cancelled)) = (client, Frame::parse(cancelled)) {
            // Whether it still ran makes no difference any more.
            let _ = client.cancel(&RawId::from(number), &cancelled);
        }
    }

    /// Ends the streams that have no end of their own.
    pub(super) fn hush(&self) {
        self.state().calls.values().filter(|call| call.listens).for_each(|call| call.lane.close());
    }

    /// Everybody leaves: what still runs is cancelled, all streams end.
    pub(super) fn end(&self) {
        let client = {
            let mut state = self.state();
            state.calls.values().for_each(|call| call.lane.close());
            state.client.take()
        };
        drop(client);
    }

    pub(super) fn is_idle(&self, now: Instant) -> bool {
        let state = self.state();
        let idle = now.saturating_duration_since(state.seen) > self.limits.modern_idle;
        idle && state.visits == 0 && state.calls.is_empty()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inbox for Hall {
    fn take(&self, incoming: Incoming) -> bool {
        let Incoming { call, frame, .. } = incoming;
        let token = || frame.progress_token().and_then(RawId::parse);
        let number = call.or_else(|| frame.subscription_id()).or_else(token).as_ref().and_then(number);
        let told = number.and_then(|number| {
            let state = self.state();
            let call = state.calls.get(&number)?;
            Some((number, call.lane.clone(), call.in_its_words(&frame)?))
        });
        let Some((number, lane, line)) = told else {
            self.census.stray();
            return false;
        };
        let taken = lane.push(line, Weight::Notification);
        if lane.unread() > self.limits.unread {
            // One that does not read must not hold up the others.
            self.census.refuse();
            tracing::warn!("a client that does not read its response was cut off");
            lane.close();
            if let Some(hall) = self.me.upgrade() {
                self.runtime.spawn(async move { hall.give_up(number, "the client does not read") });
            }
        }
        taken
    }

    /// No modern client can be asked.
    fn auto_reply(&self, method: &str) -> Option<AutoReply> {
        Some(if method == method::PING { AutoReply::Pong } else { AutoReply::UnknownMethod })
    }

    fn over(&self) {
        self.end();
    }
}

impl Call {
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

/// One of our own ids.
fn number(id: &RawId) -> Option<u64> {
    std::str::from_utf8(id.as_bytes()).ok()?.parse().ok()
}

/// Somebody is here.
pub(super) struct Visit {
    pub(super) hall: Arc<Hall>,
}

impl Drop for Visit {
    fn drop(&mut self) {
        let mut state = self.hall.state();
        state.visits -= 1;
        state.seen = Instant::now();
    }
}

/// A request that is not answered yet. Dropping it is its end.
pub(super) struct Ticket {
    hall: Arc<Hall>,
    pub(super) number: u64,
    pub(super) lane: Arc<Lane>,
    _counted: Option<Counted>,
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.lane.close();
        self.hall.state().calls.remove(&self.number);
    }
}

/// A client that waits for its response. Dropping it before there is an answer cancels the request.
pub(super) struct Waiting {
    pub(super) visit: Visit,
    pub(super) number: u64,
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.visit.hall.give_up(self.number, "the client closed the response");
    }
}
