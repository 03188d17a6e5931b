//! The home of a server: the connection that keeps its catalog, and that clients of the first principal share.

use std::sync::{Arc, Weak};

use regrow::{CallError, Connection, ErrorKind};
use regrow_protocol::frame::Frame;
use regrow_protocol::list::List;
use regrow_protocol::text::escape;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::{Server, tending};
use crate::admit::Principal;
use crate::catalog::{Catalog, Keeper};
use crate::share::{Commons, Heard};
use crate::stats::Watcher;
use crate::workshop::store_key;

/// The connection that keeps the catalog.
pub(super) struct Home {
    pub(super) connection: Connection,
    /// None where it is the one client's own.
    pub(super) commons: Option<Arc<Commons>>,
    keeper: Keeper,
    pub(super) watcher: Watcher,
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
        self.state().home.as_ref().map(|home| home.connection.clone())
    }

    /// The shared connection of this principal. That of the first is the server's home.
    pub(super) fn commons(&self, principal: Principal) -> Result<Arc<Commons>, Box<CallError>> {
        let mut state = self.state();
        if state.is_ended {
            return Err(self.error(ErrorKind::Closed));
        }
        if principal == Principal::default() {
            let open = state.home.as_ref().filter(|home| !home.connection.status().borrow().is_closed());
            if let Some(commons) = open.and_then(|home| home.commons.clone()) {
                return Ok(commons);
            }
        } else if let Some(commons) = state.commons.get(&principal).and_then(Weak::upgrade) {
            return Ok(commons);
        }
        let heard = Arc::new(Ears(self.me.clone()));
        let commons = Commons::build(self.name.clone(), self.builder()?, heard);
        match principal == Principal::default() {
            true => state.home = Some(self.home(commons.connection().clone(), Some(commons.clone()))),
            false => {
                state.heed_orders(commons.connection());
                state.commons.insert(principal, Arc::downgrade(&commons));
            }
        }
        Ok(commons)
    }

    /// Makes this connection the one that keeps the catalog.
    pub(super) fn home(&self, connection: Connection, commons: Option<Arc<Commons>>) -> Home {
        let keeper = Keeper::start(connection.clone(), self.catalog.clone());
        let tasks = vec![
            Task(tokio::spawn(follow(self.me.clone(), self.catalog.subscribe()))),
            Task(tokio::spawn(tending::tend(self.me.clone(), connection.clone()))),
        ];
        let watcher = Watcher::start(self.stats.clone(), &connection);
        Home { connection, commons, keeper, watcher, _tasks: tasks }
    }

    /// The server says that a list has changed, in these words.
    pub(crate) fn list_changed(&self, method: &str) {
        if let Some(home) = &self.state().home {
            List::changed_by(method).for_each(|list| home.keeper.changed(list));
        }
    }
}

/// What a shared connection hears that is no client's.
struct Ears(Weak<Server>);

impl Heard for Ears {
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
    while catalog.changed().await.is_ok() {
        let Some(server) = server.upgrade() else { return };
        let now = catalog.borrow_and_update().clone();
        server.workshop.changed.notify_one();
        if let Some(store) = &server.workshop.settings.store {
            store.keep(store_key(&server.config), now);
        }
    }
}
