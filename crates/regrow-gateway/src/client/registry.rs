//! The clients that were admitted and have not left.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use regrow::Inbox;

use super::Client;
use crate::admit::Refusal;
use crate::audit::Audit;
use crate::context::Context;
use crate::servers::ServerRegistry;
use crate::session_record::SessionRecord;

/// All clients of a gateway.
pub(crate) struct ClientRegistry {
    context: Arc<Context>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    clients: BTreeMap<u64, Weak<Client>>,
    last: u64,
}

impl ClientRegistry {
    pub(crate) fn new(context: Arc<Context>) -> Arc<ClientRegistry> {
        Arc::new(ClientRegistry { context, state: Mutex::default() })
    }

    /// The client of this session, unless there are too many.
    pub(crate) fn admit(
        self: &Arc<Self>,
        servers: &Arc<ServerRegistry>,
        record: SessionRecord,
        inbox: Arc<dyn Inbox>,
    ) -> Result<Arc<Client>, Refusal> {
        let mut state = self.state();
        if state.clients.len() >= self.context.settings.max_clients {
            return Err(Refusal::Full);
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
    pub(super) fn remove(&self, client: u64) {
        self.state().clients.remove(&client);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for ClientRegistry {
    fn drop(&mut self) {
        self.context.changed.notify_one(); // The task that announces changes ends.
    }
}
