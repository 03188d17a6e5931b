//! What became of the calls to one server, counted.
//!
//! A call is counted with a few atomic additions. What is rare (a restart, a notice, a line of stderr) goes behind a short lock.

mod calls;
mod histogram;
mod journal;
mod timer;
mod watcher;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use regrow::transport::stdio::Stderr;

pub use calls::{CallCount, Ending};
pub use histogram::{Buckets, Histogram, Quantiles};
pub use timer::CallTimer;
pub use watcher::watch;

use calls::CallCounts;
use journal::Journal;

/// What is known of the calls to one server and of its restarts, over all connections with it.
#[derive(Debug, Default)]
pub struct Stats {
    calls: CallCounts,
    in_flight: AtomicU64,
    queued: AtomicU64,
    latency: Histogram,
    recovery: Histogram,
    /// By reasons that come from the code, so it is bounded.
    restarts: Mutex<BTreeMap<&'static str, u64>>,
    journal: Mutex<Journal>,
}

impl Stats {
    /// A call begins.
    pub fn begin(self: &Arc<Self>) -> CallTimer {
        CallTimer::new(self.clone())
    }

    /// Counts a call among those that wait to be sent, for as long as this lives.
    pub fn queued(self: &Arc<Self>) -> Queued {
        self.queued.fetch_add(1, Ordering::Relaxed);
        Queued(self.clone())
    }

    /// Where the lines of the server's standard error go, to be kept: they are masked and escaped already.
    pub fn stderr(self: &Arc<Self>) -> Stderr {
        let stats = self.clone();
        Stderr::Latest(Arc::new(move |said| stats.journal().stderr(SystemTime::now(), said)))
    }

    /// Keeps a log message of the server's own that is for no client in particular.
    pub fn logged(&self, message: &str) {
        self.journal().logged(SystemTime::now(), message);
    }

    /// How many calls are in flight.
    pub fn in_flight(&self) -> u64 {
        self.in_flight.load(Ordering::Relaxed)
    }

    /// How many calls wait to be sent.
    pub fn in_queue(&self) -> u64 {
        self.queued.load(Ordering::Relaxed)
    }

    /// How many calls ended, and how; what never happened is left out.
    pub fn calls(&self) -> Vec<CallCount> {
        self.calls.counts()
    }

    /// How long calls took.
    pub fn latency(&self) -> Buckets {
        self.latency.buckets()
    }

    /// How long it took from the loss of a session until the next was ready.
    pub fn recovery(&self) -> Buckets {
        self.recovery.buckets()
    }

    /// How often a session was started in the place of an earlier one, by the reason why that ended.
    pub fn restarts(&self) -> BTreeMap<&'static str, u64> {
        lock(&self.restarts).clone()
    }

    /// The last notices and lines of standard error, each with its time.
    pub fn logs(&self) -> Vec<String> {
        self.journal().lines()
    }

    /// The first and the last lines of standard error since the newest start, also of a process that is gone.
    pub fn stderr_tail(&self) -> Vec<String> {
        self.journal().stderr_tail()
    }

    fn restarted(&self, reason: &'static str) {
        *lock(&self.restarts).entry(reason).or_default() += 1;
    }

    fn recovered(&self, after: Duration) {
        self.recovery.record(after);
    }

    fn journal(&self) -> MutexGuard<'_, Journal> {
        lock(&self.journal)
    }
}

/// A call that waits to be sent.
#[derive(Debug)]
pub struct Queued(Arc<Stats>);

impl Drop for Queued {
    fn drop(&mut self) {
        self.0.queued.fetch_sub(1, Ordering::Relaxed);
    }
}

/// What is counted stays usable when somebody panicked while counting.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
