//! The clients that were admitted and have not left.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use regrow::Inbox;

use super::Client;
use crate::admit::{AdmitError, Principal};
use crate::audit::Audit;
use crate::context::Context;
use crate::servers::ServerRegistry;
use crate::session_record::SessionRecord;
use crate::shares::CountShares;

/// All clients of a gateway.
pub(crate) struct ClientRegistry {
    context: Arc<Context>,
    state: Mutex<RegistryState>,
}

struct RegistryState {
    clients: BTreeMap<u64, Weak<Client>>,
    counts: CountShares<Principal>,
    last: u64,
}

impl ClientRegistry {
    pub(crate) fn new(context: Arc<Context>) -> Arc<ClientRegistry> {
        let counts = context.settings.shares.counts(context.settings.max_clients);
        let state = RegistryState { clients: BTreeMap::new(), counts, last: 0 };
        Arc::new(ClientRegistry { context, state: Mutex::new(state) })
    }

    /// The client of this session, unless there are too many, or too many of its principal.
    pub(crate) fn admit(
        self: &Arc<Self>,
        servers: &Arc<ServerRegistry>,
        record: SessionRecord,
        inbox: Arc<dyn Inbox>,
    ) -> Result<Arc<Client>, AdmitError> {
        let mut state = self.state();
        if !state.counts.take(record.principal) {
            return Err(AdmitError::Full);
        }
        state.last += 1;
        let number = state.last;
        let client = Client::restore(number, servers.clone(), self.clone(), record, inbox);
        state.clients.insert(number, Arc::downgrade(&client));
        Ok(client)
    }

    pub(crate) fn all(&self) -> Vec<Arc<Client>> {
        // Not under the lock: a client that goes with its last handle takes it.
        let clients: Vec<_> = self.state().clients.values().cloned().collect();
        clients.iter().filter_map(Weak::upgrade).collect()
    }

    pub(super) fn audit(&self) -> &Audit {
        &self.context.settings.audit
    }

    pub(crate) fn count(&self) -> usize {
        self.state().clients.len()
    }

    /// A client has left.
    pub(super) fn remove(&self, client: u64, principal: Principal) {
        let mut state = self.state();
        state.clients.remove(&client);
        state.counts.release(&principal);
    }

    fn state(&self) -> MutexGuard<'_, RegistryState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for ClientRegistry {
    fn drop(&mut self) {
        self.context.changed.notify_one(); // The task that announces changes ends.
    }
}
