//! The servers of the current configuration, and the directories of what they offer together.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::admit::ServerScope;
use crate::catalog::Revision;
use crate::directory::Directory;
use crate::server::{Server, ServerKey};

/// The servers of the current configuration.
pub(crate) struct ServerRegistry {
    /// Changes with every catalog of theirs, and with the servers.
    revision: Arc<Revision>,
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

/// A directory, and the revision that it is of, or an earlier one.
struct CachedDirectory {
    revision: u64,
    directory: Arc<Directory>,
}

impl ServerRegistry {
    /// No servers yet. Their catalogs must count their changes in this.
    pub(crate) fn new(revision: Arc<Revision>) -> ServerRegistry {
        ServerRegistry { revision, servers: Mutex::default(), directories: Mutex::default() }
    }

    pub(crate) fn all(&self) -> Arc<Vec<Arc<Server>>> {
        lock(&self.servers).all.clone()
    }

    /// The servers of another configuration replace these.
    pub(crate) fn replace(&self, servers: Vec<Arc<Server>>) {
        let by_name = servers.iter().map(|server| (server.config.name.clone(), server.clone())).collect();
        let before =
            std::mem::replace(&mut *lock(&self.servers), Servers { all: Arc::new(servers), by_name });
        self.revision.advance();
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

    /// Whether this scope has more than one.
    pub(crate) fn has_several(&self, scope: &ServerScope) -> bool {
        matches!(scope, ServerScope::All) && lock(&self.servers).all.len() > 1
    }

    /// What the servers of this scope offer together, built again when something has changed since.
    pub(crate) fn directory(&self, scope: &ServerScope) -> Arc<Directory> {
        let mut directories = lock(&self.directories);
        // Before anything else is read: what changes meanwhile is another revision.
        let revision = self.revision.current();
        let (only, servers) = match scope {
            ServerScope::All => (None, self.all()),
            ServerScope::One(name) => match self.named(name) {
                Some(server) => (Some(server.key), Arc::new(vec![server])),
                None => return Arc::new(Directory::of(&[])), // It has just gone from the configuration.
            },
        };
        if let Some(known) = directories.get(&only)
            && known.revision == revision
        {
            return known.directory.clone();
        }
        let named: Vec<_> = servers
            .iter()
            .map(|server| (&*server.config.name, server.catalog(), &server.config.options.tools))
            .collect();
        let directory = Arc::new(Directory::filtered(&named));
        directories.insert(only, CachedDirectory { revision, directory: directory.clone() });
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
