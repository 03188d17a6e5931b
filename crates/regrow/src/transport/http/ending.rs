//! What stands behind a link over HTTP: nothing that could exit, but a session at the server that we take leave of.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::Method;
use regrow_core::{Fault, Ladder};
use tokio::sync::watch;

use super::link::HttpLink;
use super::request::{Outgoing, PROTOCOL_VERSION, SESSION_ID};
use crate::transport::{BoxFuture, Ended, Process};

/// The end of a link.
pub(super) struct Ending {
    link: Arc<HttpLink>,
    begun: Mutex<Option<watch::Receiver<bool>>>,
}

/// A farewell takes no longer than this.
const FAREWELL: Duration = Duration::from_secs(1);

impl Ending {
    pub(super) fn new(link: Arc<HttpLink>) -> Ending {
        Ending { link, begun: Mutex::default() }
    }

    fn begin(&self, limit: Duration) -> watch::Receiver<bool> {
        let (done, ended) = watch::channel(false);
        let link = self.link.clone();
        link.stop();
        tokio::spawn(async move {
            // Whatever the server says to it, or if it says nothing: we are gone.
            let _ = tokio::time::timeout(limit, farewell(&link)).await;
            done.send_replace(true);
        });
        ended
    }
}

/// Every exchange stops, then the server may forget the session.
async fn farewell(link: &HttpLink) {
    link.stopped().await;
    let Some(id) = link.session_id() else { return };
    let mut outgoing = Outgoing::bare(Method::DELETE, link.target())
        .with(SESSION_ID, Some(id))
        .with(PROTOCOL_VERSION, link.version());
    let _ = link.send(&mut outgoing).await; // It is told; more is not asked.
}

impl Process for Ending {
    fn exited(&self) -> BoxFuture<Fault> {
        Box::pin(std::future::pending())
    }

    fn end(&self, ladder: Ladder) -> BoxFuture<Ended> {
        let limit = FAREWELL.min(ladder.term_after + ladder.kill_after);
        let mut begun = self.begun.lock().unwrap_or_else(PoisonError::into_inner);
        let mut ended = begun.get_or_insert_with(|| self.begin(limit)).clone();
        Box::pin(async move {
            // Fails only if the runtime is going down, and everything with it.
            let _ = ended.wait_for(|ended| *ended).await;
            Ended::default()
        })
    }

    fn stderr(&self) -> crate::excerpt::Excerpt {
        std::iter::empty().collect()
    }

    fn pid(&self) -> Option<u32> {
        None
    }
}

impl Drop for Ending {
    fn drop(&mut self) {
        self.link.stop();
    }
}
