//! One response to a request: one JSON body, or a stream of events that may be cut and resumed.

use std::collections::VecDeque;
use std::io;
use std::sync::{Mutex, MutexGuard};

use super::response::{Plain, ResponseWriter};
use crate::gzip;
use crate::plan::Orders;
use crate::sync::lock;

/// How many events are kept for a client that comes back for them.
const KEPT_EVENTS: usize = 256;

/// Where what belongs to a request goes; also where a client listens for what belongs to none.
pub(in crate::server) struct Stream {
    pub(super) number: u64,
    orders: Orders,
    headers: Vec<(&'static str, String)>,
    /// Answers do not end it: it is the only stream of a client of HTTP+SSE, or one that only listens.
    pub(super) endless: bool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    response: Option<ResponseWriter>,
    /// Counts the connections that it was on.
    attached: u64,
    begun: bool,
    events: u64,
    kept: VecDeque<(u64, Vec<u8>)>,
    over: bool,
    cut: bool,
}

impl Stream {
    pub(super) fn new(
        number: u64,
        orders: Orders,
        headers: Vec<(&'static str, String)>,
        response: ResponseWriter,
        endless: bool,
    ) -> Self {
        let state = State { response: Some(response), ..State::default() };
        Self { number, orders, headers, endless, state: Mutex::new(state) }
    }

    /// Begins a stream of events now, not with the first event.
    pub(in crate::server) fn begin(&self) {
        self.begin_in(&mut lock(&self.state));
    }

    /// One message that does not answer the request.
    pub(in crate::server) fn message(&self, text: &str) {
        let mut state = lock(&self.state);
        self.begin_in(&mut state);
        self.event(&mut state, "message", text.as_bytes());
    }

    /// The first event of HTTP+SSE.
    pub(super) fn endpoint(&self, address: &str) {
        let mut state = lock(&self.state);
        self.begin_in(&mut state);
        self.event(&mut state, "endpoint", address.as_bytes());
    }

    /// The answer. It is the whole body if nothing came before it.
    pub(in crate::server) fn answer(&self, text: &str, status: u16) {
        let mut state = lock(&self.state);
        if self.orders.has("drop-answer") {
            return state.cut();
        }
        let renamed = self.orders.number("answer-id").and_then(|id| rename(text, id));
        let text = renamed.as_deref().unwrap_or(text);
        if let Some(bytes) = self.orders.number("bomb") {
            let (head, tail) = halves(text);
            return state.last(|response| self.send_bomb(response, &head, bytes, &tail));
        }
        if !state.begun && !self.endless && !self.orders.has("endless") {
            let mut plain = Plain::json(status, text);
            plain.headers.extend(self.headers.iter().cloned());
            return state.last(|response| response.plain(&plain));
        }
        self.begin_in(&mut state);
        match self.orders.number("endless") {
            Some(bytes) => state.write(|response| flood(response, b"data: ", bytes, b"\n\n")),
            None => self.event(&mut state, "message", text.as_bytes()),
        }
        if !self.endless {
            state.finish();
        }
    }

    /// Bytes that are no message: in the stream if there is one, else as a body that does not end.
    pub(in crate::server) fn raw(&self, bytes: &[u8]) {
        let mut state = lock(&self.state);
        if state.begun || self.endless {
            return state.write(|response| response.chunk(bytes));
        }
        let length = bytes.len() + usize::from(!bytes.ends_with(b"\n")) * 100;
        let headers = [("Content-Type", "application/json".into()), ("Content-Length", length.to_string())];
        state.last(|response| response.head(200, &headers).and_then(|()| response.body(bytes)));
    }

    /// An answer that is never whole in memory.
    pub(in crate::server) fn huge(&self, head: &str, count: u64, tail: &str) {
        let mut state = lock(&self.state);
        if state.begun || self.endless {
            let head = format!("data: {head}");
            state.write(|response| flood(response, head.as_bytes(), count, format!("{tail}\n").as_bytes()));
            if !self.endless {
                state.finish();
            }
            return;
        }
        let headers = [("Content-Type", "application/json".into()), ("Transfer-Encoding", "chunked".into())];
        state.last(|response| {
            response.head(200, &headers)?;
            flood(response, head.as_bytes(), count, tail.as_bytes())?;
            response.chunk(b"")
        });
    }

    /// Ends it cleanly, without an answer.
    pub(in crate::server) fn give_up(&self) {
        if self.endless {
            return;
        }
        let mut state = lock(&self.state);
        if !state.over {
            self.begin_in(&mut state);
            state.finish();
        }
    }

    /// Ends a stream on which somebody listens.
    pub(super) fn end(&self) {
        lock(&self.state).finish();
    }

    /// Closes the connection in the middle.
    pub(in crate::server) fn cut(&self) {
        lock(&self.state).cut();
    }

    /// The client has left that connection; what still comes is kept for its return. Returns whether it was there till now.
    pub(super) fn detach(&self, attached: u64) -> bool {
        let mut state = lock(&self.state);
        let was_there = state.attached == attached && !state.over && state.response.is_some();
        if was_there {
            state.response = None;
        }
        was_there
    }

    /// The client is back and has seen the events up to this one. Returns the number of the connection it is on now, from 0.
    pub(super) fn resume(&self, mut response: ResponseWriter, seen: u64) -> u64 {
        let mut state = lock(&self.state);
        state.attached += 1;
        let head = response.head(200, &self.event_headers());
        let missed = state.kept.iter().filter(|(number, _)| *number > seen);
        let sent = head.and_then(|()| missed.into_iter().try_for_each(|(_, event)| response.chunk(event)));
        if sent.is_ok() {
            state.cut = false;
            state.response = Some(response);
        }
        if state.over {
            state.write(|response| response.chunk(b""));
        }
        state.attached
    }

    /// None while something may be written to that connection, else whether it is good for another request.
    pub(super) fn outcome(&self, attached: u64) -> Option<bool> {
        let state = lock(&self.state);
        if state.cut || state.response.is_none() || state.attached != attached {
            return Some(false);
        }
        state.over.then_some(true)
    }

    fn begin_in(&self, state: &mut MutexGuard<'_, State>) {
        if state.begun || state.over || self.orders.has("drop-answer") {
            return;
        }
        state.begun = true;
        let headers = self.event_headers();
        state.write(|response| response.head(200, &headers));
        if let Some(retry) = self.orders.number("retry") {
            state.write(|response| response.chunk(format!("retry: {retry}\n\n").as_bytes()));
        }
        if self.orders.has("prime") {
            let id = self.event_id(0);
            state.write(|response| response.chunk(format!("id: {id}\ndata: \n\n").as_bytes()));
        }
        self.fail_when_due(state);
    }

    fn event_headers(&self) -> Vec<(&'static str, String)> {
        let mut headers = self.headers.clone();
        headers.push(("Content-Type", "text/event-stream".into()));
        headers.push(("Cache-Control", "no-cache".into()));
        headers.push(("Transfer-Encoding", "chunked".into()));
        headers
    }

    fn event_id(&self, number: u64) -> String {
        format!("{}-{number}", self.number)
    }

    fn event(&self, state: &mut MutexGuard<'_, State>, kind: &str, data: &[u8]) {
        if state.over {
            return;
        }
        state.events += 1;
        let mut event = format!("event: {kind}\n").into_bytes();
        if self.orders.has("event-ids") {
            event.extend(format!("id: {}\n", self.event_id(state.events)).into_bytes());
        }
        for line in data.split(|byte| *byte == b'\n') {
            event.extend([b"data: ", line, b"\n"].concat());
        }
        event.push(b'\n');
        state.write(|response| response.chunk(&event));
        if self.orders.has("event-ids") {
            let number = state.events;
            state.kept.push_back((number, event));
            if state.kept.len() > KEPT_EVENTS {
                state.kept.pop_front();
            }
        }
        self.fail_when_due(state);
    }

    /// Cuts or ends the stream after as many events as planned.
    fn fail_when_due(&self, state: &mut MutexGuard<'_, State>) {
        if self.orders.number("cut") == Some(state.events) {
            state.cut();
        }
        if self.orders.number("finish") == Some(state.events) && state.response.is_some() {
            state.write(|response| response.chunk(b""));
            state.cut();
        }
    }

    fn send_bomb(&self, response: &mut ResponseWriter, head: &str, bytes: u64, tail: &str) -> io::Result<()> {
        let mut headers = self.headers.clone();
        headers.push(("Content-Type", "application/json".into()));
        headers.push(("Content-Encoding", "gzip".into()));
        headers.push(("Transfer-Encoding", "chunked".into()));
        response.head(200, &headers)?;
        gzip::bomb(head, bytes, tail, |piece| response.chunk(piece))?;
        response.chunk(b"")
    }
}

impl State {
    /// Writes to the client if it is there. One that has left is noticed elsewhere.
    fn write(&mut self, write: impl FnOnce(&mut ResponseWriter) -> io::Result<()>) {
        if let Some(response) = &mut self.response
            && write(response).is_err()
        {
            self.cut();
        }
    }

