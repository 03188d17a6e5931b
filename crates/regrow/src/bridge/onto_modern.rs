//! A legacy client on a modern server: its requests get the modern envelope, and what the modern era has no request
//! for is answered here.

use std::sync::{Arc, Weak};

use regrow_protocol::frame::{self, Frame, Kind, RawId};
use regrow_protocol::logging_level::LoggingLevel;
use regrow_protocol::{error_code, meta, method, notification};
use tokio::time::Instant;

use super::object::Object;
use super::words::{self, INPUT_REQUIRED};
use super::{Bridge, welcome};
use crate::call::{Outcome, Reply, Request};
use crate::error::Gap;
use crate::inbox::{CallInbox, Incoming};

impl Bridge {
    pub(super) fn onto_modern(&self, request: Request) {
        let Request { frame, id, reply, since } = request;
        match frame.method().unwrap_or_default() {
            method::INITIALIZE => {
                let name = self.name.to_string();
                let reply = Box::new(Initialize { asked: frame.clone(), name, reply });
                self.pass(Request { frame, id, reply, since });
            }
            method::PING => reply.end(words::answer(b"{}")),
            method::LOGGING_SET_LEVEL => reply.end(self.set_level(&frame)),
            method::RESOURCES_SUBSCRIBE => self.subscribe(frame, id, reply),
            method::RESOURCES_UNSUBSCRIBE => self.unsubscribe(&frame, reply),
            _ if words::is_task(&frame) => reply.end(self.gap(&frame, Gap::Tasks)),
            _ => self.send(
                CallToModern { bridge: self.me.clone(), request: frame, id, reply, rounds: 0 },
                since,
                None,
            ),
        }
    }

    /// Sends a call whose time runs since then, with these members besides its own.
    pub(super) fn send(&self, call: CallToModern, since: Instant, more: Option<&Object>) {
        let mut params = Object::of(call.request.params());
        let mut meta = params.object("_meta");
        for (name, value) in self.state().envelope.members() {
            meta.put_raw(name, value.to_owned());
        }
        params.put("_meta", meta);
        for (name, value) in more.into_iter().flat_map(Object::members) {
            params.put_raw(name, value.to_owned());
        }
        let frame = words::with_params(&call.request, &params);
        self.pass(Request { frame, id: call.id.clone(), reply: Box::new(call), since });
    }

    fn set_level(&self, request: &Frame) -> Outcome {
        if !self.about().can("logging") {
            return words::refusal(error_code::METHOD_NOT_FOUND, "Method not found", None); // As this server would have said in its client's era.
        }
        match request.level().filter(|level| LoggingLevel::parse(level).is_some()) {
            Some(level) => {
                self.state().envelope.put(meta::LOG_LEVEL, &*level);
                words::answer(b"{}")
            }
            None => words::refusal(error_code::INVALID_PARAMS, "Invalid params: no such log level", None),
        }
    }

    pub(super) fn forward_onto_modern(&self, notification: &Frame) -> bool {
        match notification.method().unwrap_or_default() {
            notification::INITIALIZED => {
                if self.listens_to_lists {
                    self.listen_to_lists(&self.about().told_lists());
                }
                true
            }
            // A modern server asks for roots when it needs them, and asks nothing that has progress.
            notification::ROOTS_LIST_CHANGED | notification::PROGRESS => false,
            _ => self.far().forward(notification),
        }
    }

    /// What a modern server sends on its own, for a legacy client.
    pub(super) fn take_from_modern(&self, incoming: Incoming) -> bool {
        let frame = &incoming.frame;
        let (Kind::Notification { method }, Some(id)) = (frame.kind(), frame.subscription_id()) else {
            return self.client.take(incoming);
        };
        let mut params = Object::of(frame.params());
        if method == notification::SUBSCRIPTIONS_ACKNOWLEDGED {
            self.acknowledged(&id, &params.object("notifications"));
            return true;
        }
        if !self.state().listening.hears(&id) {
            return true; // The stream that takes its place tells it, too.
        }
        let mut meta = params.object("_meta");
        meta.remove(meta::SUBSCRIPTION_ID);
        match meta.is_empty() {
            true => drop(params.remove("_meta")),
            false => params.put("_meta", meta),
        }
        let params = (!params.is_empty()).then(|| params.bytes());
        let frame = Frame::built(frame::notification(method, params.as_deref()));
        self.client.take(Incoming { frame, ..incoming })
    }
}

/// A legacy client's handshake, answered by a modern server.
struct Initialize {
    asked: Frame,
    name: String,
    reply: Box<dyn Reply>,
}

impl Reply for Initialize {
    fn end(self: Box<Self>, outcome: Outcome) {
        let result = match &outcome {
            Outcome::Answered(frame) => frame.result(),
            _ => None,
        };
        let result = result.map(|result| welcome::initialized(result, &self.asked, &self.name));
        self.reply.end(result.map_or(outcome, |result| words::answer(&result.bytes())));
    }
}

/// A legacy client's call to a modern server.
pub(super) struct CallToModern {
    pub(super) bridge: Weak<Bridge>,
    /// As its client wrote it.
    pub(super) request: Frame,
    pub(super) id: RawId,
    pub(super) reply: Box<dyn Reply>,
    /// How often its server has asked for input.
    pub(super) rounds: u32,
}

impl Reply for CallToModern {
    fn end(self: Box<Self>, outcome: Outcome) {
        let bridge = self.bridge.upgrade();
        match (&outcome, bridge) {
            (Outcome::Answered(frame), Some(bridge)) if needs_input(frame) => {
                bridge.need_input(*self, &Object::of(frame.result()));
            }
            _ => self.reply.end(outcome),
        }
    }

    fn inbox(&self) -> Option<Arc<dyn CallInbox>> {
        self.reply.inbox()
    }
}

fn needs_input(answer: &Frame) -> bool {
    // Results may be large, and hardly any holds the word.
    let result = answer.result().unwrap_or_default();
    memchr::memmem::find(result, INPUT_REQUIRED.as_bytes()).is_some()
        && Object::of(Some(result)).text("resultType").as_deref() == Some(INPUT_REQUIRED)
}
