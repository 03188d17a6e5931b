//! What a client is told: lines on their way to it, in order, and what it is still owed.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use regrow_core::{ClientStreams, Epoch, Relaying};
use regrow_protocol::frame::{self, Edit, Frame, Kind, RawId};
use regrow_protocol::notification;
use tokio::io::AsyncWrite;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};

use super::owed::Owed;
use crate::client::ErrorStyle;
use crate::inbox::{AutoReply, Inbox, Incoming};
use crate::questions::Questions;
use crate::transport::BoxFuture;
use crate::writer::LineWriter;

/// While more than this waits for the client to read it, the server is not read.
const ROOM: usize = 8 << 20;

/// Where everything goes that the client is told, in order.
pub struct Port {
    pub(super) name: Arc<str>,
    pub(super) style: ErrorStyle,
    pub(super) max_line: usize,
    out: Mutex<Out>,
    pump: Notify,
    /// Something was taken by the client.
    moved: Notify,
    /// The relay has to look at its client again.
    pub(super) changed: Notify,
}

type Writer = LineWriter<Box<dyn AsyncWrite + Send + Unpin>, ()>;

pub(super) struct Out {
    pub(super) writer: Writer,
    /// Writing failed: the client does not listen any more.
    broken: bool,
    /// The client writes no more. It may still read.
    pub(super) input_closed: bool,
    /// The relay has ended.
    pub(super) over: bool,
    pub(super) owed: Owed,
    /// When the client last took something, or had taken everything.
    moved_at: Instant,
    pub(super) questions: Questions,
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
            writer: LineWriter::new(Box::new(output)),
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

    /// Gives the client this long to take what is left, and ends. Returns whether it took all.
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

    pub(super) fn out(&self) -> MutexGuard<'_, Out> {
        self.out.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the client is leaving: it writes no more, and its relay has ended.
    pub(super) fn is_leaving(&self) -> bool {
        let out = self.out();
        out.input_closed && out.over
    }

    /// Writes the response to a request.
    pub(super) fn send(&self, line: Bytes) {
        self.respond(&mut self.out(), |writer| writer.add((), line));
    }

    /// Writes a server's response to a request that the client calls so, and closes that if it was open.
    pub(super) fn send_answer(&self, answer: &Frame, id: &RawId, was_open: bool) {
        let mut out = self.out();
        self.respond(&mut out, |writer| writer.add_edited((), answer, [Edit::Id(id)]));
        if was_open {
            self.close_request(&mut out);
        }
    }

    /// The response to a request is in the output, or nobody waits for it any more.
    pub(super) fn close_request(&self, out: &mut Out) {
        out.owed.finish();
        if out.input_closed {
            self.changed.notify_waiters();
        }
    }

    fn respond(&self, out: &mut Out, add: impl FnOnce(&mut Writer)) {
        if out.broken {
            return out.owed.miss();
        }
        self.write(out, add);
        out.owed.responded(out.writer.accepted() + out.writer.queued() as u64);
    }

    fn write(&self, out: &mut Out, add: impl FnOnce(&mut Writer)) {
        if out.broken {
            return; // Nobody listens, and the relay ends.
        }
        if out.writer.queued() == 0 {
            out.moved_at = Instant::now();
        }
        add(&mut out.writer);
        let written = out.writer.write(|(), _| {});
        self.written(out, written);
    }

    fn written(&self, out: &mut Out, written: io::Result<bool>) {
        match written {
            Ok(false) => {}
            Ok(true) => self.pump.notify_one(),
            Err(_) => self.fail(out),
        }
    }

    /// Tells the client that we do not take what it sent.
    pub(super) fn refuse(&self, line: Bytes) {
        let mut out = self.out();
        let before = out.writer.held();
        self.respond(&mut out, |writer| writer.add((), line));
        out.refused += out.writer.held().saturating_sub(before);
    }

    /// We never stop reading the client, except one that sends what we refuse and does not read that we do.
    pub(super) async fn bear(self: &Arc<Port>) {
        if self.out().refused > ROOM {
            self.clone().room().await;
            self.out().refused = 0;
        }
    }

    /// Resolves when there is nothing left to do for the client.
    pub(super) async fn relayed(&self) {
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
            Kind::Notification { method: notification::CANCELLED } => {
                let ours = frame.request_id().and_then(|id| out.questions.withdraw(epoch, &id));
                let Some(ours) = ours else { return false };
                frame.with_request_id(&ours)
            }
            _ => frame.to_line(),
        };
        self.write(&mut out, |writer| writer.add((), line));
        true
    }

    fn auto_reply(&self, _method: &str) -> Option<AutoReply> {
        self.out().questions.is_full().then_some(AutoReply::TooMany)
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

    fn cork(&self) {
        self.out().writer.cork();
    }

    fn uncork(&self) {
        let mut out = self.out();
        let written = out.writer.uncork(|(), _| {});
        self.written(&mut out, written);
        if out.input_closed {
            self.changed.notify_waiters(); // The last response may have left.
        }
    }

    fn lost(&self, epoch: Epoch) {
        let mut out = self.out();
        for ours in out.questions.lose(epoch) {
            let line = frame::cancellation(&ours, Some("the server is gone"));
            self.write(&mut out, |writer| writer.add((), line));
        }
    }
}