    /// Writes the last of it.
    fn last(&mut self, write: impl FnOnce(&mut ResponseWriter) -> io::Result<()>) {
        self.write(write);
        self.over = true;
    }

    fn finish(&mut self) {
        if !self.over {
            self.last(|response| response.chunk(b""));
        }
    }

    fn cut(&mut self) {
        if let Some(response) = self.response.take() {
            response.cut();
        }
        self.cut = true;
    }
}

/// Head, letters and tail as chunks.
fn flood(response: &mut ResponseWriter, head: &[u8], count: u64, tail: &[u8]) -> io::Result<()> {
    let letters = [b'x'; 64 * 1024];
    let mut left = count;
    response.chunk(head)?;
    while left > 0 {
        let size = usize::try_from(left).map_or(letters.len(), |left| left.min(letters.len()));
        response.chunk(&letters[..size])?;
        left -= size as u64;
    }
    response.chunk(tail)
}

/// The same answer under another id.
fn rename(text: &str, id: u64) -> Option<String> {
    let mut answer: serde_json::Value = serde_json::from_str(text).ok()?;
    answer["id"] = id.into();
    Some(answer.to_string())
}

/// A result whose text can be made as long as one likes between the two.
fn halves(text: &str) -> (String, String) {
    let answer: serde_json::Value = serde_json::from_str(text).unwrap_or_default();
    let head = r#"{"jsonrpc":"2.0","result":{"resultType":"complete","content":[{"type":"text","text":""#;
    (head.to_owned(), format!(r#""}}]}},"id":{}}}"#, answer["id"]))
}
