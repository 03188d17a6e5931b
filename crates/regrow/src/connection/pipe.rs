//! The tasks of a session on a pipe: one reads what the server sends, in order, and finds out how it ended; one writes.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use regrow_core::{Epoch, Fault};
use regrow_protocol::lines::{Line, LineReader};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::task::yield_now;
use tokio::time::{Instant, sleep_until};

use super::messages::{Messages, panicked};
use super::session::{Session, Signals};
use super::shared::Shared;
use super::state::ConnectionState;
use crate::lines::read_line;
use crate::transport::{BoxFuture, Process};
use crate::turn::Turn;
use crate::within::within;

/// An exit follows the end of its pipes within this time; if none does, the server lives.
const EXIT_FOLLOWS: Duration = Duration::from_millis(50);
/// A timer that fires after this shows that the runtime has looked for what is readable.
const MOMENT: Duration = Duration::from_millis(1);
/// So much of what a dead server left in its pipe is read at most: more than any pipe holds.
const READ_AFTER_EXIT: usize = 4 << 20;

/// Starts the tasks of a session on a pipe. Both take the lock, which is held here, so they find the session in its place.
pub(crate) fn start(shared: &Arc<Shared>, session: &mut Session, output: Box<dyn AsyncRead + Send + Unpin>) {
    let reader = SessionReader {
        shared: shared.clone(),
        epoch: session.epoch,
        messages: Messages::new(shared.clone(), session.epoch, None),
        output,
        lines: LineReader::new(shared.settings.max_line),
        turn: Turn::default(),
        process: session.process.clone(),
        signals: session.signals.clone(),
    };
    session.reader = Some(tokio::spawn(reader.run()));
    session.pump = Some(tokio::spawn(pump(shared.clone(), session.epoch, session.signals.clone())));
}

/// Writes what the stream did not take at once.
async fn pump(shared: Arc<Shared>, epoch: Epoch, signals: Arc<Signals>) {
    loop {
        signals.pump.notified().await;
        let flushed = std::future::poll_fn(|cx| {
            let ConnectionState { supervisor, session, .. } = &mut *shared.lock();
            let session = session.as_mut().filter(|session| session.epoch == epoch);
            match session.and_then(Session::flushes_to) {
                Some(writer) => writer.poll_flush(cx, |call, at| {
                    call.into_iter().for_each(|id| supervisor.ledger.sent(id, at));
                }),
                None => Poll::Ready(Ok(())), // We are ending it.
            }
        });
        match flushed.await {
            Ok(()) => shared.lock().flushed(epoch),
            Err(_) => signals.broken.notify_one(),
        }
    }
}

struct SessionReader {
    shared: Arc<Shared>,
    epoch: Epoch,
    messages: Messages,
    output: Box<dyn AsyncRead + Send + Unpin>,
    lines: LineReader,
    turn: Turn,
    process: Arc<dyn Process>,
    signals: Arc<Signals>,
}

/// Why reading ended.
enum End {
    /// The process has exited.
    Exited(Fault),
    /// Its output ended.
    Eof,
    /// Its input takes nothing any more.
    InputClosed,
    /// Reading failed.
    Broken(std::io::Error),
    /// A message of it made us panic.
    Panicked,
    /// It was ended by us, and is gone.
    Finished,
}

impl Drop for SessionReader {
    fn drop(&mut self) {
        // What its messages do is caught where they are taken; an inbox can also fail when asked for room.
        if std::thread::panicking() {
            self.shared.lost(self.epoch, panicked());
        }
    }
}

impl SessionReader {
    async fn run(mut self) {
        let end = self.read().await;
        if matches!(end, End::Exited(_) | End::Finished | End::InputClosed) {
            self.read_rest();
        }
        if self.lines.finish().is_some() {
            self.shared.lock().anomalies.garbage += 1; // Half a line.
        }
        let fault = match end {
            End::Exited(fault) => fault,
            End::Finished => return,
            End::Eof => exit_or(&*self.process, Fault::OutputClosed).await,
            End::InputClosed => exit_or(&*self.process, Fault::InputClosed).await,
            End::Broken(error) => exit_or(&*self.process, Fault::Broken { reason: error.to_string() }).await,
            End::Panicked => panicked(),
        };
        self.shared.lost(self.epoch, fault);
    }

