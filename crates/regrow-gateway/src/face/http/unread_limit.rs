//! How much one client has not read yet of all that waits for it.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use tokio::sync::Notify;

/// Shared by the streams of one client.
#[derive(Debug)]
pub(super) struct UnreadLimit {
    unread: AtomicUsize,
    most: usize,
    moved: Notify,
}

impl UnreadLimit {
    pub(super) fn new(most: usize) -> UnreadLimit {
        UnreadLimit { unread: AtomicUsize::new(0), most, moved: Notify::new() }
    }

    pub(super) fn is_left(&self) -> bool {
        self.unread.load(Relaxed) <= self.most
    }

    /// Whether the writer goes on although there is no room: from here on notifications are refused.
    pub(super) fn is_overrun(&self) -> bool {
        self.unread.load(Relaxed) / 2 > self.most
    }

    /// Resolves when there is room again.
    pub(super) async fn wait(&self) {
        loop {
            let moved = self.moved.notified();
            if self.is_left() {
                return;
            }
            moved.await;
        }
    }

    /// One stream counts for so much, no longer for so much.
    pub(super) fn change(&self, before: usize, now: usize) {
        if now >= before {
            self.unread.fetch_add(now - before, Relaxed);
        } else {
            let was = self.unread.fetch_sub(before - now, Relaxed);
            if was > self.most {
                self.moved.notify_waiters(); // Within the limit nobody waits.
            }
        }
    }
}
