//! What each message of a server means: whose answer it is, and what the client is told.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use bytes::Bytes;
use regrow_core::{CallId, Delivery, Epoch, Fault, Outlook};
use regrow_protocol::frame::{self, Edit, Frame, Kind, MAX_BATCH, ParseError, RawId, Salvage, Salvaged};
use regrow_protocol::lines::Line;
use regrow_protocol::{error_code, method, notification};
use serde_json::value::RawValue;

use super::events::OwnerEvent;
use super::memory::Observation;
use super::session::Session;
use super::shared::Shared;
use super::state::Progress;
use super::wire_ids::is_unchanged;
use crate::call::{Caller, Outcome, Pending};
use crate::error::ErrorKind;
use crate::inbox::{AutoReply, CallInbox, Incoming};

/// The messages of one session.
pub(crate) struct Messages {
    shared: Arc<Shared>,
    epoch: Epoch,
    /// The call on whose exchange they come, where each has its own.
    call: Option<CallId>,
}

impl Messages {
    pub(crate) fn new(shared: Arc<Shared>, epoch: Epoch, call: Option<CallId>) -> Messages {
        Messages { shared, epoch, call }
    }

    /// Handles what the server sent. False if that panicked.
    pub(crate) fn take_line(&self, line: Line) -> bool {
        let taken = catch_unwind(AssertUnwindSafe(|| match line {
            Line::Whole(bytes) => self.take_whole(bytes),
            Line::TooLong { bytes, salvage } => {
                let ids = salvage.id.iter().filter(|_| !salvage.method).cloned().collect();
                self.unusable(&salvage, ids, ErrorKind::TooLarge { bytes })
            }
        }));
        taken.is_ok()
    }

    /// The same with a message that was already read.
    pub(crate) fn take_message(&self, message: Frame) -> bool {
        catch_unwind(AssertUnwindSafe(|| self.take(message))).is_ok()
    }

    /// The response to the call of this exchange has gone to the stream that its caller has for it, or turned out to be none. False if that panicked.
    pub(crate) fn take_streamed(&self, is_tool_error: Option<bool>) -> bool {
        catch_unwind(AssertUnwindSafe(|| match (self.call, is_tool_error) {
            (Some(call), Some(is_tool_error)) => self.streamed(call, is_tool_error),
            (Some(call), None) => {
                self.count_unusable(ErrorKind::Malformed);
                self.fail(call, ErrorKind::Malformed, Delivery::Answered);
            }
            (None, _) => {}
        }))
        .is_ok()
    }

