//! What a legacy client wants to hear of, gathered into one stream of our own from its modern server.
//!
//! When that changes, a new stream is opened, and the old one ended as soon as the server has acknowledged the new: nothing
//! is missed, and nothing is told twice.

use std::collections::BTreeSet;
use std::mem;
use std::sync::Weak;
use std::time::Duration;

use regrow_core::Delivery;

use super::Bridge;
use super::object::Object;
use super::timer::Timer;
use super::words;
use crate::call::{Outcome, Reply};
use crate::error::{CallError, ErrorKind, Gap};
use crate::frame::{Frame, RawId};

/// More subscriptions than this are refused.
const MAX_URIS: usize = 10_000;
/// A stream has no deadline, but who subscribes has.
const ACKNOWLEDGED_WITHIN: Duration = Duration::from_secs(30);
/// A server that ends a stream in good order is not asked for the next one at once.
const REOPENED_AFTER: Duration = Duration::from_secs(5);

/// What the client wants to hear of, and through which stream it does.
#[derive(Default)]
pub(super) struct Listening {
    lists: Vec<&'static str>,
    uris: BTreeSet<String>,
    /// Who has subscribed, and waits for a stream that tells of it.
    waiting: Vec<Waiting>,
    opening: Option<Stream>,
    open: Option<Stream>,
    last: u64,
    again: Option<Timer>,
}

/// One stream.
struct Stream {
    id: RawId,
    filter: Vec<u8>,
    /// Who waits for its acknowledgement, and for how long at most.
    waiting: Vec<Waiting>,
    _limit: Option<Timer>,
}

struct Waiting {
    uri: String,
    request: Frame,
    id: RawId,
    reply: Box<dyn Reply>,
}

/// What is to be done when the state is free again.
#[derive(Default)]
struct Todo {
    open: Option<(RawId, Object)>,
    cancel: Option<RawId>,
    subscribed: Vec<Waiting>,
    unheard: Vec<Waiting>,
}

impl Listening {
    /// Whether this is the stream whose events count.
    pub(super) fn hears(&self, id: &RawId) -> bool {
        self.open.as_ref().is_some_and(|open| open.id == *id)
    }

    fn filter(&self) -> Object {
        let mut filter = Object::default();
        self.lists.iter().for_each(|list| filter.put(list, true));
        if !self.uris.is_empty() {
            filter.put("resourceSubscriptions", &self.uris);
        }
        filter
    }

    /// Sees to it that a stream tells of what is wanted. One is opened at a time.
    fn renew(&mut self, me: &Weak<Bridge>) -> Todo {
        let mut todo = Todo::default();
        if self.opening.is_some() {
            return todo; // Looked at again when that one is acknowledged.
        }
        let filter = self.filter();
        if self.open.as_ref().is_some_and(|open| open.filter == filter.bytes()) {
            todo.subscribed = mem::take(&mut self.waiting);
        } else if filter.is_empty() {
            todo.cancel = self.open.take().map(|open| open.id);
        } else {
            self.last += 1;
            let id = words::own_id("listen", self.last);
            let waiting = mem::take(&mut self.waiting);
            let late = id.clone();
            let limit = (!waiting.is_empty()).then(|| {
                Timer::after(me, ACKNOWLEDGED_WITHIN, move |bridge| bridge.acknowledges_late(&late))
            });
            self.opening = Some(Stream { id: id.clone(), filter: filter.bytes(), waiting, _limit: limit });
            self.again = None;
            todo.open = Some((id, filter));
        }
        todo
    }

    fn acknowledged(&mut self, id: &RawId, honoured: &Object, me: &Weak<Bridge>) -> Todo {
        let Some(mut stream) = self.opening.take_if(|opening| opening.id == *id) else {
            return Todo::default();
        };
        let honoured: BTreeSet<String> =
            serde_json::from_value(honoured.value("resourceSubscriptions")).unwrap_or_default();
        let (subscribed, unheard): (Vec<_>, Vec<_>) =
            mem::take(&mut stream.waiting).into_iter().partition(|waiting| honoured.contains(&waiting.uri));
        let unchanged = stream.filter == self.filter().bytes();
        for waiting in &unheard {
            self.uris.remove(&waiting.uri);
        }
        if unchanged {
            stream.filter = self.filter().bytes(); // What is not honoured need not be asked for again.
        }
        stream._limit = None;
        let old = self.open.replace(stream).map(|old| old.id);
        let mut todo = self.renew(me);
        todo.cancel = todo.cancel.or(old);
        todo.subscribed.extend(subscribed);
        todo.unheard.extend(unheard);
        todo
    }
}

