//! How many of each thing there are on the HTTP face, for the metrics.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

use tokio::sync::Notify;

/// Numbers that change while the face serves.
#[derive(Debug, Default)]
pub struct Census {
    connections: AtomicUsize,
    sessions: AtomicUsize,
    calls: AtomicUsize,
    strays: AtomicU64,
    refused: AtomicU64,
    ended: Notify,
}

/// The numbers at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counts {
    /// Open connections.
    pub connections: usize,
    /// Legacy sessions.
    pub sessions: usize,
    /// Calls that are not answered yet.
    pub calls: usize,
    /// Messages that belonged to nobody, of servers and of clients, ever.
    pub strays: u64,
    /// Connections, requests and calls that were refused, ever.
    pub refused: u64,
}

impl Census {
    /// How it stands.
    pub fn counts(&self) -> Counts {
        Counts {
            connections: self.connections.load(Relaxed),
            sessions: self.sessions.load(Relaxed),
            calls: self.calls.load(Relaxed),
            strays: self.strays.load(Relaxed),
            refused: self.refused.load(Relaxed),
        }
    }

    pub(super) fn stray(&self) {
        self.strays.fetch_add(1, Relaxed);
    }

    pub(super) fn refuse(&self) {
        self.refused.fetch_add(1, Relaxed);
    }

    /// One more connection, unless there are too many.
    pub(super) fn connect(self: &Arc<Census>, most: usize) -> Option<Counted> {
        self.count(most, |census| &census.connections)
    }

    /// One more session, unless there are too many.
    pub(super) fn open(self: &Arc<Census>, most: usize) -> Option<Counted> {
        self.count(most, |census| &census.sessions)
    }

    /// One more call, unless there are too many.
    pub(super) fn call(self: &Arc<Census>, most: usize) -> Option<Counted> {
        self.count(most, |census| &census.calls)
    }

    /// Resolves when no call is left.
    pub(super) async fn all_answered(&self) {
        loop {
            let ended = self.ended.notified();
            if self.calls.load(Relaxed) == 0 {
                return;
            }
            ended.await;
        }
    }

    fn count(self: &Arc<Census>, most: usize, of: fn(&Census) -> &AtomicUsize) -> Option<Counted> {
        let more = |now| (now < most).then_some(now + 1);
        match of(self).fetch_update(Relaxed, Relaxed, more) {
            Ok(_) => Some(Counted { census: self.clone(), of }),
            Err(_) => {
                self.refuse();
                None
            }
        }
    }
}

/// One that is counted as long as this lives.
pub(super) struct Counted {
    census: Arc<Census>,
    of: fn(&Census) -> &AtomicUsize,
}

impl Drop for Counted {
    fn drop(&mut self) {
        (self.of)(&self.census).fetch_sub(1, Relaxed);
        self.census.ended.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_too_many_is_refused_until_another_leaves() {
        let census = Arc::new(Census::default());
        let first = census.connect(1).unwrap();
        assert!(census.connect(1).is_none());
        drop(first);
        assert!(census.connect(1).is_some());
        assert_eq!((census.counts().connections, census.counts().refused), (0, 1));
    }
}
