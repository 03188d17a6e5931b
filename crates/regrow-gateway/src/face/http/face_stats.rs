//! How many of each thing there are on the HTTP face, for the metrics.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Notify;

use super::connections::{Connections, Slot};
use super::options::ClientLimits;
use crate::admit::Principal;
use crate::shares::{CountShares, Shares};

/// Numbers that change while the face serves, and their limits.
pub struct FaceStats {
    connections: Arc<Connections>,
    sessions: Mutex<CountShares<Principal>>,
    calls: Mutex<CountShares<Principal>>,
    strays: AtomicU64,
    refused: AtomicU64,
    ended: Notify,
}

impl fmt::Debug for FaceStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.counts().fmt(f)
    }
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
    pub(super) fn new(limits: &ClientLimits, shares: &Shares) -> Arc<FaceStats> {
        Arc::new(FaceStats {
            connections: Connections::new(limits.connections, shares.counts(limits.connections)),
            sessions: Mutex::new(shares.counts(limits.sessions)),
            calls: Mutex::new(shares.counts(limits.calls)),
            strays: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            ended: Notify::new(),
        })
    }

    /// How it stands.
    pub fn counts(&self) -> Counts {
        Counts {
            connections: self.connections.count(),
            sessions: count(&self.sessions),
            calls: count(&self.calls),
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
    pub(super) fn connect(&self) -> Option<Arc<Slot>> {
        let slot = self.connections.accept();
        if slot.is_none() {
            self.refuse();
        }
        slot
    }

    /// One more session, unless there are too many, or too many of this principal.
    pub(super) fn open(self: &Arc<FaceStats>, principal: Principal) -> Option<Counted> {
        self.count(principal, |face_stats| &face_stats.sessions)
    }

    /// One more call, unless there are too many, or too many of this principal.
    pub(super) fn call(self: &Arc<FaceStats>, principal: Principal) -> Option<Counted> {
        self.count(principal, |face_stats| &face_stats.calls)
    }

    /// Resolves when no call is left.
    pub(super) async fn all_answered(&self) {
        loop {
            let ended = self.ended.notified();
            if count(&self.calls) == 0 {
                return;
            }
            ended.await;
        }
    }

    fn count(self: &Arc<FaceStats>, principal: Principal, of: Of) -> Option<Counted> {
        let is_taken = of(self).lock().unwrap_or_else(PoisonError::into_inner).take(principal);
        if !is_taken {
            self.refuse();
        }
        is_taken.then(|| Counted { face_stats: self.clone(), principal, of })
    }
}

type Of = fn(&FaceStats) -> &Mutex<CountShares<Principal>>;

fn count(shares: &Mutex<CountShares<Principal>>) -> usize {
    shares.lock().unwrap_or_else(PoisonError::into_inner).count()
}

/// One that is counted as long as this lives.
pub(super) struct Counted {
    face_stats: Arc<FaceStats>,
    principal: Principal,
    of: Of,
}

impl Drop for Counted {
    fn drop(&mut self) {
        let mut shares = (self.of)(&self.face_stats).lock().unwrap_or_else(PoisonError::into_inner);
        shares.release(&self.principal);
        let is_last = shares.count() == 0;
        drop(shares);
        if is_last {
            self.face_stats.ended.notify_waiters();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_too_many_is_refused_until_another_leaves() {
        let limits = ClientLimits { sessions: 1, ..ClientLimits::default() };
        let face_stats = FaceStats::new(&limits, &Shares::default());
        let first = face_stats.open(Principal::LocalUser).unwrap();
        assert!(face_stats.open(Principal::LocalUser).is_none());
        drop(first);
        assert!(face_stats.open(Principal::LocalUser).is_some());
        assert_eq!((face_stats.counts().sessions, face_stats.counts().refused), (0, 1));
    }
}
