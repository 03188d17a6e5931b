//! Lines of several tasks on their way to one pipe.

use std::io;
use std::sync::{Mutex, PoisonError};

use tokio::io::AsyncWriteExt;
use tokio::net::unix::pipe::Sender;
use tokio::sync::Notify;

#[derive(Default)]
pub(super) struct Outbox {
    lines: Mutex<Vec<u8>>,
    filled: Notify,
}

impl Outbox {
    /// Appends one line; `write` writes it without its end.
    pub(super) fn push(&self, write: impl FnOnce(&mut Vec<u8>)) {
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        write(&mut lines);
        lines.push(b'\n');
        drop(lines);
        self.filled.notify_one();
    }

    /// Writes what is there in one go, again and again.
    pub(super) async fn write_to(&self, mut pipe: Sender) -> io::Result<()> {
        let mut batch = vec![];
        loop {
            self.filled.notified().await;
            std::mem::swap(&mut batch, &mut *self.lines.lock().unwrap_or_else(PoisonError::into_inner));
            pipe.write_all(&batch).await?;
            batch.clear();
        }
    }
}
