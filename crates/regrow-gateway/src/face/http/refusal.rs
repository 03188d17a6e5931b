//! Answers that say no, each with a JSON-RPC error that says why.

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use http::header::{ALLOW, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderName, HeaderValue, StatusCode};
use regrow::ErrorKind;
use regrow_protocol::frame::{self, Frame, ParseError, RawId};
use regrow_protocol::{error_code, header};

use super::access::Stranger;
use crate::admit;
use crate::audit::Record;
use crate::operate::PASSWORD_CHALLENGE;

/// A request that leads nowhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    status: StatusCode,
    code: i64,
    /// Boxed like the next two, since most functions here may end in a refusal, and all would carry its size.
    message: Box<str>,
    id: Option<Box<RawId>>,
    data: Option<Box<str>>,
    header: Option<(HeaderName, &'static str)>,
    /// What the audit log calls it, if the status does not say it.
    outcome: Option<&'static str>,
}

impl Refusal {
    pub(super) fn new(status: StatusCode, code: i64, message: impl Into<String>) -> Refusal {
        Refusal {
            status,
            code,
            message: message.into().into(),
            id: None,
            data: None,
            header: None,
            outcome: None,
        }
    }

    /// The request is the client's mistake.
    pub(super) fn bad(message: impl Into<String>) -> Refusal {
        Refusal::new(StatusCode::BAD_REQUEST, error_code::INVALID_REQUEST, message)
    }

    pub(super) fn forbidden(message: impl Into<String>) -> Refusal {
        Refusal::new(StatusCode::FORBIDDEN, error_code::INVALID_REQUEST, message)
    }

    pub(super) fn not_found(message: impl Into<String>) -> Refusal {
        Refusal::new(StatusCode::NOT_FOUND, error_code::INVALID_REQUEST, message)
    }

    /// This version is not spoken here, but these are.
    pub(super) fn unsupported_version(requested: &str, supported: &[&str]) -> Refusal {
        Refusal::new(
            StatusCode::BAD_REQUEST,
            error_code::UNSUPPORTED_PROTOCOL_VERSION,
            "this protocol version is not supported",
        )
        .with_data(serde_json::json!({ "supported": supported, "requested": requested }).to_string())
    }

    /// No such session, or none of this client: which of the two is not said.
    pub(super) fn no_session() -> Refusal {
        Refusal::not_found("there is no such session; initialize a new one")
    }

    pub(super) fn method(allow: &'static str) -> Refusal {
        let refusal = Refusal::new(
            StatusCode::METHOD_NOT_ALLOWED,
            error_code::INVALID_REQUEST,
            format!("method not allowed; use {allow}"),
        );
        Refusal { header: Some((ALLOW, allow)), ..refusal }
    }

    pub(super) fn too_large(most: usize) -> Refusal {
        let code = ErrorKind::TooLarge { bytes: 0 }.code();
        Refusal::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            code,
            format!("the body is over the limit of {most} bytes"),
        )
    }

    /// A browser asks its user for the operator token.
    pub(super) fn stranger(stranger: Stranger, is_browser: bool) -> Refusal {
        let next_step = "set a token with `regrow serve --token-env`, or serve every user of this machine with --allow-users any";
        let (message, challenge) = match stranger {
            Stranger::Silent => (
                "a bearer token is required: a client token at /mcp, the operator token for everything else",
                "Bearer",
            ),
            Stranger::Wrong => ("this token is not accepted", "Bearer error=\"invalid_token\""),
            Stranger::OtherUser(user) => {
                return Refusal::forbidden(format!(
                    "this gateway serves only the user who runs it, and this connection comes from user {user}; {next_step}"
                ))
                .named(stranger.name());
            }
            Stranger::UnknownUser => {
                return Refusal::forbidden(format!(
                    "this gateway serves only the user who runs it, and whose connection this is cannot be told; {next_step}"
                ))
                .named(stranger.name());
            }
        };
        let challenge = if is_browser { PASSWORD_CHALLENGE } else { challenge };
        let refusal = Refusal::new(StatusCode::UNAUTHORIZED, error_code::INVALID_REQUEST, message);
        Refusal { header: Some((WWW_AUTHENTICATE, challenge)), ..refusal }.named(stranger.name())
    }

    /// There are too many already.
    pub(super) fn full(message: &str) -> Refusal {
        Refusal::later(StatusCode::SERVICE_UNAVAILABLE, ErrorKind::Overloaded, message)
    }

    pub(super) fn closing() -> Refusal {
        let message = "the gateway is shutting down; reconnect after its restart";
        Refusal::later(StatusCode::SERVICE_UNAVAILABLE, ErrorKind::Closed, message)
    }

    /// It may work in a moment.
    pub(super) fn later(status: StatusCode, kind: ErrorKind, message: &str) -> Refusal {
        let refusal = Refusal::new(status, kind.code(), message);
        Refusal { header: Some((RETRY_AFTER, "5")), ..refusal }.named(kind.name())
    }

    /// As the answer to this message, where it wants one.
    pub(super) fn to(mut self, frame: &Frame) -> Refusal {
        self.id = frame.method().and(frame.id()).map(Box::new);
        self
    }

    /// Under this name in the audit log.
    pub(super) fn named(self, outcome: &'static str) -> Refusal {
        Refusal { outcome: Some(outcome), ..self }
    }

    /// With more for machines, raw JSON.
    pub(super) fn with_data(mut self, data: String) -> Refusal {
        self.data = Some(data.into());
        self
    }
}

impl From<admit::AdmitError> for Refusal {
    fn from(refusal: admit::AdmitError) -> Refusal {
        match refusal {
            admit::AdmitError::NoSuchServer => Refusal::not_found(refusal.to_string()),
            admit::AdmitError::Full => Refusal::full(&refusal.to_string()),
            admit::AdmitError::Closing => Refusal::closing(),
        }
    }
}

impl From<ParseError> for Refusal {
    fn from(error: ParseError) -> Refusal {
        let refusal = Refusal::new(StatusCode::BAD_REQUEST, error.code(), error.to_string());
        Refusal { id: error.id().cloned().map(Box::new), ..refusal }
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let data = self.data.as_ref().map(|data| data.as_bytes());
        let line = frame::error(self.id.as_deref(), self.code, &self.message, data);
        let mut response = json(self.status, Body::from(line));
        let record = Record::refusal(self.status);
        let outcome = self.outcome.unwrap_or(record.outcome);
        response.extensions_mut().insert(Record { outcome, ..record });
        if let Some((name, value)) = self.header {
            response.headers_mut().insert(name, HeaderValue::from_static(value));
        }
        response
    }
}

/// One message as a whole response.
pub(super) fn json(status: StatusCode, body: impl Into<Body>) -> Response {
    let mut response = Response::new(body.into());
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(header::JSON));
    response
}

/// Nothing to say.
pub(super) fn empty(status: StatusCode) -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = status;
    response
}