impl Bridge {
    /// The client wants to hear of changes of these lists.
    pub(super) fn listen_to_lists(&self, lists: &[&'static str]) {
        let mut state = self.state();
        state.listening.lists = lists.to_vec();
        let todo = state.listening.renew(&self.me);
        drop(state);
        self.carry_out(todo);
    }

    pub(super) fn subscribe(&self, request: Frame, id: RawId, reply: Box<dyn Reply>) {
        let Some(uri) = request.uri().map(|uri| uri.into_owned()) else {
            return reply.end(words::refusal(-32602, "Invalid params: uri is missing", None));
        };
        let mut state = self.state();
        if state.listening.uris.len() >= MAX_URIS {
            drop(state);
            return reply.end(Outcome::Failed(self.error(&request, ErrorKind::Overloaded)));
        }
        state.listening.uris.insert(uri.clone());
        state.listening.waiting.push(Waiting { uri, request, id, reply });
        let todo = state.listening.renew(&self.me);
        drop(state);
        self.carry_out(todo);
    }

    pub(super) fn unsubscribe(&self, request: &Frame, reply: Box<dyn Reply>) {
        let mut state = self.state();
        request.uri().map(|uri| state.listening.uris.remove(&*uri));
        let todo = state.listening.renew(&self.me);
        drop(state);
        self.carry_out(todo);
        reply.end(words::answer(b"{}"));
    }

    /// The server has opened a stream, for this much of what was asked.
    pub(super) fn acknowledged(&self, id: &RawId, honoured: &Object) {
        let todo = self.state().listening.acknowledged(id, honoured, &self.me);
        self.carry_out(todo);
    }

    fn carry_out(&self, todo: Todo) {
        if let Some((id, filter)) = todo.open {
            let mut params = Object::default();
            params.put("notifications", filter);
            params.put("_meta", &self.state().envelope);
            let reply = Box::new(StreamEnd { bridge: self.me.clone(), id: id.clone() });
            self.pass(words::request(&id, "subscriptions/listen", &params), id, reply);
        }
        if let (Some(id), Some(connection)) = (todo.cancel, self.connection()) {
            connection.cancel(&id, &words::message(words::cancellation(&id, "replaced")));
        }
        for waiting in todo.subscribed {
            waiting.reply.end(words::answer(b"{}"));
        }
        for waiting in todo.unheard {
            waiting.reply.end(self.gap(&waiting.request, Gap::Subscription));
        }
    }

    /// A stream of ours came to an end that we did not want.
    fn stream_ended(&self, id: &RawId, outcome: &Outcome) {
        let mut state = self.state();
        let listening = &mut state.listening;
        let refused = listening.opening.take_if(|opening| opening.id == *id);
        let waiting = refused.map(|opening| opening.waiting).unwrap_or_default();
        for waiting in &waiting {
            listening.uris.remove(&waiting.uri);
        }
        if listening.open.take_if(|open| open.id == *id).is_some() {
            let again = |bridge: &std::sync::Arc<Bridge>| bridge.listen_again();
            listening.again = Some(Timer::after(&self.me, REOPENED_AFTER, again));
        }
        let next = !listening.waiting.is_empty();
        let todo = if next { listening.renew(&self.me) } else { Todo::default() };
        drop(state);
        self.carry_out(todo);
        for waiting in waiting {
            waiting.reply.end(match outcome {
                Outcome::Answered(answer) if answer.is_error() => Outcome::Answered(answer.clone()),
                Outcome::Failed(error) => Outcome::Failed(error.clone()),
                _ => self.gap(&waiting.request, Gap::Subscription),
            });
        }
    }

    fn listen_again(&self) {
        let mut state = self.state();
        let todo = state.listening.renew(&self.me);
        drop(state);
        self.carry_out(todo);
    }

    /// The stream stays, but those who have subscribed have waited for long enough.
    fn acknowledges_late(&self, id: &RawId) {
        let mut state = self.state();
        let opening = state.listening.opening.as_mut().filter(|opening| opening.id == *id);
        let waiting = opening.map(|opening| mem::take(&mut opening.waiting)).unwrap_or_default();
        drop(state);
        for waiting in waiting {
            let error = self.error(&waiting.request, ErrorKind::Timeout);
            let delivery = Delivery::Unknown;
            waiting.reply.end(Outcome::Failed(CallError { delivery, repeatable: true, ..error }));
        }
    }

    /// The client gave up its subscription before it was confirmed. Says whether it waited here.
    pub(super) fn cancel_subscribing(&self, id: &RawId) -> bool {
        let listening = &mut self.state().listening;
        let opening = listening.opening.as_mut().map(|opening| &mut opening.waiting);
        for queue in [Some(&mut listening.waiting), opening].into_iter().flatten() {
            if let Some(at) = queue.iter().rposition(|waiting| waiting.id == *id) {
                queue.remove(at);
                return true;
            }
        }
        false
    }

    /// The connection is over.
    pub(super) fn end_subscribing(&self) {
        let listening = mem::take(&mut self.state().listening);
        let opening = listening.opening.map(|opening| opening.waiting).unwrap_or_default();
        for waiting in listening.waiting.into_iter().chain(opening) {
            waiting.reply.end(Outcome::Failed(self.error(&waiting.request, ErrorKind::Closed)));
        }
    }
}

struct StreamEnd {
    bridge: Weak<Bridge>,
    id: RawId,
}

impl Reply for StreamEnd {
    fn end(self: Box<Self>, outcome: Outcome) {
        if let Some(bridge) = self.bridge.upgrade() {
            bridge.stream_ended(&self.id, &outcome);
        }
    }
}
