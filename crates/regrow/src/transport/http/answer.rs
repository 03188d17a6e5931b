//! The body of a good answer: one message, or a stream of them.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE};
use regrow_core::Fault;
use regrow_protocol::frame::{Frame, Salvage};
use regrow_protocol::lines::Line;
use regrow_protocol::text::escape;
use regrow_protocol::{header, method};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::errand::{Errand, LOOK_INTO};
use super::link::HttpLink;
use super::response::Response;
use super::stream;
use crate::transport::{Receipt, no_stream};

/// What a body is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Content {
    Json,
    Events,
    /// Nobody said.
    Unsaid,
    Other(String),
}

/// How long the rest of an answer that says nothing more is waited for, so that its connection can be used again.
const LINGER: Duration = Duration::from_millis(100);
const LINGER_BYTES: usize = 64 * 1024;

/// Reads the answer to a message.
pub(super) async fn read(link: &HttpLink, errand: &Errand, response: Response) -> Result<Receipt, Fault> {
    let code = response.status.as_u16();
    if errand.request.is_none() {
        if let Some(connection) = rest(response).await {
            link.keep(connection);
        }
        return Ok(Receipt::Done);
    }
    if matches!(code, 202 | 204) {
        rest(response).await;
        // Without a session the server has no stream of its own to answer on.
        let in_session = link.has_session() && !errand.modern && !errand.is(method::INITIALIZE);
        return if in_session { Ok(Receipt::Elsewhere(code)) } else { Err(no_stream(code)) };
    }
    match content(&response)? {
        Content::Events => stream::read(link, errand, response).await,
        Content::Json | Content::Unsaid => json(link, errand, response).await,
        Content::Other(found) => Err(Fault::NotMcp { found: format!("{found} (HTTP {code})") }),
    }
}

/// What kind of body this is.
pub(super) fn content(response: &Response) -> Result<Content, Fault> {
    let text = |name| response.headers.get(name).map(|value| String::from_utf8_lossy(value.as_bytes()));
    if let Some(encoding) =
        text(CONTENT_ENCODING).filter(|encoding| !encoding.eq_ignore_ascii_case("identity"))
    {
        let found = format!("an answer packed with {}, which nobody asked for", escape(&encoding));
        return Err(Fault::NotMcp { found });
    }
    let Some(full) = text(CONTENT_TYPE) else { return Ok(Content::Unsaid) };
    let kind = full.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    Ok(match &kind[..] {
        header::EVENT_STREAM => Content::Events,
        "text/html" | "application/xhtml+xml" => Content::Other("an HTML page".into()),
        kind if kind == header::JSON || kind.ends_with("+json") => Content::Json,
        "" => Content::Unsaid,
        kind => Content::Other(escape(&kind.chars().take(80).collect::<String>())),
    })
}

async fn json(link: &HttpLink, errand: &Errand, response: Response) -> Result<Receipt, Fault> {
    let line = body(link, errand, response).await?;
    let whole = match &line {
        Line::Whole(bytes) => Some(bytes.clone()),
        Line::TooLong { .. } => None,
    };
    // A long one is read only once, by whoever waits for it; what was wrong is found out if it was none.
    if let Some(bytes) = whole.as_ref().filter(|bytes| bytes.len() <= LOOK_INTO) {
        check(bytes)?;
    }
    if errand.hand_on(link, line)? {
        return Ok(Receipt::Done);
    }
    whole.as_ref().map_or(Ok(()), check)?;
    Err(Fault::NotMcp { found: "a message that does not answer the request".into() })
}

/// The whole body, or what is known of one that is too long.
async fn body(link: &HttpLink, errand: &Errand, mut response: Response) -> Result<Line, Fault> {
    let max = link.http.limits.max_message;
    let said =
        response.headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
    let mut body = BytesMut::new();
    let mut salvage = Salvage::new();
    while let Some(chunk) = link.next_chunk(&mut response, errand.patience(link.http.limits.idle)).await? {
        errand.ear.heard();
        if body.len() + chunk.len() <= max {
            body.extend_from_slice(&chunk);
            continue;
        }
        salvage.push(&body);
        salvage.push(&chunk);
        let bytes = said.unwrap_or_default().max((body.len() + chunk.len()) as u64);
        let mut salvage = salvage.finish();
        // There is nobody else that it could be for.
        salvage.id = errand.request.clone();
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
        _ => Err(Fault::NotMcp { found: format!("an answer that is {error}") }),
    }
}

/// Reads on to the end for a moment: only then can the connection be used again. The pool takes its own back by itself.
pub(super) async fn rest(mut response: Response) -> Option<TcpStream> {
    let mut left = LINGER_BYTES;
    let read = async {
        while let Ok(Some(chunk)) = response.chunk().await {
            left = left.saturating_sub(chunk.len());
            if left == 0 {
                return;
            }
        }
    };
    // Not in time: then it is closed, which is as good.
    let _ = timeout(LINGER, read).await;
    response.into_connection()
}
