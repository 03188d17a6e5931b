//! Reads what happens to a connection into the stats of its server.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use regrow::core::{Epoch, Notice as What};
use regrow::{Connection, Notice, Notices};

use super::Stats;

/// Watches a connection that was just made, until it is over. Does not hold it open.
pub fn watch(stats: Arc<Stats>, connection: &Connection) {
    tokio::spawn(read_notices(connection.notices(), stats));
}

/// Resolves when the connection is over.
async fn read_notices(mut notices: Notices, stats: Arc<Stats>) {
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
