//! The body of a good answer: one message, or a stream of them.

use bytes::{Bytes, BytesMut};
use http::header::CONTENT_LENGTH;
use regrow_core::Fault;
use regrow_protocol::frame::{Frame, Salvage};
use regrow_protocol::lines::Line;
use regrow_protocol::method;

use super::http_exchange::{HttpExchange, LOOK_INTO};
use super::link::HttpLink;
use super::response::{Content, Response};
use super::stream;
use crate::transport::{Receipt, no_stream};

/// Reads the answer to a message.
pub(super) async fn read(
    link: &HttpLink,
    http_exchange: &HttpExchange,
    response: Response,
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
        Content::Events => stream::read(link, http_exchange, response).await,
        Content::Json | Content::Unsaid => json(link, http_exchange, response).await,
        Content::Other(found) => Err(Fault::NotMcp { found: format!("{found} (HTTP {code})") }),
    }
}

async fn json(link: &HttpLink, http_exchange: &HttpExchange, response: Response) -> Result<Receipt, Fault> {
    let line = body(link, http_exchange, response).await?;
    let whole = match &line {
        Line::Whole(bytes) => Some(bytes.clone()),
        Line::TooLong { .. } => None,
    };
    // A long one is read only once, by its receiver; what is wrong is diagnosed if it is no message.
    if let Some(bytes) = whole.as_ref().filter(|bytes| bytes.len() <= LOOK_INTO) {
        check(bytes)?;
    }
    if http_exchange.hand_on(link, line)? {
        return Ok(Receipt::Done);
    }
    whole.as_ref().map_or(Ok(()), check)?;
    Err(Fault::NotMcp { found: "a message that is not the response to the request".into() })
}

/// The whole body, or what is known of one that is too long.
async fn body(link: &HttpLink, http_exchange: &HttpExchange, mut response: Response) -> Result<Line, Fault> {
    let max = link.http.limits.max_message;
    let said =
        response.headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
    let mut body = BytesMut::new();
    let mut salvage = Salvage::new();
    while let Some(chunk) =
        link.next_chunk(&mut response, http_exchange.patience(link.http.limits.idle)).await?
    {
        http_exchange.handler.heard();
        if body.len() + chunk.len() <= max {
            body.extend_from_slice(&chunk);
            continue;
        }
        salvage.push(&body);
        salvage.push(&chunk);
        let bytes = said.unwrap_or_default().max((body.len() + chunk.len()) as u64);
        let mut salvage = salvage.finish();
        // There is nobody else that it could be for.
        salvage.id = http_exchange.request.clone();
        return Ok(Line::TooLong { bytes, salvage });
    }
    Ok(Line::Whole(body.freeze()))
}

/// Whether this may be a message at all.
fn check(body: &Bytes) -> Result<(), Fault> {
    let Err(error) = Frame::parse(body.clone()) else { return Ok(()) };
    if body.trim_ascii().is_empty() {
        return Err(Fault::AnswerCut);
    }
    match serde_json::from_slice::<serde::de::IgnoredAny>(body) {
        Err(error) if error.is_eof() => Err(Fault::AnswerCut),
        _ => Err(Fault::NotMcp { found: format!("a response that is {error}") }),
    }
}