    async fn read(&mut self) -> End {
        let signals = self.signals.clone();
        // Made once: to begin to wait takes more than to go on.
        let mut finish = pin!(signals.finish.notified());
        let mut broken = pin!(signals.broken.notified());
        let mut catch_up = pin!(signals.catch_up.notified());
        let mut exited = self.process.exited();
        let mut catches_up_at = None;
        loop {
            let line = tokio::select! {
                biased; // Lines come last: a flood must not hide an end. After an end, the rest is read without waiting.
                () = &mut finish => return End::Finished,
                fault = &mut exited => return End::Exited(fault),
                () = &mut broken => return End::InputClosed,
                line = read_line(&mut self.lines, &mut self.output) => match line {
                    Ok(Some(line)) => line,
                    Ok(None) => return End::Eof,
                    Err(error) => return End::Broken(error),
                },
                // After the lines: the owner wants to know when there is nothing to read. Before a timer fires, the runtime looks what
                // has become readable; without one, that may be unknown.
                () = &mut catch_up => {
                    catch_up.set(signals.catch_up.notified());
                    catches_up_at = Some(Instant::now() + MOMENT);
                    continue;
                }
                () = at(catches_up_at) => {
                    catches_up_at = None;
                    self.signals.caught_up();
                    self.shared.wake.notify_one();
                    continue;
                }
            };
            self.shared.hear();
            let Some(turn_is_over) = self.take_lines(line) else { return End::Panicked };
            if turn_is_over && let Some(end) = self.pause(&mut finish, &mut exited, yield_now()).await {
                return end;
            }
            if self.shared.inbox.has_room() {
                continue;
            }
            // The client does not read. That is not the server's fault.
            self.shared.set_blocked(self.epoch, true);
            let room = self.shared.inbox.clone().room();
            let end = self.pause(&mut finish, &mut exited, room).await;
            self.shared.set_blocked(self.epoch, false);
            if let Some(end) = end {
                return end;
            }
        }
    }

    /// Handles a line, and those that were read with it, until other tasks must run. Returns whether they must; none if that panicked.
    fn take_lines(&mut self, first: Line) -> Option<bool> {
        let corks = self.lines.has_line();
        if corks {
            self.shared.inbox.cork();
        }
        let mut next = Some(first);
        let taken = loop {
            let Some(line) = next else { break Some(false) };
            let bytes = line.bytes();
            if !self.messages.take_line(line) {
                break None;
            }
            if self.turn.is_over(bytes) {
                break Some(true);
            }
            next = self.lines.next_line();
        };
        if taken == Some(false) {
            self.turn.rest();
        }
        if corks {
            self.shared.inbox.uncork();
        }
        taken
    }

    /// Reads nothing until then. The server's death must be seen all the same.
    async fn pause(
        &mut self,
        finish: impl Future<Output = ()>,
        exited: &mut BoxFuture<Fault>,
        until: impl Future<Output = ()>,
    ) -> Option<End> {
        let end = tokio::select! {
            biased;
            () = finish => Some(End::Finished),
            fault = exited => Some(End::Exited(fault)),
            () = until => None,
        };
        self.shared.hear();
        end
    }

    /// Reads what is there without waiting: what a server wrote before it died counts.
    fn read_rest(&mut self) {
        let mut cx = Context::from_waker(Waker::noop());
        let mut left = READ_AFTER_EXIT;
        loop {
            while let Some(line) = self.lines.next_line() {
                self.messages.take_line(line);
            }
            let mut space = self.lines.space();
            let read = pin!(self.output.read_buf(&mut space)).as_mut().poll(&mut cx);
            match read {
                Poll::Ready(Ok(read)) if read > 0 && read < left => left -= read,
                _ => return,
            }
        }
    }
}

/// Waits until then; forever without a time. It makes no timer before it is polled.
async fn at(time: Option<Instant>) {
    match time {
        Some(time) => sleep_until(time).await,
        None => std::future::pending().await,
    }
}

/// The exit that follows the end of a pipe is the true cause. Without one, the server lives.
async fn exit_or(process: &dyn Process, fault: Fault) -> Fault {
    within(EXIT_FOLLOWS, process.exited()).await.unwrap_or(fault)
}
