//! One stream of messages to a client: what it was told, what it is still to be told, and whether it listens.
//!
//! A stream outlives the response that carries it: a client whose connection broke comes back for the rest.

mod streamed;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use regrow_protocol::frame::Parts;
use tokio::time::Instant;

pub(super) use self::streamed::CallStream;
use self::streamed::PartialResponse;
use super::connections::Slot;
use super::memory::{Account, OutgoingLine, Reader};
use super::unread_limit::UnreadLimit;
use crate::shares::{BytePermit, FREE, Refused, with_permit};

/// See the head of this file.
pub(super) struct ReplyStream {
    me: Weak<ReplyStream>,
    pub(super) number: u64,
    keep: Keep,
    room: Arc<UnreadLimit>,
    account: Account,
    reader: Arc<Reader>,
    state: Mutex<StreamState>,
}

/// How much is kept for a client that comes back.
#[derive(Clone, Copy, Debug)]
pub(super) struct Keep {
    pub(super) messages: usize,
    pub(super) bytes: usize,
}

/// What a message is to the stream that carries it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Weight {
    /// Goes first where not everything can be kept.
    Notification,
    /// Somebody waits for it.
    Needed,
}

struct StreamState {
    /// Those before `sent` are kept for a client that comes back.
    events: VecDeque<StreamEvent>,
    /// The number of the first that the client was not given.
    sent: u64,
    next: u64,
    /// Of those that the client was not given.
    unread: usize,
    /// What of it counts in the room: nothing, while nobody listens.
    counted: usize,
    /// The bytes of the events that have no permit of their own,
    small: usize,
    /// how much of that is charged, and the permit for it.
    charged: usize,
    permit: Option<BytePermit>,
    /// Who listens, by number; and how to wake it.
    listener: Option<u64>,
    listeners: u64,
    waker: Option<Waker>,
    /// The response, if the client is given that while it arrives.
    streamed: Option<PartialResponse>,
    end: Option<End>,
    /// When a client last listened.
    left: Instant,
}

/// One message to the client.
#[derive(Clone)]
struct StreamEvent {
    number: u64,
    line: OutgoingLine,
    weight: Weight,
}

/// Nothing comes any more.
#[derive(Clone, Copy)]
struct End {
    /// Whether the last message is the answer that the stream was for.
    answered: bool,
    /// Its code, if that is an error.
    code: Option<i64>,
}

/// What the client is given next.
pub(super) enum NextMessage {
    Message {
        number: u64,
        line: OutgoingLine,
    },
    /// A part of the last one.
    Piece {
        number: u64,
        is_first: bool,
        bytes: Bytes,
    },
    /// That was the last part.
    PiecesOver,
    End,
    /// The last message has no end.
    Broken,
}

/// What a stream turns out to be for.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum First {
    /// The answer, with nothing before it, and its code if it is an error.
    Answer(Parts, Option<i64>),
    /// The same, while it arrives.
    Partial,
    /// More than that.
    Stream,
}

impl ReplyStream {
    pub(super) fn new(
        number: u64,
        keep: Keep,
        room: Arc<UnreadLimit>,
        account: Account,
        now: Instant,
    ) -> Arc<ReplyStream> {
        let state = StreamState {
            events: VecDeque::new(),
            sent: 1,
            next: 1,
            unread: 0,
            counted: 0,
            small: 0,
            charged: 0,
            permit: None,
            listener: None,
            listeners: 0,
            waker: None,
            streamed: None,
            end: None,
            left: now,
        };
        let (reader, state) = (Arc::default(), Mutex::new(state));
        Arc::new_cyclic(|me| ReplyStream { me: me.clone(), number, keep, room, account, reader, state })
    }

    /// Room for a message of this length to the client. What is small needs none.
    pub(super) fn charge(&self, bytes: usize) -> Result<Option<Arc<BytePermit>>, Refused> {
        if bytes <= FREE {
            return Ok(None);
        }
        self.take(bytes).map(|permit| Some(Arc::new(permit)))
    }

    fn take(&self, bytes: usize) -> Result<BytePermit, Refused> {
        let (stream, reader) = (self.me.clone(), self.reader.clone());
        self.account.take(bytes, move || {
            if let Some(stream) = stream.upgrade() {
                stream.clear();
            }
            reader.hang_up();
        })
    }

    /// One more message. Says whether the stream still takes any, and has room for it.
    pub(super) fn push(&self, line: Bytes, weight: Weight) -> bool {
        self.charge(line.len())
            .is_ok_and(|permit| self.push_line(OutgoingLine { message: line.into(), permit }, weight))
    }

