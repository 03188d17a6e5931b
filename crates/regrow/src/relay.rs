//! The client's side of `wrap`: one client on two streams, one connection behind it.

mod owed;
mod port;

use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use regrow_core::{Nature, Replay, ToolSafety};
use regrow_protocol::frame::{self, Frame, Kind, ParseError, RawId, join_batch, split_batch};
use regrow_protocol::lines::{Line, LineReader};
use regrow_protocol::{method, notification};
use tokio::io::AsyncRead;

use crate::call::{Outcome, Reply, Request};
use crate::error::{CallError, ErrorKind};
use crate::lines::read_line;
use crate::upstream::Upstream;

pub use port::Port;

/// A call may wait for long. A shorter one than this must not keep the buffer alive that it was read into.
const SHORT: usize = 64 << 10;

/// How a failed tool call is told to the client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ErrorStyle {
    /// As a tool result that says so, which is what reaches a model.
    #[default]
    Tool,
    /// As a JSON-RPC error.
    Protocol,
}

/// What is needed to answer a request of a client.
pub struct Asked {
    id: RawId,
    wants_tool_result: bool,
    modern: bool,
}

impl Asked {
    /// Of a request with this id.
    pub fn of(request: &Frame, id: RawId) -> Asked {
        Asked {
            id,
            wants_tool_result: request.method() == Some(method::TOOLS_CALL) && !request.has_task(),
            modern: request.protocol_version().is_some(),
        }
    }

    /// What the client is told of the end of its request.
    pub fn answer(&self, outcome: &Outcome, style: ErrorStyle) -> Bytes {
        match outcome {
            Outcome::Answered(frame) => frame.with_id(&self.id),
            Outcome::Failed(error) if style == ErrorStyle::Tool && self.wants_tool_result => {
                error.tool_result(&self.id, self.modern)
            }
            Outcome::Failed(error) => error.rpc_error(&self.id),
            Outcome::Refused => frame::method_not_found(&self.id),
        }
    }
}

/// Answers one request of the client, alone or as a member of its batch.
struct ToClient {
    port: Arc<Port>,
    asked: Asked,
    batch: Option<Arc<Batch>>,
    /// Dropped last: when it is, the response is in the output. None for a stream, which nobody waits for.
    open: Option<Open>,
}

/// A request of the client that is not answered.
struct Open(Arc<Port>);

impl Open {
    fn new(port: &Arc<Port>) -> Open {
        port.out().owed.begin();
        Open(port.clone())
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        let mut out = self.0.out();
        out.owed.finish();
        if out.input_closed {
            self.0.changed.notify_waiters();
        }
    }
}

impl Reply for ToClient {
    fn end(self: Box<Self>, outcome: Outcome) {
        let failed_as = |kind| matches!(&outcome, Outcome::Failed(error) if error.kind == kind);
        if failed_as(ErrorKind::Closed) {
            let mut out = self.port.out();
            if out.input_closed && out.over {
                // It is leaving, and some clients stumble over what they read while they close. Nobody waits for the end of a stream.
                if self.open.is_some() {
                    out.owed.miss();
                }
                return;
            }
        }
        let line = self.asked.answer(&outcome, self.port.style);
        let is_refused = failed_as(ErrorKind::Overloaded);
        match &self.batch {
            Some(batch) => batch.add(line),
            None if is_refused => self.port.refuse(line),
            None => self.port.send(line),
        }
    }
}

/// The answers to a batch. They leave as one array when the last member has ended, answered or cancelled.
struct Batch {
    port: Arc<Port>,
    answers: Mutex<Vec<Bytes>>,
}

impl Batch {
    fn add(&self, line: Bytes) {
        self.answers.lock().unwrap_or_else(PoisonError::into_inner).push(line);
    }
}

impl Drop for Batch {
    fn drop(&mut self) {
        let answers = std::mem::take(self.answers.get_mut().unwrap_or_else(PoisonError::into_inner));
        if let Some(line) = join_batch(answers) {
            self.port.send(line);
        }
    }
}

