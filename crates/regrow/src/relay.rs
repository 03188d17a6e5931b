//! The client's side of `wrap`: one client on two streams, one connection behind it.

mod owed;
mod port;

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use regrow_core::{Epoch, Nature, Replay, ToolSafety};
use regrow_protocol::frame::{Frame, RawId};
use regrow_protocol::lines::{Line, LineReader};
use tokio::io::AsyncRead;
use tokio::time::Instant;

use crate::call::{Outcome, Reply};
use crate::client::{self, ClientSide, ResponseFormat, ResponseSink, ResponseTo, unreadable};
use crate::error::{CallError, ErrorKind};
use crate::lines::read_line;
use crate::upstream::Upstream;

pub use port::Port;

/// Answers one request of the client, alone or as a member of its batch.
struct ToClient {
    asked: ResponseFormat,
    /// None once it has ended.
    to: Option<ResponseTo<Arc<Port>>>,
    /// Nobody waits for the end of a stream.
    is_stream: bool,
}

impl Reply for ToClient {
    fn end(mut self: Box<Self>, outcome: Outcome) {
        let Some(to) = &self.to else { return };
        let failed_as = |kind| matches!(&outcome, Outcome::Failed(error) if error.kind == kind);
        let line = || self.asked.answer(&outcome, to.sink().style);
        match (to, &outcome) {
            (ResponseTo::Alone(port), Outcome::Answered(answer)) => {
                port.send_answer(answer, self.asked.id(), !self.is_stream);
                self.to = None;
            }
            // Some clients stumble over what they read while they close.
            _ if failed_as(ErrorKind::Closed) && to.sink().is_leaving() => {
                if !self.is_stream {
                    to.sink().out().owed.miss();
                }
            }
            (ResponseTo::Alone(port), _) if failed_as(ErrorKind::Overloaded) => port.refuse(line()),
            (to, _) => to.deliver(Some(line())),
        }
    }
}

impl Drop for ToClient {
    fn drop(&mut self) {
        let Some(to) = self.to.take().filter(|_| !self.is_stream) else { return };
        let port = to.sink().clone();
        drop(to); // With the last member of a batch, the responses to all leave.
        port.close_request(&mut port.out());
    }
}

impl ResponseSink for Arc<Port> {
    fn deliver(&self, response: Option<Bytes>) {
        if let Some(line) = response {
            self.send(line);
        }
    }
}

impl ClientSide for Port {
    type Sink = Arc<Port>;

    fn begin(&self, request: &Frame, id: &RawId, to: ResponseTo<Arc<Port>>) -> Option<Box<dyn Reply>> {
        let asked = ResponseFormat::of(request, id.clone());
        let method = request.method().unwrap_or_default();
        let is_stream = Nature::of(method, ToolSafety::Unknown, Replay::Never) == Nature::Stream;
        if !is_stream {
            self.out().owed.begin();
        }
        Some(Box::new(ToClient { asked, to: Some(to), is_stream }))
    }

    fn answered(&self, id: &RawId) -> Option<(Epoch, RawId)> {
        self.out().questions.answer(id)
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
            biased; // A client that keeps writing and never reads must not be served forever.
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
            "the client closed its input; unanswered requests: {unanswered}"
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
        let since = Instant::now();
        if lines.has_line() {
            let _corked = Corked::new(upstream);
            take_line(upstream, port, line, since);
            for line in std::iter::from_fn(|| lines.next_line()).take(AT_ONCE) {
                take_line(upstream, port, line, since);
            }
        } else {
            take_line(upstream, port, line, since);
        }
        port.bear().await;
    }
    // A last line without an end may be whole all the same.
    if let Some(line) = lines.finish() {
        take_line(upstream, port, line, Instant::now());
    }
    Ok(())
}

/// At most this many more lines leave together with the first, if they were read together.
const AT_ONCE: usize = 31;

/// While it lives, what goes upstream is kept, to leave in one write.
struct Corked<'a, U: Upstream + ?Sized>(&'a U);

impl<'a, U: Upstream + ?Sized> Corked<'a, U> {
    fn new(upstream: &'a U) -> Corked<'a, U> {
        upstream.cork();
        Corked(upstream)
    }
}

impl<U: Upstream + ?Sized> Drop for Corked<'_, U> {
    fn drop(&mut self) {
        self.0.uncork();
    }
}

fn take_line(upstream: &(impl Upstream + ?Sized), port: &Arc<Port>, line: Line, since: Instant) {
    match line {
        Line::Whole(bytes) => match Frame::parse(bytes) {
            Ok(frame) => client::take(&**port, upstream, frame, ResponseTo::Alone(port.clone()), since),
            Err(error) => port.refuse(unreadable(&error)),
        },
        Line::TooLong { bytes, salvage } => {
            let error = CallError::new(port.name.clone(), ErrorKind::TooLarge { bytes });
            match salvage.id.filter(|_| salvage.method) {
                Some(id) => port.refuse(error.rpc_error(&id)),
                None => tracing::warn!(
                    server = &*port.name,
                    bytes,
                    "dropped a line of the client: over the size limit"
                ),
            }
        }
    }
}
