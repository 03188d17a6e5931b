//! Lets calls through as the gate says: at once where it can, else from one task, which lives only while somebody waits.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use regrow::ErrorKind;
use regrow::core::Time;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use super::{Arrival, Gate, Limits};
use crate::admit::Principal;

/// The way to one server. `K` identifies a waiting call.
pub struct Limiter<K> {
    /// None where nothing ever has to wait.
    inner: Option<Arc<Inner<K>>>,
}

struct Inner<K> {
    began: Instant,
    state: Mutex<LimiterState<K>>,
    /// Somebody has left, or come, or does not want to wait any more.
    changed: Notify,
}

struct LimiterState<K> {
    gate: Gate<QueuedCall<K>>,
    /// The task runs.
    is_watched: bool,
}

struct QueuedCall<K> {
    key: K,
    then: OnTurn,
}

type OnTurn = Box<dyn FnOnce(Result<Permit, Rejected>) + Send>;

/// Why a call was not let through. It has not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rejected {
    /// Too many wait already.
    Full,
    /// It has waited for as long as it could.
    Late,
    /// Nobody is let through any more.
    Closed,
}

impl From<Rejected> for ErrorKind {
    fn from(turned: Rejected) -> ErrorKind {
        match turned {
            Rejected::Full => ErrorKind::Overloaded,
            Rejected::Late => ErrorKind::Timeout,
            Rejected::Closed => ErrorKind::Closed,
        }
    }
}

/// As long as somebody holds this, a call runs.
#[must_use = "dropping it makes room for the next"]
pub struct Permit(Option<Arc<dyn Exit>>);

impl fmt::Debug for Permit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Permit")
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if let Some(exit) = self.0.take() {
            exit.leave();
        }
    }
}

trait Exit: Send + Sync {
    fn leave(&self);
}

impl<K: Send + 'static> Limiter<K> {
    /// Lets calls through within these limits. One of several principals gets a share of the queue.
    pub fn new(limits: Limits, is_one_principal: bool) -> Limiter<K> {
        let inner = (!limits.are_none()).then(|| {
            let state =
                Mutex::new(LimiterState { gate: Gate::new(limits, is_one_principal), is_watched: false });
            Arc::new(Inner { began: Instant::now(), state, changed: Notify::new() })
        });
        Limiter { inner }
    }

    /// A call of this principal comes, known by this key. `then` is called once: now if it may go or cannot wait, later if it waits. It must not block.
    ///
    /// It waits no longer than `within`. Must be called inside a tokio runtime.
    pub fn submit(
        &self,
        principal: Principal,
        key: K,
        within: Option<Duration>,
        then: impl FnOnce(Result<Permit, Rejected>) + Send + 'static,
    ) {
        let Some(inner) = &self.inner else { return then(Ok(Permit(None))) };
        let mut state = inner.state();
        let now = inner.now();
        let ticket = QueuedCall { key, then: Box::new(then) };
        let arrival = state.gate.arrive(now, within.map(|within| now + within), principal, ticket);
        match arrival {
            Arrival::Go(ticket) => {
                drop(state);
                (ticket.then)(Ok(inner.permit()));
            }
            Arrival::Full(ticket) => {
                drop(state);
                (ticket.then)(Err(Rejected::Full));
            }
            Arrival::Wait if state.is_watched => inner.changed.notify_one(),
            Arrival::Wait => {
                state.is_watched = true;
                drop(state);
                tokio::spawn(inner.clone().watch());
            }
        }
    }

    /// The newest of those that wait and are meant by this does not want to go any more, and is told nothing. Returns whether there was one.
    pub fn withdraw_newest(&self, is_it: impl Fn(&K) -> bool) -> bool {
        let Some(inner) = &self.inner else { return false };
        let withdrawn = inner.state().gate.withdraw_newest(|ticket| is_it(&ticket.key));
        inner.changed.notify_one(); // Perhaps nobody waits any more.
        withdrawn.is_some()
    }

    /// The same with all of them. Returns how many there were.
    pub fn withdraw(&self, is_one: impl Fn(&K) -> bool) -> usize {
        let Some(inner) = &self.inner else { return 0 };
        let withdrawn = inner.state().gate.withdraw(|ticket| is_one(&ticket.key));
        inner.changed.notify_one();
        withdrawn.len()
    }

    /// How many wait.
    pub fn waiting(&self) -> usize {
        self.inner.as_ref().map_or(0, |inner| inner.state().gate.waiting())
    }

    /// How many run; none where nobody counts.
    pub fn running(&self) -> Option<u32> {
        self.inner.as_ref().map(|inner| inner.state().gate.running())
    }
}

impl<K> Drop for Limiter<K> {
    fn drop(&mut self) {
        let Some(inner) = &self.inner else { return };
        let left = inner.state().gate.withdraw(|_| true);
        inner.changed.notify_one();
        left.into_iter().for_each(|ticket| tell(ticket.then, Err(Rejected::Closed)));
    }
}

impl<K> Inner<K> {
    fn state(&self) -> MutexGuard<'_, LimiterState<K>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> Time {
        Time::ZERO + self.began.elapsed()
    }
}

impl<K: Send + 'static> Inner<K> {
    fn permit(self: &Arc<Self>) -> Permit {
        Permit(Some(self.clone()))
    }

    /// Lets in who waits, until nobody does.
    async fn watch(self: Arc<Self>) {
        loop {
            let (late, due, next) = {
                let mut state = self.state();
                let now = self.now();
                let late = state.gate.expire(now);
                let due = state.gate.due(now);
                state.is_watched = state.gate.waiting() > 0;
                (late, due, state.is_watched.then(|| state.gate.next_due()))
            };
            late.into_iter().for_each(|ticket| tell(ticket.then, Err(Rejected::Late)));
            due.into_iter().for_each(|ticket| tell(ticket.then, Ok(self.permit())));
            let Some(next) = next else { return };
            // One that lies beyond all clocks is as good as none.
            let next = next.and_then(|next| self.began.checked_add(Duration::from_millis(next.as_millis())));
            let changed = self.changed.notified();
            match next {
                None => changed.await,
                Some(next) => tokio::select! {
                    biased;
                    () = changed => {}
                    () = sleep_until(next) => {}
                },
            }
        }
    }
}

impl<K: Send + 'static> Exit for Inner<K> {
    fn leave(&self) {
        let mut state = self.state();
        state.gate.leave();
        // Let in by the task: the code that ends a call may hold locks of its own, and one end may cause many.
        if state.is_watched {
            self.changed.notify_one();
        }
    }
}

/// Runs code of a waiting caller. If it panics, the others must not wait forever: the panic was already reported.
fn tell(then: OnTurn, end: Result<Permit, Rejected>) {
    let _ = catch_unwind(AssertUnwindSafe(|| then(end)));
}
