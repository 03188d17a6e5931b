//! Counts one call and measures how long it takes.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio::time::Instant;

use super::Stats;
use super::calls::Ending;

/// A call in flight. Dropped before [`CallTimer::end`], the call was cancelled.
pub struct CallTimer {
    stats: Arc<Stats>,
    began: Instant,
    has_ended: bool,
}

impl CallTimer {
    pub(super) fn new(stats: Arc<Stats>) -> CallTimer {
        stats.in_flight.fetch_add(1, Ordering::Relaxed);
        CallTimer { stats, began: Instant::now(), has_ended: false }
    }

    /// The call ended like this. Call it before the client gets the answer: then a client that has the answer finds the call counted.
    pub fn end(mut self, ending: Ending) {
        self.has_ended = true;
        self.stats.latency.record(self.began.elapsed());
        self.stats.calls.count(ending);
    }
}

impl Drop for CallTimer {
    fn drop(&mut self) {
        self.stats.in_flight.fetch_sub(1, Ordering::Relaxed);
        if !self.has_ended {
            self.stats.calls.count(Ending::CANCELLED);
        }
    }
}
