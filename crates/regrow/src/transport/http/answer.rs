//! The body of a good answer: one message, or a stream of them.

use std::mem;

use bytes::{Bytes, BytesMut};
use http::header::CONTENT_LENGTH;
use regrow_core::Fault;
use regrow_protocol::frame::{Frame, ParseError, Salvage};
use regrow_protocol::lines::Line;
use regrow_protocol::method;

use super::http_exchange::HttpExchange;
use super::link::HttpLink;
use super::response::{Content, Response};
use super::stream;
use super::streamed::{LONG, ResponseReader, growing};
use crate::transport::{Receipt, no_stream};

/// More is not set aside before it has come.
const FIRST: usize = 64 << 10;
/// At most so many times of what has come is set aside, where its length is known.
const GROWTH: usize = 4;

/// Reads the answer to a message.
pub(super) async fn read(
    link: &HttpLink,
    http_exchange: &HttpExchange,
    response: &mut Response,
) -> Result<Receipt, Fault> {
    let code = response.status.as_u16();
    if http_exchange.request.is_none() {
        if let Some(connection) = response.rest().await {
            link.keep(connection);
        }
        return Ok(Receipt::Done);
    }
    if matches!(code, 202 | 204) {
        response.rest().await;
        // Without a session the server has no stream of its own to answer on.
        let in_session = link.has_session() && !http_exchange.modern && !http_exchange.is(method::INITIALIZE);
        return if in_session { Ok(Receipt::Elsewhere(code)) } else { Err(no_stream(code)) };
    }
    match response.content()? {
        Content::Events => Box::pin(stream::read(link, http_exchange, response.take())).await,
        Content::Json | Content::Unsaid => json(link, http_exchange, response).await,
        Content::Other(found) => Err(Fault::NotMcp { found: format!("{found} (HTTP {code})") }),
    }
}

async fn json(
    link: &HttpLink,
    http_exchange: &HttpExchange,
    response: &mut Response,
) -> Result<Receipt, Fault> {
    let Some(body) = body(link, http_exchange, response).await? else { return Ok(Receipt::Done) };
    let answered = match body {
        Line::Whole(bytes) => match Frame::parse(bytes.clone()) {
            Ok(message) => http_exchange.hand_on_message(link, message)?,
            // Of a long one the receiver may still find out which call it answers.
            Err(_) if bytes.len() > LONG && http_exchange.handler.take(Line::Whole(bytes.clone())) => true,
            Err(error) => return Err(no_message(&bytes, &error)),
        },
        too_long => http_exchange.handler.take(too_long),
    };
    match answered {
        true => Ok(Receipt::Done),
        false => Err(Fault::NotMcp { found: "a message that is not the response to the request".into() }),
    }
}

/// The whole body, or what is known of one that is too long. None if it was passed on while it arrived.
async fn body(
    link: &HttpLink,
    http_exchange: &HttpExchange,
    response: &mut Response,
) -> Result<Option<Line>, Fault> {
    let max = link.http.limits.max_message;
    let said =
        response.headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
    let expected = said.and_then(|said| usize::try_from(said).ok()).unwrap_or_default();
    let mut body = BytesMut::with_capacity(expected.min(max).min(FIRST));
    let mut may_stream = true;
    while let Some(chunk) = link.next_chunk(response, http_exchange.patience(link.http.limits.idle)).await? {
        http_exchange.handler.heard();
        if body.len() + chunk.len() <= max {
            // A long body that came in one piece is not copied: there is not much else in the buffer that it was read into.
            if chunk.len() >= FIRST && chunk.len() == expected {
                return Ok(Some(Line::Whole(chunk)));
            }
            let needed = body.len() + chunk.len();
            if needed > body.capacity() {
                let capacity = (body.capacity() * GROWTH).min(expected).min(max).max(needed);
                body.reserve(capacity - body.len());
            }
            body.extend_from_slice(&chunk);
            if body.len() >= LONG && mem::take(&mut may_stream) {
                let start = body.split().freeze();
                if let Some(streamed) = ResponseReader::begin(link, http_exchange, start.clone()) {
                    drop(start);
                    return Box::pin(streamed.body(response)).await.map(|()| None);
                }
                body = growing(start);
            }
            continue;
        }
        let mut salvage = Salvage::new();
        salvage.push(&body);
        salvage.push(&chunk);
        let bytes = said.unwrap_or_default().max((body.len() + chunk.len()) as u64);
        let mut salvage = salvage.finish();
        // There is nobody else that it could be for.
        salvage.id = http_exchange.request.clone();
        return Ok(Some(Line::TooLong { bytes, salvage }));
    }
    Ok(Some(Line::Whole(body.freeze())))
}

/// Why this body is no message.
fn no_message(body: &Bytes, error: &ParseError) -> Fault {
    if body.trim_ascii().is_empty() {
        return Fault::AnswerCut;
    }
    match serde_json::from_slice::<serde::de::IgnoredAny>(body) {
        Err(error) if error.is_eof() => Fault::AnswerCut,
        _ => Fault::NotMcp { found: format!("a response that is {error}") },
    }
}
