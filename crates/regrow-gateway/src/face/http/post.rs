//! A POST to an endpoint that serves both eras: which one is it of?

use std::sync::Arc;

use axum::response::Response;
use http::request::Parts;
use http::{HeaderMap, StatusCode};
use regrow_protocol::frame::Frame;
use regrow_protocol::{header, version};

use super::body::RequestBody;
use super::memory::IncomingMessage;
use super::protocol_version::requested_version;
use super::refusal::{Refusal, empty};
use super::sessions::Caller;
use super::{Face, body, legacy, modern};

/// A message of a client of either era.
pub(super) async fn post(
    face: &Arc<Face>,
    caller: Caller,
    head: &Parts,
    body: impl RequestBody,
) -> Result<Response, Refusal> {
    body::accepts(&head.headers, &[header::JSON, header::EVENT_STREAM])?;
    let message = read(face, &caller, &head.headers, body).await?;
    let version = match message.frame.protocol_version() {
        Some(_) => Some(version::MODERN),
        None => requested_version(&head.headers).map_err(|refusal| refusal.to(&message.frame))?,
    };
    if version == Some(version::MODERN) {
        Box::pin(modern::post(face, caller, &head.headers, message)).await
    } else {
        match legacy::post(face, caller, &head.headers, version, message)? {
            Some(call) => Ok(call.response(face).await),
            None => Ok(empty(StatusCode::ACCEPTED)),
        }
    }
}

/// The message in a body.
pub(super) async fn read(
    face: &Face,
    caller: &Caller,
    headers: &HeaderMap,
    body: impl RequestBody,
) -> Result<IncomingMessage, Refusal> {
    body::is_json(headers)?;
    let account = face.account(caller.principal);
    let (bytes, permit) = body::read(body, &face.limits, &account).await?;
    let mut frame = Frame::parse(bytes)?;
    frame.compact(); // A call may wait for long: the buffer that it was read into need not.
    Ok(IncomingMessage { frame, permit: permit.map(Arc::new) })
}
