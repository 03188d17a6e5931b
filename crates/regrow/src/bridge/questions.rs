//! What a legacy server asks its client, told to a modern client as input that its call requires.

use regrow_core::Epoch;
use regrow_protocol::frame::{self, RawId};
use regrow_protocol::{error_code, method};

use super::Bridge;
use super::calls::{Calls, InputRequest, OpenCall};
use super::object::Object;
use crate::error::{ErrorKind, Gap};
use crate::inbox::Incoming;

/// More unanswered questions during one call are refused.
const MAX_QUESTIONS: usize = 64;

/// Why a question cannot be put to the client.
enum QuestionRefusal {
    Unattributed,
    Unable,
    TooMany,
}

impl QuestionRefusal {
    fn line(&self, id: &RawId) -> bytes::Bytes {
        let (code, text) = match self {
            QuestionRefusal::Unattributed => (
                ErrorKind::NotBridged(Gap::Question).code(),
                "the client can only be asked during a call, and it is not clear which: \
                 none is running, or several are",
            ),
            QuestionRefusal::Unable => (error_code::METHOD_NOT_FOUND, "Method not found"),
            QuestionRefusal::TooMany => (ErrorKind::Overloaded.code(), "too many requests are pending"),
        };
        frame::error(Some(id), code, text, None)
    }
}

impl Calls {
    /// During which call the server asks. Where its exchange does not tell, the server does not either: then all calls must be of one
    /// client, and there must be no doubt.
    fn asking(&self, named: Option<&RawId>, is_one_client: bool) -> Option<u64> {
        let running = || self.open.iter().filter(|(_, call)| call.is_running());
        let is_named = |call: &OpenCall| named.is_some_and(|named| call.id == *named);
        if let Some((&number, _)) = running().rev().find(|(_, call)| is_named(call)) {
            return Some(number);
        }
        if !is_one_client {
            return None;
        }
        let only = |wanted: fn(&OpenCall) -> bool| {
            let mut found = running().filter(|(_, call)| wanted(call)).map(|(&number, _)| number);
            found.next().filter(|_| found.next().is_none())
        };
        only(|_| true).or_else(|| only(|call| call.method == method::TOOLS_CALL))
    }

    fn admit(
        &mut self,
        incoming: &Incoming,
        id: &RawId,
        is_one_client: bool,
    ) -> Result<u64, QuestionRefusal> {
        let Incoming { epoch, call, frame: request, .. } = incoming;
        let number = self.asking(call.as_ref(), is_one_client).ok_or(QuestionRefusal::Unattributed)?;
        let leaves = self.open.get(&number).is_some_and(|call| call.client.is_some());
        let has_room = self.has_room_for(leaves.into(), request.bytes().len());
        let key = format!("q{}", self.next());
        let call = self.open.get_mut(&number).ok_or(QuestionRefusal::Unattributed)?;
        let method = request.method().unwrap_or_default();
        if method::client_capability(method).is_none_or(|needed| call.capabilities.raw(needed).is_none()) {
            return Err(QuestionRefusal::Unable);
        }
        if call.questions.len() >= MAX_QUESTIONS || !has_room {
            return Err(QuestionRefusal::TooMany);
        }
        let params = request.params().map(|params| {
            let mut params = Object::of(Some(params));
            params.remove("_meta"); // It speaks of a way back that the client does not have.
            params
        });
        let params = params.and_then(|params| serde_json::value::to_raw_value(&params).ok());
        let method = method.to_owned();
        call.questions.push(InputRequest { key, epoch: *epoch, id: id.clone(), method, params, told: false });
        Ok(number)
    }
}

impl Bridge {
    /// The server asks the client something.
    pub(super) fn question(&self, incoming: &Incoming, id: &RawId) -> bool {
        let is_one_client = self.client.is_one_client();
        let mut state = self.state();
        let admitted = state.calls.admit(incoming, id, is_one_client);
        // A client that is away already is told when it comes back.
        let away = admitted.map(|number| state.calls.send_away(number, &self.me));
        drop(state);
        match away {
            Ok(Some((reply, outcome))) => reply.end(outcome),
            Ok(None) => {}
            Err(refusal) => {
                self.far().hand_over(incoming.epoch, id, refusal.line(id));
            }
        }
        true
    }

    /// The server does not want to know any more. Returns whether it had asked.
    pub(super) fn withdraw_question(&self, epoch: Epoch, id: &RawId) -> bool {
        let mut state = self.state();
        let is_it = |question: &InputRequest| question.epoch == epoch && question.id == *id;
        let mut known = false;
        for call in state.calls.open.values_mut() {
            known |= call.questions.iter().any(is_it);
            call.questions.retain(|question| !is_it(question));
        }
        known
    }

    /// The client has answered these.
    pub(super) fn answer_questions(&self, questions: Vec<InputRequest>, answers: &Object) {
        for question in questions {
            let Some(answer) = answers.raw(&question.key) else { continue };
            let line = frame::response(&question.id, answer.get().as_bytes());
            self.far().hand_over(question.epoch, &question.id, line);
        }
    }

    /// Nobody will answer these. The server must not wait for it, nor the clock stand still.
    pub(super) fn drop_questions(&self, questions: Vec<InputRequest>) {
        for question in questions {
            let line = match &*question.method {
                method::ELICITATION_CREATE => frame::response(&question.id, br#"{"action":"cancel"}"#),
                _ => frame::error(
                    Some(&question.id),
                    ErrorKind::Closed.code(),
                    "nobody is left to answer",
                    None,
                ),
            };
            self.far().hand_over(question.epoch, &question.id, line);
        }
    }
}
