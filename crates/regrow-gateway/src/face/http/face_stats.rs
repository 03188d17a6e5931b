//! How many of each thing there are on the HTTP face, for the metrics.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

use tokio::sync::Notify;

/// Numbers that change while the face serves.
#[derive(Debug, Default)]
pub struct FaceStats {
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

impl FaceStats {
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
    pub(super) fn connect(self: &Arc<FaceStats>, most: usize) -> Option<Counted> {
        self.count(most, |face_stats| &face_stats.connections)
    }

    /// One more session, unless there are too many.
    pub(super) fn open(self: &Arc<FaceStats>, most: usize) -> Option<Counted> {
        self.count(most, |face_stats| &face_stats.sessions)
    }

    /// One more call, unless there are too many.
    pub(super) fn call(self: &Arc<FaceStats>, most: usize) -> Option<Counted> {
        self.count(most, |face_stats| &face_stats.calls)
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

    fn count(self: &Arc<FaceStats>, most: usize, of: fn(&FaceStats) -> &AtomicUsize) -> Option<Counted> {
        let more = |now| (now < most).then_some(now + 1);
        match of(self).fetch_update(Relaxed, Relaxed, more) {
            Ok(_) => Some(Counted { face_stats: self.clone(), of }),
            Err(_) => {
                self.refuse();
                None
            }
        }
    }
}

/// One that is counted as long as this lives.
pub(super) struct Counted {
    face_stats: Arc<FaceStats>,
    of: fn(&FaceStats) -> &AtomicUsize,
}

impl Drop for Counted {
    fn drop(&mut self) {
        (self.of)(&self.face_stats).fetch_sub(1, Relaxed);
        self.face_stats.ended.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_too_many_is_refused_until_another_leaves() {
        let face_stats = Arc::new(FaceStats::default());
        let first = face_stats.connect(1).unwrap();
        assert!(face_stats.connect(1).is_none());
        drop(first);
        assert!(face_stats.connect(1).is_some());
        assert_eq!((face_stats.counts().connections, face_stats.counts().refused), (0, 1));
    }
}
