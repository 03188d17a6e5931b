//! Calls of a modern client that run on a legacy server, some of them while their client was asked for input.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::Weak;
use std::time::Duration;

use bytes::Bytes;
use regrow_core::Epoch;
use serde_json::value::RawValue;

use super::object::Object;
use super::onto_legacy::{Polish, stripped};
use super::timer::Timer;
use super::words::{self, INPUT_REQUIRED};
use super::{Bridge, Request};
use crate::call::{Outcome, Reply};
use crate::error::Gap;
use crate::frame::{Edit, Frame, RawId};
use crate::inbox::{Inbox, Incoming};

/// A call whose client was asked for input, and does not come back for so long, is over.
const RETURNS_WITHIN: Duration = Duration::from_secs(3600);

/// The calls during which a server may ask for input.
pub(super) struct Calls {
    pub(super) open: BTreeMap<u64, Call>,
    last: u64,
    /// Another for each bridge: what was handed out by one that is gone must not be taken for ours.
    seed: u64,
}

impl Default for Calls {
    fn default() -> Calls {
        Calls { open: BTreeMap::new(), last: 0, seed: RandomState::new().hash_one(0) }
    }
}

/// One of them. It goes on while its client is away to answer.
pub(super) struct Call {
    /// As its client first wrote it. The connection knows it by that id.
    pub(super) request: Frame,
    id: RawId,
    /// Who waits for its end; none while its client is away.
    pub(super) client: Option<Client>,
    /// It ended while its client was away.
    end: Option<Outcome>,
    pub(super) questions: Vec<Question>,
    /// What its client must show when it comes back.
    state: Option<String>,
    pub(super) has_progress: bool,
    limit: Option<Timer>,
    polish: Polish,
}

pub(super) struct Client {
    id: RawId,
    reply: Box<dyn Reply>,
    progress_token: Option<Bytes>,
}

/// Something that the server asks the client.
pub(super) struct Question {
    pub(super) key: String,
    pub(super) epoch: Epoch,
    pub(super) id: RawId,
    pub(super) method: String,
    pub(super) params: Option<Box<RawValue>>,
    /// The client knows of it.
    pub(super) told: bool,
}

impl Call {
    pub(super) fn is_running(&self) -> bool {
        self.end.is_none()
    }

    fn progress_token(&self) -> Option<&[u8]> {
        self.request.meta_progress_token()
    }
}

impl Calls {
    /// A number that no other has.
    pub(super) fn next(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    /// Questions of a session that is lost need no answer.
    pub(super) fn forget_questions(&mut self, epoch: Epoch) {
        for call in self.open.values_mut() {
            call.questions.retain(|question| question.epoch != epoch);
        }
    }

    /// Sends the client of this call away to answer. Gives whom to tell, and what.
    pub(super) fn send_away(&mut self, number: u64, me: &Weak<Bridge>) -> Option<(Box<dyn Reply>, Outcome)> {
        let nonce = self.next();
        let state = format!("regrow-{:016x}-{nonce}", self.seed);
        let call = self.open.get_mut(&number)?;
        let client = call.client.take()?;
        let mut requests = Object::default();
        for question in &mut call.questions {
            question.told = true;
            let mut request = Object::default();
            request.put("method", &question.method);
            if let Some(params) = &question.params {
                request.put("params", params);
            }
            requests.put(&question.key, request);
        }
        let mut result = Object::default();
        result.put("resultType", INPUT_REQUIRED);
        result.put("inputRequests", requests);
        result.put("requestState", &state);
        call.state = Some(state);
        call.limit = Some(Timer::after(me, RETURNS_WITHIN, move |bridge| bridge.client_stays_away(number)));
        Some((client.reply, words::answer(&result.bytes())))
    }
}

impl Bridge {
    /// A call during which the server may ask for input; or the return of a client that was asked.
    pub(super) fn call(&self, request: Request) {
        let params = Object::of(request.frame.params());
        if let Some(shown) = params.text("requestState") {
            return self.come_back(request, &shown, &params.object("inputResponses"));
        }
        let Request { frame, id, reply } = request;
        let polish = self.polish(frame.method().unwrap_or_default());
        let sent = stripped(&frame);
        let mut state = self.state();
        let number = state.calls.next();
        let progress_token = frame.meta_progress_token().map(Bytes::copy_from_slice);
        let call = Call {
            request: frame,
            id: id.clone(),
            client: Some(Client { id: id.clone(), reply, progress_token }),
            end: None,
            questions: vec![],
            state: None,
            has_progress: false,
            limit: None,
            polish,
        };
        state.calls.open.insert(number, call);
        drop(state);
        self.pass(sent, id, Box::new(CallEnd { bridge: self.me.clone(), number }));
    }

