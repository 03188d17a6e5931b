//! What an HTTP status other than success means.

use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::header::{CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderMap, HeaderValue};
use regrow_core::{Evidence, Fault};
use regrow_protocol::error_code;
use regrow_protocol::frame::{Frame, Kind};

use super::http_exchange::HttpExchange;
use super::said::{error_message, excerpt, tells_of_lost_session, tells_of_missing_session};

/// An answer with such a status, and what could be read of its body.
pub(super) struct Refusal {
    pub(super) code: u16,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
}

/// What a refusal means.
#[derive(Debug)]
pub(super) enum Meaning {
    /// It is the server's answer all the same.
    Answer(Bytes),
    /// It is none.
    Fault(Fault),
}

/// At most so much of a refusal's body is read.
pub(super) const MAX_BODY: usize = 1 << 20;
const MAX_WAIT: Duration = Duration::from_secs(3600);
const USUAL_WAIT: Duration = Duration::from_secs(1);

impl Refusal {
    /// The JSON-RPC response in its body. `{"error":"a word"}`, as OAuth and many web frameworks write it, is none.
    pub(super) fn response(&self) -> Option<Frame> {
        let frame = Frame::parse(self.body.clone()).ok()?;
        let is_whole = frame.error().is_none() || frame.error_code().is_some();
        (is_whole && matches!(frame.kind(), Kind::Response { .. })).then_some(frame)
    }

    /// Whether other credentials may help.
    pub(super) fn wants_credentials(&self) -> bool {
        self.code == 401 || self.code == 403 && (self.wants_more_scope() || !self.answers())
    }

    /// Whether its body answers the request.
    pub(super) fn answers(&self) -> bool {
        self.response().is_some()
    }

    /// Whether the server says that a token with more scopes would do (RFC 6750, 3.1).
    fn wants_more_scope(&self) -> bool {
        let challenges = self.headers.get_all(WWW_AUTHENTICATE).iter();
        challenges.filter_map(|value| value.to_str().ok()).any(|value| value.contains("insufficient_scope"))
    }

    /// What the server wants to see.
    pub(super) fn challenges(&self) -> Vec<HeaderValue> {
        self.headers.get_all(WWW_AUTHENTICATE).iter().cloned().collect()
    }

    /// What it means to the message that was refused.
    pub(super) fn meaning(&self, http_exchange: &HttpExchange, now: SystemTime) -> Meaning {
        if let Some(after) = self.wait(now) {
            return Meaning::Fault(Fault::Deferred { code: self.code, after });
        }
        let response = self.response();
        if http_exchange.in_session
            && let Some(evidence) = self.evidence(http_exchange, response.as_ref())
        {
            return Meaning::Fault(Fault::NoSession { code: self.code, said: self.excerpt(), evidence });
        }
        match response {
            // Only one request can be meant, whatever id a server writes that could not read ours.
            Some(response) if http_exchange.request.is_some() => {
                Meaning::Answer(http_exchange.addressed(&response))
            }
            _ => Meaning::Fault(self.fault()),
        }
    }

    /// The status, and what was said with it.
    pub(super) fn fault(&self) -> Fault {
        Fault::Status { code: self.code, said: self.excerpt() }
    }

    /// How long the server asks us to wait, if it does.
    pub(super) fn wait(&self, now: SystemTime) -> Option<Duration> {
        let asked = self.headers.get(RETRY_AFTER).and_then(|value| retry_after(value, now));
        match self.code {
            429 => Some(asked.unwrap_or(USUAL_WAIT).min(MAX_WAIT)),
            503 => asked.map(|wait| wait.min(MAX_WAIT)),
            _ => None,
        }
    }

    /// What tells that the server no longer knows the session, if anything does. Servers say so in several ways.
    fn evidence(&self, http_exchange: &HttpExchange, response: Option<&Frame>) -> Option<Evidence> {
        let text = match response {
            Some(response) => error_message(response).unwrap_or_default(),
            None => String::from_utf8_lossy(&self.body).into_owned(),
        };
        let lost = tells_of_lost_session(&text);
        let words = match self.code {
            404 => lost,
            400 => lost || tells_of_missing_session(&text),
            _ => return None,
        };
        if words {
            return Some(Evidence::Words);
        }
        let alone = match (self.code, response) {
            // The server has read the request and answers it.
            (404, Some(response)) => response.id().is_none() || response.id() != http_exchange.request,
            (404, None) => true,
            // A server that does not know the session often has not read the message, and so knows no id.
            (_, Some(response)) => {
                let version = text.to_ascii_lowercase().contains("protocol version");
                response.id().is_none() && response.error_code() != Some(error_code::PARSE_ERROR) && !version
            }
            (_, None) => false,
        };
        alone.then_some(Evidence::Status)
    }

    /// `: text`, where the body is a short text for people.
    fn excerpt(&self) -> String {
        let kind =
            self.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or("text/plain");
        let readable = kind.starts_with("text/plain") || kind.starts_with("application/json");
        let text = String::from_utf8_lossy(&self.body);
        let text = match self.response().as_ref().and_then(error_message) {
            Some(message) => message,
            None => text.split_whitespace().collect::<Vec<_>>().join(" "),
        };
        if !readable || text.is_empty() || text.starts_with('<') {
            return String::new();
        }
        excerpt(&text)
    }
}

/// `Retry-After`: seconds, or a date.
pub fn retry_after(value: &HeaderValue, now: SystemTime) -> Option<Duration> {
    let text = value.to_str().ok()?.trim();
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Some(Duration::from_secs(text.parse().unwrap_or(u64::MAX)));
    }
    let date = httpdate::parse_http_date(text).ok()?;
    Some(date.duration_since(now).unwrap_or_default()) // A date that is past asks for no wait.
}
