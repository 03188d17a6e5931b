//! How to reach a server: what a transport offers to the owner and the session.
//!
//! The owner opens a link and ends what stands behind it; the session uses its two streams, or has it carry one message
//! after the other. A fake in paused time can stand in for every trait here.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use regrow_core::{Epoch, Fault, Ladder};
use regrow_protocol::frame::{Frame, RawId};
use regrow_protocol::lines::Line;
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream, WriteHalf};

use crate::excerpt::Excerpt;

pub mod http;
mod message;
mod response_stream;
#[cfg(unix)]
pub mod stdio;

pub use message::OutgoingMessage;
pub use response_stream::{ResponseStream, StreamEnd};

/// The default limit for one message of a server.
pub const MAX_LINE: usize = 64 << 20;

/// A future that owns what it needs.
pub type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// How to reach a server.
pub trait Transport: Send + Sync + 'static {
    /// Starts one exchange. A fault means that nothing was left running; so does dropping the future.
    fn open(&self, epoch: Epoch) -> BoxFuture<Result<Link, Fault>>;

    /// Whether the server runs elsewhere: it is connected to rather than started, and works on its requests side by side, so that
    /// it can show life while it is busy.
    fn is_remote(&self) -> bool {
        false
    }

    /// Resolves when something has changed that may fix a permanent fault, such as a credential. Called again each time.
    fn mended(&self) -> BoxFuture<()> {
        Box::pin(std::future::pending())
    }
}

/// One opened link to a server.
pub enum Link {
    /// Lines on two streams.
    Pipes(Pipes),
    /// One exchange for each message.
    Exchanges {
        /// How messages get there and back.
        exchanges: Arc<dyn Exchanges>,
        /// What stands behind it: ending it ends the session at the server.
        process: Arc<dyn Process>,
    },
}

impl Link {
    /// The streams, where it has some.
    pub fn into_pipes(self) -> Option<Pipes> {
        match self {
            Link::Pipes(pipes) => Some(pipes),
            Link::Exchanges { .. } => None,
        }
    }
}

/// A link on which messages are lines.
pub struct Pipes {
    /// To the server.
    pub input: Box<dyn Input>,
    /// From the server. It says `Pending` only when there is nothing to read at that moment, so what a server wrote
    /// before it died can be read until `Pending` or the end.
    pub output: Box<dyn AsyncRead + Send + Unpin>,
    /// What stands behind it.
    pub process: Arc<dyn Process>,
}

/// A server that is reached by one exchange for each message, such as over HTTP. Exchanges run side by side.
///
/// Nothing is tried again here, except what carries on the same exchange (a stream that is resumed) or provably did not reach the
/// server's program (a same-origin redirect, a refreshed credential).
pub trait Exchanges: Send + Sync + 'static {
    /// Carries a message to the server, and what the server says in return to the handler. Resolves when nothing more will
    /// come on this exchange, with the fault if a request has no answer then. Dropping the future ends the exchange.
    fn carry(
        self: Arc<Self>,
        message: OutgoingMessage,
        handler: Arc<dyn ExchangeHandler>,
    ) -> BoxFuture<Result<Receipt, Fault>>;

    /// After the handshake: what a server says on its own, outside of every exchange. Stays with it, through drops of the
    /// stream, for as long as that works, and resolves when it does not.
    fn listen(self: Arc<Self>, handler: Arc<dyn ExchangeHandler>) -> BoxFuture<ListenEnd> {
        let _ = handler; // Nothing comes on its own by default.
        Box::pin(std::future::pending())
    }

    /// The server has forgotten the session, as a refusal showed: it needs no farewell.
    fn forgotten(&self) {}

    /// Probes the server below the protocol: any answer will do.
    fn check_reachable(self: Arc<Self>) -> BoxFuture<Result<(), Fault>>;
}

/// Why listening for messages that the server sends on its own has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListenEnd {
    /// The session is over.
    Over(Fault),
    /// The stream is lost. The session may live: the caller has reason to doubt it, and listens again later.
    Lost(Fault),
    /// The server has no such stream.
    NoStream,
}

/// What became of a message that was carried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Receipt {
    /// It was answered, or needs no answer.
    Done,
    /// The server accepted it with this HTTP status, and can send the response only on the stream of [`Exchanges::listen`].
    Elsewhere(u16),
}

