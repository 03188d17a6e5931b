//! Calls on their way to a server: each goes when it is its turn.

use std::sync::Arc;

use regrow_protocol::frame::RawId;

use super::Server;
use crate::upstream::UpstreamSession;
use crate::usage::Usage;

impl Server {
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