    /// The client comes back with answers, and waits on for the call that it was sent away from.
    fn come_back(&self, request: Request, shown: &str, answers: &Object) {
        let Request { frame, id, reply } = request;
        let mut guard = self.state();
        let state = &mut *guard;
        let same =
            |call: &Call| call.state.as_deref() == Some(shown) && call.request.method() == frame.method();
        let Some((&number, call)) = state.calls.open.iter_mut().find(|(_, call)| same(call)) else {
            drop(guard);
            return reply.end(self.gap(&frame, Gap::StaleAnswer));
        };
        call.state = None;
        call.limit = None;
        if let Some(end) = call.end.take() {
            let call = state.calls.open.remove(&number);
            drop(guard);
            return reply.end(call.map_or(Outcome::Refused, |call| call.polish.apply(end)));
        }
        let progress_token = frame.meta_progress_token().map(Bytes::copy_from_slice);
        call.client = Some(Client { id, reply, progress_token });
        let answered = |question: &Question| question.told && answers.raw(&question.key).is_some();
        let (answered, open) = std::mem::take(&mut call.questions).into_iter().partition(answered);
        call.questions = open;
        // What it left out is asked again, with what the server has asked since.
        let away = match call.questions.is_empty() {
            true => None,
            false => state.calls.send_away(number, &self.me),
        };
        drop(guard);
        self.answer_questions(answered, answers);
        if let Some((reply, outcome)) = away {
            reply.end(outcome);
        }
    }

    /// The server has ended a call, or there is no answer.
    fn call_ended(&self, number: u64, outcome: Outcome) {
        let mut state = self.state();
        let Some(call) = state.calls.open.get_mut(&number) else { return };
        let questions = std::mem::take(&mut call.questions);
        match call.client.take() {
            Some(client) => {
                let call = state.calls.open.remove(&number);
                drop(state);
                client.reply.end(call.map_or(Outcome::Refused, |call| call.polish.apply(outcome)));
            }
            None => {
                call.end = Some(outcome); // Told when its client comes back.
                drop(state);
            }
        }
        self.drop_questions(questions);
    }

    /// A client that was asked for input has not come back.
    fn client_stays_away(&self, number: u64) {
        let call = self.state().calls.open.remove(&number);
        if let Some(call) = call {
            self.drop_questions(call.questions);
            let cancellation = words::message(words::cancellation(&call.id, "nobody waits for it"));
            self.connection().map(|connection| connection.cancel(&call.id, &cancellation));
        }
    }

    /// The client gave up a call. Says whether it was one of these.
    pub(super) fn cancel_call(&self, id: &RawId, notification: &Frame) -> bool {
        let mut state = self.state();
        let waits = |call: &Call| call.client.as_ref().is_some_and(|client| client.id == *id);
        let Some(number) = state.calls.open.iter().rev().find(|(_, call)| waits(call)).map(|(&n, _)| n)
        else {
            return false;
        };
        let call = state.calls.open.remove(&number);
        drop(state);
        call.is_some_and(|call| {
            self.drop_questions(call.questions);
            self.connection().is_some_and(|connection| connection.cancel(&call.id, notification))
        })
    }

    /// Progress of a call, under the token that its client knows now.
    pub(super) fn progress(&self, incoming: Incoming) -> bool {
        let told = incoming.frame.progress_token();
        let token = {
            let mut state = self.state();
            let calls = state.calls.open.values_mut().rev();
            let Some(call) = calls.into_iter().find(|call| call.progress_token() == told) else {
                drop(state);
                return self.port.take(incoming);
            };
            call.has_progress = true;
            // Nobody hears it who is away, or has not asked when it came back.
            let Some(token) = call.client.as_ref().and_then(|client| client.progress_token.clone()) else {
                return true;
            };
            token
        };
        if told == Some(&token[..]) {
            return self.port.take(incoming);
        }
        let Some(token) = RawId::parse(&token) else { return false };
        let frame = words::message(incoming.frame.with([Edit::ProgressToken(&token)]));
        self.port.take(Incoming { epoch: incoming.epoch, frame })
    }
}

struct CallEnd {
    bridge: Weak<Bridge>,
    number: u64,
}

impl Reply for CallEnd {
    fn end(self: Box<Self>, outcome: Outcome) {
        if let Some(bridge) = self.bridge.upgrade() {
            bridge.call_ended(self.number, outcome);
        }
    }
}
