//! One stream of messages to a client: what it was told, what it is still to be told, and whether it listens.
//!
//! A stream outlives the response that carries it: a client whose connection broke comes back for the rest.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use tokio::time::Instant;

use super::unread_limit::UnreadLimit;

/// See the head of this file.
pub(super) struct ReplyStream {
    pub(super) number: u64,
    keep: Keep,
    room: Arc<UnreadLimit>,
    state: Mutex<State>,
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

struct State {
    /// Those before `sent` are kept for a client that comes back.
    events: VecDeque<Event>,
    /// The number of the first that the client was not given.
    sent: u64,
    next: u64,
    /// Of those that the client was not given.
    unread: usize,
    /// What of it counts in the room: nothing, while nobody listens.
    counted: usize,
    /// Who listens, by number; and how to wake it.
    listener: Option<u64>,
    listeners: u64,
    waker: Option<Waker>,
    end: Option<End>,
    /// When a client last listened.
    left: Instant,
}

/// One message to the client.
#[derive(Clone)]
struct Event {
    number: u64,
    line: Bytes,
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
pub(super) enum Next {
    Message { number: u64, line: Bytes },
    End,
}

/// What a stream turns out to be for.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum First {
    /// The answer, with nothing before it, and its code if it is an error.
    Answer(Bytes, Option<i64>),
    /// More than that.
    Stream,
}

impl ReplyStream {
    pub(super) fn new(number: u64, keep: Keep, room: Arc<UnreadLimit>, now: Instant) -> Arc<ReplyStream> {
        let state = State {
            events: VecDeque::new(),
            sent: 1,
            next: 1,
            unread: 0,
            counted: 0,
            listener: None,
            listeners: 0,
            waker: None,
            end: None,
            left: now,
        };
        Arc::new(ReplyStream { number, keep, room, state: Mutex::new(state) })
    }

    /// One more message. Says whether the stream still takes any.
    pub(super) fn push(&self, line: Bytes, weight: Weight) -> bool {
        let mut state = self.state();
        if state.end.is_some() {
            return false;
        }
        state.add(line, weight);
        self.settle(&mut state);
        true
    }

    /// The last message, if there is one: the answer, and its code if that is an error.
    pub(super) fn finish(&self, answer: Option<Bytes>, code: Option<i64>) {
        let mut state = self.state();
        if state.end.is_some() {
            return;
        }
        state.end = Some(End { answered: answer.is_some(), code });
        if let Some(line) = answer {
            state.add(line, Weight::Needed);
        }
        self.settle(&mut state);
    }

    /// Nothing comes any more.
    pub(super) fn close(&self) {
        self.finish(None, None);
    }

    /// Somebody listens from now on, from this event on if it says so. None if another does already.
    pub(super) fn listen(&self, from: Option<u64>) -> Option<u64> {
        let mut state = self.state();
        if state.listener.is_some() {
            return None;
        }
        if let Some(from) = from {
            state.sent = from;
            state.unread = state.events.iter().filter(|event| event.number >= from).map(Event::size).sum();
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
            self.settle(&mut state);
        }
    }

