//! The catalog connection of a server: the connection that keeps its catalog, and that clients of the first principal share.

use std::sync::{Arc, Weak};

use regrow::watch;
use regrow::{CallError, Connection, ErrorKind};
use regrow_protocol::frame::Frame;
use regrow_protocol::list::List;
use regrow_protocol::text::escape;
use tokio::task::JoinHandle;

use super::{Server, maintenance, sign_in};
use crate::admit::Principal;
use crate::catalog::{Catalog, CatalogRefresher, Listing};
use crate::context::store_key;
use crate::share::{ServerObserver, SharedSession};
use crate::stats;

/// The connection that keeps the catalog.
pub(super) struct CatalogConnection {
    pub(super) connection: Connection,
    /// None where it is the one client's own.
    pub(super) shared: Option<Arc<SharedSession>>,
    keeper: CatalogRefresher,
    /// Who looks after it, until it is replaced.
    _tasks: Vec<Task>,
}

/// Ends with who holds it.
struct Task(JoinHandle<()>);

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Server {
    /// The connection that keeps the catalog, once there is one.
    pub(crate) fn connection(&self) -> Option<Connection> {
        self.state()
            .catalog_connection
            .as_ref()
            .map(|catalog_connection| catalog_connection.connection.clone())
    }

    /// The shared connection of this principal. That of the first token, or without tokens, is the server's catalog connection.
    pub(super) fn shared_session(&self, principal: Principal) -> Result<Arc<SharedSession>, Box<CallError>> {
        let mut state = self.state();
        if state.is_ended {
            return Err(self.error(ErrorKind::Closed));
        }
        if principal.shares_catalog_session() {
            let open = state
                .catalog_connection
                .as_ref()
                .filter(|catalog_connection| !catalog_connection.connection.status().borrow().is_closed());
            if let Some(shared) = open.and_then(|catalog_connection| catalog_connection.shared.clone()) {
                return Ok(shared);
            }
        } else if let Some(shared) = state.shared.get(&principal).and_then(Weak::upgrade) {
            return Ok(shared);
        }
        let shared = SharedSession::build(self.name.clone(), self.builder()?, self.observer());
        match principal.shares_catalog_session() {
            true => {
                state.catalog_connection =
                    Some(self.catalog_connection(shared.connection().clone(), Some(shared.clone())))
            }
            false => {
                state.heed_commands(shared.connection());
                state.shared.insert(principal, Arc::downgrade(&shared));
            }
        }
        Ok(shared)
    }

    /// Makes this connection the one that keeps the catalog.
    pub(super) fn catalog_connection(
        &self,
        connection: Connection,
        shared: Option<Arc<SharedSession>>,
    ) -> CatalogConnection {
        let keeper = CatalogRefresher::start(connection.clone(), self.catalog.clone(), self.pinning.clone());
        let tasks = vec![
            Task(tokio::spawn(follow(self.me.clone(), self.catalog.subscribe()))),
            Task(tokio::spawn(maintenance::tend(self.me.clone(), connection.clone()))),
        ];
        stats::watch(self.stats.clone(), &connection);
        // All connections to a server use its one account, so this one tells for all.
        sign_in::watch(&self.context.settings.audit, &self.config.name, &connection);
        CatalogConnection { connection, shared, keeper, _tasks: tasks }
    }

    /// Somebody has approved what has changed: clients get it now, and the server is asked whether it has changed again.
    pub(super) fn approved(&self) {
        self.pinning.reread();
        self.catalog.replace(|catalog| self.pinning.known(catalog.clone()), true);
        if let Some(catalog_connection) = &self.state().catalog_connection {
            [List::Tools, List::Prompts].into_iter().for_each(|list| catalog_connection.keeper.changed(list));
        }
        self.start(); // It was not, where its command had changed.
        self.context.changed.notify_one();
    }

    /// Hears what is no client's alone.
    pub(super) fn observer(&self) -> Arc<dyn ServerObserver> {
        Arc::new(Observer(self.me.clone()))
    }

    /// The server says that a list has changed, in these words.
    pub(crate) fn list_changed(&self, method: &str) {
        if let Some(catalog_connection) = &self.state().catalog_connection {
            List::changed_by(method).for_each(|list| catalog_connection.keeper.changed(list));
        }
    }
}

impl Server {
    /// Warns of rules of its tool filter to which no tool fits, unless they were warned of.
    fn warn_of_unmatched(&self, catalog: &Catalog, warned: &mut Vec<String>) {
        let Some(listing) = catalog.listing(List::Tools) else { return };
        let unmatched = self.config.options.tools.unmatched(listing.items());
        if !unmatched.is_empty() && unmatched != *warned {
            let rules = escape(&unmatched.join(", "));
            tracing::warn!(
                server = &*self.name,
                "tools: no tool of the server fits {rules}; check the names"
            );
        }
        *warned = unmatched;
    }
}

/// What a shared connection hears that is no client's.
struct Observer(Weak<Server>);

impl ServerObserver for Observer {
    fn list_changed(&self, method: &str) {
        if let Some(server) = self.0.upgrade() {
            server.list_changed(method);
        }
    }

    fn logged(&self, message: &Frame) {
        if let Some(server) = self.0.upgrade() {
            let text = String::from_utf8_lossy(message.params().unwrap_or_default());
            let text = server.connection().map(|connection| connection.masked(&text)).unwrap_or_default();
            server.stats.logged(&format!("it logs: {}", escape(&text)));
        }
    }
}

/// Tells the gateway, and the store, that the catalog has changed.
async fn follow(server: Weak<Server>, mut catalog: watch::Receiver<Arc<Catalog>>) {
    let mut omissions = [const { None }; 4];
    let mut unmatched = vec![];
    if let Some(server) = server.upgrade() {
        server.warn_of_unmatched(&catalog.borrow(), &mut unmatched); // From the last time, it may be all that there is to know.
    }
    while catalog.changed().await.is_ok() {
        let Some(server) = server.upgrade() else { return };
        let now = catalog.borrow_and_update().clone();
        server.warn_of_unmatched(&now, &mut unmatched);
        for list in List::ALL {
            let omission = now.listing(list).and_then(Listing::omission);
            let before = std::mem::replace(&mut omissions[list as usize], omission.clone());
            if let Some(omission) = omission.filter(|omission| before.as_ref() != Some(omission)) {
                tracing::warn!(server = &*server.name, "{}: {omission}", list.method());
            }
        }
        server.context.changed.notify_one();
        if let Some(store) = &server.context.settings.store {
            store.keep(store_key(&server.config), now);
        }
    }
}
