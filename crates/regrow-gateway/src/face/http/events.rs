//! A stream as a response: events, and comments as keep-alives while there are none.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderName, HeaderValue, StatusCode};
use http_body::Frame;
use regrow::SealingKey;
use regrow_protocol::events::{COMMENT, OutgoingEvent};
use regrow_protocol::header;
use tokio::time::{Instant, Sleep, sleep, sleep_until};

use super::connections::Slot;
use super::memory::OutgoingLine;
use super::refusal::json;
use super::reply_stream::{First, NextMessage, ReplyStream};
use crate::shares::with_permit;

/// How soon a client whose stream broke shall come back.
const RETRY: Duration = Duration::from_secs(1);

/// Who listens to a stream. Dropping it is leaving.
pub(super) struct Listener<H> {
    stream: Arc<ReplyStream>,
    number: u64,
    opening: Option<Bytes>,
    event_ids: Option<SealingKey>,
    /// Whether the client is told the first id before there is a message.
    primed: bool,
    /// Dropped with it.
    _held: H,
}

/// What a listener hears, as the body of a response.
struct Events<H> {
    listener: Listener<H>,
    /// Whether an event has begun, and has not ended.
    is_open: bool,
    beat: Duration,
    silence: Pin<Box<Sleep>>,
}

impl<H: Send + Unpin + 'static> Listener<H> {
    /// Listens on this connection, from this event on if there is one; none if somebody does already. `held` is dropped when this is.
    pub(super) fn new(
        stream: &Arc<ReplyStream>,
        from: Option<u64>,
        slot: Option<&Arc<Slot>>,
        held: H,
    ) -> Option<Listener<H>> {
        Some(Listener {
            number: stream.listen(from, slot)?,
            stream: stream.clone(),
            opening: None,
            event_ids: None,
            primed: false,
            _held: held,
        })
    }

    /// Events have ids, so that a client whose connection breaks can resume after the last one it has. `primed` sends it the first id
    /// before there is a message; clients from before 2025-11-25 do not understand that.
    pub(super) fn resumable(mut self, event_ids: SealingKey, primed: bool) -> Listener<H> {
        (self.event_ids, self.primed) = (Some(event_ids), primed);
        self
    }

    /// Says this before all else.
    pub(super) fn opening(mut self, event: OutgoingEvent<'_>) -> Listener<H> {
        self.opening = Some(event.to_bytes());
        self
    }

    /// Waits until then for the first message: is it the answer?
    pub(super) async fn first(&mut self, until: Instant, slot: Option<&Arc<Slot>>) -> First {
        let mut timer =
            slot.and_then(|slot| slot.take_timer()).unwrap_or_else(|| Box::pin(sleep_until(until)));
        timer.as_mut().reset(until);
        let first = tokio::select! {
            biased;
            first = poll_fn(|cx| self.stream.poll_first(cx)) => first,
            () = &mut timer => First::Stream,
        };
        if let Some(slot) = slot {
            slot.keep_timer(timer);
        }
        first
    }

    /// As a response that lasts until the stream ends, with a comment whenever there was nothing to say for the time of a beat.
    pub(super) fn into_response(mut self, beat: Duration) -> Response {
        if self.event_ids.is_some() {
            self.opening = Some(self.opening_event());
        }
        let events = Events { listener: self, is_open: false, beat, silence: Box::pin(sleep(beat)) };
        let mut response = Response::new(Body::new(events));
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(header::EVENT_STREAM));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, no-transform"));
        headers.insert(HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no"));
        response
    }

    /// The answer as a response, while it arrives.
    pub(super) fn into_streamed_response(self) -> Response {
        json(StatusCode::OK, Body::new(StreamedBody(self)))
    }

    /// When to come back; and after what, for clients that understand it.
    fn opening_event(&self) -> Bytes {
        let id = self.event_id(self.stream.last_sent()).filter(|_| self.primed);
        let data = self.primed.then_some(&b""[..]);
        OutgoingEvent { id: id.as_deref(), retry: Some(RETRY), data, ..OutgoingEvent::default() }.to_bytes()
    }

    fn event(&self, number: u64, line: OutgoingLine) -> Bytes {
        let id = self.event_id(number);
        let message = line.message.into_line();
        let data = Some(message.trim_ascii_end());
        let event = OutgoingEvent { id: id.as_deref(), name: Some("message"), retry: None, data }.to_bytes();
        with_permit(event, line.permit)
    }

    /// A part of an event, whose data has no line breaks.
    fn event_piece(&self, number: u64, is_first: bool, piece: Bytes) -> Bytes {
        let has_breaks = memchr::memchr2(b'\n', b'\r', &piece).is_some();
        if !is_first && !has_breaks {
            return piece;
        }
        let mut bytes = vec![];
        if is_first {
            let id = self.event_id(number);
            let head =
                OutgoingEvent { id: id.as_deref(), name: Some("message"), ..Default::default() }.to_bytes();
            bytes.extend_from_slice(&head[..head.len() - 1]); // Without the end of the event.
            bytes.extend_from_slice(b"data: ");
        }
        bytes.extend(piece.iter().map(|byte| if matches!(byte, b'\n' | b'\r') { b' ' } else { *byte }));
        bytes.into()
    }

    fn event_id(&self, number: u64) -> Option<String> {
        self.event_ids.map(|key| key.seal([self.stream.number, number]))
    }
}

impl<H: Send + Unpin + 'static> http_body::Body for Events<H> {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        let Events { listener, is_open, .. } = &mut *self;
        let bytes = match listener.opening.take() {
            Some(opening) => opening,
            None => match listener.stream.poll_next(listener.number, cx) {
                Poll::Ready(NextMessage::Message { number, line }) => listener.event(number, line),
                Poll::Ready(NextMessage::Piece { number, is_first, bytes }) => {
                    *is_open = true;
                    listener.event_piece(number, is_first, bytes)
                }
                Poll::Ready(NextMessage::PiecesOver) => {
                    *is_open = false;
                    Bytes::from_static(b"\n\n")
                }
                Poll::Ready(NextMessage::End) => return Poll::Ready(None),
                Poll::Ready(NextMessage::Broken) => return Poll::Ready(Some(Err(broken()))),
                Poll::Pending if *is_open => return Poll::Pending,
                Poll::Pending => {
                    std::task::ready!(self.silence.as_mut().poll(cx));
                    Bytes::from_static(COMMENT)
                }
            },
        };
        let until = Instant::now() + self.beat;
        self.silence.as_mut().reset(until);
        Poll::Ready(Some(Ok(Frame::data(bytes))))
    }
}

/// The answer, while it arrives.
struct StreamedBody<H>(Listener<H>);

impl<H: Send + Unpin + 'static> http_body::Body for StreamedBody<H> {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        let Listener { stream, number, .. } = &self.0;
        match std::task::ready!(stream.poll_next(*number, cx)) {
            NextMessage::Piece { bytes, .. } => Poll::Ready(Some(Ok(Frame::data(bytes)))),
            NextMessage::PiecesOver => Poll::Ready(None),
            NextMessage::Message { .. } | NextMessage::End | NextMessage::Broken => {
                Poll::Ready(Some(Err(broken())))
            }
        }
    }
}

/// The connection is closed: the client must not take what it has for the whole answer.
fn broken() -> io::Error {
    io::Error::other("the response cannot be completed")
}

impl<H> Drop for Listener<H> {
    fn drop(&mut self) {
        self.stream.leave(self.number, Instant::now());
    }
}