    fn streamed(&self, call: CallId, is_tool_error: bool) {
        self.shared.count_message();
        let Some(pending) = self.shared.answer(self.epoch, call, true) else { return };
        let result = format!(r#"{{"content":[],"isError":{is_tool_error}}}"#);
        let answer = Frame::built(frame::response(&RawId::from(0), result.as_bytes()));
        pending.reply.end(Outcome::Answered(answer));
    }

    /// One message, or several that share a line.
    fn take_whole(&self, mut line: Bytes) {
        let is_one = match Frame::take_from(&mut line) {
            Ok(frame) => return self.take(frame),
            Err(error) => matches!(error, ParseError::NotRpc { .. }),
        };
        let Some((mut message, mut rest)) = frame::split_first(&line).filter(|_| !is_one) else {
            return self.malformed(&line);
        };
        self.log_once("the server wrote several messages on one line; Regrow reads each of them");
        for _ in 0..MAX_BATCH {
            match Frame::parse(message.clone()) {
                Ok(frame) => self.take(frame),
                Err(_) => self.malformed(&message),
            }
            if rest.is_empty() {
                break;
            }
            (message, rest) = frame::split_first(&rest).unwrap_or((rest, Bytes::new()));
        }
        if !rest.is_empty() {
            self.shared.lock().anomalies.garbage += 1; // More than anybody sends in one line.
        }
    }

    /// What is not one message. Whom it answers may still be known.
    fn malformed(&self, message: &[u8]) {
        let salvage = Salvage::of(message);
        let ids = match &salvage.id {
            Some(id) if !salvage.method => vec![id.clone()],
            Some(_) => vec![],
            None => frame::repeated_ids(message),
        };
        self.unusable(&salvage, ids, ErrorKind::Malformed);
    }

    /// Says this once for each session.
    fn log_once(&self, what: &'static str) {
        let logs = |session: &mut Session| session.logs_first(what);
        if self.shared.lock().session_of(self.epoch).is_some_and(logs) {
            tracing::warn!(server = &*self.shared.settings.name, "{what}");
        }
    }

    fn take(&self, frame: Frame) {
        self.shared.count_message();
        self.shared.count_dropped_members(&frame);
        match frame.kind() {
            Kind::Response { id } => self.response(id, frame),
            Kind::Request { id, method } => match self.shared.inbox.auto_reply(method) {
                Some(auto_reply) => self.reply_automatically(&id, auto_reply),
                None => {
                    // Nobody can answer a session that is being ended.
                    if method == method::ELICITATION_CREATE && self.shared.lock().is_live(self.epoch) {
                        self.shared.question(id, true);
                    }
                    self.hand_on(frame);
                }
            },
            Kind::Notification { method: notification::PROGRESS } => self.progress(&frame),
            Kind::Notification { method } => {
                if self.is_for_client(method, &frame) {
                    self.hand_on_notification(frame);
                }
            }
            Kind::Batch => {
                let members: Vec<&RawValue> = serde_json::from_slice(frame.bytes()).unwrap_or_default();
                for member in members {
                    let member = frame.bytes().slice_ref(member.get().as_bytes());
                    match Frame::parse(member.clone()) {
                        Ok(member) if !member.is_batch() => self.take(member),
                        _ => self.malformed(&member),
                    }
                }
            }
        }
    }

    fn reply_automatically(&self, id: &RawId, auto_reply: AutoReply) {
        let line = match auto_reply {
            AutoReply::Pong => frame::response(id, b"{}"),
            AutoReply::UnknownMethod => frame::method_not_found(id),
            AutoReply::TooMany => {
                frame::error(Some(id), error_code::SERVER_ERROR, "too many requests are pending", None)
            }
        };
        self.shared.post(Some(self.epoch), line);
    }

    fn response(&self, id: Option<RawId>, frame: Frame) {
        let call = id.as_ref().and_then(|id| self.call_id(id));
        let answered =
            call.and_then(|call| Some((call, self.shared.answer(self.epoch, call, !frame.is_error())?)));
        let Some((call, pending)) = answered else {
            self.shared.lock().anomalies.stray += 1;
            return;
        };
        if !id.is_some_and(|id| is_unchanged(&id)) {
            self.log_once(
                "the server changes the form of response ids (2.0 or \"2\" for 2); Regrow accepts it",
            );
        }
        let method = pending.request.method().unwrap_or_default();
        let mut answer = None;
        if method == method::SUBSCRIPTIONS_LISTEN {
            self.shared.lock().stream_changed();
            answer = frame::stream_end(&frame, &pending.caller_id).and_then(|line| Frame::parse(line).ok());
        } else {
            if pending.request.has_task() {
                self.shared.lock().remember_task(self.epoch, call, &pending);
            }
            if pending.caller != Caller::Own {
                self.note(&pending.request, frame.result());
            }
        }
        let (caller, length) = (pending.caller, frame.bytes().len());
        pending.reply.end(Outcome::Answered(answer.unwrap_or(frame)));
        if let Caller::Client(client) = caller {
            self.shared.inbox.answered(client, length);
        }
    }

    /// Remembers what a later session must be told, and how the client's handshake goes.
    fn note(&self, request: &Frame, result: Option<&[u8]>) {
        let observation = result.and_then(|result| Observation::read(request, result));
        let method = request.method().unwrap_or_default();
        if observation.is_none() && !method::is_handshake(method) {
            return;
        }
        let mut state = self.shared.lock();
        let remembered = observation.is_none_or(|observation| state.memory.observe(observation));
        let event = state.handshake.answered(self.epoch, method, result.is_some());
        drop(state);
        if let Some(event) = event {
            self.shared.notify(event);
        }
        if !remembered {
            let server = &*self.shared.settings.name;
            tracing::warn!(server, "too many subscriptions: this one will not be restored after a restart");
        }
    }

    /// Whether a notification of the server concerns the client.
    fn is_for_client(&self, method: &str, frame: &Frame) -> bool {
        match method {
            notification::CANCELLED => {
                let Some(id) = frame.request_id() else { return true };
                if self.ends_stream(&id) {
                    return false;
                }
                self.shared.question(id, false);
                true
            }
            _ if method.ends_with("/list_changed") => {
                let mut state = self.shared.lock();
                let Some(session) = state.session.as_mut() else { return true };
                let Some(kept_back) = session.kept_back.as_mut() else { return true };
                kept_back.insert(method.to_owned());
                session.signals.kept_back.notify_one();
                false
            }
            _ => true,
        }
    }

    /// Over pipes a server may end a stream by cancelling the request that opened it. Returns whether it did.
    fn ends_stream(&self, id: &RawId) -> bool {
        let Some(id) = self.call_id(id) else { return false };
        let is_stream = |stream: &Pending| stream.request.method() == Some(method::SUBSCRIPTIONS_LISTEN);
        if !self.shared.lock().supervisor.ledger.reply(id).is_some_and(|stream| is_stream(stream)) {
            return false;
        }
        if let Some(stream) = self.shared.answer(self.epoch, id, false) {
            self.shared.lock().stream_changed();
            // As a result: every client takes that for a regular end.
            let end = Frame::built(frame::stream_complete(&stream.caller_id));
            stream.reply.end(Outcome::Answered(end));
        }
        true
    }

    /// Progress names its call by the wire id; its caller is told under its own token. What comes after the answer, or after the
    /// timeout, would confuse.
    fn progress(&self, frame: &Frame) {
        let wire = frame.progress_token().and_then(RawId::parse);
        let call = wire.as_ref().and_then(|id| self.call_id(id));
        let progress = call.and_then(|call| self.shared.lock().progress(self.shared.now(), call));
        let Some(Progress { token, client, call, to }) = progress else { return };
        let frame = frame.edited([Edit::ProgressToken(&token)]);
        self.shared.hand_on(Incoming { epoch: self.epoch, call, client, to, frame });
    }

    /// A notification of a subscription carries its id, which is the client's towards the client.
    fn hand_on_notification(&self, frame: Frame) {
        let Some(wire) = frame.subscription_id() else { return self.hand_on(frame) };
        let (call, caller_id) = {
            let mut state = self.shared.lock();
            let stream = self.call_id(&wire).and_then(|id| state.supervisor.ledger.reply_mut(id));
            let acknowledges = frame.method() == Some(notification::SUBSCRIPTIONS_ACKNOWLEDGED);
            match stream {
                Some(stream) if acknowledges => {
                    let before = stream.acknowledged.replace(self.epoch);
                    let known = (owner(stream), stream.caller_id.clone());
                    state.stream_changed();
                    if before == Some(self.epoch) {
                        state.events.push(OwnerEvent::Missed(self.epoch)); // It was cut, and is open again.
                        self.shared.wake.notify_one();
                    }
                    if before.is_some() {
                        return; // The client knows already that the stream is open.
                    }
                    known
                }
                Some(stream) => (owner(stream), stream.caller_id.clone()),
                None => {
                    state.anomalies.stray += 1;
                    return;
                }
            }
        };
        self.hand_to(call, frame.edited([Edit::SubscriptionId(&caller_id)]));
    }

    fn hand_on(&self, frame: Frame) {
        self.hand_to(self.belongs_to(), frame);
    }

    fn hand_to(&self, call: Option<CallOwner>, frame: Frame) {
        let incoming = Incoming::of_no_call(self.epoch, frame);
        self.shared.hand_on(match call {
            Some((client, id, to)) => Incoming { call: Some(id), client, to, ..incoming },
            None => incoming,
        });
    }

    /// The call that the server names so.
    fn call_id(&self, id: &RawId) -> Option<CallId> {
        self.shared.settings.wire_ids.call(id)
    }

    /// The call that a message belongs to, where its exchange tells.
    fn belongs_to(&self) -> Option<CallOwner> {
        let id = self.call?;
        let state = self.shared.lock();
        owner(state.supervisor.ledger.reply(id)?)
    }

    /// A message that we cannot use. If it was an answer to one of these, its caller is told: no deadline need pass for that.
    fn unusable(&self, salvage: &Salvaged, ids: Vec<RawId>, kind: ErrorKind) {
        self.count_unusable(kind);
        let calls: BTreeSet<CallId> = ids.iter().filter_map(|id| self.call_id(id)).collect();
        // Of several, it answers one; nobody knows which.
        let delivery = if calls.len() > 1 { Delivery::Unknown } else { Delivery::Answered };
        for call in calls {
            self.fail(call, kind, delivery);
        }
        // A request of the server that never reaches the client must not leave the server waiting.
        if let Some(id) = salvage.id.as_ref().filter(|_| salvage.method) {
            let why = match kind {
                ErrorKind::TooLarge { .. } => "the request is over the limit for one line",
                _ => "the request is malformed",
            };
            self.shared
                .post(Some(self.epoch), frame::error(Some(id), error_code::INVALID_REQUEST, why, None));
        }
    }

    fn count_unusable(&self, kind: ErrorKind) {
        {
            let mut state = self.shared.lock();
            match kind {
                ErrorKind::TooLarge { .. } => state.anomalies.too_long += 1,
                _ => state.anomalies.garbage += 1,
            }
        }
        self.log_once(match kind {
            ErrorKind::TooLarge { .. } => {
                "dropped a line of the server: over the size limit (further ones are only counted)"
            }
            _ => "the server wrote a line to stdout that is not a message (further ones are only counted)",
        });
    }

    /// The server has answered this call with what we cannot use.
    fn fail(&self, call: CallId, kind: ErrorKind, delivery: Delivery) {
        let Some(pending) = self.shared.answer(self.epoch, call, false) else { return };
        let error = self.shared.error(&pending, kind, delivery, Some(self.epoch), None, Outlook::Serving);
        pending.reply.end(Outcome::Failed(error));
    }
}

/// Whose a call is, that client's id for it, and where its messages go if it has a place of its own for them.
type CallOwner = (u64, RawId, Option<Arc<dyn CallInbox>>);

fn owner(call: &Pending) -> Option<CallOwner> {
    call.of_client().map(|(client, id)| (client, id, call.reply.inbox()))
}

/// What ends a session if a message of its server made us panic.
pub(crate) fn panicked() -> Fault {
    Fault::Broken { reason: "internal error in Regrow while handling one of its messages".into() }
}