    /// The same of one that has its room.
    pub(super) fn push_line(&self, line: OutgoingLine, weight: Weight) -> bool {
        let mut state = self.state();
        if state.end.is_some() || state.streamed.is_some() {
            return false;
        }
        state.add(line, weight);
        self.settle(&mut state);
        true
    }

    /// The last message, if there is one: the answer, and its code if that is an error.
    pub(super) fn finish(&self, answer: Option<OutgoingLine>, code: Option<i64>) {
        let mut state = self.state();
        if state.end.is_some() {
            return;
        }
        state.end = Some(End { answered: answer.is_some(), code });
        if let Some(line) = state.finish_streamed(answer) {
            state.add(line, Weight::Needed);
        }
        self.settle(&mut state);
    }

    /// Nothing comes any more.
    pub(super) fn close(&self) {
        self.finish(None, None);
    }

    /// What it holds gives way to another principal's. Nothing more comes on it, unless it is for what belongs to no call.
    fn clear(&self) {
        let mut state = self.state();
        state.events.clear();
        (state.unread, state.small, state.charged, state.permit) = (0, 0, 0, None);
        state.wake_streamed();
        state.streamed = None;
        if self.number > 0 && state.end.is_none() {
            state.end = Some(End { answered: false, code: None });
        }
        self.settle(&mut state);
    }

    /// Somebody listens from now on, on this connection, and from this event on if it says so. None if another does already.
    pub(super) fn listen(&self, from: Option<u64>, slot: Option<&Arc<Slot>>) -> Option<u64> {
        let mut state = self.state();
        if state.listener.is_some() {
            return None;
        }
        if let Some(slot) = slot {
            self.reader.set(slot);
        }
        if let Some(from) = from {
            state.sent = from;
            state.unread =
                state.events.iter().filter(|event| event.number >= from).map(StreamEvent::size).sum();
        }
        state.listeners += 1;
        state.listener = Some(state.listeners);
        self.settle(&mut state);
        state.listener
    }

    /// The listener has gone, at this time.
    pub(super) fn leave(&self, listener: u64, now: Instant) {
        let mut state = self.state();
        if state.listener == Some(listener) {
            state.listener = None;
            state.waker = None;
            state.left = now;
            state.wake_streamed();
            self.settle(&mut state);
        }
    }

    /// What comes next for the listener.
    pub(super) fn poll_next(&self, listener: u64, cx: &mut Context<'_>) -> Poll<NextMessage> {
        let mut state = self.state();
        if state.listener != Some(listener) {
            return Poll::Ready(NextMessage::End);
        }
        let sent = state.sent;
        let found = state.events.iter().position(|event| event.number >= sent);
        match found.and_then(|at| state.events.get(at).cloned()) {
            Some(event) => {
                state.sent = event.number + 1;
                state.unread -= event.size();
                self.settle(&mut state);
                Poll::Ready(NextMessage::Message { number: event.number, line: event.line })
            }
            None => {
                let has_ended = state.end.is_some();
                let next = match state.streamed() {
                    Some(streamed) => streamed.poll_next(),
                    None if has_ended => Poll::Ready(NextMessage::End),
                    None => Poll::Pending,
                };
                if next.is_pending() {
                    state.waker = Some(cx.waker().clone());
                }
                next
            }
        }
    }

    /// Whether there is something to tell, and what that makes of the stream. An answer is taken out of it.
    pub(super) fn poll_first(&self, cx: &mut Context<'_>) -> Poll<First> {
        let mut state = self.state();
        match (state.end, state.events.len()) {
            (_, 0) if state.streamed().is_some() => Poll::Ready(First::Partial),
            (Some(End { answered: true, code }), 1) if let Some(event) = state.events.pop_front() => {
                state.sent = event.number + 1;
                state.unread -= event.size();
                state.small -= event.small();
                self.settle(&mut state);
                let OutgoingLine { message, permit } = event.line;
                // Each part has it, since they leave one by one.
                let message = message.map(|part| with_permit(part, permit.clone())).collect();
                Poll::Ready(First::Answer(message, code))
            }
            (None, 0) => {
                state.waker = Some(cx.waker().clone());
                Poll::Pending
            }
            _ => Poll::Ready(First::Stream),
        }
    }

    pub(super) fn is_listened_to(&self) -> bool {
        self.state().listener.is_some()
    }

    pub(super) fn has_ended(&self) -> bool {
        let state = self.state();
        state.end.is_some() || state.streamed.is_some()
    }

