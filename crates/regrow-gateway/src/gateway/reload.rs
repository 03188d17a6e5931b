//! Another configuration: only what changed is touched.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use regrow::core::Manner;

use super::{Gateway, lock};
use crate::config::Config;
use crate::server::{Key, Server};

/// What another configuration changed, by the names of the servers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// They are new.
    pub added: Vec<String>,
    /// They are gone.
    pub removed: Vec<String>,
    /// They are described differently, and start anew.
    pub changed: Vec<String>,
    /// They go on as if nothing had happened.
    pub kept: usize,
}

impl Gateway {
    /// Takes this configuration. Servers that it describes as before go on, those that it describes differently or not at all are
    /// drained and ended, new ones are started.
    pub fn reload(&self, config: Config) -> Changes {
        let inside = &self.0;
        let mut changes = Changes::default();
        let before = inside.servers();
        let mut servers = Vec::with_capacity(config.servers.len());
        let mut started = vec![];
        for described in config.servers {
            let old = before.iter().find(|server| server.config.name == described.name);
            // Where it stands in its file is no part of what it is.
            if let Some(old) = old.filter(|old| old.is_as(&described)) {
                changes.kept += 1;
                servers.push(old.clone());
                continue;
            }
            let list = if old.is_some() { &mut changes.changed } else { &mut changes.added };
            list.push(described.name.clone());
            let key = Key(inside.keys.fetch_add(1, Ordering::Relaxed));
            let server = Server::new(key, described, inside.workshop.clone());
            started.push(server.clone());
            servers.push(server);
        }
        let is_kept = |old: &&Arc<Server>| servers.iter().any(|server| server.key == old.key);
        let gone: Vec<Arc<Server>> = before.iter().filter(|old| !is_kept(old)).cloned().collect();
        let is_named =
            |old: &&Arc<Server>| servers.iter().any(|server| server.config.name == old.config.name);
        changes.removed =
            gone.iter().filter(|old| !is_named(old)).map(|old| old.config.name.clone()).collect();
        *lock(&inside.servers) = Arc::new(servers);
        started.iter().for_each(|server| server.start());
        let keys: Vec<Key> = gone.iter().map(|server| server.key).collect();
        inside.forget_directories(&keys);
        {
            let mut leaving = lock(&inside.leaving);
            leaving.retain(|server| server.strong_count() > 0);
            leaving.extend(gone.iter().map(Arc::downgrade));
        }
        for server in gone {
            let inside = inside.clone();
            tokio::spawn(async move {
                server.end(Manner::Planned).await;
                // Not before: to give up a place is to cancel the calls that it has.
                inside.clients().iter().for_each(|client| client.leave(server.key));
            });
        }
        inside.workshop.changed.notify_one();
        changes
    }
}
