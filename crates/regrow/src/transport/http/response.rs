//! The answer to a request, from its head on.

use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, StatusCode};
use http_body::Body as _;
use hyper::body::Incoming;
use regrow_core::Fault;
use regrow_protocol::header;
use regrow_protocol::text::escape;
use tokio::time::timeout;

use super::broken::At;
use super::diagnose;
use super::plain_connection::PlainConnection;
use super::plain_pool::Home;

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
    /// Through TLS or a proxy.
    Reqwest(Box<reqwest::Response>),
    /// Straight from the server. Without a home the connection is not the pool's.
    Plain { connection: PlainConnection, body: Incoming, home: Option<Home> },
    /// Read to its end, and its connection is in the pool again.
    Over,
}

impl Response {
    pub(super) fn reqwest(mut response: reqwest::Response) -> Response {
        let headers = std::mem::take(response.headers_mut());
        Response { status: response.status(), headers, body: Body::Reqwest(Box::new(response)) }
    }

    pub(super) fn plain(
        connection: PlainConnection,
        response: http::Response<Incoming>,
        home: Option<Home>,
    ) -> Response {
        let (head, body) = response.into_parts();
        let body = Body::Plain { connection, body, home };
        Response { status: head.status, headers: head.headers, body }
    }

    /// Leaves one that is over.
    pub(super) fn take(&mut self) -> Response {
        let body = std::mem::replace(&mut self.body, Body::Over);
        Response { status: self.status, headers: std::mem::take(&mut self.headers), body }
    }

    /// The next of the body; none at its end.
    pub(super) async fn chunk(&mut self) -> Result<Option<Bytes>, Fault> {
        match &mut self.body {
            Body::Reqwest(response) => {
                let read = response.chunk().await;
                read.map_err(|error| diagnose::fault(&error, At::Body, response.url()))
            }
            Body::Plain { connection, body, .. } => {
                let read = connection.chunk(body).await?;
                // Where the length is known, the last part is known to be it.
                if read.is_none() || body.is_end_stream() {
                    self.give_back();
                }
                Ok(read)
            }
            Body::Over => Ok(None),
        }
    }

    /// The body was read to its end: the pool may have its connection again.
    fn give_back(&mut self) {
        match std::mem::replace(&mut self.body, Body::Over) {
            Body::Plain { connection, home: Some(home), .. } => home.take_back(connection),
            body => self.body = body,
        }
    }

    /// What kind of body this is.
    pub(super) fn content(&self) -> Result<Content, Fault> {
        let value = |name| self.headers.get(name).map(HeaderValue::as_bytes);
        if let Some(encoding) = value(CONTENT_ENCODING).filter(|it| !it.eq_ignore_ascii_case(b"identity")) {
            let encoding = escape(&String::from_utf8_lossy(encoding));
            let found = format!("a response encoded with {encoding}, which was not requested");
            return Err(Fault::NotMcp { found });
        }
        let full = value(CONTENT_TYPE).unwrap_or_default();
        let kind = full.split(|&byte| byte == b';').next().unwrap_or_default().trim_ascii();
        let is = |known: &str| kind.eq_ignore_ascii_case(known.as_bytes());
        let ends = |end: &[u8]| kind.last_chunk::<5>().is_some_and(|last| last.eq_ignore_ascii_case(end));
        Ok(if is(header::JSON) {
            Content::Json
        } else if is(header::EVENT_STREAM) {
            Content::Events
        } else if is("text/html") || is("application/xhtml+xml") {
            Content::Other("an HTML page".into())
        } else if ends(b"+json") {
            Content::Json
        } else if kind.is_empty() {
            Content::Unsaid
        } else {
            let kind = String::from_utf8_lossy(kind).to_ascii_lowercase();
            Content::Other(escape(&kind.chars().take(80).collect::<String>()))
        })
    }

    /// Reads on to the end for a moment: only then can the connection be used again.
    /// Returns it, if it is not the pool's.
    pub(super) async fn rest(&mut self) -> Option<PlainConnection> {
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
        match std::mem::replace(&mut self.body, Body::Over) {
            Body::Plain { mut connection, home: None, .. } => connection.is_usable().then_some(connection),
            Body::Plain { .. } | Body::Reqwest(_) | Body::Over => None,
        }
    }
}
