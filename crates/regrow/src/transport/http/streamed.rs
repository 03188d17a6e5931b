//! Long responses, which are passed on while they arrive.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use regrow_core::Fault;
use regrow_protocol::events::Events;
use regrow_protocol::frame::Salvaged;
use regrow_protocol::lines::Line;

use super::http_exchange::HttpExchange;
use super::link::HttpLink;
use super::response::Response;
use crate::transport::{ResponseStream, StreamEnd};

/// Responses are held whole up to here.
pub(super) const LONG: usize = 1 << 20;

/// A response on its way to its caller.
pub(super) struct ResponseReader<'a> {
    link: &'a HttpLink,
    http_exchange: &'a HttpExchange,
    to: Arc<dyn ResponseStream>,
    /// How much of it has come.
    bytes: usize,
}

impl<'a> ResponseReader<'a> {
    /// A response that began so. None if it must be read whole.
    pub(super) fn begin(
        link: &'a HttpLink,
        http_exchange: &'a HttpExchange,
        start: Bytes,
    ) -> Option<ResponseReader<'a>> {
        let bytes = start.len();
        let to = http_exchange.handler.begin_stream(http_exchange.request.as_ref()?, start)?;
        Some(ResponseReader { link, http_exchange, to, bytes })
    }

    /// The rest of a body.
    pub(super) async fn body(mut self, response: &mut Response) -> Result<(), Fault> {
        loop {
            self.to.clone().room().await;
            let Some(chunk) = self.next(response).await? else { return self.finish() };
            if !self.push(chunk)? {
                return Ok(());
            }
        }
    }

    /// The rest of an event.
    pub(super) async fn event(mut self, events: &mut Events, response: &mut Response) -> Result<(), Fault> {
        loop {
            self.to.clone().room().await;
            let Some(mut chunk) = self.next(response).await? else { return Err(Fault::AnswerCut) };
            let event = events.read(&mut chunk);
            let rest = match event {
                None => events.take_data(),
                Some(event) => {
                    if !event.is_message() {
                        return self.ended(StreamEnd::Malformed); // As it turns out at its end.
                    }
                    let wants_more = match event.data {
                        Some(Line::Whole(data)) => self.push(data)?,
                        _ => true,
                    };
                    return if wants_more { self.finish() } else { Ok(()) };
                }
            };
            if !self.push(rest)? {
                return Ok(());
            }
        }
    }

    async fn next(&self, response: &mut Response) -> Result<Option<Bytes>, Fault> {
        let idle = self.http_exchange.patience(self.link.http.limits.idle);
        let chunk = self.link.next_chunk(response, idle).await?;
        self.http_exchange.handler.heard();
        self.http_exchange.handler.streamed_more();
        Ok(chunk)
    }

    /// Passes this on. Returns whether more is wanted.
    fn push(&mut self, piece: Bytes) -> Result<bool, Fault> {
        self.bytes += piece.len();
        if self.bytes > self.link.http.limits.max_message {
            let salvage = Salvaged { id: self.http_exchange.request.clone(), ..Salvaged::default() };
            self.http_exchange.handler.take(Line::TooLong { bytes: self.bytes as u64, salvage });
            return Ok(false);
        }
        match self.to.push(piece) {
            Ok(()) => Ok(true),
            Err(end) => self.ended(end).map(|()| false),
        }
    }

    fn finish(&self) -> Result<(), Fault> {
        match self.to.finish() {
            Ok(is_tool_error) => {
                self.http_exchange.handler.end_stream(Some(is_tool_error));
                Ok(())
            }
            Err(end) => self.ended(end),
        }
    }

    fn ended(&self, end: StreamEnd) -> Result<(), Fault> {
        match end {
            StreamEnd::Cut => return Err(Fault::AnswerCut),
            StreamEnd::Malformed => self.http_exchange.handler.end_stream(None),
            // Unless the call has ended otherwise, this is its end.
            StreamEnd::Gone => self.http_exchange.handler.end_stream(Some(false)),
        }
        Ok(())
    }
}

/// The bytes again, to be added to.
pub(super) fn growing(bytes: Bytes) -> BytesMut {
    bytes.try_into_mut().unwrap_or_else(|shared| BytesMut::from(&shared[..]))
}
