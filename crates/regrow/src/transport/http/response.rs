//! The answer to a request, from its head on.

use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use http::{HeaderMap, StatusCode};
use hyper::body::Incoming;
use regrow_core::Fault;
use regrow_protocol::header;
use regrow_protocol::text::escape;
use tokio::time::timeout;

use super::dedicated::Dedicated;
use super::diagnose::{self, At};

/// An answer whose body is still to be read.
pub(super) struct Response {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    body: Body,
}

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

enum Body {
    /// On a connection of the pool.
    Pooled(Box<reqwest::Response>),
    /// On one of its own.
    Dedicated(Dedicated, Incoming),
}

impl Response {
    pub(super) fn pooled(mut response: reqwest::Response) -> Response {
        let headers = std::mem::take(response.headers_mut());
        Response { status: response.status(), headers, body: Body::Pooled(Box::new(response)) }
    }

    pub(super) fn dedicated(connection: Dedicated, response: http::Response<Incoming>) -> Response {
        let (head, body) = response.into_parts();
        Response { status: head.status, headers: head.headers, body: Body::Dedicated(connection, body) }
    }

    /// The next of the body; none at its end.
    pub(super) async fn chunk(&mut self) -> Result<Option<Bytes>, Fault> {
        match &mut self.body {
            Body::Pooled(response) => {
                let read = response.chunk().await;
                read.map_err(|error| diagnose::fault(&error, At::Body, response.url()))
            }
            Body::Dedicated(connection, body) => connection.chunk(body).await,
        }
    }

    /// What kind of body this is.
    pub(super) fn content(&self) -> Result<Content, Fault> {
        let text = |name| self.headers.get(name).map(|value| String::from_utf8_lossy(value.as_bytes()));
        if let Some(encoding) =
            text(CONTENT_ENCODING).filter(|encoding| !encoding.eq_ignore_ascii_case("identity"))
        {
            let found = format!("a response encoded with {}, which was not requested", escape(&encoding));
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

    /// Reads on to the end for a moment: only then can the connection be used again. The pool does that on its own.
    pub(super) async fn rest(mut self) -> Option<Dedicated> {
        let mut left = LINGER_BYTES;
        let read = async {
            while let Ok(Some(chunk)) = self.chunk().await {
                left = left.saturating_sub(chunk.len());
                if left == 0 {
                    return;
                }
            }
        };
        // Not in time: then it is closed, which is as good.
        let _ = timeout(LINGER, read).await;
        self.into_connection()
    }

    /// The connection, if it is not the pool's and can be used again.
    fn into_connection(self) -> Option<Dedicated> {
        match self.body {
            Body::Pooled(_) => None,
            Body::Dedicated(connection, _) => connection.is_ready().then_some(connection),
        }
    }
}
