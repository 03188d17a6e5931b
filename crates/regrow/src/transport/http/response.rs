//! The answer to a request, from its head on.

use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use regrow_core::Fault;
use tokio::net::TcpStream;

use super::diagnose::{self, At};
use super::wire::Wire;

/// An answer whose body is still to be read.
pub(super) struct Response {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    body: Body,
}

enum Body {
    /// On a connection of the pool.
    Pooled(Box<reqwest::Response>),
    /// On one of its own.
    Wire(Wire),
}

impl Response {
    pub(super) fn pooled(mut response: reqwest::Response) -> Response {
        let headers = std::mem::take(response.headers_mut());
        Response { status: response.status(), headers, body: Body::Pooled(Box::new(response)) }
    }

    pub(super) fn wire((status, headers, wire): (StatusCode, HeaderMap, Wire)) -> Response {
        Response { status, headers, body: Body::Wire(wire) }
    }

    /// The next of the body; none at its end.
    pub(super) async fn chunk(&mut self) -> Result<Option<Bytes>, Fault> {
        match &mut self.body {
            Body::Pooled(response) => {
                let read = response.chunk().await;
                read.map_err(|error| diagnose::fault(&error, At::Body, response.url()))
            }
            Body::Wire(wire) => wire.chunk().await,
        }
    }

    /// The connection, if it is not the pool's and can be used again.
    pub(super) fn into_connection(self) -> Option<TcpStream> {
        match self.body {
            Body::Pooled(_) => None,
            Body::Wire(wire) => wire.into_connection(),
        }
    }
}
