//! What a legacy client wants to hear of, gathered into one stream of our own from its modern server.
//!
//! When that changes, a new stream is opened, and the old one ended as soon as the server has acknowledged the new: nothing
//! is missed, and nothing is told twice.

use std::collections::BTreeSet;
use std::mem;

use regrow_protocol::frame::{Frame, RawId};

use super::object::Object;
use super::timer::Timer;
use super::words;
use crate::call::Reply;

/// More subscriptions than this are refused,
const MAX_URIS: usize = 4096;
/// and longer ones.
const MAX_URI: usize = 4096;

/// What the client wants to hear of, and through which stream it does.
#[derive(Default)]
pub(super) struct Listening {
    pub(super) wanted: StreamFilter,
    /// Who has subscribed, and waits for a stream that tells of it.
    pub(super) waiting: Vec<WaitingSubscribe>,
    pub(super) opening: Option<ListenStream>,
    pub(super) open: Option<ListenStream>,
    pub(super) last: u64,
    pub(super) again: Option<Timer>,
}

#[derive(Clone, Default, PartialEq, Eq)]
pub(super) struct StreamFilter {
    pub(super) lists: Vec<&'static str>,
    pub(super) uris: BTreeSet<String>,
}

/// One stream.
pub(super) struct ListenStream {
    pub(super) id: RawId,
    pub(super) wanted: StreamFilter,
    /// Who waits for its acknowledgement.
    pub(super) waiting: Vec<WaitingSubscribe>,
}

pub(super) struct WaitingSubscribe {
    pub(super) number: u64,
    pub(super) uri: String,
    pub(super) request: Frame,
    pub(super) id: RawId,
    pub(super) reply: Box<dyn Reply>,
    pub(super) _limit: Timer,
}

/// What is to be done when the state is free again.
#[derive(Default)]
pub(super) struct Todo {
    pub(super) open: Option<(RawId, Object)>,
    pub(super) cancel: Option<RawId>,
    pub(super) subscribed: Vec<WaitingSubscribe>,
    pub(super) unheard: Vec<WaitingSubscribe>,
}

impl Listening {
    /// Whether this is the stream whose events count.
    pub(super) fn hears(&self, id: &RawId) -> bool {
        self.open.as_ref().is_some_and(|open| open.id == *id)
    }

    pub(super) fn has_room_for(&self, uri: &str) -> bool {
        uri.len() <= MAX_URI && self.wanted.uris.len() < MAX_URIS && self.waiting.len() < MAX_URIS
    }

    /// A number that no other has.
    pub(super) fn next(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    /// Opens a stream for what is subscribed to. One is opened at a time.
    pub(super) fn renew(&mut self) -> Todo {
        let mut todo = Todo::default();
        if self.opening.is_some() {
            return todo; // Looked at again when that one is acknowledged.
        }
        if self.open.as_ref().is_some_and(|open| open.wanted == self.wanted) {
            todo.subscribed = mem::take(&mut self.waiting);
        } else if self.wanted == StreamFilter::default() {
            todo.cancel = self.open.take().map(|open| open.id);
        } else {
            let id = words::own_id("listen", self.next());
            let waiting = mem::take(&mut self.waiting);
            self.opening = Some(ListenStream { id: id.clone(), wanted: self.wanted.clone(), waiting });
            self.again = None;
            todo.open = Some((id, words::filter(&self.wanted.lists, &self.wanted.uris)));
        }
        todo
    }

    pub(super) fn acknowledged(&mut self, id: &RawId, honoured: &Object) -> Todo {
        let Some(mut stream) = self.opening.take_if(|opening| opening.id == *id) else {
            return Todo::default();
        };
        let honoured: BTreeSet<String> =
            serde_json::from_value(honoured.value("resourceSubscriptions")).unwrap_or_default();
        let (subscribed, unheard): (Vec<_>, Vec<_>) =
            mem::take(&mut stream.waiting).into_iter().partition(|waiting| honoured.contains(&waiting.uri));
        for waiting in &unheard {
            // Nor is it asked for again.
            self.wanted.uris.remove(&waiting.uri);
            stream.wanted.uris.remove(&waiting.uri);
        }
        let old = self.open.replace(stream).map(|old| old.id);
        let mut todo = self.renew();
        todo.cancel = todo.cancel.or(old);
        todo.subscribed.extend(subscribed);
        todo.unheard.extend(unheard);
        todo
    }

    /// Takes out the newest for which this holds, and forgets what only it wanted.
    pub(super) fn give_up(&mut self, is_it: impl Fn(&WaitingSubscribe) -> bool) -> Option<WaitingSubscribe> {
        let opening = self.opening.as_mut().map(|opening| &mut opening.waiting);
        let found = [Some(&mut self.waiting), opening].into_iter().flatten().find_map(|queue| {
            let at = queue.iter().rposition(&is_it)?;
            Some(queue.remove(at))
        })?;
        self.forget(&found.uri);
        Some(found)
    }

    /// Somebody does not want this any more. What the stream tells of already, another may have asked for.
    pub(super) fn forget(&mut self, uri: &str) {
        let opening = self.opening.iter().flat_map(|opening| &opening.waiting);
        let is_awaited = self.waiting.iter().chain(opening).any(|waiting| waiting.uri == uri);
        let is_told = self.open.as_ref().is_some_and(|open| open.wanted.uris.contains(uri));
        if !is_awaited && !is_told {
            self.wanted.uris.remove(uri);
        }
    }
}
