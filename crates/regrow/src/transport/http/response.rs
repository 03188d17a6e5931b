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

    /// The next of the body; none at its end.
    pub(super) async fn chunk(&mut self) -> Result<Option<Bytes>, Fault> {
        match &mut self.body {
            Body::Reqwest(response) => {
                let read = response.chunk().await;
                read.map_err(|error| diagnose::fault(&error, At::Body, response.url()))
            }
            Body::Plain { connection, body, .. } => {
                let read = connection.chunk(body).await?;
                if read.is_none() {
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

    /// Reads on to the end for a moment: only then can the connection be used again.
    pub(super) async fn rest(mut self) -> Option<PlainConnection> {
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
    fn into_connection(self) -> Option<PlainConnection> {
        match self.body {
            Body::Plain { mut connection, home: None, .. } => connection.is_usable().then_some(connection),
            Body::Plain { .. } | Body::Reqwest(_) | Body::Over => None,
        }
    }
}
