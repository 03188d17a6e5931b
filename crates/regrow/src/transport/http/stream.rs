//! The answer to a request as a stream of events, and its resumption where the server offers that.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::HeaderValue;
use regrow_core::Fault;
use regrow_protocol::events::{Event, Events};
use regrow_protocol::lines::Line;
use tokio::task::yield_now;

use super::bookmark::Bookmark;
use super::http_exchange::HttpExchange;
use super::link::HttpLink;
use super::request::{HttpReply, LAST_EVENT_ID, Outgoing, PROTOCOL_VERSION, SESSION_ID};
use super::response::{Content, Response};
use super::streamed::{LONG, ResponseReader};
use crate::transport::{ExchangeHandler, Receipt};
use crate::turn::Turn;

/// How often in a row a stream is resumed in vain.
const MAX_RESUMES: u32 = 5;
/// Reads until the request is answered, over as many streams as that takes.
pub(super) async fn read(
    link: &HttpLink,
    http_exchange: &HttpExchange,
    response: Response,
) -> Result<Receipt, Fault> {
    let idle = http_exchange.patience(link.http.limits.idle);
    let mut bookmark = Bookmark::default();
    let mut next = Some(response);
    let mut fault = Fault::AnswerCut;
    let mut resumes = 0;
    loop {
        if let Some(mut response) = next.take() {
            let mut progress = false;
            let mut is_streamed = false;
            let long = Some((http_exchange, &mut is_streamed));
            let read =
                until(link, &http_exchange.handler, idle, &mut response, &mut bookmark, long, |event| {
                    progress = true;
                    take(link, http_exchange, event)
                });
            match read.await {
                Ok(true) => {
                    response.rest().await;
                    return Ok(Receipt::Done);
                }
                // Its caller has the first part. The server would send all of it again.
                Err(ended) if is_streamed => return Err(ended),
                Ok(false) => fault = Fault::AnswerCut,
                Err(ended @ (Fault::AnswerCut | Fault::Broken { .. })) => fault = ended,
                Err(ended) => return Err(ended),
            }
            if progress {
                resumes = 0;
            }
        }
        if http_exchange.modern || bookmark.last.is_none() || resumes == MAX_RESUMES {
            return Err(fault);
        }
        resumes += 1;
        tokio::time::sleep(bookmark.retry).await;
        match open(link, bookmark.last.clone()).await {
            Ok(HttpReply::Good(response)) if response.content() == Ok(Content::Events) => {
                next = Some(response)
            }
            Ok(HttpReply::Refused(refusal)) if refusal.code >= 500 || refusal.code == 429 => {}
            Ok(_) => return Err(Fault::AnswerCut),
            Err(Fault::Broken { .. } | Fault::AnswerCut) => {} // Cut again; perhaps next time.
            // Nobody is there who knows the rest. What happened to the request is what happened first.
            Err(_) => return Err(fault),
        }
    }
}

/// Asks for the stream of what the server says on its own, or for the rest of one.
pub(super) async fn open(link: &HttpLink, last: Option<HeaderValue>) -> Result<HttpReply, Fault> {
    let mut outgoing = Outgoing::get(link.target())
        .with(SESSION_ID, link.session_id())
        .with(PROTOCOL_VERSION, link.version())
        .with(LAST_EVENT_ID, last);
    link.send(&mut outgoing).await
}

/// Reads events until one of them is the last that is wanted (true), or the stream ends (false). A long one is passed on while it arrives, if
/// it answers the request of this exchange; that is noted.
pub(super) async fn until(
    link: &HttpLink,
    handler: &Arc<dyn ExchangeHandler>,
    idle: Option<Duration>,
    response: &mut Response,
    bookmark: &mut Bookmark,
    mut long: Option<(&HttpExchange, &mut bool)>,
    mut take: impl FnMut(Event) -> Result<bool, Fault>,
) -> Result<bool, Fault> {
    drop(std::mem::take(&mut response.headers)); // They hold on to all that was read with them, and a stream may last.
    let mut events = Events::new(link.http.limits.max_message);
    let mut turn = Turn::default();
    while let Some(mut chunk) = link.next_chunk(response, idle).await? {
        handler.heard();
        if turn.is_over(chunk.len() as u64) {
            yield_now().await; // Even if no message is in it.
        }
        while !chunk.is_empty() {
            let Some(event) = events.read(&mut chunk) else { break };
            bookmark.note(&event);
            let endless = event.endless;
            if take(event)? {
                return Ok(true);
            }
            if endless {
                return Ok(false);
            }
            if turn.is_over(0) {
                yield_now().await;
            }
            handler.room().await;
        }
        if events.data_len() >= LONG
            && let Some((http_exchange, is_streamed)) = long.take()
            && let Some(start) = events.message_so_far()
            && let Some(streamed) = ResponseReader::begin(link, http_exchange, Bytes::copy_from_slice(start))
        {
            *is_streamed = true;
            events.take_data();
            return Box::pin(streamed.event(&mut events, response)).await.map(|()| true);
        }
    }
    Ok(false)
}

/// What one event says to a request.
fn take(link: &HttpLink, http_exchange: &HttpExchange, event: Event) -> Result<bool, Fault> {
    let endless = event.endless;
    let Some(mut line) = event.into_message() else { return Ok(false) };
    if let (true, Line::TooLong { salvage, .. }) = (endless, &mut line)
        && salvage.id.is_none()
    {
        salvage.id = http_exchange.request.clone(); // Its stream can bring nothing else any more.
    }
    http_exchange.hand_on(link, line)
}
