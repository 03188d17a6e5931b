//! What a modern server asks for before it answers, asked of a legacy client in requests of our own.

use std::time::Duration;

use bytes::Bytes;
use regrow_core::Delivery;
use regrow_protocol::frame::{self, Frame, RawId};
use regrow_protocol::{meta, method};
use serde_json::value::RawValue;
use tokio::time::Instant;

use super::Bridge;
use super::object::Object;
use super::onto_modern::CallToModern;
use super::timer::Timer;
use super::words;
use crate::call::Outcome;
use crate::error::{CallError, ErrorKind, Gap};
use crate::inbox::Incoming;

/// A server that asks more often than this during one call comes to no end. Other clients allow as many.
const MAX_ROUNDS: u32 = 10;
/// It may ask for so much at once,
const MAX_INPUTS: usize = 64;
/// so many calls may wait for answers,
const MAX_OPEN: usize = 256;
/// and so much may be kept for them.
const MAX_KEPT: usize = 64 << 20;
/// Like any time that a person needs.
const ANSWERED_WITHIN: Duration = Duration::from_secs(3600);
/// A server that asks for nothing but to be called again is given a moment.
const PAUSE: Duration = Duration::from_millis(100);

/// The calls whose server has asked.
#[derive(Default)]
pub(super) struct Rounds {
    open: Vec<Round>,
    last: u64,
}

/// A call that waits for its client's answers before it is sent again.
struct Round {
    number: u64,
    call: CallToModern,
    state: Option<Box<RawValue>>,
    /// What the client was asked, and the server's key for it.
    asked: Vec<(RawId, String)>,
    answers: Object,
    _timer: Timer,
}

impl Round {
    fn bytes(&self) -> usize {
        let answers = self.answers.members().map(|(_, answer)| answer.get().len()).sum::<usize>();
        self.call.request.bytes().len() + answers
    }
}

impl Rounds {
    fn has_room_for(&self, bytes: usize) -> bool {
        bytes + self.open.iter().map(Round::bytes).sum::<usize>() <= MAX_KEPT
    }
}

impl Bridge {
    /// The server asks for input before it answers this call.
    pub(super) fn need_input(&self, call: CallToModern, required: &Object) {
        let inputs = required.object("inputRequests");
        let inputs: Vec<(String, Object)> = inputs
            .members()
            .map(|(key, input)| (key.to_owned(), Object::of(Some(input.get().as_bytes()))))
            .collect();
        let method = |input: &Object| input.text("method").unwrap_or_default();
        let can_ask = self.client.auto_reply(method::ELICITATION_CREATE).is_none();
        let mut state = self.state();
        let capabilities = state.envelope.object(meta::CLIENT_CAPABILITIES);
        let can = |(_, input): &(String, Object)| {
            method::client_capability(&method(input)).is_some_and(|needed| capabilities.raw(needed).is_some())
        };
        let has_room =
            state.rounds.open.len() < MAX_OPEN && state.rounds.has_room_for(call.request.bytes().len());
        let problem = if call.rounds == MAX_ROUNDS {
            Some(ErrorKind::NotBridged(Gap::EndlessQuestions))
        } else if !inputs.iter().all(can) {
            Some(ErrorKind::NotBridged(Gap::Question))
        } else if inputs.len() > MAX_INPUTS || !has_room || !can_ask {
            Some(ErrorKind::Overloaded)
        } else {
            None
        };
        if let Some(kind) = problem {
            drop(state);
            return self.fail(call, kind);
        }
        let mut questions = vec![];
        let mut asked = vec![];
        for (key, input) in inputs {
            state.rounds.last += 1;
            let id = words::own_id("input", state.rounds.last);
            let params = input.raw("params").map(|params| params.get().as_bytes());
            questions.push(Frame::built(frame::request(&id, &method(&input), params)));
            asked.push((id, key));
        }
        state.rounds.last += 1;
        let number = state.rounds.last;
        let length = if asked.is_empty() { PAUSE } else { ANSWERED_WITHIN };
        let timer = Timer::after(&self.me, length, move |bridge| bridge.round_is_due(number));
        let requested = required.raw("requestState").map(ToOwned::to_owned);
        let (during, to) = (call.id.clone(), call.reply.inbox());
        let round =
            Round { number, call, state: requested, asked, answers: Object::default(), _timer: timer };
        state.rounds.open.push(round);
        drop(state);
        for frame in questions {
            let incoming = Incoming::of_no_call(words::OURS, frame);
            self.client.take(Incoming { call: Some(during.clone()), to: to.clone(), ..incoming });
        }
    }

