//! What is settled for all clients together, asked of the server in the gateway's own name.

use std::sync::{Arc, Weak};

use regrow::core::Delivery;
use regrow::{CallError, ErrorKind, Outcome, Reply, Request};
use regrow_protocol::frame::{self, Frame, RawId};
use regrow_protocol::logging_level::LoggingLevel;
use regrow_protocol::{error_code, method};
use serde_json::{Value, json};

use super::seat::{Seat, Waiter, Waiting};
use super::{Commons, Floor};

/// What a question to the server is about.
#[derive(Clone, Debug)]
enum About {
    Level,
    /// By its URI.
    Resource(String),
}

impl Commons {
    /// A client sets the log level, subscribes or unsubscribes.
    pub(super) fn set(&self, seat: &Arc<Seat>, request: &Frame, id: RawId, reply: Box<dyn Reply>) {
        let Some(who) = seat.wait(request, id, reply) else { return };
        let uri = request.uri();
        let mut floor = self.floor();
        if !floor.seats.contains_key(&seat.share) {
            return; // It was dropped just now, and its calls were ended with it.
        }
        match (request.method().unwrap_or_default(), uri.as_deref()) {
            (method::LOGGING_SET_LEVEL, _) => {
                let Some(level) = request.level().as_deref().and_then(LoggingLevel::parse) else {
                    drop(floor);
                    return self.end(who, refusal("Invalid params: no such log level"));
                };
                let next = floor.levels.want(level, who);
                drop(floor);
                self.settle(next.settled);
                self.ask_for_level(next.ask);
            }
            (_, None) => {
                drop(floor);
                self.end(who, refusal("Invalid params: uri is missing"));
            }
            (method::RESOURCES_SUBSCRIBE, Some(uri)) => {
                let Some(next) = floor.subscriptions.subscribe(uri, who) else {
                    drop(floor);
                    return self.end(who, Outcome::Failed(seat.error(request, ErrorKind::Overloaded)));
                };
                drop(floor);
                self.settle(next.settled);
                self.ask_for_resource(uri, next.ask);
            }
            (_, Some(uri)) => {
                let next = floor.subscriptions.unsubscribe(uri, seat.share, Some(who));
                drop(floor);
                self.settle(next.settled);
                self.ask_for_resource(uri, next.ask);
            }
        }
    }

    /// A client gave up what waits here. Says whether there was such a request. A subscription that it does not wait for, it does not have.
    pub(super) fn cancel_setting(&self, seat: &Arc<Seat>, id: &RawId) -> bool {
        let Some(Waiting { request, .. }) = seat.forget_waiting(id) else { return false };
        if let Some(uri) = request.uri().filter(|_| request.method() == Some(method::RESOURCES_SUBSCRIBE)) {
            let next = self.floor().subscriptions.unsubscribe(&uri, seat.share, None);
            self.ask_for_resource(&uri, next.ask);
        }
        true
    }

    pub(super) fn ask_for_level(&self, level: Option<LoggingLevel>) {
        if let Some(level) = level {
            self.ask(About::Level, method::LOGGING_SET_LEVEL, json!({ "level": level.name() }));
        }
    }

    pub(super) fn ask_for_resource(&self, uri: &str, told: Option<bool>) {
        if let Some(told) = told {
            let method = if told { method::RESOURCES_SUBSCRIBE } else { method::RESOURCES_UNSUBSCRIBE };
            self.ask(About::Resource(uri.to_owned()), method, json!({ "uri": uri }));
        }
    }

    fn ask(&self, about: About, method: &str, params: Value) {
        let id = RawId::from(0);
        let request = frame::request(&id, method, Some(params.to_string().as_bytes()));
        let request = Frame::built(request);
        let answer = Answer { commons: self.me.clone(), about: Some((about, request.clone())) };
        self.connection.submit(Request::new(request, id, Box::new(answer)));
    }

    /// The server has answered, or could not be asked: who has waited for it is told the same.
    fn answered(&self, about: &About, outcome: &Outcome) {
        let confirmed = matches!(outcome, Outcome::Answered(answer) if !answer.is_error());
        let mut floor = self.floor();
        let Floor { levels, subscriptions, .. } = &mut *floor;
        match about {
            About::Level => {
                let waited = levels.answered(confirmed);
                let next = levels.next();
                drop(floor);
                self.tell_waiters(waited, outcome);
                self.settle(next.settled);
                self.ask_for_level(next.ask);
            }
            About::Resource(uri) => {
                let waited = subscriptions.answered(uri, confirmed);
                let next = subscriptions.next(uri);
                drop(floor);
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
        let seat = self.floor().seats.get(&waiter.share).cloned();
        // Who has left waits for nothing.
        if let Some(seat) = seat
            && !seat.settled(waiter.number, outcome)
        {
            self.drop_slow(&seat);
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
struct Answer {
    commons: Weak<Commons>,
    about: Option<(About, Frame)>,
}

impl Reply for Answer {
    fn end(mut self: Box<Self>, outcome: Outcome) {
        if let (Some((about, _)), Some(commons)) = (self.about.take(), self.commons.upgrade()) {
            commons.answered(&about, &outcome);
        }
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        // Dropped without a word: something failed inside Regrow on the way of the answer.
        if let (Some((about, request)), Some(commons)) = (self.about.take(), self.commons.upgrade()) {
            let unsent = CallError::unsent(commons.name.clone(), &request, ErrorKind::Interrupted);
            commons.answered(&about, &Outcome::Failed(CallError { delivery: Delivery::Unknown, ..unsent }));
        }
    }
}
