//! A process that exists only in simulated time: it exits, ignores signals and leaves bytes unread.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use regrow::core::{Fault, Ladder};
use regrow::transport::{BoxFuture, Ended, Input, Process};
use tokio::io::{AsyncWrite, DuplexStream};
use tokio::time::{Instant, sleep_until};

use crate::signal::Signal;

/// What a process ignores before it exits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stubborn {
    /// Exits as soon as it is asked to end.
    Never,
    /// Leaves when its input ends.
    #[default]
    No,
    /// Ignores the end of its input.
    IgnoresEnd,
    /// Ignores that and SIGTERM.
    IgnoresTerm,
    /// Cannot even be killed, like a process in uninterruptible sleep.
    Immortal,
}

/// One process.
pub struct Proc {
    exit: Signal<Option<Fault>>,
    stubborn: Stubborn,
    termed: AtomicBool,
    killed: AtomicBool,
    pub helpers: usize,
    pub pid: u32,
    /// How many bytes of its input it has read.
    pub read: AtomicU64,
    pub stderr: Mutex<Vec<String>>,
}

impl Proc {
    pub fn new(pid: u32, stubborn: Stubborn, helpers: usize, stderr: Vec<String>) -> Arc<Proc> {
        Arc::new(Proc {
            exit: Signal::new(None),
            stubborn,
            termed: AtomicBool::new(false),
            killed: AtomicBool::new(false),
            helpers,
            pid,
            read: AtomicU64::new(0),
            stderr: Mutex::new(stderr),
        })
    }

    /// The first cause stays.
    pub fn die(&self, fault: Fault) {
        self.exit.change(|exit| *exit = exit.take().or(Some(fault)));
    }

    pub fn is_dead(&self) -> bool {
        self.exit.value().is_some()
    }

    /// Does this if the process lives. It cannot die meanwhile: like a real one, it does nothing after its death, on no thread.
    pub fn if_alive<R>(&self, act: impl FnOnce() -> R) -> Option<R> {
        self.exit.hold(|exit| exit.is_none().then(act))
    }

    pub async fn death(&self) -> Fault {
        self.exit.watch().until(Option::is_some).await.unwrap()
    }

    /// Its input has ended.
    pub fn end_of_input(&self) {
        if self.stubborn < Stubborn::IgnoresEnd {
            self.die(Fault::Exited { code: 0 });
        }
    }

    fn term(&self) {
        self.termed.store(true, Ordering::Relaxed);
        if self.stubborn < Stubborn::IgnoresTerm {
            self.die(Fault::Killed { signal: 15 });
        }
    }

    fn kill(&self) {
        self.killed.store(true, Ordering::Relaxed);
        if self.stubborn < Stubborn::Immortal {
            self.die(Fault::Killed { signal: 9 });
        }
    }

    async fn climb(self: Arc<Proc>, ladder: Ladder) {
        // Reckoned from here: a step that comes late makes the next no later.
        let (term_at, kill_at) = (Instant::now() + ladder.term_after, Instant::now() + ladder.length());
        let steps = async {
            sleep_until(term_at).await;
            self.term();
            sleep_until(kill_at).await;
            self.kill();
        };
        tokio::select! {
            biased;
            _ = self.death() => {}
            () = steps => {}
        }
    }
}

/// What a connection holds of it. The last handle kills.
pub struct Handle(pub Arc<Proc>);

impl Drop for Handle {
    fn drop(&mut self) {
        self.0.kill();
    }
}

impl Process for Handle {
    fn exited(&self) -> BoxFuture<Fault> {
        let process = self.0.clone();
        Box::pin(async move { process.death().await })
    }

    fn end(&self, ladder: Ladder) -> BoxFuture<Ended> {
        let process = self.0.clone();
        match process.stubborn {
            Stubborn::Never => process.die(Fault::Exited { code: 0 }),
            _ => drop(tokio::spawn(process.clone().climb(ladder))),
        }
        Box::pin(async move {
            let fault = process.death().await;
            Ended {
                fault: Some(fault),
                termed: process.termed.load(Ordering::Relaxed),
                killed: process.killed.load(Ordering::Relaxed),
                helpers: 0,
            }
        })
    }

    fn sweep(&self, _: Duration) -> BoxFuture<usize> {
        Box::pin(std::future::ready(self.0.helpers))
    }

    fn stderr(&self) -> regrow::Excerpt {
        self.0.stderr.lock().unwrap().iter().cloned().collect()
    }

    fn pid(&self) -> Option<u32> {
        Some(self.0.pid)
    }
}

/// The server's input, which can tell what a dead server has not read.
pub struct Stdin {
    pub stream: DuplexStream,
    pub process: Arc<Proc>,
    pub accepted: u64,
    pub tells_unread: bool,
}

impl Input for Stdin {
    fn unread(&self) -> Option<u64> {
        let read = self.process.read.load(Ordering::Relaxed);
        (self.tells_unread && self.process.is_dead()).then(|| self.accepted - read)
    }
}

impl AsyncWrite for Stdin {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let taken = std::task::ready!(Pin::new(&mut self.stream).poll_write(cx, bytes))?;
        self.accepted += taken as u64;
        Poll::Ready(Ok(taken))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let taken = std::task::ready!(Pin::new(&mut self.stream).poll_write_vectored(cx, slices))?;
        self.accepted += taken as u64;
        Poll::Ready(Ok(taken))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
