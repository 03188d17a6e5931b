//! What a legacy client waits for: its requests begin here, and the responses go to the stream that waits for them.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use regrow::client::{ClientSide, ErrorStyle, ResponseFormat, ResponseSink, ResponseTo};
use regrow::core::{Delivery, Epoch, Outlook};
use regrow::transport::ResponseStream;
use regrow::{CallError, CallInbox, ErrorKind, Outcome, Reply};
use regrow_protocol::frame::{self, Frame, Kind, RawId, split_batch};
use regrow_protocol::method;

use super::Face;
use super::memory::OutgoingLine;
use super::reply_stream::{CallStream, ReplyStream, Weight};
use super::session::{LegacyCallGuard, Session};
use crate::admit::{Principal, ServerScope};
use crate::audit::{Audit, Event, Record, Written, session_tag};
use crate::shares::{BytePermit, with_permit};
use crate::stats::Ending;

/// When a gateway that shuts down may be there again.
const RETRY_AFTER: Duration = Duration::from_secs(5);

/// Where responses go to.
#[derive(Clone)]
pub(super) enum ResponsePath {
    /// To a stream that ends with it.
    Whole(Arc<ReplyStream>),
    /// To a stream that goes on.
    Among(Arc<ReplyStream>),
}

impl ResponsePath {
    fn stream(&self) -> &Arc<ReplyStream> {
        match self {
            ResponsePath::Whole(stream) | ResponsePath::Among(stream) => stream,
        }
    }
}

impl ResponsePath {
    fn deliver_line(&self, response: Option<OutgoingLine>) {
        match (self, response) {
            (ResponsePath::Whole(stream), response) => stream.finish(response, None),
            (ResponsePath::Among(stream), Some(line)) => drop(stream.push_line(line, Weight::Needed)),
            (ResponsePath::Among(_), None) => {}
        }
    }
}

impl ResponseSink for ResponsePath {
    fn deliver(&self, response: Option<Bytes>) {
        self.deliver_line(response.map(|bytes| match self.stream().charge(bytes.len()) {
            Ok(permit) => OutgoingLine { message: bytes.into(), permit },
            // Only a batch is so large here; its client gets no part of it.
            Err(refused) => {
                frame::error(None, ErrorKind::Overloaded.code(), &refused.to_string(), None).into()
            }
        }));
    }
}

/// A legacy session as its client writes to it.
pub(super) struct SessionInput<'a> {
    pub(super) face: &'a Face,
    pub(super) session: &'a Arc<Session>,
    /// The room that the message takes.
    pub(super) permit: Option<Arc<BytePermit>>,
}

impl ClientSide for SessionInput<'_> {
    type Sink = ResponsePath;

    fn begin(&self, request: &Frame, id: &RawId, to: ResponseTo<ResponsePath>) -> Option<Box<dyn Reply>> {
        let (style, scope) = (self.face.style, &self.session.scope);
        let asked = ResponseFormat::of(request, id.clone());
        let refuse = |error| {
            let outcome = Outcome::Failed(error);
            let Session { id, principal, .. } = &**self.session;
            // Nothing here can wait for the line.
            let _ = refused_call(&self.face.audit, request, *principal, Some(id), &outcome);
            to.deliver(Some(asked.answer(&outcome, style)));
        };
        if self.face.is_closing() {
            // Answers and cancellations still go through: calls in flight may wait for them.
            refuse(refused(scope, ErrorKind::Closed, Outlook::Deferred(RETRY_AFTER)));
            return None;
        }
        let Some(ticket) = self.session.begin(to.sink().stream()) else {
            refuse(overloaded(scope));
            return None;
        };
        let (opens, permit) = (opens_session(request), self.permit.clone());
        Some(Box::new(ToClient { asked, style, opens, to: Some(to), ticket, _permit: permit }))
    }

    fn answered(&self, id: &RawId) -> Option<(Epoch, RawId)> {
        self.session.answered(id)
    }
}

/// Tells the audit log of a request that ends here.
pub(super) fn refused_call(
    audit: &Audit,
    request: &Frame,
    principal: Principal,
    session: Option<&str>,
    outcome: &Outcome,
) -> Option<Written> {
    if !audit.is_on() {
        return None;
    }
    let mut record = Record::of_request(request, principal);
    record.session = session.map(session_tag);
    record.ended(Ending::of(outcome));
    record.event = Event::Refusal;
    audit.write(&record)
}

