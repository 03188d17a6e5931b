//! Keeps what is known of a server fresh, over a connection with it.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use regrow::Connection;
use regrow::core::State;
use regrow_protocol::list::List;
use regrow_protocol::version::Era;
use tokio::task::{AbortHandle, Id, JoinError, JoinSet};
use tokio::time::{Instant, sleep_until};

use super::fetch::fetch;
use super::round::Round;
use super::wanted::Wanted;
use super::watched::WatchedCatalog;
use super::{Catalog, Listing, Pinning};

/// A list that the server lets run out sooner is looked at no more often than this,
const SHORTEST_TTL: Duration = Duration::from_secs(5);
/// and one that it says never holds, as many say of all, at this pace.
const NO_TTL: Duration = Duration::from_secs(60);
const LONGEST_TTL: Duration = Duration::from_secs(86_400);
/// A refresh that failed while the session lives is made up for after so long.
const AFTER_FAILURE: Duration = Duration::from_secs(60);

/// Keeps a catalog fresh until it is dropped.
///
/// It fetches when a list was never fetched over this connection, when the server says that a list changed, and when
/// the time is over for which a list holds. It asks only while the connection is ready, so it wakes no server that
/// has stopped. Its requests are no calls of clients: who stops a server for want of those stops it all the same.
///
/// It holds the connection open.
#[derive(Debug)]
pub struct CatalogRefresher {
    wanted: Arc<Wanted>,
    task: AbortHandle,
}

impl CatalogRefresher {
    /// Starts to keep this catalog fresh. Whatever it holds before, such as what was recalled from disk, is confirmed
    /// as soon as the connection is ready.
    ///
    /// Observers are woken only where something but the time of a fetch has changed.
    ///
    /// What has changed since it was approved passes `pinning` before anybody sees it.
    pub fn start(
        connection: Connection,
        catalog: Arc<WatchedCatalog>,
        pinning: Arc<Pinning>,
    ) -> CatalogRefresher {
        let wanted = Arc::new(Wanted::default());
        let keeping = Refreshing {
            connection,
            catalog,
            pinning,
            wanted: wanted.clone(),
            rounds: Default::default(),
            confirmed: [false; 4],
            sessions: 0,
            fetches: JoinSet::new(),
            running: [None; 4],
        };
        CatalogRefresher { wanted, task: tokio::spawn(keeping.run()).abort_handle() }
    }

    /// The server says that this list has changed. Any number of that costs at most two fetches.
    pub fn changed(&self, list: List) {
        self.wanted.tell(list);
    }
}

impl Drop for CatalogRefresher {
    fn drop(&mut self) {
        self.task.abort();
    }
}

struct Refreshing {
    connection: Connection,
    catalog: Arc<WatchedCatalog>,
    pinning: Arc<Pinning>,
    wanted: Arc<Wanted>,
    rounds: [Round; 4],
    /// Which lists were fetched over this connection, which compares only those after a restart.
    confirmed: [bool; 4],
    /// The newest session that was ready.
    sessions: u64,
    fetches: JoinSet<Result<Listing, String>>,
    running: [Option<Id>; 4],
}

impl Refreshing {
    async fn run(mut self) {
        let mut status = self.connection.status();
        loop {
            let now = Instant::now();
            let seen = status.borrow_and_update().clone();
            if seen.is_closed() {
                return;
            }
            let is_ready = matches!(seen.state, State::Ready { .. });
            if is_ready {
                if seen.sessions != self.sessions {
                    self.sessions = seen.sessions;
                    self.greet(now);
                }
                self.begin_due(now);
            }
            let due = self.rounds.iter().filter_map(Round::due).min().filter(|_| is_ready);
            tokio::select! {
                biased;
                changed = status.changed() => if changed.is_err() { return },
                lists = self.wanted.next() => self.hear(Instant::now(), lists),
                Some(ended) = self.fetches.join_next_with_id() => self.take(Instant::now(), ended),
                () = sleep_until(due.unwrap_or(now)), if due.is_some() => {}
            }
        }
    }

    /// A session is ready. In the legacy era the connection itself compares lists after a restart, and tells of changes;
    /// in the modern one it tells those who opened a stream, and whether somebody did is not known here.
    fn greet(&mut self, now: Instant) {
        if let Some(welcome) = self.connection.welcome() {
            self.publish(|catalog| catalog.greet(&welcome));
        }
        let catalog = self.catalog.current();
        for list in List::ALL {
            let round = &mut self.rounds[list as usize];
            let is_known = self.confirmed[list as usize] && catalog.stale(list).is_none();
            if !catalog.offers(list) {
                round.rest();
                self.running[list as usize] = None;
            } else if !is_known || round.is_running() || catalog.era == Era::Modern {
                round.need(now); // One that runs may have pages of two sessions.
            }
        }
    }

    fn hear(&mut self, now: Instant, lists: impl Iterator<Item = List>) {
        let catalog = self.catalog.current();
        for list in lists.filter(|list| catalog.offers(*list)) {
            self.rounds[list as usize].changed(now);
        }
    }

    fn begin_due(&mut self, now: Instant) {
        for list in List::ALL {
            if self.rounds[list as usize].due().is_none_or(|due| due > now) {
                continue;
            }
            self.rounds[list as usize].begin(now);
            let connection = self.connection.clone();
            let fetching = async move { fetch(&connection, list, SystemTime::now()).await };
            self.running[list as usize] = Some(self.fetches.spawn(fetching).id());
        }
    }

    fn take(&mut self, now: Instant, ended: Result<(Id, Result<Listing, String>), JoinError>) {
        let (id, fetched) = match ended {
            Ok(ended) => ended,
            Err(error) => (error.id(), Err("internal error in Regrow while reading the list".to_owned())),
        };
        let list = List::ALL.into_iter().find(|list| self.running[*list as usize] == Some(id));
        let Some(list) = list else { return }; // Nobody asks for it any more.
        self.running[list as usize] = None;
        let next = match fetched {
            Ok(listing) => {
                let next = listing.ttl.map(pace);
                self.confirmed[list as usize] = true;
                let listing = self.pinning.review(list, listing);
                self.publish(|catalog| catalog.refresh(list, listing));
                next
            }
            Err(reason) => {
                self.publish(|catalog| catalog.mark_stale(list, &reason));
                Some(AFTER_FAILURE)
            }
        };
        self.rounds[list as usize].end(now, next);
    }

    /// Puts a changed catalog in the place of this one.
    fn publish(&self, change: impl FnOnce(&mut Catalog)) {
        let changed = |catalog: &Catalog| {
            let mut new = catalog.clone();
            change(&mut new);
            new
        };
        self.catalog.replace(changed, false);
    }
}

/// How long after a fetch the list is looked at again.
fn pace(ttl: Duration) -> Duration {
    if ttl.is_zero() { NO_TTL } else { ttl.clamp(SHORTEST_TTL, LONGEST_TTL) }
}
