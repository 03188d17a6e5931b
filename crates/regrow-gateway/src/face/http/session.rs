//! One legacy session: its client handle, and the streams to its client.

mod inbox;

use std::collections::{BTreeMap, HashMap};
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use regrow::core::Epoch;
use regrow::{CallInbox, Questions, SealingKey};
use regrow_protocol::frame::RawId;
use tokio::time::Instant;

use super::Face;
use super::face_stats::{Counted, FaceStats};
use super::memory::Account;
use super::options::ClientLimits;
use super::reply_stream::{Keep, ReplyStream};
use super::unread_limit::UnreadLimit;
use crate::admit::{ClientHandle, Principal, ServerScope};

/// Where the sessions are, by their ids.
pub(super) type Registry = Mutex<HashMap<String, Arc<Session>>>;

/// See the head of this file.
pub(super) struct Session {
    pub(super) id: String,
    /// Makes the ids of its events. Derived from its id, which is secret.
    pub(super) event_ids: SealingKey,
    pub(super) scope: ServerScope,
    pub(super) principal: Principal,
    /// Whether its client speaks the older HTTP+SSE, and so hears everything on one stream.
    pub(super) is_older: bool,
    /// What belongs to no call.
    pub(super) listening: Arc<ReplyStream>,
    room: Arc<UnreadLimit>,
    account: Account,
    limits: ClientLimits,
    face_stats: Arc<FaceStats>,
    registry: Weak<Registry>,
    /// Never locked while the client handle is called: it may call us.
    state: Mutex<SessionState>,
}

struct SessionState {
    /// None once the session is over.
    client: Option<Arc<dyn ClientHandle>>,
    counted: Option<Counted>,
    questions: Questions,
    /// How many calls are not answered yet.
    calls: usize,
    /// Those of calls, oldest first; some wait only for a client that comes back.
    streams: BTreeMap<u64, Arc<ReplyStream>>,
    last: u64,
    /// Requests of the client that are looked at, and streams that it reads.
    visits: usize,
    seen: Instant,
}

/// Whose a session is, and of which kind.
pub(super) struct Identity {
    pub(super) id: String,
    pub(super) scope: ServerScope,
    pub(super) principal: Principal,
    pub(super) is_older: bool,
}

impl Session {
    pub(super) fn new(
        face: &Face,
        identity: Identity,
        counted: Counted,
        registry: Weak<Registry>,
        now: Instant,
    ) -> Arc<Session> {
        let Identity { id, scope, principal, is_older } = identity;
        let (limits, account) = (&face.limits, face.account(principal));
        let room = Arc::new(UnreadLimit::new(limits.unread));
        let state = SessionState {
            client: None,
            counted: Some(counted),
            questions: Questions::default(),
            calls: 0,
            streams: BTreeMap::new(),
            last: 0,
            visits: 0,
            seen: now,
        };
        Arc::new(Session {
            event_ids: SealingKey::of(&id),
            id,
            scope,
            principal,
            is_older,
            listening: ReplyStream::new(0, keep(limits), room.clone(), account.clone(), now),
            room,
            account,
            limits: limits.clone(),
            face_stats: face.face_stats.clone(),
            registry,
            state: Mutex::new(state),
        })
    }

    /// The client was admitted.
    pub(super) fn settle_in(&self, client: Arc<dyn ClientHandle>) {
        self.state().client = Some(client);
    }

    /// None once the session is over.
    pub(super) fn client(&self) -> Option<Arc<dyn ClientHandle>> {
        self.state().client.clone()
    }

    /// The client is here, until the visit is dropped.
    pub(super) fn visit(self: &Arc<Session>) -> LegacyPresence {
        self.state().visits += 1;
        LegacyPresence { session: self.clone(), reads: None }
    }

    /// A stream for the calls of one request.
    pub(super) fn open_stream(&self, now: Instant) -> Arc<ReplyStream> {
        let mut state = self.state();
        state.last += 1;
        let (room, account) = (self.room.clone(), self.account.clone());
        let stream = ReplyStream::new(state.last, keep(&self.limits), room, account, now);
        state.streams.insert(stream.number, stream.clone());
        stream
    }

    /// The stream of this number, if it is still kept.
    pub(super) fn stream(&self, number: u64) -> Option<Arc<ReplyStream>> {
        if number == 0 {
            return Some(self.listening.clone());
        }
        self.state().streams.get(&number).cloned()
    }

    /// Nobody will come back for it.
    pub(super) fn forget_stream(&self, number: u64) {
        self.state().streams.remove(&number);
    }

