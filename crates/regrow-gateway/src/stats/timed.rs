//! A reply that counts its call when it is told.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use regrow::{Outcome, Reply};
use tokio::time::Instant;

use super::Stats;
use super::calls::Ending;

/// Stands before the reply of one call.
pub(super) struct Timed {
    stats: Arc<Stats>,
    began: Instant,
    /// Taken when the call ends. Dropped with it still here, the call was cancelled.
    reply: Option<Box<dyn Reply>>,
}

impl Timed {
    pub(super) fn new(stats: Arc<Stats>, reply: Box<dyn Reply>, began: Instant) -> Timed {
        stats.in_flight.fetch_add(1, Ordering::Relaxed);
        Timed { stats, began, reply: Some(reply) }
    }
}

impl Reply for Timed {
    fn end(mut self: Box<Self>, outcome: Outcome) {
        self.stats.latency.record(self.began.elapsed());
        self.stats.calls.count(Ending::of(&outcome));
        let reply = self.reply.take();
        drop(self); // Counted before it is told: who was told finds it counted.
        if let Some(reply) = reply {
            reply.end(outcome);
        }
    }
}

impl Drop for Timed {
    fn drop(&mut self) {
        self.stats.in_flight.fetch_sub(1, Ordering::Relaxed);
        if self.reply.is_some() {
            self.stats.calls.count(Ending::CANCELLED);
        }
    }
}
