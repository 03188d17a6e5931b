//! The client's side of `wrap`: one client on two streams, one connection behind it.

mod owed;

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use regrow_core::{ClientStreams, Delivery, Epoch, Nature, Relaying, Replay, ToolSafety};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};

use crate::call::{Outcome, Reply, Request};
use crate::connection::Connection;
use crate::error::{CallError, ErrorKind, Outlook};
use crate::frame::{self, Frame, Kind, ParseError, RawId, join_batch, split_batch};
use crate::inbox::{Inbox, Incoming, Unasked};
use crate::lines::{Line, LineReader};
use crate::questions::Questions;
use crate::transport::BoxFuture;
use crate::writer::Writer;
use owed::Owed;

/// While more than this waits for the client to read it, the server is not read.
const ROOM: usize = 8 << 20;
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

/// Where everything goes that the client is told, in order.
pub struct Port {
    name: Arc<str>,
    style: ErrorStyle,
    max_line: usize,
    out: Mutex<Out>,
    pump: Notify,
    /// Something was taken by the client.
    moved: Notify,
    /// The relay has to look at its client again.
    changed: Notify,
}

struct Out {
    writer: Writer<Box<dyn AsyncWrite + Send + Unpin>, ()>,
    /// Writing failed: the client does not listen any more.
    broken: bool,
    /// The client writes no more. It may still read.
    input_closed: bool,
    /// The relay has ended.
    over: bool,
    owed: Owed,
    /// When the client last took something, or had taken everything.
    moved_at: Instant,
    questions: Questions,
    /// How much memory refusals of ours were given since the client last had room.
    refused: usize,
    pump: Option<JoinHandle<()>>,
}

impl Port {
    /// A client of the server `name` that reads `output`.
    pub fn new(
        name: impl Into<Arc<str>>,
        output: impl AsyncWrite + Send + Unpin + 'static,
        style: ErrorStyle,
        max_line: usize,
    ) -> Arc<Port> {
        let out = Out {
            writer: Writer::new(Box::new(output)),
            broken: false,
            input_closed: false,
            over: false,
            owed: Owed::default(),
            moved_at: Instant::now(),
            questions: Questions::default(),
            refused: 0,
            pump: None,
        };
        let port = Arc::new(Port {
            name: name.into(),
            style,
            max_line,
            out: Mutex::new(out),
            pump: Notify::new(),
            moved: Notify::new(),
            changed: Notify::new(),
        });
        let pump = tokio::spawn(port.clone().pump());
        port.out().pump = Some(pump);
        port
    }

    /// Gives the client this long to take what is left, and ends. Says whether it took all.
    pub async fn finish(&self, limit: Duration) -> bool {
        let pump = self.out().pump.take();
        if let Some(pump) = pump {
            pump.abort();
            let _ = pump.await; // Two tasks must not wait for the same stream.
        }
        timeout(limit, self.flush()).await.is_ok() && !self.out().broken
    }

    /// Nobody can read the output any more: the relay ends.
    pub fn nobody_reads(&self) {
        self.fail(&mut self.out());
    }

    /// Whether every request so far was answered, and its response has left. What the client cancelled needs none.
    pub fn has_answered_all(&self) -> bool {
        let out = self.out();
        out.owed.is_paid(out.writer.flushed())
    }

    fn fail(&self, out: &mut Out) {
        out.broken = true;
        self.moved.notify_waiters();
        self.changed.notify_waiters();
    }

    fn out(&self) -> MutexGuard<'_, Out> {
        self.out.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes the response to a request.
    fn send(&self, line: Bytes) {
        self.respond(&mut self.out(), line);
    }

    fn respond(&self, out: &mut Out, line: Bytes) {
        if out.broken {
            return out.owed.miss();
        }
        self.push(out, line);
        out.owed.responded(out.writer.accepted() + out.writer.queued() as u64);
    }

    fn push(&self, out: &mut Out, line: Bytes) {
        if out.broken {
            return; // Nobody listens, and the relay ends.
        }
        if out.writer.queued() == 0 {
            out.moved_at = Instant::now();
        }
        match out.writer.push((), line, |(), _| {}) {
            Ok(false) => {}
            Ok(true) => self.pump.notify_one(),
            Err(_) => self.fail(out),
        }
    }

    /// Tells the client that we do not take what it sent.
    fn refuse(&self, line: Bytes) {
        let mut out = self.out();
        let before = out.writer.held();
        self.respond(&mut out, line);
        out.refused += out.writer.held().saturating_sub(before);
    }

    /// We never stop reading the client, except one that sends what we refuse and does not read that we do.
    async fn bear(self: &Arc<Port>) {
        if self.out().refused > ROOM {
            self.clone().room().await;
            self.out().refused = 0;
        }
    }

    /// Resolves when there is nothing left to do for the client.
    async fn relayed(&self) {
        loop {
            let changed = self.changed.notified();
            let streams = {
                let out = self.out();
                let unread = out.writer.flushed() < out.writer.accepted() + out.writer.queued() as u64;
                ClientStreams {
                    input_open: !out.input_closed,
                    output_open: !out.broken,
                    unanswered: out.owed.left(out.writer.flushed()),
                    unread_for: unread.then(|| out.moved_at.elapsed()),
                }
            };
            match streams.next() {
                Relaying::Ends => return,
                Relaying::Continues(None) => changed.await,
                Relaying::Continues(Some(limit)) => drop(timeout(limit, changed).await),
            }
        }
    }

