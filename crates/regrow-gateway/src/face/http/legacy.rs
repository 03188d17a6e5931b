//! The legacy era: sessions with an id, a stream to listen on, and streams that can be resumed.

use std::sync::Arc;

use axum::response::Response;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use regrow::client::{self, ResponseTo};
use regrow_protocol::{error_code, header};
use tokio::time::Instant;

use super::Face;
use super::body::accepts;
use super::connections::Slot;
use super::events::Listener;
use super::memory::IncomingMessage;
use super::message_body::MessageBody;
use super::protocol_version::requested_version;
use super::refusal::{Refusal, empty, json};
use super::replies::{ResponsePath, SessionInput, opens_session, wants_answer};
use super::reply_stream::{First, ReplyStream};
use super::session::{LegacyPresence, Session};
use super::sessions::Caller;

const SESSION_ID: HeaderName = HeaderName::from_static(header::SESSION_ID);
/// From here on clients understand an event without data.
const PRIMED_SINCE: &str = "2025-11-25";

/// A request, or a batch with one, that waits for its response.
pub(super) struct PostedCall {
    session: Arc<Session>,
    stream: Arc<ReplyStream>,
    listener: Listener<LegacyPresence>,
    slot: Option<Arc<Slot>>,
    /// How long a response that is not a stream may take.
    until: Instant,
    abandoned: Abandoned,
}

/// A message of a client, or a batch of them. Its headers name this version, or none. Returns what waits for a response, if it wants one.
pub(super) fn post(
    face: &Arc<Face>,
    caller: Caller,
    headers: &HeaderMap,
    version: Option<&str>,
    message: IncomingMessage,
) -> Result<Option<PostedCall>, Refusal> {
    let (IncomingMessage { frame, permit }, slot) = (message, caller.slot.clone());
    let opens = opens_session(&frame);
    let visit = match session_id(headers) {
        Some(_) if opens => return Err(Refusal::bad("this session is already initialized").to(&frame)),
        Some(id) => face.sessions.find(id, &caller).map_err(|refusal| face.reason(refusal).to(&frame))?,
        None if opens => face.sessions.begin(face, caller).map_err(|refusal| refusal.to(&frame))?,
        None => return Err(Refusal::bad("Mcp-Session-Id is missing; initialize first").to(&frame)),
    };
    let session = visit.session.clone();
    let client = session.client().ok_or_else(Refusal::no_session)?;
    let input = SessionInput { face, session: &session, permit };
    let now = Instant::now();
    if !wants_answer(&frame) {
        let to = ResponseTo::Alone(ResponsePath::Among(session.listening.clone()));
        client::take(&input, &*client, frame, to, now);
        return Ok(None);
    }
    let stream = session.open_stream(now);
    let abandoned = Abandoned { session: opens.then(|| session.clone()) };
    let listener = listen(version, &stream, None, slot.as_ref(), visit)?;
    client::take(&input, &*client, frame, ResponseTo::Alone(ResponsePath::Whole(stream.clone())), now);
    drop(client); // The session alone decides when it leaves.
    let until = now + face.limits.hold;
    Ok(Some(PostedCall { session, stream, listener, slot, until, abandoned }))
}

impl PostedCall {
    pub(super) async fn response(mut self, face: &Face) -> Response {
        let mut response = match self.listener.first(self.until, self.slot.as_ref()).await {
            First::Answer(message, _) => {
                self.session.forget_stream(self.stream.number);
                json(StatusCode::OK, MessageBody(message))
            }
            First::Partial => {
                self.session.forget_stream(self.stream.number);
                self.listener.into_streamed_response()
            }
            First::Stream => self.listener.into_response(face.limits.beat),
        };
        if let Some(opened) = self.abandoned.keep()
            && opened.client().is_some()
            && let Ok(id) = HeaderValue::from_str(&opened.id)
        {
            response.headers_mut().insert(SESSION_ID, id);
        }
        response
    }
}

/// A client listens, or comes back for the rest of a stream.
pub(super) fn get(face: &Arc<Face>, caller: &Caller, headers: &HeaderMap) -> Result<Response, Refusal> {
    let visit = visit(face, caller, headers)?;
    accepts(headers, &[header::EVENT_STREAM])?;
    visit.session.prune(Instant::now()); // What was kept for too long is not there any more.
    let (stream, from) = match headers.get(header::LAST_EVENT_ID) {
        // It would only be ended again.
        None if face.is_closing() => return Err(Refusal::closing()),
        None => (visit.session.listening.clone(), None),
        Some(last) => {
            let found = last.to_str().ok().and_then(|last| resumed(&visit.session, last));
            let (stream, last) =
                found.ok_or_else(|| Refusal::bad("Last-Event-ID names an unknown stream"))?;
            (stream, Some(last + 1))
        }
    };
    let version = requested_version(headers)?;
    Ok(listen(version, &stream, from, caller.slot.as_ref(), visit)?.into_response(face.limits.beat))
}

/// A client leaves.
pub(super) fn delete(face: &Arc<Face>, caller: &Caller, headers: &HeaderMap) -> Result<Response, Refusal> {
    visit(face, caller, headers)?.session.end();
    Ok(empty(StatusCode::OK))
}

fn visit(face: &Arc<Face>, caller: &Caller, headers: &HeaderMap) -> Result<LegacyPresence, Refusal> {
    // In the modern era there is neither a stream to listen on nor a session to end.
    let id = session_id(headers).ok_or_else(|| Refusal::method("POST"))?;
    requested_version(headers)?;
    face.sessions.find(id, caller).map_err(|refusal| face.reason(refusal))
}

fn session_id(headers: &HeaderMap) -> Option<&str> {
    // What is no text is the id of no session.
    headers.get(SESSION_ID).map(|id| id.to_str().unwrap_or_default())
}

/// The stream of the event with this id, and the event's number.
fn resumed(session: &Session, last: &str) -> Option<(Arc<ReplyStream>, u64)> {
    let [stream, event] = session.event_ids.open(last)?;
    Some((session.stream(stream)?, event))
}

fn listen(
    version: Option<&str>,
    stream: &Arc<ReplyStream>,
    from: Option<u64>,
    slot: Option<&Arc<Slot>>,
    mut visit: LegacyPresence,
) -> Result<Listener<LegacyPresence>, Refusal> {
    let primed = version == Some(PRIMED_SINCE);
    let event_ids = visit.session.event_ids;
    visit.reads = Some(stream.number);
    let listener = Listener::new(stream, from, slot, visit);
    let taken = || {
        Refusal::new(
            StatusCode::CONFLICT,
            error_code::INVALID_REQUEST,
            "this stream already has a reader; only one at a time",
        )
    };
    Ok(listener.ok_or_else(taken)?.resumable(event_ids, primed))
}

/// Ends a session whose client left before it could learn the session's id.
struct Abandoned {
    /// None if the session was there before.
    session: Option<Arc<Session>>,
}

impl Abandoned {
    fn keep(mut self) -> Option<Arc<Session>> {
        self.session.take()
    }
}

impl Drop for Abandoned {
    fn drop(&mut self) {
        if let Some(session) = self.session.take() {
            session.end();
        }
    }
}
