//! Connections over plain HTTP that wait for their next request.
//!
//! Each belongs to the runtime that it was opened on, which sees when there is something to read: another would have to be woken for it.
//! There are as many as requests were under way at once. They are closed when they have been idle for a while, so a burst leaves nothing
//! behind.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::runtime::{self, Handle};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

use super::plain_connection::PlainConnection;

/// Many servers close a connection that was idle for five seconds. A call that leaves on it at that moment is lost, and nobody can
/// tell whether it ran; so we are faster.
pub(super) const IDLE: Duration = Duration::from_secs(4);
/// As many as a connection has calls at most. They are closed when they are idle, so a burst leaves nothing behind.
pub(super) const MAX_IDLE: usize = 4096;
const SWEEP_EVERY: Duration = Duration::from_secs(1);

/// The idle connections of a client.
#[derive(Default)]
pub(super) struct PlainPool {
    state: Mutex<PoolState>,
}

#[derive(Default)]
struct PoolState {
    /// Few: a server has one origin, or two if it redirects.
    shelves: Vec<Shelf>,
    /// Closes those that are idle for too long. It ends with the last of them, or with its runtime.
    sweeper: Option<JoinHandle<()>>,
}

/// The connections from one runtime to one origin.
struct Shelf {
    runtime: runtime::Id,
    origin: Arc<str>,
    idle: Vec<Idle>,
}

struct Idle {
    connection: PlainConnection,
    since: Instant,
}

/// Where a connection goes when its response was read.
pub(super) struct Home {
    pool: Arc<PlainPool>,
    origin: Arc<str>,
    runtime: runtime::Id,
}

impl Home {
    pub(super) fn new(pool: &Arc<PlainPool>, origin: &Arc<str>) -> Home {
        Home { pool: pool.clone(), origin: origin.clone(), runtime: Handle::current().id() }
    }

    /// Keeps the connection for the next request, if the server keeps it open.
    pub(super) fn take_back(self, connection: PlainConnection) {
        self.pool.put(self.runtime, &self.origin, connection);
    }
}

impl PlainPool {
    /// A connection from this runtime to this origin. The last that was used: the others get old. Whether the server has closed it
    /// meanwhile shows when it is used, before anything is written.
    pub(super) fn take(&self, origin: &str) -> Option<PlainConnection> {
        let idle = self.state().shelf(Handle::current().id(), origin)?.idle.pop()?;
        (idle.since.elapsed() < IDLE).then_some(idle.connection)
    }

    fn put(self: &Arc<PlainPool>, runtime: runtime::Id, origin: &Arc<str>, mut connection: PlainConnection) {
        if !connection.is_usable() {
            return;
        }
        let idle = Idle { connection, since: Instant::now() };
        let mut state = self.state();
        match state.shelf(runtime, origin) {
            Some(shelf) if shelf.idle.len() >= MAX_IDLE => return,
            Some(shelf) => shelf.idle.push(idle),
            None => state.shelves.push(Shelf { runtime, origin: origin.clone(), idle: vec![idle] }),
        }
        if state.sweeper.as_ref().is_none_or(JoinHandle::is_finished) {
            state.sweeper = Some(tokio::spawn(sweep(Arc::downgrade(self))));
        }
    }

    /// Closes what was idle for too long. Returns whether connections are left.
    fn sweep(&self) -> bool {
        let mut state = self.state();
        let now = Instant::now();
        state.shelves.retain_mut(|Shelf { idle, .. }| {
            idle.retain_mut(|idle| now - idle.since < IDLE && idle.connection.is_usable());
            idle.shrink_to_fit();
            !idle.is_empty()
        });
        if state.shelves.is_empty() {
            state.sweeper = None; // Under the lock, so that the next connection starts another.
        }
        !state.shelves.is_empty()
    }

    fn state(&self) -> MutexGuard<'_, PoolState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PoolState {
    fn shelf(&mut self, runtime: runtime::Id, origin: &str) -> Option<&mut Shelf> {
        self.shelves.iter_mut().find(|shelf| shelf.runtime == runtime && *shelf.origin == *origin)
    }
}

/// Closes what is idle for too long, until nothing is left.
async fn sweep(pool: Weak<PlainPool>) {
    while let Some(true) = pool.upgrade().map(|pool| pool.sweep()) {
        sleep(SWEEP_EVERY).await;
    }
}
