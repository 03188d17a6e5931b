//! A legacy client subscribes, and the bridge listens for it to a modern server.

use std::mem;
use std::sync::{Arc, Weak};
use std::time::Duration;

use regrow_core::Delivery;
use regrow_protocol::frame::{self, Frame, RawId};
use regrow_protocol::{error_code, method};

use super::Bridge;
use super::listening::{Todo, WaitingSubscribe};
use super::object::Object;
use super::timer::Timer;
use super::words;
use crate::call::{Outcome, Reply, Request};
use crate::error::{CallError, ErrorKind, Gap};

/// A stream has no deadline, but who subscribes has.
const ACKNOWLEDGED_WITHIN: Duration = Duration::from_secs(30);
/// A server that ends a stream cleanly is not asked for the next one at once.
const REOPENED_AFTER: Duration = Duration::from_secs(5);

impl Bridge {
    /// The client wants to hear of changes of these lists.
    pub(super) fn listen_to_lists(&self, lists: &[&'static str]) {
        let mut state = self.state();
        state.listening.wanted.lists = lists.to_vec();
        let todo = state.listening.renew();
        drop(state);
        self.carry_out(todo);
    }

    pub(super) fn subscribe(&self, request: Frame, id: RawId, reply: Box<dyn Reply>) {
        let Some(uri) = request.uri().map(|uri| uri.into_owned()) else {
            return reply.end(words::refusal(
                error_code::INVALID_PARAMS,
                "Invalid params: uri is missing",
                None,
            ));
        };
        let mut state = self.state();
        let listening = &mut state.listening;
        if !listening.has_room_for(&uri) {
            drop(state);
            return reply.end(Outcome::Failed(self.error(&request, ErrorKind::Overloaded)));
        }
        let number = listening.next();
        let limit = Timer::after(&self.me, ACKNOWLEDGED_WITHIN, move |bridge| bridge.subscribes_late(number));
        listening.wanted.uris.insert(uri.clone());
        listening.waiting.push(WaitingSubscribe { number, uri, request, id, reply, _limit: limit });
        let todo = listening.renew();
        drop(state);
        self.carry_out(todo);
    }

    pub(super) fn unsubscribe(&self, request: &Frame, reply: Box<dyn Reply>) {
        let mut state = self.state();
        request.uri().map(|uri| state.listening.wanted.uris.remove(&*uri));
        let todo = state.listening.renew();
        drop(state);
        self.carry_out(todo);
        reply.end(words::answer(b"{}"));
    }

    /// The server has opened a stream, for this much of what was asked.
    pub(super) fn acknowledged(&self, id: &RawId, honoured: &Object) {
        let todo = self.state().listening.acknowledged(id, honoured);
        self.carry_out(todo);
    }

    fn carry_out(&self, todo: Todo) {
        if let Some((id, filter)) = todo.open {
            let mut params = Object::default();
            params.put("notifications", filter);
            params.put("_meta", &self.state().envelope);
            let reply = Box::new(StreamEnd { bridge: self.me.clone(), id: id.clone() });
            self.pass(Request::new(words::request(&id, method::SUBSCRIPTIONS_LISTEN, &params), id, reply));
        }
        if let Some(id) = todo.cancel {
            self.far().cancel(&id, &Frame::built(frame::cancellation(&id, Some("replaced"))));
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
        let opening = listening.opening.take_if(|opening| opening.id == *id);
        // A server that refuses is not asked again. One that could not be asked is: that wakes nobody.
        let auto_reply = opening.is_some() && matches!(outcome, Outcome::Failed(_));
        let waiting = opening.map(|opening| opening.waiting).unwrap_or_default();
        for waiting in &waiting {
            listening.forget(&waiting.uri);
        }
        if listening.open.take_if(|open| open.id == *id).is_some() || auto_reply {
            let again = |bridge: &Arc<Bridge>| bridge.listen_again();
            listening.again = Some(Timer::after(&self.me, REOPENED_AFTER, again));
        }
        let next = !listening.waiting.is_empty();
        let todo = if next { listening.renew() } else { Todo::default() };
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
        let todo = state.listening.renew();
        drop(state);
        self.carry_out(todo);
    }

    /// The stream has no deadline, but one who has subscribed has waited for long enough.
    fn subscribes_late(&self, number: u64) {
        let late = self.state().listening.give_up(|waiting| waiting.number == number);
        if let Some(waiting) = late {
            let error = self.error(&waiting.request, ErrorKind::Timeout);
            let delivery = Delivery::Unknown;
            waiting.reply.end(Outcome::Failed(CallError { delivery, repeatable: true, ..error }));
        }
    }

    /// The client gave up its subscription before it was confirmed. Returns whether it waited here.
    pub(super) fn cancel_subscribing(&self, id: &RawId) -> bool {
        self.state().listening.give_up(|waiting| waiting.id == *id).is_some()
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
