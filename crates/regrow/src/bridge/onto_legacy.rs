//! A modern client on a legacy server: its requests lose the modern envelope, and results get what the modern era
//! requires.

use std::sync::Arc;

use regrow_protocol::frame::{Frame, Kind};
use regrow_protocol::logging_level::LoggingLevel;
use regrow_protocol::version::MODERN;
use regrow_protocol::{error_code, meta, method, notification};
use serde_json::json;

use super::calls::OpenCall;
use super::object::Object;
use super::polish::Polish;
use super::words;
use super::{Bridge, welcome};
use crate::call::{Outcome, Reply, Request};
use crate::error::Gap;
use crate::inbox::{CallInbox, Incoming};

impl Bridge {
    pub(super) fn onto_legacy(&self, request: Request) {
        let Request { frame, id, reply, since } = request;
        if let Some(refusal) = wrong_version(&frame) {
            return reply.end(refusal);
        }
        match frame.method().unwrap_or_default() {
            method::SERVER_DISCOVER => {
                let name = self.name.to_string();
                self.pass(Request { frame, id, reply: Box::new(Discover { name, reply }), since });
            }
            method::SUBSCRIPTIONS_LISTEN => self.listen(&frame, id, reply),
            _ if words::is_task(&frame) => reply.end(self.gap(&frame, Gap::Tasks)),
            method if method::may_require_input(method) => {
                self.heed_level(&frame);
                self.call(Request { frame, id, reply, since });
            }
            method => {
                self.heed_level(&frame);
                let reply = Box::new(Complete { polish: Polish::new(method, self.about()), reply });
                self.pass(Request { frame: stripped(&frame), id, reply, since });
            }
        }
    }

    /// The modern era asks for log messages with each request, the legacy one once for all.
    fn heed_level(&self, request: &Frame) {
        let Some(level) = Object::of(request.meta()).text(meta::LOG_LEVEL) else { return };
        if self.state().level.replace(level.clone()).as_ref() == Some(&level) {
            return;
        }
        // Some servers log and let nobody set the level.
        if self.about().can("logging") {
            let mut params = Object::default();
            params.put("level", &level);
            self.tell(method::LOGGING_SET_LEVEL, &params, Box::new(Unheard));
        }
    }

    /// Nobody hears log messages who has not asked for them: with the call that a message belongs to, where that is known.
    fn wants_log(&self, incoming: &Incoming) -> bool {
        let state = self.state();
        let during = |call: &OpenCall| incoming.call.as_ref() == Some(&call.id);
        let wanted = match state.calls.open.values().rev().find(|call| during(call)) {
            Some(call) => &call.level,
            None => &state.level,
        };
        let said = incoming.frame.level().as_deref().and_then(LoggingLevel::parse);
        let reaches = |wanted: &str| said.is_none_or(|said| Some(said) >= LoggingLevel::parse(wanted));
        wanted.as_deref().is_some_and(reaches)
    }

    /// A request of our own.
    pub(super) fn tell(&self, method: &str, params: &Object, reply: Box<dyn Reply>) {
        let id = words::own_id("request", 0);
        self.pass(Request::new(words::request(&id, method, params), id, reply));
    }

    /// What a legacy server sends on its own, for a modern client.
    pub(super) fn take_from_legacy(&self, incoming: Incoming) -> bool {
        let frame = &incoming.frame;
        match frame.kind() {
            Kind::Request { id, .. } => self.question(&incoming, &id),
            Kind::Notification { method: notification::CANCELLED } => {
                frame.request_id().is_some_and(|id| self.withdraw_question(incoming.epoch, &id))
            }
            Kind::Notification { method: notification::PROGRESS } => self.progress(incoming),
            Kind::Notification { method: notification::MESSAGE } => {
                !self.wants_log(&incoming) || self.client.take(incoming)
            }
            Kind::Notification { method }
                if method.ends_with("/list_changed") || method == notification::RESOURCES_UPDATED =>
            {
                self.tell_streams(method, frame)
            }
            _ => self.client.take(incoming),
        }
    }
}

/// The request without what only a modern server understands.
pub(super) fn stripped(request: &Frame) -> Frame {
    let mut params = Object::of(request.params());
    let mut meta = params.object("_meta");
    meta.retain(|name| !name.starts_with(meta::PREFIX));
    match meta.is_empty() {
        true => drop(params.remove("_meta")),
        false => params.put("_meta", meta),
    }
    params.retain(|name| !matches!(name, "inputResponses" | "requestState"));
    words::with_params(request, &params)
}

fn wrong_version(request: &Frame) -> Option<Outcome> {
    let requested = request.protocol_version().filter(|version| version != MODERN)?;
    let data = json!({ "supported": [MODERN], "requested": requested });
    Some(words::refusal(
        error_code::UNSUPPORTED_PROTOCOL_VERSION,
        "Unsupported protocol version",
        Some(data.to_string().as_bytes()),
    ))
}

/// A result on its way to a modern client.
struct Complete {
    polish: Polish,
    reply: Box<dyn Reply>,
}

impl Reply for Complete {
    fn end(self: Box<Self>, outcome: Outcome) {
        self.reply.end(self.polish.apply(outcome));
    }

    fn inbox(&self) -> Option<Arc<dyn CallInbox>> {
        self.reply.inbox()
    }
}

/// A modern client asks who the server is, and a legacy server has answered.
struct Discover {
    name: String,
    reply: Box<dyn Reply>,
}

impl Reply for Discover {
    fn end(self: Box<Self>, outcome: Outcome) {
        let result = match &outcome {
            Outcome::Answered(frame) => frame.result().map(|result| welcome::discovered(result, &self.name)),
            _ => None,
        };
        self.reply.end(result.map_or(outcome, |result| words::answer(&result.bytes())));
    }
}

/// Nobody waits: what was told is retold by the connection to later sessions.
pub(super) struct Unheard;

impl Reply for Unheard {
    fn end(self: Box<Self>, _: Outcome) {}
}