    /// The client answered a request of ours. Returns whether anybody waits for that.
    pub(super) fn answered(&self, id: &RawId, answer: Bytes) -> bool {
        let Ok(answer) = Frame::parse(answer) else { return false };
        let mut state = self.state();
        let is_asked = |round: &Round| round.asked.iter().any(|(asked, _)| asked == id);
        let Some(at) = state.rounds.open.iter().position(is_asked) else { return false };
        let fits = state.rounds.has_room_for(answer.bytes().len());
        let round = &mut state.rounds.open[at];
        let result = answer.result().filter(|_| fits).and_then(|result| serde_json::from_slice(result).ok());
        let Some(result) = result else {
            round.asked.retain(|(asked, _)| asked != id);
            let round = state.rounds.open.remove(at);
            drop(state);
            let refused = ErrorKind::NotBridged(Gap::RefusedAnswer);
            self.give_up(round, if fits { refused } else { ErrorKind::Overloaded });
            return true;
        };
        if let Some(at) = round.asked.iter().position(|(asked, _)| asked == id) {
            let (_, key) = round.asked.remove(at);
            round.answers.put_raw(&key, result);
        }
        if round.asked.is_empty() {
            let round = state.rounds.open.remove(at);
            drop(state);
            self.next_round(round);
        }
        true
    }

    /// Sends the call again, with what was asked for.
    fn next_round(&self, round: Round) {
        let Round { mut call, state, answers, .. } = round;
        let mut more = Object::default();
        if !answers.is_empty() {
            more.put("inputResponses", answers);
        }
        if let Some(state) = state {
            more.put_raw("requestState", state);
        }
        call.rounds += 1;
        self.send(call, Instant::now(), Some(&more)); // A person's time is not the server's.
    }

    fn round_is_due(&self, number: u64) {
        let round = self.take_round(|round| round.number == number);
        match round {
            Some(round) if round.asked.is_empty() => self.next_round(round),
            Some(round) => self.give_up(round, ErrorKind::NotBridged(Gap::RefusedAnswer)),
            None => {}
        }
    }

    /// The client gave up the call. Returns whether it waited here.
    pub(super) fn cancel_round(&self, id: &RawId) -> bool {
        let round = self.take_round(|round| round.call.id == *id);
        round.map(|round| self.retract(&round)).is_some()
    }

    /// The connection is over.
    pub(super) fn end_rounds(&self) {
        while let Some(round) = self.take_round(|_| true) {
            self.give_up(round, ErrorKind::Closed);
        }
    }

    fn take_round(&self, wanted: impl Fn(&Round) -> bool) -> Option<Round> {
        let mut state = self.state();
        let at = state.rounds.open.iter().rposition(wanted)?;
        Some(state.rounds.open.remove(at))
    }

    fn give_up(&self, round: Round, kind: ErrorKind) {
        self.retract(&round);
        self.fail(round.call, kind);
    }

    /// The client need not answer any more.
    fn retract(&self, round: &Round) {
        for (id, _) in &round.asked {
            self.client.take(words::to_client(frame::cancellation(id, Some("the call is over"))));
        }
    }

    /// The server had the call: what it did before it asked, only it knows.
    fn fail(&self, call: CallToModern, kind: ErrorKind) {
        let error = self.error(&call.request, kind);
        call.reply.end(Outcome::Failed(CallError { delivery: Delivery::Unknown, ..error }));
    }
}
