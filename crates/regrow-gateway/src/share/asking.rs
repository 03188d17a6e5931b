//! What is settled for all clients together, asked of the server in the gateway's own name.

use std::sync::{Arc, Weak};

use regrow::core::Delivery;
use regrow::{CallError, ErrorKind, Outcome, Reply, Request};
use regrow_protocol::frame::{self, Frame, RawId};
use regrow_protocol::logging_level::LoggingLevel;
use regrow_protocol::{error_code, method};
use serde_json::{Value, json};

use super::member::{SessionMember, Waiter, WaitingRequest};
use super::{ShareState, SharedSession};

/// What a question to the server is about.
#[derive(Clone, Debug)]
enum Topic {
    Level,
    /// By its URI.
    Resource(String),
}

impl SharedSession {
    /// A client sets the log level, subscribes or unsubscribes.
    pub(super) fn set(&self, member: &Arc<SessionMember>, request: &Frame, id: RawId, reply: Box<dyn Reply>) {
        let Some(who) = member.wait(request, id, reply) else { return };
        let uri = request.uri();
        let mut state = self.state();
        if !state.members.contains_key(&member.share) {
            return; // It was dropped just now, and its calls were ended with it.
        }
        match (request.method().unwrap_or_default(), uri.as_deref()) {
            (method::LOGGING_SET_LEVEL, _) => {
                let Some(level) = request.level().as_deref().and_then(LoggingLevel::parse) else {
                    drop(state);
                    return self.end(who, refusal("Invalid params: no such log level"));
                };
                let next = state.levels.want(level, who);
                drop(state);
                self.settle(next.settled);
                self.ask_for_level(next.ask);
            }
            (_, None) => {
                drop(state);
                self.end(who, refusal("Invalid params: uri is missing"));
            }
            (method::RESOURCES_SUBSCRIBE, Some(uri)) => {
                let Some(next) = state.subscriptions.subscribe(uri, who) else {
                    drop(state);
                    return self.end(who, Outcome::Failed(member.error(request, ErrorKind::Overloaded)));
                };
                drop(state);
                self.settle(next.settled);
                self.ask_for_resource(uri, next.ask);
            }
            (_, Some(uri)) => {
                let next = state.subscriptions.unsubscribe(uri, member.share, Some(who));
                drop(state);
                self.settle(next.settled);
                self.ask_for_resource(uri, next.ask);
            }
        }
    }

    /// A client gave up what waits here. Returns whether there was such a request. A subscription that it does not wait for, it does not have.
    pub(super) fn cancel_setting(&self, member: &Arc<SessionMember>, id: &RawId) -> bool {
        let Some(WaitingRequest { request, .. }) = member.forget_waiting(id) else { return false };
        if let Some(uri) = request.uri().filter(|_| request.method() == Some(method::RESOURCES_SUBSCRIBE)) {
            let next = self.state().subscriptions.unsubscribe(&uri, member.share, None);
            self.ask_for_resource(&uri, next.ask);
        }
        true
    }

    pub(super) fn ask_for_level(&self, level: Option<LoggingLevel>) {
        if let Some(level) = level {
            self.ask(Topic::Level, method::LOGGING_SET_LEVEL, json!({ "level": level.name() }));
        }
    }

    pub(super) fn ask_for_resource(&self, uri: &str, told: Option<bool>) {
        if let Some(told) = told {
            let method = if told { method::RESOURCES_SUBSCRIBE } else { method::RESOURCES_UNSUBSCRIBE };
            self.ask(Topic::Resource(uri.to_owned()), method, json!({ "uri": uri }));
        }
    }

    fn ask(&self, about: Topic, method: &str, params: Value) {
        let id = RawId::from(0);
        let request = frame::request(&id, method, Some(params.to_string().as_bytes()));
        let request = Frame::built(request);
        let answer = SettingReply { session: self.me.clone(), about: Some((about, request.clone())) };
        self.connection.submit(Request::new(request, id, Box::new(answer)));
    }

    /// The server has answered, or could not be asked: who has waited for it is told the same.
    fn answered(&self, about: &Topic, outcome: &Outcome) {
        let confirmed = matches!(outcome, Outcome::Answered(answer) if !answer.is_error());
        let mut state = self.state();
        let ShareState { levels, subscriptions, .. } = &mut *state;
        match about {
            Topic::Level => {
                let waited = levels.answered(confirmed);
                let next = levels.next();
                drop(state);
                self.tell_waiters(waited, outcome);
                self.settle(next.settled);
                self.ask_for_level(next.ask);
            }
            Topic::Resource(uri) => {
                let waited = subscriptions.answered(uri, confirmed);
                let next = subscriptions.next(uri);
                drop(state);
                self.tell_waiters(waited, outcome);
                self.settle(next.settled);
                self.ask_for_resource(uri, next.ask);
            }
        }
    }

    fn tell_waiters(&self, waiters: Vec<Waiter>, outcome: &Outcome) {
        for waiter in waiters {
            self.end(
                waiter,
                match outcome {
                    Outcome::Answered(answer) => Outcome::Answered(answer.clone()),
                    Outcome::Failed(error) => Outcome::Failed(error.clone()),
                    Outcome::Refused => Outcome::Refused,
                },
            );
        }
    }

    /// It is already as these want it.
    fn settle(&self, waiters: Vec<Waiter>) {
        for waiter in waiters {
            self.end(waiter, answer(frame::response(&RawId::from(0), b"{}")));
        }
    }

    fn end(&self, waiter: Waiter, outcome: Outcome) {
        let member = self.state().members.get(&waiter.share).cloned();
        // Who has left waits for nothing.
        if let Some(member) = member
            && !member.settled(waiter.number, outcome)
        {
            self.drop_slow(&member);
        }
    }
}

fn refusal(text: &str) -> Outcome {
    answer(frame::error(Some(&RawId::from(0)), error_code::INVALID_PARAMS, text, None))
}

/// An answer of our own. Who waits puts its id in.
fn answer(line: bytes::Bytes) -> Outcome {
    Outcome::Answered(Frame::built(line))
}

/// Waits for the server's answer to a question of ours, and hears it in any case: others wait for what it settles.
struct SettingReply {
    session: Weak<SharedSession>,
    about: Option<(Topic, Frame)>,
}

impl Reply for SettingReply {
    fn end(mut self: Box<Self>, outcome: Outcome) {
        if let (Some((about, _)), Some(session)) = (self.about.take(), self.session.upgrade()) {
            session.answered(&about, &outcome);
        }
    }
}

impl Drop for SettingReply {
    fn drop(&mut self) {
        // Dropped without a word: something failed inside Regrow on the way of the answer.
        if let (Some((about, request)), Some(session)) = (self.about.take(), self.session.upgrade()) {
            let unsent = CallError::unsent(session.name.clone(), &request, ErrorKind::Interrupted);
            session.answered(&about, &Outcome::Failed(CallError { delivery: Delivery::Unknown, ..unsent }));
        }
    }
}
