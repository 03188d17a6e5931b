//! Reads what happens to a connection into the stats of its server.

use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use regrow::core::{Epoch, Notice as What};
use regrow::watch;
use regrow::{Connection, Notice, Notices, Status};
use tokio::time::Instant;

use super::{Stats, lock};

/// Watches one connection until that is over. Dropping it changes nothing: the end is worth knowing, too.
#[derive(Clone, Debug)]
pub struct Watcher(Arc<Mutex<Instant>>);

impl Watcher {
    /// Starts to watch a connection that was just made. Does not hold it open.
    pub fn start(stats: Arc<Stats>, connection: &Connection) -> Watcher {
        let since = Arc::new(Mutex::new(Instant::now()));
        tokio::spawn(watch_state(connection.status(), since.clone()));
        tokio::spawn(watch_notices(connection.notices(), stats));
        Watcher(since)
    }

    /// How long the connection has been in its state.
    pub fn in_state(&self, now: Instant) -> Duration {
        now.saturating_duration_since(*lock(&self.0))
    }
}

/// Resolves when the connection is over.
async fn watch_state(mut status: watch::Receiver<Status>, since: Arc<Mutex<Instant>>) {
    let mut state = status.borrow_and_update().state.name();
    while status.changed().await.is_ok() {
        let now = status.borrow_and_update().state.name();
        if now != state {
            state = now;
            *lock(&since) = Instant::now();
        }
    }
}

/// Resolves when the connection is over.
async fn watch_notices(mut notices: Notices, stats: Arc<Stats>) {
    let mut life = Life::default();
    while let Some(notice) = notices.next().await {
        stats.journal().notice(SystemTime::now(), &notice.text());
        life.hear(&notice, &stats);
    }
}

/// What must be remembered from one notice to the next.
#[derive(Default)]
struct Life {
    /// The newest session that was ready.
    ready: Option<Epoch>,
    /// Why the last session or attempt ended, until the next one starts.
    ended: Option<&'static str>,
    /// Since when there is no session through no wish of ours, on the connection's own clock.
    lost: Option<Duration>,
}

impl Life {
    fn hear(&mut self, notice: &Notice, stats: &Stats) {
        match &notice.what {
            What::Connecting(_) => {
                stats.journal().started();
                if let Some(reason) = self.ended.take() {
                    stats.restarted(reason);
                }
            }
            What::Ready(epoch) => {
                self.ready = Some(*epoch);
                if let Some(lost) = self.lost.take() {
                    stats.recovered(notice.at.saturating_sub(lost));
                }
            }
            What::Fault(_, fault, _) | What::Late(_, fault) => {
                self.ended = Some(fault.name());
                self.lost.get_or_insert(notice.at);
            }
            // An attempt that was never ready has only found out which era the server speaks, or that it must wait.
            What::Retired(epoch, _) if self.ready == Some(*epoch) => {
                self.ended = Some("retired");
                self.lost.get_or_insert(notice.at);
            }
            What::Planned(..) => self.ended = Some("planned"),
            What::Retired(..) | What::Untidy(..) | What::Doubted(_) | What::Backoff(_) => {}
            What::Parked(_) | What::Abandoned(_) | What::Woke | What::Closed => {}
            What::Resting | What::BudgetReset => {}
        }
    }
}