/// Hands on what the client writes until it writes no more and its requests are answered, or until nobody reads the responses.
/// The client is never kept waiting. When this ends, or is dropped, the client gets no answers any more that only say so.
pub async fn relay(
    upstream: &(impl Upstream + ?Sized),
    port: &Arc<Port>,
    input: impl AsyncRead + Unpin,
) -> io::Result<()> {
    let _over = Over(port);
    let read = {
        let read = std::pin::pin!(read(upstream, port, input));
        let gone = std::pin::pin!(port.relayed());
        tokio::select! {
            biased; // One who writes and writes, and reads nothing, must not be served for ever.
            () = gone => return Ok(()),
            read = read => read,
        }
    };
    let unanswered = {
        let mut out = port.out();
        out.input_closed = true;
        out.owed.left(out.writer.flushed())
    };
    if unanswered > 0 {
        tracing::info!(
            server = &*port.name,
            "the client has closed its input; {unanswered} requests are not answered yet"
        );
    }
    // The client cannot answer what servers ask from now on, and its calls must not wait for that.
    let refusing = async {
        loop {
            let changed = port.changed.notified();
            let unanswered = port.out().questions.give_up();
            for (epoch, server_id, line) in unanswered {
                upstream.hand_over(epoch, &server_id, line);
            }
            changed.await;
        }
    };
    tokio::select! {
        biased;
        () = refusing => {}
        () = port.relayed() => {}
    }
    read
}

/// Marks the end of a relay, however it ends.
struct Over<'a>(&'a Port);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.out().over = true;
    }
}

async fn read(
    upstream: &(impl Upstream + ?Sized),
    port: &Arc<Port>,
    mut input: impl AsyncRead + Unpin,
) -> io::Result<()> {
    let mut lines = LineReader::new(port.max_line);
    while let Some(line) = read_line(&mut lines, &mut input).await? {
        take_line(upstream, port, line);
        port.bear().await;
    }
    // A last line without an end may be whole all the same.
    if let Some(line) = lines.finish() {
        take_line(upstream, port, line);
    }
    Ok(())
}

fn take_line(upstream: &(impl Upstream + ?Sized), port: &Arc<Port>, line: Line) {
    match line {
        Line::Whole(bytes) => match Frame::parse(bytes) {
            Ok(frame) if frame.kind() == Kind::Batch => {
                let batch = Arc::new(Batch { port: port.clone(), answers: Mutex::default() });
                for member in split_batch(&frame) {
                    match member {
                        Ok(member) => take(upstream, port, member, Some(&batch)),
                        Err(error) => batch.add(unreadable(&error)),
                    }
                }
            }
            Ok(frame) => take(upstream, port, frame, None),
            Err(error) => port.refuse(unreadable(&error)),
        },
        Line::TooLong { bytes, salvage } => {
            let error = CallError::new(port.name.clone(), ErrorKind::TooLarge { bytes });
            match salvage.id.filter(|_| salvage.method) {
                Some(id) => port.refuse(error.rpc_error(&id)),
                None => tracing::warn!(
                    server = &*port.name,
                    bytes,
                    "a line of the client is over the limit and was dropped"
                ),
            }
        }
    }
}

fn take(upstream: &(impl Upstream + ?Sized), port: &Arc<Port>, mut frame: Frame, batch: Option<&Arc<Batch>>) {
    if frame.bytes().len() < SHORT {
        frame.compact();
    }
    match frame.kind() {
        Kind::Request { id, .. } => {
            let asked = Asked::of(&frame, id.clone());
            let method = frame.method().unwrap_or_default();
            let is_stream = Nature::of(method, ToolSafety::Unknown, Replay::Never) == Nature::Stream;
            let open = (!is_stream).then(|| Open::new(port));
            let reply = ToClient { port: port.clone(), asked, batch: batch.cloned(), open };
            upstream.submit(Request::new(frame, id, Box::new(reply)));
        }
        Kind::Notification { method: notification::CANCELLED } => {
            let known = frame.request_id().is_some_and(|id| upstream.cancel(&id, &frame));
            if !known {
                tracing::debug!(server = &*port.name, "the client cancelled what is not running");
            }
        }
        Kind::Notification { .. } => {
            upstream.forward(&frame);
        }
        Kind::Response { id } => match id.and_then(|id| port.out().questions.answer(&id)) {
            Some((epoch, server_id)) => {
                upstream.hand_over(epoch, &server_id, frame.with_id(&server_id));
            }
            None => tracing::debug!(server = &*port.name, "the client answered what was not asked"),
        },
        Kind::Batch => {} // Batches hold no batches: `split_batch` refuses them.
    }
}

fn unreadable(error: &ParseError) -> Bytes {
    frame::error(error.id(), error.code(), &error.to_string(), None)
}
