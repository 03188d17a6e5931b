//! The sessions of the legacy era, and how they are forgotten.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use super::stream::Stream;
use crate::plan::Orders;
use crate::sync::lock;

/// How many are remembered.
const KEPT_SESSIONS: usize = 4096;

/// What a client of the legacy era has with us.
pub(super) struct Session {
    pub(super) id: String,
    /// The value of `forget` when it began.
    generation: u64,
    calls: AtomicU64,
    /// Where the client listens.
    stream: Mutex<Option<Arc<Stream>>>,
}

impl Session {
    /// Counts a tool call.
    pub(super) fn count_call(&self) {
        self.calls.fetch_add(1, Ordering::SeqCst);
    }

    /// The client listens here from now on; where it listened before ends.
    pub(super) fn listen_on(&self, stream: Option<Arc<Stream>>) {
        let earlier = std::mem::replace(&mut *lock(&self.stream), stream);
        if let Some(earlier) = earlier {
            earlier.end();
        }
    }

    pub(super) fn stream(&self) -> Option<Arc<Stream>> {
        lock(&self.stream).clone()
    }
}

/// All of them.
#[derive(Default)]
pub(in crate::server) struct Sessions {
    known: Mutex<VecDeque<Arc<Session>>>,
    begun: AtomicU64,
}

impl Sessions {
    pub(super) fn begin(&self, life: u32, orders: &Orders) -> Arc<Session> {
        let number = self.begun.fetch_add(1, Ordering::SeqCst) + 1;
        let session = Arc::new(Session {
            id: format!("chaos-{life}-{number}"),
            generation: orders.number("forget").unwrap_or(0),
            calls: AtomicU64::new(0),
            stream: Mutex::default(),
        });
        let mut known = lock(&self.known);
        known.push_back(Arc::clone(&session));
        if known.len() > KEPT_SESSIONS {
            known.pop_front();
        }
        session
    }

    /// The session of this id, unless the plan says that it is forgotten by now.
    pub(super) fn find(&self, id: &str, orders: &Orders) -> Option<Arc<Session>> {
        let session = lock(&self.known).iter().find(|session| session.id == id).cloned()?;
        let worn =
            orders.number("forget-after").is_some_and(|limit| session.calls.load(Ordering::SeqCst) >= limit);
        if worn || session.generation != orders.number("forget").unwrap_or(0) {
            self.end(id);
            return None;
        }
        Some(session)
    }

    /// Forgets a session. Returns whether there was one.
    pub(super) fn end(&self, id: &str) -> bool {
        let mut known = lock(&self.known);
        let Some(at) = known.iter().position(|session| session.id == id) else { return false };
        if let Some(session) = known.remove(at) {
            session.listen_on(None);
        }
        true
    }

    /// Says something to everybody who listens.
    pub(in crate::server) fn say(&self, text: &str) {
        let listening: Vec<_> = lock(&self.known).iter().filter_map(|session| session.stream()).collect();
        listening.iter().for_each(|stream| stream.message(text));
    }
}
