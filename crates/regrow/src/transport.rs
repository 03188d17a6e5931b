//! How to reach a server: what a transport offers to the owner and the session.
//!
//! The owner opens a link and ends its process; the session uses the two streams. A fake over
//! [`tokio::io::duplex`] in paused time can stand in for every trait here.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use regrow_core::{Epoch, Fault, Ladder};
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream, WriteHalf};

#[cfg(unix)]
pub mod stdio;

/// A future that owns what it needs.
pub type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// How to reach a server.
pub trait Transport: Send + Sync + 'static {
    /// Starts one exchange. A fault means that nothing was left running; so does dropping the future.
    fn open(&self, epoch: Epoch) -> BoxFuture<Result<Link, Fault>>;
}

/// One opened exchange.
pub struct Link {
    /// To the server.
    pub input: Box<dyn Input>,
    /// From the server. It says `Pending` only when there is nothing to read at that moment, so what a server wrote
    /// before it died can be read until `Pending` or the end.
    pub output: Box<dyn AsyncRead + Send + Unpin>,
    /// What stands behind it.
    pub process: Arc<dyn Process>,
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

    /// The last lines of its standard error, escaped. Complete up to the exit once [`Process::exited`] has resolved.
    fn stderr_tail(&self) -> Vec<String>;

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
    /// How the leader ended, unless that was in good order: by itself with code 0, or of being asked by SIGTERM.
    pub fn disorder(&self) -> Option<&Fault> {
        self.fault.as_ref().filter(|fault| match fault {
            Fault::Exited { code } => *code != 0 && !self.termed,
            Fault::Killed { signal } => *signal != SIGTERM || !self.termed,
            _ => true,
        })
    }
}

const SIGTERM: i32 = 15;