    /// What comes next for the listener.
    pub(super) fn poll_next(&self, listener: u64, cx: &mut Context<'_>) -> Poll<Next> {
        let mut state = self.state();
        if state.listener != Some(listener) {
            return Poll::Ready(Next::End);
        }
        let sent = state.sent;
        let found = state.events.iter().position(|event| event.number >= sent);
        match found.and_then(|at| state.events.get(at).cloned()) {
            Some(event) => {
                state.sent = event.number + 1;
                state.unread -= event.size();
                self.settle(&mut state);
                Poll::Ready(Next::Message { number: event.number, line: event.line })
            }
            None if state.end.is_some() => Poll::Ready(Next::End),
            None => {
                state.waker = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }

    /// Whether there is something to tell, and what that makes of the stream.
    pub(super) fn poll_first(&self, cx: &mut Context<'_>) -> Poll<First> {
        let mut state = self.state();
        match (state.end, state.events.len()) {
            (Some(End { answered: true, code }), 1) => {
                let line = state.events[0].line.clone();
                Poll::Ready(First::Answer(line, code))
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
        self.state().end.is_some()
    }

    /// Whether nobody listens, and all that can be kept for who comes back is waiting already.
    pub(super) fn is_full(&self) -> bool {
        let state = self.state();
        let waits = |event: &&Event| event.number >= state.sent && event.weight == Weight::Needed;
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
        self.state().events.iter().map(Event::size).sum()
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
    fn settle(&self, state: &mut State) {
        state.forget_read(self.keep);
        let counted = if state.listener.is_some() {
            state.unread
        } else {
            state.forget_unread(self.keep);
            0
        };
        self.room.change(state.counted, counted);
        state.counted = counted;
        if let Some(waker) = state.waker.take_if(|_| state.unread > 0 || state.end.is_some()) {
            waker.wake();
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for ReplyStream {
    fn drop(&mut self) {
        let counted = self.state().counted;
        self.room.change(counted, 0);
    }
}

impl State {
    fn add(&mut self, line: Bytes, weight: Weight) {
        let event = Event { number: self.next, line, weight };
        self.next += 1;
        self.unread += event.size();
        self.events.push_back(event);
    }

    /// The oldest that the client was given go, as far as they are too many.
    fn forget_read(&mut self, keep: Keep) {
        let sent = self.sent;
        let read = |event: &&Event| event.number < sent;
        let mut count = self.events.iter().take_while(read).count();
        let mut bytes: usize = self.events.iter().take_while(read).map(Event::size).sum();
        while count > keep.messages || (count > 0 && bytes > keep.bytes) {
            let Some(event) = self.events.pop_front() else { return };
            count -= 1;
            bytes -= event.size();
        }
    }

    /// While nobody listens the newest notifications win, and what somebody waits for is kept.
    fn forget_unread(&mut self, keep: Keep) {
        let sent = self.sent;
        let mut count = self.events.iter().filter(|event| event.number >= sent).count();
        while count > keep.messages || self.unread > keep.bytes {
            let goes = |event: &Event| event.number >= sent && event.weight == Weight::Notification;
            let Some(at) = self.events.iter().position(goes) else { return };
            let Some(event) = self.events.remove(at) else { return };
            self.unread -= event.size();
            count -= 1;
        }
    }
}

impl Event {
    fn size(&self) -> usize {
        self.line.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream(messages: usize, bytes: usize) -> (Arc<ReplyStream>, Arc<UnreadLimit>) {
        let room = Arc::new(UnreadLimit::new(10));
        (ReplyStream::new(1, Keep { messages, bytes }, room.clone(), Instant::now()), room)
    }

    fn line(text: &'static str) -> Bytes {
        Bytes::from_static(text.as_bytes())
    }

    /// All that is there for a listener.
    fn read(stream: &ReplyStream, listener: u64) -> Vec<String> {
        let mut read = vec![];
        loop {
            match stream.poll_next(listener, &mut Context::from_waker(Waker::noop())) {
                Poll::Ready(Next::Message { number, line }) => {
                    read.push(format!("{number} {}", String::from_utf8_lossy(&line)));
                }
                Poll::Ready(Next::End) => {
                    read.push("end".into());
                    return read;
                }
                Poll::Pending => return read,
            }
        }
    }

    fn first(stream: &ReplyStream) -> Poll<First> {
        stream.poll_first(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn who_comes_back_gets_the_rest_and_no_more_than_is_kept() {
        let (stream, _) = stream(2, 100);
        let one = stream.listen(None).unwrap();
        for text in ["a", "b", "c", "d"] {
            assert!(stream.push(line(text), Weight::Notification));
        }
        assert_eq!(read(&stream, one), ["1 a", "2 b", "3 c", "4 d"]);
        assert!(stream.listen(None).is_none(), "one at a time");
        stream.leave(one, Instant::now());
        stream.finish(Some(line("e")), None);
        let two = stream.listen(Some(1)).unwrap();
        assert_eq!(read(&stream, two), ["3 c", "4 d", "5 e", "end"], "two that were read are kept");
        assert_eq!(read(&stream, one), ["end"], "who left is not told");
        assert!(!stream.push(line("f"), Weight::Notification));
    }

    #[test]
    fn while_nobody_listens_the_newest_notifications_win_and_questions_stay() {
        let (stream, room) = stream(2, 100);
        stream.push(line("question"), Weight::Needed);
        for text in ["a", "b", "c"] {
            stream.push(line(text), Weight::Notification);
        }
        assert!(room.is_left(), "what nobody reads holds up nobody");
        let listener = stream.listen(None).unwrap();
        assert_eq!(read(&stream, listener), ["1 question", "4 c"]);
    }

    #[test]
    fn what_a_listener_does_not_read_takes_room() {
        let (stream, room) = stream(9, 100);
        let listener = stream.listen(None).unwrap();
        stream.push(line("0123456789ab"), Weight::Notification);
        assert!(!room.is_left());
        read(&stream, listener);
        assert!(room.is_left());
        stream.push(line("0123456789ab"), Weight::Notification);
        drop(stream);
        assert!(room.is_left());
    }

    #[test]
    fn an_answer_that_comes_first_is_no_stream() {
        let (silent, _) = stream(9, 100);
        assert_eq!(first(&silent), Poll::Pending);
        silent.finish(Some(line("a")), Some(-5));
        assert_eq!(first(&silent), Poll::Ready(First::Answer(line("a"), Some(-5))));
        let (talking, _) = stream(9, 100);
        talking.push(line("a"), Weight::Notification);
        assert_eq!(first(&talking), Poll::Ready(First::Stream));
        talking.finish(Some(line("b")), None);
        assert_eq!(first(&talking), Poll::Ready(First::Stream));
        let (ended, _) = stream(9, 100);
        ended.close();
        assert_eq!(first(&ended), Poll::Ready(First::Stream));
    }
}