/// A request was accepted with this HTTP status, and there is no stream on which its response could come.
pub(crate) fn no_stream(code: u16) -> Fault {
    Fault::Status { code, said: " without a stream to send the response on".into() }
}

/// Handles what happens on one exchange.
pub trait ExchangeHandler: Send + Sync {
    /// The message is about to leave: from here on the server may see it. Called more than once if it leaves more than once.
    /// False if nobody waits for it any more: then it must not leave.
    fn sent(&self) -> bool;

    /// Something came from the server, if only a byte.
    fn heard(&self);

    /// A message of the server. Returns whether the request on this exchange is answered now (or nobody waits for it).
    fn take(&self, message: Line) -> bool;

    /// The same with a message that the transport has read already.
    fn take_message(&self, message: Frame) -> bool {
        self.take(Line::Whole(message.bytes().clone()))
    }

    /// The start of a response that is too long to be held whole, to a request of this id. Returns where the rest goes; none if it must be
    /// read whole.
    fn begin_stream(&self, id: &RawId, start: Bytes) -> Option<Arc<dyn ResponseStream>> {
        let _ = (id, start);
        None
    }

    /// More of that has come.
    fn streamed_more(&self) {}

    /// Nothing more comes of that. `is_tool_error`: whether it says that the tool failed; none if it turned out to be no response.
    fn end_stream(&self, is_tool_error: Option<bool>) {
        let _ = is_tool_error;
    }

    /// Whether a client waits for what this message brings: its response, or the session that it begins. A probe has nobody who waits.
    fn is_awaited(&self) -> bool {
        false
    }

    /// Resolves when the server may be read on: the client takes what it sends. Ask after each message.
    fn room(&self) -> BoxFuture<()>;
}

/// The server's input. Dropping it closes it, and so does `shutdown`.
pub trait Input: AsyncWrite + Send + Unpin {
    /// How many of the accepted bytes the server can provably never read any more; `None` where that cannot be told.
    ///
    /// They are the last ones that were accepted. Ask before the input is shut down.
    fn unread(&self) -> Option<u64> {
        None
    }
}

impl Input for DuplexStream {}

impl<T: AsyncWrite + Send> Input for WriteHalf<T> {}

/// What stands behind a link.
///
/// Dropping the last handle without [`Process::end`] kills it at once.
pub trait Process: Send + Sync {
    /// Resolves with [`Fault::Exited`] or [`Fault::Killed`] when the leader has exited. Any number may wait; each may stop waiting.
    fn exited(&self) -> BoxFuture<Fault>;

    /// Ends it by the steps of the ladder, and resolves when nothing of its group runs and the leader is reaped.
    ///
    /// The caller has closed the input before, or keeps it open to ask what was never read. The work starts with this call, not with the first poll, and goes
    /// on when the future is dropped: to abandon a process is to stop waiting for it. Called again, the earlier
    /// of the times hold, and both calls resolve with the same result.
    fn end(&self, ladder: Ladder) -> BoxFuture<Ended>;

    /// Ends helpers that the server started outside its group: asks them, and kills them after `grace`. Resolves with how many there were.
    ///
    /// To be called after [`Process::end`]: waited for at close, beside the next session otherwise. Once polled, it goes on when dropped.
    fn sweep(&self, grace: Duration) -> BoxFuture<usize> {
        let _ = grace; // Nothing to find by default.
        Box::pin(std::future::ready(0))
    }

    /// The first and the last lines of its standard error, escaped. Complete up to the exit once [`Process::exited`] has resolved.
    fn stderr(&self) -> Excerpt;

    /// The leader's process id.
    fn pid(&self) -> Option<u32>;
}

/// How a process ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ended {
    /// How the leader ended; `None` where somebody else took its exit status.
    pub fault: Option<Fault>,
    /// Whether SIGTERM was sent.
    pub termed: bool,
    /// Whether SIGKILL was sent.
    pub killed: bool,
    /// How many others of the group outlived the leader and had to be ended.
    pub helpers: usize,
}

impl Ended {
    /// How the leader ended, unless cleanly: on its own with code 0, or after SIGTERM.
    pub fn disorder(&self) -> Option<&Fault> {
        self.fault.as_ref().filter(|fault| match fault {
            Fault::Exited { code } => *code != 0 && !self.termed,
            Fault::Killed { signal } => *signal != SIGTERM || !self.termed,
            _ => true,
        })
    }
}

const SIGTERM: i32 = 15;
