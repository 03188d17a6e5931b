//! The gateway: its servers, its clients, and what both know of each other.

mod announce;
mod operator;
mod reload;

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Instant;

use regrow::Inbox;
use regrow::core::Manner;
use regrow::transport::http::MirroredArguments;
use tokio::sync::Notify;
use tokio::task::JoinSet;

use crate::admit::{Admit, ClientHandle, Principal, Refusal, Scope};
use crate::catalog::Catalog;
use crate::client::Client;
use crate::config::Config;
use crate::directory::Directory;
use crate::operate::traces::Traces;
use crate::server::{Key, Server};
use crate::workshop::{Settings, Workshop};

pub use reload::Changes;

/// Many servers behind one endpoint. Clones share it; it ends with [`Gateway::shutdown`].
#[derive(Clone)]
pub struct Gateway(Arc<Inside>);

pub(crate) struct Inside {
    workshop: Arc<Workshop>,
    started: Instant,
    keys: AtomicU32,
    /// In the order of the configuration.
    servers: Mutex<Arc<Vec<Arc<Server>>>>,
    /// Those of earlier configurations that may not have ended yet.
    leaving: Mutex<Vec<Weak<Server>>>,
    /// By scope: all, or the server.
    directories: Mutex<HashMap<Option<Key>, Together>>,
    clients: Mutex<BTreeMap<u64, Weak<Client>>>,
    numbers: AtomicU64,
    is_closing: AtomicBool,
}

/// What the servers of a scope offer together, and what it was put together from.
struct Together {
    catalogs: Vec<(Key, Arc<Catalog>)>,
    directory: Arc<Directory>,
}

impl Together {
    fn is_of(&self, catalogs: &[(Key, Arc<Catalog>)]) -> bool {
        let mut pairs = self.catalogs.iter().zip(catalogs);
        self.catalogs.len() == catalogs.len()
            && pairs.all(|(old, new)| old.0 == new.0 && Arc::ptr_eq(&old.1, &new.1))
    }
}

impl Gateway {
    /// A gateway to these servers. Must be called inside a tokio runtime.
    pub fn new(config: Config, settings: Settings) -> Gateway {
        let workshop = Arc::new(Workshop { settings, changed: Notify::new() });
        let inside = Arc::new(Inside {
            workshop,
            started: Instant::now(),
            keys: AtomicU32::new(1),
            servers: Mutex::default(),
            leaving: Mutex::default(),
            directories: Mutex::default(),
            clients: Mutex::default(),
            numbers: AtomicU64::new(1),
            is_closing: AtomicBool::new(false),
        });
        tokio::spawn(announce::announce(Arc::downgrade(&inside)));
        let gateway = Gateway(inside);
        gateway.reload(config);
        gateway
    }

    /// Takes no more clients, and says that it is not ready.
    pub fn close(&self) {
        self.0.is_closing.store(true, Ordering::Relaxed);
    }

    /// Takes no more clients, lets calls in flight finish, and ends every server; bounded by the drain of each connection. What is
    /// done is told, for somebody who waits.
    pub async fn shutdown(&self, manner: Manner, tell: impl Fn(&str, usize)) {
        self.close();
        let servers = self.0.servers();
        let leaving = std::mem::take(&mut *lock(&self.0.leaving));
        let mut ends = JoinSet::new();
        for server in servers.iter().cloned().chain(leaving.iter().filter_map(Weak::upgrade)) {
            ends.spawn(async move {
                server.end(manner).await;
                server.name.clone()
            });
        }
        while let Some(ended) = ends.join_next().await {
            // A task that panicked has no name to tell; its server's guard ends it.
            if let Ok(name) = ended {
                tell(&name, ends.len());
            }
        }
    }
}

impl Inside {
    fn servers(&self) -> Arc<Vec<Arc<Server>>> {
        lock(&self.servers).clone()
    }

    pub(crate) fn server(&self, key: Key) -> Option<Arc<Server>> {
        self.servers().iter().find(|server| server.key == key).cloned()
    }

    /// By its name in the configuration.
    pub(crate) fn server_named(&self, name: &str) -> Option<Arc<Server>> {
        self.servers().iter().find(|server| server.config.name == name).cloned()
    }

    pub(crate) fn servers_of(&self, scope: &Scope) -> Vec<Arc<Server>> {
        match scope {
            Scope::All => self.servers().to_vec(),
            Scope::One(name) => self.server_named(name).into_iter().collect(),
        }
    }

    /// What the servers of this scope offer together, put together anew where one of them has changed.
    pub(crate) fn directory(&self, scope: &Scope) -> Arc<Directory> {
        let servers = self.servers_of(scope);
        let catalogs: Vec<_> = servers.iter().map(|server| (server.key, server.catalog())).collect();
        let which = match (scope, &servers[..]) {
            (Scope::One(_), [only]) => Some(only.key),
            _ => None,
        };
        let mut directories = lock(&self.directories);
        if let Some(known) = directories.get(&which)
            && known.is_of(&catalogs)
        {
            return known.directory.clone();
        }
        let named: Vec<_> = servers
            .iter()
            .zip(&catalogs)
            .map(|(server, (_, catalog))| (&*server.config.name, catalog.clone()))
            .collect();
        let directory = Arc::new(Directory::of(&named));
        directories.insert(which, Together { catalogs, directory: directory.clone() });
        directory
    }

    /// Forgets what was put together for a server that is gone.
    fn forget_directories(&self, gone: &[Key]) {
        lock(&self.directories).retain(|which, _| which.is_none_or(|key| !gone.contains(&key)));
    }

    pub(crate) fn traces(&self) -> &Traces {
        &self.workshop.settings.traces
    }

    fn clients(&self) -> Vec<Arc<Client>> {
        // Not under the lock: the last of a client takes it when it goes.
        let clients: Vec<_> = lock(&self.clients).values().cloned().collect();
        clients.iter().filter_map(Weak::upgrade).collect()
    }

    /// A client has gone.
    pub(crate) fn left(&self, client: u64) {
        lock(&self.clients).remove(&client);
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        self.workshop.changed.notify_one(); // Who announces changes finds that there is nobody to tell.
    }
}

impl Admit for Gateway {
    fn admit(
        &self,
        scope: &Scope,
        principal: Principal,
        inbox: Arc<dyn Inbox>,
    ) -> Result<Arc<dyn ClientHandle>, Refusal> {
        if self.0.is_closing.load(Ordering::Relaxed) {
            return Err(Refusal::Closing);
        }
        if matches!(scope, Scope::One(name) if self.0.server_named(name).is_none()) {
            return Err(Refusal::NoSuchServer);
        }
        let number = self.0.numbers.fetch_add(1, Ordering::Relaxed);
        let mut clients = lock(&self.0.clients);
        if clients.len() >= self.0.workshop.settings.max_clients {
            return Err(Refusal::Full);
        }
        let client = Client::new(number, self.0.clone(), scope.clone(), principal, inbox);
        clients.insert(number, Arc::downgrade(&client));
        Ok(client)
    }

    fn mirrored(&self, scope: &Scope, tool: &str) -> Option<MirroredArguments> {
        self.0.directory(scope).mirrored(tool).cloned()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
