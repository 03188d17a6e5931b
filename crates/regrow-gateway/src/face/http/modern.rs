//! The modern era: every request stands for itself, and closing its response cancels it.

use std::sync::Arc;

use axum::response::Response;
use http::{HeaderMap, StatusCode};
use regrow::client::{ErrorStyle, ResponseFormat};
use regrow::transport::ResponseStream;
use regrow::{CallInbox, Outcome, Reply, Request};
use regrow_protocol::frame::{self, Frame, Kind, Parts, RawId};
use regrow_protocol::version::MODERN;
use regrow_protocol::{error_code, meta, method, notification};
use tokio::time::Instant;

use super::Face;
use super::events::Listener;
use super::memory::{IncomingMessage, OutgoingLine};
use super::message_body::MessageBody;
use super::mirror::{agree, arguments_agree};
use super::modern_endpoint::{CancelOnDrop, ModernCallGuard, ModernPresence};
use super::refusal::{Refusal, empty, json};
use super::replies::{is_answer, overloaded, refused_call, response_dropped, size};
use super::reply_stream::{CallStream, First};
use super::sessions::Caller;
use crate::admit::ServerScope;
use crate::shares::BytePermit;

/// A message of a client.
pub(super) async fn post(
    face: &Arc<Face>,
    caller: Caller,
    headers: &HeaderMap,
    message: IncomingMessage,
) -> Result<Response, Refusal> {
    let IncomingMessage { frame, permit } = message;
    match frame.kind() {
        Kind::Request { id, .. } => {
            let checked =
                check(headers, &frame).and_then(|()| check_arguments(face, &caller, headers, &frame));
            checked.map_err(|refusal| refusal.to(&frame))?;
            let visit = face.endpoints.enter(face, &caller.scope, caller.principal);
            let visit = visit.map_err(|refusal| refusal.to(&frame))?;
            request(face, caller, visit, IncomingMessage { frame, permit }, id).await
        }
        Kind::Notification { method } => {
            agree(headers, &frame)?;
            let visit = face.endpoints.enter(face, &caller.scope, caller.principal)?;
            // A client cancels by closing; and which request of which client this means could not be told.
            if method == notification::CANCELLED {
                face.face_stats.stray();
            } else if let Some(client) = visit.endpoint.client() {
                client.forward(&frame);
            }
            Ok(empty(StatusCode::ACCEPTED))
        }
        Kind::Response { .. } | Kind::Batch => {
            Err(Refusal::bad("a body must be one request or one notification"))
        }
    }
}

fn check(headers: &HeaderMap, request: &Frame) -> Result<(), Refusal> {
    agree(headers, request)?;
    let lacks = |key: &str| {
        Refusal::new(
            StatusCode::BAD_REQUEST,
            error_code::INVALID_PARAMS,
            format!("params._meta has no {key}"),
        )
    };
    let version = request.protocol_version().ok_or_else(|| lacks(meta::PROTOCOL_VERSION))?;
    if version != MODERN {
        // Those that a discover names: the others begin with a handshake.
        return Err(Refusal::unsupported_version(&version, &[MODERN]));
    }
    if !request.has_client_capabilities() {
        return Err(lacks(meta::CLIENT_CAPABILITIES));
    }
    Ok(())
}

/// Headers that mirror arguments of a tool agree with them.
fn check_arguments(face: &Face, caller: &Caller, headers: &HeaderMap, call: &Frame) -> Result<(), Refusal> {
    if call.method() != Some(method::TOOLS_CALL) {
        return Ok(());
    }
    let mirrored = call.name().and_then(|tool| face.admit.mirrored(&caller.scope, &tool));
    arguments_agree(headers, call, mirrored.as_ref())
}

