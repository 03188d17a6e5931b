//! The older HTTP+SSE of 2024-11-05: one stream that carries everything, and messages posted beside it.

use std::sync::Arc;

use axum::response::Response;
use http::request::Parts;
use http::{HeaderMap, StatusCode};
use regrow::client::{self, ResponseTo};
use regrow_protocol::events::OutgoingEvent;
use regrow_protocol::header;
use tokio::time::Instant;

use super::Face;
use super::body::{RequestBody, accepts};
use super::events::Listener;
use super::memory::IncomingMessage;
use super::post::read;
use super::refusal::{Refusal, empty};
use super::replies::{ResponsePath, SessionInput};
use super::session::{LegacyPresence, Session};
use super::sessions::Caller;

/// In the address that messages are posted to.
const SESSION: &str = "session=";

/// A client opens its stream, and is told at which address to post.
pub(super) fn open(
    face: &Arc<Face>,
    caller: Caller,
    headers: &HeaderMap,
    path: &str,
) -> Result<Response, Refusal> {
    accepts(headers, &[header::EVENT_STREAM])?;
    let slot = caller.slot.clone();
    let visit = face.sessions.begin(face, caller)?;
    let session = visit.session.clone();
    let posts = path.strip_suffix("sse").unwrap_or_default();
    let address = format!("{posts}messages?{SESSION}{}", session.id);
    let data = Some(address.as_bytes());
    let endpoint = OutgoingEvent { name: Some("endpoint"), data, ..OutgoingEvent::default() };
    let leaving = Leaving { session: session.clone(), _visit: visit };
    let listener = Listener::new(&session.listening, None, slot.as_ref(), leaving);
    Ok(listener.ok_or_else(Refusal::no_session)?.opening(endpoint).into_response(face.limits.beat))
}

/// A message of a client. What comes of it goes to its stream.
pub(super) async fn post(
    face: &Arc<Face>,
    caller: Caller,
    head: &Parts,
    body: impl RequestBody,
) -> Result<Response, Refusal> {
    let query = head.uri.query().unwrap_or_default();
    let id = query.split('&').find_map(|pair| pair.strip_prefix(SESSION)).unwrap_or_default();
    let visit = face.sessions.find(id, &caller).map_err(|refusal| face.reason(refusal))?;
    let IncomingMessage { frame, permit } = read(face, &caller, &head.headers, body).await?;
    let session = &visit.session;
    let client = session.client().ok_or_else(Refusal::no_session)?;
    let to = ResponseTo::Alone(ResponsePath::Among(session.listening.clone()));
    client::take(&SessionInput { face, session, permit }, &*client, frame, to, Instant::now());
    Ok(empty(StatusCode::ACCEPTED))
}

/// The session lasts as long as its stream.
struct Leaving {
    session: Arc<Session>,
    _visit: LegacyPresence,
}

impl Drop for Leaving {
    fn drop(&mut self) {
        self.session.end();
    }
}