    /// Writes what the client did not take at once.
    async fn pump(self: Arc<Port>) {
        loop {
            self.pump.notified().await;
            self.flush().await;
        }
    }

    async fn flush(&self) {
        std::future::poll_fn(|cx| {
            let mut out = self.out();
            let before = out.writer.queued();
            let flushed = match out.broken {
                true => Poll::Ready(Ok(())),
                false => out.writer.poll_flush(cx, |(), _| {}),
            };
            if out.writer.queued() < before {
                out.moved_at = Instant::now();
                self.moved.notify_waiters();
            }
            if out.input_closed {
                self.changed.notify_waiters(); // The last response may have left.
            }
            match flushed {
                Poll::Ready(Err(_)) => {
                    self.fail(&mut out);
                    Poll::Ready(())
                }
                Poll::Ready(Ok(())) => Poll::Ready(()),
                Poll::Pending => Poll::Pending,
            }
        })
        .await;
    }
}

impl Inbox for Port {
    fn take(&self, incoming: Incoming) -> bool {
        let Incoming { epoch, frame, .. } = incoming;
        let mut out = self.out();
        let line = match frame.kind() {
            Kind::Request { id, method } => {
                let ours = out.questions.ask(epoch, id, method);
                if out.input_closed {
                    self.changed.notify_waiters(); // The client cannot answer it; the relay does.
                    return true;
                }
                frame.with_id(&ours)
            }
            Kind::Notification { method: "notifications/cancelled" } => {
                let ours = frame.request_id().and_then(|id| out.questions.withdraw(epoch, &id));
                let Some(ours) = ours else { return false };
                frame.with_request_id(&ours)
            }
            _ => frame.to_line(),
        };
        self.push(&mut out, line);
        true
    }

    fn unasked(&self, _method: &str) -> Option<Unasked> {
        self.out().questions.is_full().then_some(Unasked::TooMany)
    }

    fn has_room(&self) -> bool {
        let out = self.out();
        out.broken || out.writer.held() <= ROOM
    }

    fn room(self: Arc<Self>) -> BoxFuture<()> {
        Box::pin(async move {
            loop {
                let moved = self.moved.notified();
                if self.has_room() {
                    return;
                }
                moved.await;
            }
        })
    }

    fn lost(&self, epoch: Epoch) {
        let mut out = self.out();
        for ours in out.questions.lose(epoch) {
            let params = format!("{{\"requestId\":{ours},\"reason\":\"the server is gone\"}}");
            self.push(&mut out, frame::notification("notifications/cancelled", Some(params.as_bytes())));
        }
    }
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
            wants_tool_result: request.method() == Some("tools/call") && !request.has_task(),
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
            Outcome::Refused => frame::error(Some(&self.id), -32601, "Method not found", None),
        }
    }
}

/// Answers one request of the client, alone or as a member of its batch.
struct ToClient {
    port: Arc<Port>,
    asked: Asked,
    batch: Option<Arc<Batch>>,
    /// Dropped last: when it is, the response is in the output. None for a stream, which nobody waits for.
    _open: Option<Open>,
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
                // It is leaving, and some clients stumble over what they read while they close.
                return out.owed.miss();
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

/// Where what the client writes goes to. Nothing here may block.
pub trait Upstream {
    /// A request. Its end is told to whoever waits for it.
    fn submit(&self, request: Request);

    /// The client gave up its newest request of this id, in these words. Says whether there was one.
    fn cancel(&self, id: &RawId, notification: &Frame) -> bool;

    /// Any other notification. Says whether it reached the server.
    fn forward(&self, notification: &Frame) -> bool;

    /// The answer to a request of the server, which knows it by this id. Says whether it can still be of use.
    fn hand_over(&self, epoch: Epoch, server_id: &RawId, answer: Bytes) -> bool;
}

impl<U: Upstream> Upstream for Arc<U> {
    fn submit(&self, request: Request) {
        (**self).submit(request);
    }

    fn cancel(&self, id: &RawId, notification: &Frame) -> bool {
        (**self).cancel(id, notification)
    }

    fn forward(&self, notification: &Frame) -> bool {
        (**self).forward(notification)
    }

    fn hand_over(&self, epoch: Epoch, server_id: &RawId, answer: Bytes) -> bool {
        (**self).hand_over(epoch, server_id, answer)
    }
}

impl Upstream for Connection {
    fn submit(&self, request: Request) {
        Connection::submit(self, request);
    }

    fn cancel(&self, id: &RawId, notification: &Frame) -> bool {
        Connection::cancel(self, id, notification)
    }

    fn forward(&self, notification: &Frame) -> bool {
        Connection::forward(self, notification)
    }

    fn hand_over(&self, epoch: Epoch, server_id: &RawId, answer: Bytes) -> bool {
        Connection::hand_over(self, epoch, server_id, answer)
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
    while let Some(line) = lines.read_line(&mut input).await? {
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
            let error = CallError {
                server: port.name.clone(),
                epoch: None,
                delivery: Delivery::NotSent,
                kind: ErrorKind::TooLarge { bytes },
                fault: None,
                outlook: Outlook::Serving,
                repeatable: false,
                attempts: 0,
                tool: None,
                stderr: vec![],
            };
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
            let reply = ToClient { port: port.clone(), asked, batch: batch.cloned(), _open: open };
            upstream.submit(Request::new(frame, id, Box::new(reply)));
        }
        Kind::Notification { method: "notifications/cancelled" } => {
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
