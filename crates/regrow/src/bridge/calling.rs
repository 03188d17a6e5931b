//! A modern client calls a legacy server, goes away when it is asked for input, and comes back with answers.

use std::sync::{Arc, Weak};

use bytes::Bytes;
use regrow_protocol::frame::{self, Edit, Frame, RawId};
use regrow_protocol::meta;

use super::Bridge;
use super::calls::{Client, CurrentInbox, InputRequest, OpenCall};
use super::object::Object;
use super::onto_legacy::stripped;
use super::polish::Polish;
use crate::call::{Outcome, Reply, Request};
use crate::error::Gap;
use crate::inbox::{CallInbox, Incoming};

impl Bridge {
    /// A call during which the server may ask for input; or the return of a client that was asked.
    pub(super) fn call(&self, request: Request) {
        if let Some(shown) = request.frame.request_state().map(String::from) {
            let answers = Object::of(request.frame.params()).object("inputResponses");
            return self.come_back(request, &shown, &answers);
        }
        let Request { frame, id, reply, since } = request;
        let polish = Polish::new(frame.method().unwrap_or_default(), self.about());
        let sent = stripped(&frame);
        let inbox = Arc::new(CurrentInbox::default());
        inbox.set(reply.inbox());
        let mut state = self.state();
        let number = state.calls.next();
        let progress_token = frame.meta_progress_token().map(Bytes::copy_from_slice);
        let call = OpenCall {
            id: id.clone(),
            method: frame.method().unwrap_or_default().to_owned(),
            capabilities: Object::of(frame.meta()).object(meta::CLIENT_CAPABILITIES),
            progress_token: progress_token.clone(),
            level: Object::of(frame.meta()).text(meta::LOG_LEVEL),
            client: Some(Client { id: id.clone(), reply, progress_token }),
            inbox: inbox.clone(),
            end: None,
            questions: vec![],
            state: None,
            limit: None,
            polish,
        };
        state.calls.open.insert(number, call);
        drop(state);
        let reply = Box::new(CallEnd { bridge: self.me.clone(), number, inbox });
        self.pass(Request { frame: sent, id, reply, since });
    }

    /// The client comes back with answers, and waits on for the call that it was sent away from.
    fn come_back(&self, request: Request, shown: &str, answers: &Object) {
        let Request { frame, id, reply, .. } = request;
        let mut guard = self.state();
        let state = &mut *guard;
        let same =
            |call: &OpenCall| call.state.as_deref() == Some(shown) && frame.method() == Some(&call.method);
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
        call.inbox.set(reply.inbox());
        call.client = Some(Client { id, reply, progress_token });
        call.level = Object::of(frame.meta()).text(meta::LOG_LEVEL);
        let answered = |question: &InputRequest| question.told && answers.raw(&question.key).is_some();
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
                state.calls.has_room_for(0, 0);
                drop(state);
            }
        }
        self.drop_questions(questions);
    }

    /// A client that was asked for input has not come back.
    pub(super) fn client_stays_away(&self, number: u64) {
        let call = self.state().calls.open.remove(&number);
        if let Some(call) = call {
            self.drop_questions(call.questions);
            let cancellation = Frame::built(frame::cancellation(&call.id, Some("nobody waits for it")));
            self.far().cancel(&call.id, &cancellation);
        }
    }

    /// The client gave up a call. Returns whether it was one of these.
    pub(super) fn cancel_call(&self, id: &RawId, notification: &Frame) -> bool {
        let mut state = self.state();
        // One that it was sent away from need not go on either.
        let waits = |call: &OpenCall| call.client.as_ref().map_or(&call.id, |client| &client.id) == id;
        let Some(number) = state.calls.open.iter().rev().find(|(_, call)| waits(call)).map(|(&n, _)| n)
        else {
            return false;
        };
        let call = state.calls.open.remove(&number);
        drop(state);
        call.is_some_and(|call| {
            self.drop_questions(call.questions);
            self.far().cancel(&call.id, notification)
        })
    }

    /// Progress of a call, under the token that its client knows now.
    pub(super) fn progress(&self, incoming: Incoming) -> bool {
        let told = incoming.frame.progress_token();
        let token = {
            let state = self.state();
            // Several clients may have chosen the same token.
            let is_it = |call: &&OpenCall| match &incoming.call {
                Some(id) => call.id == *id,
                None => call.progress_token.as_deref() == told,
            };
            let Some(call) = state.calls.open.values().rev().find(is_it) else {
                drop(state);
                return self.client.take(incoming);
            };
            // Nobody hears it who is away, or has not asked when it came back.
            let Some(token) = call.client.as_ref().and_then(|client| client.progress_token.clone()) else {
                return true;
            };
            token
        };
        if told == Some(&token[..]) {
            return self.client.take(incoming);
        }
        let Some(token) = RawId::parse(&token) else { return false };
        let frame = incoming.frame.edited([Edit::ProgressToken(&token)]);
        self.client.take(Incoming { frame, ..incoming })
    }
}

struct CallEnd {
    bridge: Weak<Bridge>,
    number: u64,
    inbox: Arc<CurrentInbox>,
}

impl Reply for CallEnd {
    fn end(self: Box<Self>, outcome: Outcome) {
        if let Some(bridge) = self.bridge.upgrade() {
            bridge.call_ended(self.number, outcome);
        }
    }

    fn inbox(&self) -> Option<Arc<dyn CallInbox>> {
        self.inbox.get()
    }
}
