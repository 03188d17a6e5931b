//! Where messages go: standard output behind one lock, an HTTP response, or those who listen over HTTP.

use std::fs::{File, OpenOptions};
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};
use std::thread;
use std::time::Duration;

use rustix::io::Errno;
use serde_json::{Value, json};

use super::http::{Sessions, Stream};
use crate::sync::lock;

/// A way out.
#[derive(Clone)]
pub(super) enum Output {
    Stdout(Arc<Stdout>),
    /// The response to one request, or the one stream of a client of HTTP+SSE.
    Response(Arc<Stream>),
    /// The streams on which clients of the legacy era listen.
    Listeners(Arc<Sessions>),
}

impl Default for Output {
    fn default() -> Self {
        Self::Stdout(Arc::default())
    }
}

impl Output {
    /// One message that is not the answer.
    pub(super) fn line(&self, text: &str) {
        match self {
            Self::Stdout(stdout) => stdout.raw(format!("{text}\n").as_bytes()),
            Self::Response(stream) => stream.message(text),
            Self::Listeners(sessions) => sessions.say(text),
        }
    }

    /// The answer, with the HTTP status that it has there.
    pub(super) fn answer(&self, text: &str, status: u16) {
        match self {
            Self::Response(stream) => stream.answer(text, status),
            _ => self.line(text),
        }
    }

    /// Bytes as they are, in place of a message.
    pub(super) fn raw(&self, bytes: &[u8]) {
        match self {
            Self::Stdout(stdout) => stdout.raw(bytes),
            Self::Response(stream) => stream.raw(bytes),
            Self::Listeners(_) => {}
        }
    }

    /// The answer: `head`, then `count` letters, then `tail`, without ever holding them in memory.
    pub(super) fn stream(&self, head: &str, count: u64, tail: &str) {
        match self {
            Self::Stdout(stdout) => stdout.stream(head, count, tail),
            Self::Response(stream) => stream.huge(head, count, tail),
            Self::Listeners(_) => {}
        }
    }

    /// More than the answer is to come, so it cannot be the whole body of a response.
    pub(super) fn expect_more(&self) {
        if let Self::Response(stream) = self {
            stream.begin();
        }
    }

    /// A notification.
    pub(super) fn notify(&self, method: &str, params: &Value) {
        self.line(&json!({"jsonrpc": "2.0", "method": method, "params": params}).to_string());
    }

    /// No answer will come.
    pub(super) fn give_up(&self) {
        if let Self::Response(stream) = self {
            stream.give_up();
        }
    }

    /// Closes it without an answer.
    pub(super) fn close(&self) {
        match self {
            Self::Stdout(stdout) => stdout.close(),
            Self::Response(stream) => stream.cut(),
            Self::Listeners(_) => {}
        }
    }

    /// Lets nobody write to stdout any more, until the process ends.
    pub(super) fn seize(&self) -> Option<MutexGuard<'_, ()>> {
        match self {
            Self::Stdout(stdout) => Some(lock(&stdout.turn)),
            _ => None,
        }
    }

    /// As `seize`, but gives up where a writer is stuck in a full pipe.
    pub(super) fn seize_soon(&self) -> Option<MutexGuard<'_, ()>> {
        match self {
            Self::Stdout(stdout) => stdout.seize_soon(),
            _ => None,
        }
    }
}

/// Standard output, whole lines at a time. Errors of writing are not ours to mend: a client that has gone shows as the end of stdin.
#[derive(Default)]
pub(super) struct Stdout {
    turn: Mutex<()>,
}

impl Stdout {
    /// Writes bytes as they are.
    fn raw(&self, bytes: &[u8]) {
        let _turn = lock(&self.turn);
        write_all(bytes);
    }

    /// Writes `head`, then `count` letters, then `tail`, without ever holding them in memory.
    fn stream(&self, head: &str, count: u64, tail: &str) {
        let _turn = lock(&self.turn);
        let chunk = [b'x'; 64 * 1024];
        let mut left = count;
        let mut open = write_all(head.as_bytes());
        while open && left > 0 {
            let size = usize::try_from(left).map_or(chunk.len(), |left| left.min(chunk.len()));
            open = write_all(&chunk[..size]);
            left -= size as u64;
        }
        write_all(tail.as_bytes());
    }

    /// As `seize`, but gives up where a writer is stuck in a full pipe.
    fn seize_soon(&self) -> Option<MutexGuard<'_, ()>> {
        for _ in 0..100 {
            match self.turn.try_lock() {
                Ok(turn) => return Some(turn),
                Err(TryLockError::Poisoned(poisoned)) => return Some(poisoned.into_inner()),
                Err(TryLockError::WouldBlock) => thread::sleep(Duration::from_millis(1)),
            }
        }
        None
    }

    /// Gives up our end of the pipe: the client reads the end of file, and we live on.
    fn close(&self) {
        let _turn = lock(&self.turn);
        let null = OpenOptions::new().write(true).open("/dev/null");
        if let Err(error) = null.and_then(|null| Ok(rustix::stdio::dup2_stdout(null)?)) {
            eprintln!("regrow-chaos: cannot close stdout: {error}");
        }
    }
}

/// Gives up our end of stdin: the client's next write breaks. Only the thread that reads stdin may call this, since a
/// read in progress would keep the pipe open.
pub(super) fn close_stdin() {
    if let Err(error) = File::open("/dev/null").and_then(|null| Ok(rustix::stdio::dup2_stdin(null)?)) {
        eprintln!("regrow-chaos: cannot close stdin: {error}");
    }
}

/// Writes past the buffer of the standard library, so that what is written has left us. False if nobody can read it.
fn write_all(mut bytes: &[u8]) -> bool {
    while !bytes.is_empty() {
        match rustix::io::write(rustix::stdio::stdout(), bytes) {
            Ok(count) => bytes = &bytes[count..],
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => thread::sleep(Duration::from_millis(1)),
            Err(_) => return false,
        }
    }
    true
}