async fn request(
    face: &Arc<Face>,
    caller: Caller,
    visit: ModernPresence,
    message: IncomingMessage,
    id: RawId,
) -> Result<Response, Refusal> {
    let IncomingMessage { frame, permit } = message;
    let asked = ResponseFormat::of(&frame, id.clone());
    let now = Instant::now();
    let (Some(client), begun) = (visit.endpoint.client(), visit.endpoint.begin(&frame, id.clone(), now))
    else {
        return Err(Refusal::closing().to(&frame));
    };
    let Some(ticket) = begun else {
        let outcome = Outcome::Failed(overloaded(&caller.scope));
        if let Some(written) = refused_call(&face.audit, &frame, caller.principal, None, &outcome) {
            written.wait().await;
        }
        return Ok(json(StatusCode::OK, asked.answer(&outcome, face.style)));
    };
    let (number, stream) = (ticket.call.number, ticket.call.stream.clone());
    let listener = Listener::new(&stream, None, caller.slot.as_ref(), CancelOnDrop { visit, number });
    let mut listener = listener.ok_or_else(Refusal::closing)?;
    let listens = frame.method() == Some(method::SUBSCRIPTIONS_LISTEN);
    let (style, listens, scope) = (face.style, listens.then_some(id), caller.scope);
    let reply = ToPost { asked, style, listens, ticket, scope, _permit: permit };
    // It goes by our number: others may use the same id, which stays in the frame until the connection writes its own.
    client.submit(Request::new(frame, RawId::from(number), Box::new(reply)));
    drop(client); // The endpoint alone decides when it leaves.
    Ok(match listener.first(now + face.limits.modern_hold, caller.slot.as_ref()).await {
        First::Answer(message, code) => json(status(code), MessageBody(message)),
        First::Partial => listener.into_streamed_response(),
        First::Stream => listener.into_response(face.limits.beat),
    })
}

/// The status that the specification wants for an answer that is an error of this code.
fn status(code: Option<i64>) -> StatusCode {
    match code {
        Some(error_code::METHOD_NOT_FOUND) => StatusCode::NOT_FOUND,
        Some(code) if error_code::is_modern(code) => StatusCode::BAD_REQUEST,
        _ => StatusCode::OK,
    }
}

/// Answers one request.
struct ToPost {
    asked: ResponseFormat,
    style: ErrorStyle,
    /// The client's id of a subscription, which the end of it names.
    listens: Option<RawId>,
    ticket: ModernCallGuard,
    scope: ServerScope,
    /// The room that the request takes.
    _permit: Option<Arc<BytePermit>>,
}

impl Reply for ToPost {
    fn end(self: Box<Self>, mut outcome: Outcome) {
        if is_answer(&outcome) && self.ticket.call.stream.has_lost_streamed() {
            outcome = Outcome::Failed(response_dropped(&self.scope));
        }
        let code = match &outcome {
            Outcome::Answered(frame) => frame.error_code(),
            Outcome::Refused => Some(error_code::METHOD_NOT_FOUND),
            Outcome::Failed(_) => None,
        };
        let stream_end = match (&outcome, &self.listens) {
            (Outcome::Answered(frame), Some(id)) => frame::stream_end(frame, id),
            _ => None,
        };
        match self.ticket.call.stream.charge(size(&outcome)) {
            Ok(permit) => {
                let message =
                    stream_end.map_or_else(|| self.asked.answer_parts(&outcome, self.style), Parts::from);
                self.ticket.answer(OutgoingLine { message, permit }, code);
            }
            Err(_) => {
                let dropped = Outcome::Failed(response_dropped(&self.scope));
                self.ticket.answer(self.asked.answer(&dropped, self.style).into(), None);
            }
        }
    }

    fn inbox(&self) -> Option<Arc<dyn CallInbox>> {
        Some(self.ticket.call.clone())
    }

    fn response_stream(&self) -> Option<Arc<dyn ResponseStream>> {
        let stream = self.ticket.call.stream.clone();
        self.asked
            .can_be_streamed(self.style)
            .then(|| Arc::new(CallStream { id: self.asked.id().clone(), stream }) as _)
    }
}