/// A call that we do not take because there are too many.
pub(super) fn overloaded(scope: &ServerScope) -> CallError {
    refused(scope, ErrorKind::Overloaded, Outlook::Serving)
}

/// A call whose response was dropped: its client holds too much memory already.
pub(super) fn response_dropped(scope: &ServerScope) -> CallError {
    CallError { delivery: Delivery::Answered, repeatable: false, ..overloaded(scope) }
}

pub(super) fn is_answer(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Answered(_))
}

/// How much memory a response takes.
pub(super) fn size(outcome: &Outcome) -> usize {
    match outcome {
        Outcome::Answered(frame) => frame.bytes().len(),
        Outcome::Refused | Outcome::Failed(_) => 0,
    }
}

/// A call that we do not take.
fn refused(scope: &ServerScope, kind: ErrorKind, outlook: Outlook) -> CallError {
    let server = match scope {
        ServerScope::All => "regrow",
        ServerScope::One(name) => name,
    };
    CallError {
        server: server.into(),
        epoch: None,
        delivery: Delivery::NotSent,
        kind,
        fault: None,
        outlook,
        repeatable: true,
        attempts: 0,
        timeout: None,
        tool: None,
        stderr: vec![],
    }
}

/// Answers one request of the client, or tells that it was cancelled.
struct ToClient {
    asked: ResponseFormat,
    style: ErrorStyle,
    /// Whether the session stands and falls with it.
    opens: bool,
    /// None once it was gone.
    to: Option<ResponseTo<ResponsePath>>,
    ticket: LegacyCallGuard,
    /// The room that the request takes.
    _permit: Option<Arc<BytePermit>>,
}

impl Reply for ToClient {
    fn end(mut self: Box<Self>, mut outcome: Outcome) {
        if let Some(to) = &self.to
            && is_answer(&outcome)
            && to.sink().stream().has_lost_streamed()
        {
            outcome = Outcome::Failed(response_dropped(&self.ticket.session.scope));
        }
        let failed = !matches!(&outcome, Outcome::Answered(frame) if !frame.is_error());
        if let Some(to) = self.to.take() {
            let line = match to.sink().stream().charge(size(&outcome)) {
                Ok(permit) => OutgoingLine { message: self.asked.answer_parts(&outcome, self.style), permit },
                Err(_) => {
                    let dropped = Outcome::Failed(response_dropped(&self.ticket.session.scope));
                    self.asked.answer(&dropped, self.style).into()
                }
            };
            self.ticket.free_place();
            match &to {
                ResponseTo::Alone(path) => path.deliver_line(Some(line)),
                ResponseTo::Batch(_) => to.deliver(Some(with_permit(line.message.into_line(), line.permit))),
            }
        }
        if self.opens && failed {
            self.ticket.session.end();
        }
    }

    fn inbox(&self) -> Option<Arc<dyn CallInbox>> {
        Some(self.ticket.inbox())
    }

    fn response_stream(&self) -> Option<Arc<dyn ResponseStream>> {
        match &self.to {
            Some(ResponseTo::Alone(ResponsePath::Whole(stream)))
                if self.asked.can_be_streamed(self.style) =>
            {
                Some(Arc::new(CallStream { id: self.asked.id().clone(), stream: stream.clone() }))
            }
            _ => None,
        }
    }
}

impl Drop for ToClient {
    fn drop(&mut self) {
        if let Some(to) = self.to.take() {
            self.ticket.free_place();
            to.deliver(None);
        }
    }
}

/// Whether a message, or one of a batch, wants an answer.
pub(super) fn wants_answer(frame: &Frame) -> bool {
    match frame.kind() {
        Kind::Batch => split_batch(frame).iter().any(|member| match member {
            Ok(member) => matches!(member.kind(), Kind::Request { .. }),
            Err(_) => true,
        }),
        kind => matches!(kind, Kind::Request { .. }),
    }
}

/// Whether a message opens a session.
pub(super) fn opens_session(frame: &Frame) -> bool {
    frame.method() == Some(method::INITIALIZE) && matches!(frame.kind(), Kind::Request { .. })
}