    /// Whether nobody listens, and all that can be kept for who comes back is waiting already.
    pub(super) fn is_full(&self) -> bool {
        let state = self.state();
        let waits = |event: &&StreamEvent| event.number >= state.sent && event.weight == Weight::Needed;
        let waiting = state.events.iter().filter(waits).count();
        let is_open = state.listener.is_none() && state.end.is_none();
        is_open && (waiting >= self.keep.messages || state.unread > self.keep.bytes)
    }

    /// How many bytes wait to be read.
    pub(super) fn unread(&self) -> usize {
        self.state().unread
    }

    /// How many bytes it holds.
    pub(super) fn size(&self) -> usize {
        self.state().events.iter().map(StreamEvent::size).sum()
    }

    /// Since when it has ended and nobody has listened.
    pub(super) fn left(&self) -> Option<Instant> {
        let state = self.state();
        (state.listener.is_none() && state.end.is_some()).then_some(state.left)
    }

    /// The number of the last event that the client was given.
    pub(super) fn last_sent(&self) -> u64 {
        self.state().sent - 1
    }

    /// After every change: within bounds, counted, and listeners are woken.
    fn settle(&self, state: &mut StreamState) {
        if !state.events.is_empty() {
            state.forget_read(self.keep);
            if state.listener.is_none() {
                state.forget_unread(self.keep);
            }
        }
        if self.charge_small(state).is_err() {
            state.forget_optional();
            // What is left is small, and there is not more of it than there are calls.
            let _ = self.charge_small(state);
        }
        let counted = if state.listener.is_some() { state.unread } else { 0 };
        self.room.change(state.counted, counted);
        state.counted = counted;
        if state.unread > 0 || state.end.is_some() {
            state.wake();
        }
    }

    /// While somebody listens a little is free, so that most streams need no permit. What waits for a client to come back is charged in full.
    fn charge_small(&self, state: &mut StreamState) -> Result<(), Refused> {
        let charged = if state.listener.is_some() { state.small / FREE * FREE } else { state.small };
        match &state.permit {
            _ if charged == state.charged => return Ok(()),
            _ if charged == 0 => state.permit = None,
            Some(permit) => permit.resize(charged)?,
            None => state.permit = Some(self.take(charged)?),
        }
        state.charged = charged;
        Ok(())
    }

    fn state(&self) -> MutexGuard<'_, StreamState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for ReplyStream {
    fn drop(&mut self) {
        let counted = self.state().counted;
        self.room.change(counted, 0);
    }
}

impl StreamState {
    fn wake(&mut self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    fn add(&mut self, line: OutgoingLine, weight: Weight) {
        let event = StreamEvent { number: self.next, line, weight };
        self.next += 1;
        self.unread += event.size();
        self.small += event.small();
        self.events.push_back(event);
    }

    /// The oldest that the client was given go, as far as they are too many.
    fn forget_read(&mut self, keep: Keep) {
        let sent = self.sent;
        let read = |event: &&StreamEvent| event.number < sent;
        let mut count = self.events.iter().take_while(read).count();
        let mut bytes: usize = self.events.iter().take_while(read).map(StreamEvent::size).sum();
        while count > keep.messages || (count > 0 && bytes > keep.bytes) {
            let Some(event) = self.events.pop_front() else { return };
            count -= 1;
            bytes -= event.size();
            self.small -= event.small();
        }
    }

    /// While nobody listens the newest notifications win, and what somebody waits for is kept.
    fn forget_unread(&mut self, keep: Keep) {
        let sent = self.sent;
        let mut count = self.events.iter().filter(|event| event.number >= sent).count();
        while count > keep.messages || self.unread > keep.bytes {
            let goes = |event: &StreamEvent| event.number >= sent && event.weight == Weight::Notification;
            let Some(at) = self.events.iter().position(goes) else { return };
            let Some(event) = self.events.remove(at) else { return };
            self.unread -= event.size();
            self.small -= event.small();
            count -= 1;
        }
    }

    /// Only what somebody waits for stays, and only while a client listens.
    fn forget_optional(&mut self) {
        let (sent, is_read) = (self.sent, self.listener.is_some());
        let is_unread = |event: &StreamEvent| event.number >= sent;
        self.events.retain(|event| is_read && is_unread(event) && event.weight == Weight::Needed);
        self.small = self.events.iter().map(StreamEvent::small).sum();
        self.unread = self.events.iter().map(StreamEvent::size).sum();
    }
}

impl StreamEvent {
    fn size(&self) -> usize {
        self.line.message.len()
    }

    /// What of it is charged to its stream.
    fn small(&self) -> usize {
        if self.line.permit.is_none() { self.size() } else { 0 }
    }
}
