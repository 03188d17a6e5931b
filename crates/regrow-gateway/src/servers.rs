//! The servers of the current configuration, and the directories of what they offer together.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::admit::ServerScope;
use crate::catalog::Catalog;
use crate::directory::Directory;
use crate::server::{Server, ServerKey};

/// The servers of the current configuration.
#[derive(Default)]
pub(crate) struct ServerRegistry {
    servers: Mutex<Servers>,
    /// By scope: all, or the server.
    directories: Mutex<HashMap<Option<ServerKey>, CachedDirectory>>,
}

#[derive(Default)]
struct Servers {
    /// In the order of the configuration.
    all: Arc<Vec<Arc<Server>>>,
    /// By their names in the configuration.
    by_name: HashMap<String, Arc<Server>>,
}

/// A directory, and the catalogs that it was built from.
struct CachedDirectory {
    catalogs: Vec<(ServerKey, Arc<Catalog>)>,
    directory: Arc<Directory>,
}

impl CachedDirectory {
    fn is_of(&self, catalogs: &[(ServerKey, Arc<Catalog>)]) -> bool {
        let mut pairs = self.catalogs.iter().zip(catalogs);
        self.catalogs.len() == catalogs.len()
            && pairs.all(|(old, new)| old.0 == new.0 && Arc::ptr_eq(&old.1, &new.1))
    }
}

impl ServerRegistry {
    pub(crate) fn all(&self) -> Arc<Vec<Arc<Server>>> {
        lock(&self.servers).all.clone()
    }

    /// The servers of another configuration replace these.
    pub(crate) fn replace(&self, servers: Vec<Arc<Server>>) {
        let by_name = servers.iter().map(|server| (server.config.name.clone(), server.clone())).collect();
        let before =
            std::mem::replace(&mut *lock(&self.servers), Servers { all: Arc::new(servers), by_name });
        drop(before); // Not under the lock.
    }

    /// By its name in the configuration.
    pub(crate) fn named(&self, name: &str) -> Option<Arc<Server>> {
        lock(&self.servers).by_name.get(name).cloned()
    }

    pub(crate) fn of(&self, scope: &ServerScope) -> Vec<Arc<Server>> {
        match scope {
            ServerScope::All => self.all().to_vec(),
            ServerScope::One(name) => self.named(name).into_iter().collect(),
        }
    }

    /// What the servers of this scope offer together, built again when one of their catalogs has changed.
    pub(crate) fn directory(&self, scope: &ServerScope) -> Arc<Directory> {
        let servers = self.of(scope);
        let catalogs: Vec<_> = servers.iter().map(|server| (server.key, server.catalog())).collect();
        let which = match (scope, &servers[..]) {
            (ServerScope::One(_), [only]) => Some(only.key),
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
        directories.insert(which, CachedDirectory { catalogs, directory: directory.clone() });
        directory
    }

    /// Forgets the directories of servers that are gone.
    pub(crate) fn forget_directories(&self, gone: &[ServerKey]) {
        lock(&self.directories).retain(|which, _| which.is_none_or(|key| !gone.contains(&key)));
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