    /// A call begins, whose messages go to this stream. None if there are too many.
    pub(super) fn begin(self: &Arc<Session>, stream: &Arc<ReplyStream>) -> Option<LegacyCallGuard> {
        let counted = self.face_stats.call(self.principal)?;
        let mut state = self.state();
        if state.calls >= self.limits.calls_per_session {
            self.face_stats.refuse();
            return None;
        }
        state.calls += 1;
        Some(LegacyCallGuard {
            session: self.clone(),
            stream: stream.clone(),
            has_place: true,
            _counted: counted,
        })
    }

    /// The client answered. Returns the session of the server, and the server's own id of its question.
    pub(super) fn answered(&self, id: &RawId) -> Option<(Epoch, RawId)> {
        let asked = self.state().questions.answer(id);
        if asked.is_none() {
            self.face_stats.stray();
        }
        asked
    }

    /// The client leaves: its calls are cancelled, its streams end.
    pub(super) fn end(&self) {
        let (client, counted, streams) = {
            let mut state = self.state();
            (state.client.take(), state.counted.take(), mem::take(&mut state.streams))
        };
        if let Some(registry) = self.registry.upgrade() {
            registry.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.id);
        }
        self.listening.close();
        streams.values().for_each(|stream| stream.close());
        drop((client, counted));
    }

    pub(super) fn is_idle(&self, now: Instant) -> bool {
        let state = self.state();
        let idle = now.saturating_duration_since(state.seen) > self.limits.session_idle;
        idle && state.visits == 0 && state.calls == 0
    }

    /// Streams that ended and wait for a client to come back are kept for some time, and not too many.
    pub(super) fn prune(&self, now: Instant) {
        let mut state = self.state();
        let waits = |stream: &ReplyStream| {
            stream.left().is_some_and(|left| now.saturating_duration_since(left) <= self.limits.kept_time)
        };
        state.streams.retain(|_, stream| stream.left().is_none() || waits(stream));
        let waiting: Vec<_> = state
            .streams
            .values()
            .filter(|stream| stream.left().is_some())
            .map(|stream| (stream.number, stream.size()))
            .collect();
        let mut bytes: usize = waiting.iter().map(|(_, size)| size).sum();
        let mut count = waiting.len();
        for (number, size) in waiting {
            if count <= self.limits.kept_streams && bytes <= self.limits.kept_bytes {
                break;
            }
            state.streams.remove(&number);
            count -= 1;
            bytes -= size;
        }
    }

    fn state(&self) -> MutexGuard<'_, SessionState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SessionState {
    /// After a visit or a call: the time counts if it was the last.
    fn note_idle(&mut self) {
        if self.visits == 0 && self.calls == 0 {
            self.seen = Instant::now();
        }
    }
}

fn keep(limits: &ClientLimits) -> Keep {
    Keep { messages: limits.kept_messages, bytes: limits.kept_bytes }
}

/// The client is here.
pub(super) struct LegacyPresence {
    pub(super) session: Arc<Session>,
    /// The number of the stream that it reads.
    pub(super) reads: Option<u64>,
}

impl Drop for LegacyPresence {
    fn drop(&mut self) {
        let leaves_stream = {
            let mut state = self.session.state();
            state.visits -= 1;
            state.note_idle();
            self.reads.is_some_and(|stream| state.streams.contains_key(&stream))
        };
        if leaves_stream {
            self.session.prune(Instant::now()); // The stream may have ended.
        }
    }
}

/// A call that is not answered yet. Dropping it is its end.
pub(super) struct LegacyCallGuard {
    pub(super) session: Arc<Session>,
    stream: Arc<ReplyStream>,
    has_place: bool,
    _counted: Counted,
}

impl LegacyCallGuard {
    /// Makes room for the client's next call. Comes before the answer, since the client may call again at once.
    pub(super) fn free_place(&mut self) {
        if mem::take(&mut self.has_place) {
            let mut state = self.session.state();
            state.calls -= 1;
            state.note_idle();
        }
    }

    /// Where the messages of the call go.
    pub(super) fn inbox(&self) -> Arc<dyn CallInbox> {
        Arc::new(inbox::StreamInbox { session: self.session.clone(), stream: self.stream.clone() })
    }
}

impl Drop for LegacyCallGuard {
    fn drop(&mut self) {
        self.free_place();
        if self.stream.left().is_some() {
            self.session.prune(Instant::now());
        }
    }
}
