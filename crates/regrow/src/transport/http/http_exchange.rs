//! One message on its way to the server, and what is to be done with each message that comes back for it.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::HeaderValue;
use regrow_core::{Evidence, Fault};
use regrow_protocol::frame::{self, Frame, Kind, RawId};
use regrow_protocol::lines::Line;
use regrow_protocol::{error_code, method};
use serde::Deserialize;

use super::link::HttpLink;
use super::said::{error_message, excerpt, tells_of_lost_session};
use crate::transport::{ExchangeHandler, OutgoingMessage};

/// A message, who hears of it, and what it went out with.
pub(super) struct HttpExchange {
    pub(super) message: OutgoingMessage,
    pub(super) handler: Arc<dyn ExchangeHandler>,
    /// Its id, if it wants an answer.
    pub(super) request: Option<RawId>,
    /// Whether it is of the era without sessions.
    pub(super) modern: bool,
    /// Whether it went out in a session that the server may forget.
    pub(super) in_session: bool,
    /// Whether we knew of its tool what is to be said in headers when it went out.
    pub(super) mirrored: bool,
}

impl HttpExchange {
    pub(super) fn new(message: OutgoingMessage, handler: Arc<dyn ExchangeHandler>) -> HttpExchange {
        let request = message.request_id();
        let modern = message.frame().protocol_version().is_some();
        HttpExchange { message, handler, request, modern, in_session: false, mirrored: false }
    }

    pub(super) fn is(&self, method: &str) -> bool {
        self.request.is_some() && self.message.frame().method() == Some(method)
    }

    /// How long the server may stay silent on this exchange, where others are limited like this.
    pub(super) fn patience(&self, limit: Option<Duration>) -> Option<Duration> {
        let waits =
            self.request.is_some() && self.message.frame().method().is_some_and(method::waits_by_design);
        limit.filter(|_| !waits)
    }

    /// Hands on what the server says. Returns whether the request is answered now.
    pub(super) fn hand_on(&self, link: &HttpLink, line: Line) -> Result<bool, Fault> {
        let message = match &line {
            Line::Whole(bytes) => Frame::parse(bytes.clone()).ok(),
            Line::TooLong { .. } => None,
        };
        match message {
            Some(message) => self.hand_on_message(link, message),
            // What cannot be read is forwarded as it is: its final reader reports the problem.
            None => Ok(self.handler.take(line)),
        }
    }

    /// The same with a message that was already read.
    pub(super) fn hand_on_message(&self, link: &HttpLink, frame: Frame) -> Result<bool, Fault> {
        let Kind::Response { id } = frame.kind() else { return Ok(self.handler.take_message(frame)) };
        // An error without an id, in the answer to a request, is meant for that.
        let unaddressed = id.is_none() && self.request.is_some();
        if unaddressed || id == self.request {
            if let Some(said) = self.tells_of_expiry(&frame) {
                return Err(Fault::NoSession { code: 200, said, evidence: Evidence::Response });
            }
            if let (Some(result), Some(id)) = (self.learn(link, &frame), &self.request) {
                let line = frame::response(id, &result);
                return Ok(self.handler.take(Line::Whole(line.slice(..line.trim_ascii_end().len()))));
            }
        }
        Ok(match unaddressed {
            true => self.handler.take(Line::Whole(self.addressed(&frame))),
            false => self.handler.take_message(frame),
        })
    }

    /// Takes note of what an answer tells about the server. Before it is forwarded: the next message may follow at once.
    /// Returns another result where this must not be forwarded as it is.
    fn learn(&self, link: &HttpLink, response: &Frame) -> Option<Vec<u8>> {
        #[derive(Deserialize)]
        struct Initialized {
            #[serde(rename = "protocolVersion")]
            version: String,
        }
        let result = response.result()?;
        if self.is(method::INITIALIZE) {
            let initialized = serde_json::from_slice::<Initialized>(result).ok();
            link.set_version(initialized.and_then(|said| HeaderValue::try_from(said.version).ok()));
        }
        if self.modern && self.is(method::TOOLS_LIST) { link.parameters().learn(result) } else { None }
    }

    /// Some servers say it inside a good answer. Returns what they say.
    fn tells_of_expiry(&self, response: &Frame) -> Option<String> {
        if !self.in_session || response.error_code() != Some(error_code::INTERNAL_ERROR) {
            return None;
        }
        let message = error_message(response).filter(|message| tells_of_lost_session(message))?;
        Some(excerpt(&message))
    }

    /// The response under the id of this request, whatever id it had.
    pub(super) fn addressed(&self, response: &Frame) -> Bytes {
        let Some(id) = &self.request else { return response.bytes().clone() };
        match response.error() {
            Some(error) if response.id().is_none() => {
                [b"{\"jsonrpc\":\"2.0\",\"id\":", id.as_bytes(), b",\"error\":", error, b"}"].concat().into()
            }
            _ => {
                let line = response.with_id(id);
                line.slice(..line.trim_ascii_end().len())
            }
        }
    }
}
