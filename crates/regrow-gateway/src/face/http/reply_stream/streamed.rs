//! A long response that is passed on to the client while it arrives. It is the last message of its stream.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use regrow::transport::{BoxFuture, ResponseStream, StreamEnd};
use regrow_protocol::frame::{Frame, RawId, StreamedResponse};

use super::super::memory::OutgoingLine;
use super::{NextMessage, ReplyStream, StreamState};
use crate::shares::BytePermit;

/// The server is read on while less than this waits for the client.
const WINDOW: usize = 256 << 10;

/// See the head of this file.
pub(super) struct PartialResponse {
    /// The number of its event, and who listens to it; nobody if there is no room for it.
    number: u64,
    listener: Option<u64>,
    /// None once nothing more can be added.
    response: Option<StreamedResponse>,
    /// Whether all of it has come.
    is_complete: bool,
    /// What the client was not given yet.
    pieces: VecDeque<Bytes>,
    has_begun: bool,
    /// Set when the call has ended.
    end: Option<StreamedEnd>,
    /// Who waits for room.
    waker: Option<Waker>,
    _permit: Option<BytePermit>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StreamedEnd {
    /// All of it has come, or it ends as the error that became of its call.
    Whole,
    /// It cannot be completed.
    Broken,
}

impl PartialResponse {
    fn size(&self) -> usize {
        self.pieces.iter().map(Bytes::len).sum()
    }

    fn wake(&mut self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    /// What comes next for the client.
    pub(super) fn poll_next(&mut self) -> Poll<NextMessage> {
        if let Some(bytes) = self.pieces.pop_front() {
            let is_first = !std::mem::replace(&mut self.has_begun, true);
            self.wake();
            return Poll::Ready(NextMessage::Piece { number: self.number, is_first, bytes });
        }
        match self.end {
            Some(StreamedEnd::Whole) if std::mem::take(&mut self.has_begun) => {
                Poll::Ready(NextMessage::PiecesOver)
            }
            Some(StreamedEnd::Whole) => Poll::Ready(NextMessage::End),
            Some(StreamedEnd::Broken) => Poll::Ready(NextMessage::Broken),
            None => Poll::Pending,
        }
    }

    /// The call has ended with this answer.
    fn finish(&mut self, answer: Option<OutgoingLine>) {
        let rest = self.response.take().and_then(|response| {
            let error = Frame::parse(answer?.message.into_line()).ok()?;
            response.end_as(&error)
        });
        let is_whole = self.is_complete || rest.is_some();
        self.end = Some(if is_whole { StreamedEnd::Whole } else { StreamedEnd::Broken });
        self.pieces.extend(rest);
        self.wake();
    }
}

impl StreamState {
    /// The response that is streamed to the client that listens.
    pub(super) fn streamed(&mut self) -> Option<&mut PartialResponse> {
        let listener = self.listener;
        self.streamed.as_mut().filter(|streamed| listener.is_some() && streamed.listener == listener)
    }

    /// The call has ended with this answer. Returns it if the client still needs it.
    pub(super) fn finish_streamed(&mut self, answer: Option<OutgoingLine>) -> Option<OutgoingLine> {
        match self.streamed() {
            Some(streamed) => {
                streamed.finish(answer);
                None
            }
            None => {
                self.streamed = None; // Its client has left, and may come back for this.
                answer
            }
        }
    }

    /// The client does not listen any more, or has lost what was kept for it.
    pub(super) fn wake_streamed(&mut self) {
        if let Some(streamed) = &mut self.streamed {
            streamed.wake();
        }
    }
}

impl ReplyStream {
    /// Whether a response that was to be streamed was not given to the client in full.
    pub(in super::super) fn has_lost_streamed(&self) -> bool {
        let mut state = self.state();
        let is_streamed = state.streamed.is_some();
        is_streamed && state.streamed().is_none_or(|streamed| !streamed.is_complete)
    }

    fn can_stream(&self) -> bool {
        let state = self.state();
        state.listener.is_some() && state.streamed.is_none() && state.end.is_none()
    }

    fn begin_streamed(&self, response: StreamedResponse, pieces: VecDeque<Bytes>) {
        let permit = self.take(WINDOW + pieces.iter().map(Bytes::len).sum::<usize>()).ok();
        let mut state = self.state();
        let listener = state.listener.filter(|_| permit.is_some());
        let number = state.next;
        state.next += 1;
        state.streamed = Some(PartialResponse {
            number,
            listener,
            response: Some(response),
            is_complete: false,
            pieces,
            has_begun: false,
            end: None,
            waker: None,
            _permit: permit,
        });
        state.wake();
    }

    fn push_streamed(&self, piece: Bytes) -> Result<(), StreamEnd> {
        let mut state = self.state();
        let streamed = state.streamed().ok_or(StreamEnd::Gone)?;
        let response = streamed.response.as_mut().ok_or(StreamEnd::Gone)?;
        response.push(piece, &mut streamed.pieces).map_err(|_| StreamEnd::Malformed)?;
        if !streamed.pieces.is_empty() {
            state.wake();
        }
        Ok(())
    }

    fn poll_room(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut state = self.state();
        match state.streamed() {
            Some(streamed) if streamed.response.is_some() && streamed.size() >= WINDOW => {
                streamed.waker = Some(cx.waker().clone());
                Poll::Pending
            }
            _ => Poll::Ready(()),
        }
    }

    /// Nothing more comes. The client gets the end when the call has ended.
    fn complete_streamed(&self) -> Result<bool, StreamEnd> {
        let mut state = self.state();
        let streamed = state.streamed().ok_or(StreamEnd::Gone)?;
        let response = streamed.response.take_if(|response| response.is_complete());
        match (response, &streamed.response) {
            (Some(response), _) => {
                streamed.is_complete = true;
                Ok(response.is_tool_error())
            }
            (None, Some(_)) => Err(StreamEnd::Cut),
            (None, None) => Err(StreamEnd::Gone),
        }
    }
}

/// The stream of a call, which may get its response while that arrives.
pub(in super::super) struct CallStream {
    /// The client's id for the call.
    pub(in super::super) id: RawId,
    pub(in super::super) stream: Arc<ReplyStream>,
}

impl ResponseStream for CallStream {
    fn id(&self) -> Option<RawId> {
        self.stream.can_stream().then(|| self.id.clone())
    }

    fn begin(&self, response: StreamedResponse, start: VecDeque<Bytes>) {
        self.stream.begin_streamed(response, start);
    }

    fn push(&self, piece: Bytes) -> Result<(), StreamEnd> {
        self.stream.push_streamed(piece)
    }

    fn room(self: Arc<Self>) -> BoxFuture<()> {
        Box::pin(async move { poll_fn(|cx| self.stream.poll_room(cx)).await })
    }

    fn finish(&self) -> Result<bool, StreamEnd> {
        self.stream.complete_streamed()
    }
}
