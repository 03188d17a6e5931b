//! Calls on their way to a server: each goes when it is its turn.

use std::sync::Arc;

use regrow::ErrorKind;
use regrow_protocol::frame::RawId;
use tokio::time::Instant;

use super::Server;
use crate::gate::{Permit, Turned};
use crate::upstream::UpstreamSession;
use crate::usage::Usage;

impl Server {
    /// A call waits for its turn, known by the number of its client and the client's id. `then` is called once, now or later, unless the call is withdrawn before that.
    pub(crate) fn enter(
        &self,
        call: (u64, RawId),
        since: Instant,
        then: impl FnOnce(Result<Permit, ErrorKind>) + Send + 'static,
    ) {
        let queued = self.stats.queued();
        let limit = self.config.options.call_timeout;
        let left = limit.map(|limit| limit.saturating_sub(since.elapsed()));
        self.limiter.submit(call, left, move |turn| {
            drop(queued);
            then(turn.map_err(|turned| match turned {
                Turned::Full => ErrorKind::Overloaded,
                Turned::Late => ErrorKind::Timeout,
                Turned::Closed => ErrorKind::Closed,
            }));
        });
    }

    /// The newest call of this client and id that waits for its turn is not wanted any more. Says whether there was one.
    pub(crate) fn withdraw(&self, client: u64, id: &RawId) -> bool {
        self.limiter.withdraw_newest(|(of, known)| *of == client && known == id)
    }

    /// The same with all of a client that has left.
    pub(crate) fn withdraw_all(&self, client: u64) {
        self.limiter.withdraw(|(of, _)| *of == client);
    }
}

/// As long as this lives, the server and the place there are in use. The place itself may go: its calls must not keep it.
pub(crate) struct InUse {
    server: Arc<Server>,
    upstream: Arc<Usage>,
}

impl InUse {
    pub(crate) fn of(server: &Arc<Server>, upstream: &UpstreamSession) -> InUse {
        server.usage.begin();
        upstream.usage().begin();
        InUse { server: server.clone(), upstream: upstream.usage().clone() }
    }
}

impl Drop for InUse {
    fn drop(&mut self) {
        self.server.usage.end();
        self.upstream.end();
    }
}
