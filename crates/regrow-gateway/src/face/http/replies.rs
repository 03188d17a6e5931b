//! What a legacy client sends goes to its client handle, and the answers to the lane that waits for them.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use regrow::core::{Delivery, Outlook};
use regrow::{Asked, CallError, CallInbox, ErrorKind, ErrorStyle, Outcome, Reply, Request};
use regrow_protocol::frame::{self, Frame, Kind, ParseError, join_batch, split_batch};
use regrow_protocol::{method, notification};

use super::Face;
use super::lane::{Lane, Weight};
use super::session::{Session, Ticket};
use crate::admit::{ClientHandle, Scope};

/// When a gateway that shuts down may be there again.
const RETRY_AFTER: Duration = Duration::from_secs(5);

/// Where answers go to.
#[derive(Clone)]
pub(super) enum Way {
    /// To a lane that ends with it.
    Whole(Arc<Lane>),
    /// To a lane that goes on.
    Among(Arc<Lane>),
    /// Into one array with others.
    Gathered(Arc<Batch>),
}

impl Way {
    fn lane(&self) -> &Arc<Lane> {
        match self {
            Way::Whole(lane) | Way::Among(lane) => lane,
            Way::Gathered(batch) => batch.way.lane(),
        }
    }

    /// The answer, or the news that there will be none.
    fn deliver(&self, line: Option<Bytes>) {
        match (self, line) {
            (Way::Whole(lane), line) => lane.finish(line, None),
            (Way::Among(lane), Some(line)) => {
                lane.push(line, Weight::Needed);
            }
            (Way::Gathered(batch), Some(line)) => {
                batch.answers.lock().unwrap_or_else(PoisonError::into_inner).push(line);
            }
            (Way::Among(_) | Way::Gathered(_), None) => {}
        }
    }
}

/// The answers to a batch. They leave as one array when the last member has ended, answered or cancelled.
pub(super) struct Batch {
    way: Way,
    answers: Mutex<Vec<Bytes>>,
}

impl Drop for Batch {
    fn drop(&mut self) {
        let answers = std::mem::take(self.answers.get_mut().unwrap_or_else(PoisonError::into_inner));
        self.way.deliver(join_batch(answers));
    }
}

/// Hands on all that one request of the client carries.
pub(super) fn hand_on(
    session: &Arc<Session>,
    client: &dyn ClientHandle,
    frame: Frame,
    way: Way,
    face: &Face,
) {
    if frame.kind() != Kind::Batch {
        return hand_on_one(session, client, frame, &way, face);
    }
    let batch = Way::Gathered(Arc::new(Batch { way, answers: Mutex::default() }));
    for member in split_batch(&frame) {
        match member {
            Ok(member) => hand_on_one(session, client, member, &batch, face),
            Err(error) => batch.deliver(Some(unreadable(&error))),
        }
    }
}

fn hand_on_one(session: &Arc<Session>, client: &dyn ClientHandle, frame: Frame, way: &Way, face: &Face) {
    let style = face.style;
    match frame.kind() {
        Kind::Request { id, .. } => {
            let asked = Asked::of(&frame, id.clone());
            let opens = opens_session(&frame);
            if face.is_closing() {
                // Answers and cancellations still go through: calls in flight may wait for them.
                let refused = refused(&session.scope, ErrorKind::Closed, Outlook::Deferred(RETRY_AFTER));
                return way.deliver(Some(asked.answer(&Outcome::Failed(refused), style)));
            }
            match session.begin(way.lane()) {
                Some(ticket) => {
                    let reply = ToClient { asked, style, opens, way: Some(way.clone()), ticket };
                    client.submit(Request::new(frame, id, Box::new(reply)));
                }
                None => way.deliver(Some(asked.answer(&Outcome::Failed(overloaded(&session.scope)), style))),
            }
        }
        Kind::Notification { method: notification::CANCELLED } => {
            let known = frame.request_id().is_some_and(|id| client.cancel(&id, &frame));
            if !known {
                tracing::debug!("a client cancelled what is not running");
            }
        }
        Kind::Notification { .. } => {
            client.forward(&frame);
        }
        Kind::Response { id } => match id.and_then(|id| session.answered(&id)) {
            Some((epoch, server_id)) => {
                client.hand_over(epoch, &server_id, frame.with_id(&server_id));
            }
            None => tracing::debug!("a client answered what was not asked"),
        },
        Kind::Batch => {} // Batches hold no batches: `split_batch` refuses them.
    }
}

fn unreadable(error: &ParseError) -> Bytes {
    frame::error(error.id(), error.code(), &error.to_string(), None)
}

/// A call that we do not take because there are too many.
pub(super) fn overloaded(scope: &Scope) -> CallError {
    refused(scope, ErrorKind::Overloaded, Outlook::Serving)
}

/// A call that we do not take.
fn refused(scope: &Scope, kind: ErrorKind, outlook: Outlook) -> CallError {
    let server = match scope {
        Scope::All => "regrow",
        Scope::One(name) => name,
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
        tool: None,
        stderr: vec![],
    }
}

/// Answers one request of the client, or tells that it was cancelled.
struct ToClient {
    asked: Asked,
    style: ErrorStyle,
    /// Whether the session stands and falls with it.
    opens: bool,
    /// None once it was gone.
    way: Option<Way>,
    ticket: Ticket,
}

impl Reply for ToClient {
    fn end(mut self: Box<Self>, outcome: Outcome) {
        let failed = !matches!(&outcome, Outcome::Answered(frame) if !frame.is_error());
        if let Some(way) = self.way.take() {
            way.deliver(Some(self.asked.answer(&outcome, self.style)));
        }
        if self.opens && failed {
            self.ticket.session.end();
        }
    }

    fn inbox(&self) -> Option<Arc<dyn CallInbox>> {
        Some(self.ticket.inbox())
    }
}

impl Drop for ToClient {
    fn drop(&mut self) {
        if let Some(way) = self.way.take() {
            way.deliver(None);
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
    matches!(frame.kind(), Kind::Request { method: method::INITIALIZE, .. })
}
