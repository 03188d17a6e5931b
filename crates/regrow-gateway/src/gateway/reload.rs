//! Another configuration: only what changed is touched.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use regrow::core::Manner;

use super::{Gateway, lock};
use crate::audit::{ChangedServers, Record};
use crate::client::ClientRegistry;
use crate::config::Config;
use crate::server::{Server, ServerKey};

/// What another configuration changed, by the names of the servers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// They are new.
    pub added: Vec<String>,
    /// They are gone.
    pub removed: Vec<String>,
    /// Their description has changed, and they are restarted.
    pub changed: Vec<String>,
    /// They go on as if nothing had happened.
    pub kept: usize,
}

impl Gateway {
    /// Takes this configuration. Servers that it describes as before go on, those that it describes differently or not at all are
    /// drained and ended, new ones are started. One that is described differently starts when nothing is left of what it was.
    pub fn reload(&self, config: Config) -> Changes {
        let inner = &self.0;
        let mut changes = Changes::default();
        let before = inner.servers.all();
        let mut servers = Vec::with_capacity(config.servers.len());
        let mut started = vec![];
        let ending: Vec<Arc<Server>> = lock(&inner.leaving).iter().filter_map(Weak::upgrade).collect();
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
            let key = ServerKey(inner.keys.fetch_add(1, Ordering::Relaxed));
            let earlier =
                before.iter().chain(&ending).filter(|earlier| earlier.config.name == described.name);
            let earlier: Vec<_> = earlier.filter(|earlier| !earlier.is_gone()).cloned().collect();
            let server = Server::new(key, described, inner.context.clone(), !earlier.is_empty());
            if !earlier.is_empty() {
                tokio::spawn(succeed(server.clone(), earlier, Arc::downgrade(&inner.clients)));
            }
            started.push(server.clone());
            servers.push(server);
        }
        let is_kept = |old: &&Arc<Server>| servers.iter().any(|server| server.key == old.key);
        let gone: Vec<Arc<Server>> = before.iter().filter(|old| !is_kept(old)).cloned().collect();
        let is_named =
            |old: &&Arc<Server>| servers.iter().any(|server| server.config.name == old.config.name);
        changes.removed =
            gone.iter().filter(|old| !is_named(old)).map(|old| old.config.name.clone()).collect();
        inner.servers.replace(servers);
        started.iter().for_each(|server| server.start());
        let keys: Vec<ServerKey> = gone.iter().map(|server| server.key).collect();
        inner.servers.forget_directories(&keys);
        {
            let mut leaving = lock(&inner.leaving);
            leaving.retain(|server| server.strong_count() > 0);
            leaving.extend(gone.iter().map(Arc::downgrade));
        }
        for server in gone {
            let clients = inner.clients.clone();
            tokio::spawn(async move {
                server.end(Manner::Planned).await;
                // Not before: to give up a place is to cancel the calls that it has.
                clients.all().iter().for_each(|client| client.leave(server.key));
            });
        }
        inner.context.changed.notify_one();
        let audit = &inner.context.settings.audit;
        if audit.is_on() {
            let Changes { added, removed, changed, kept } = changes.clone();
            // Nobody gets a response that could wait for the line.
            let _ = audit.write(&Record::config(ChangedServers { added, removed, changed, kept }));
        }
        changes
    }
}

/// Lets a server start when nothing is left of those that it replaces.
async fn succeed(server: Arc<Server>, earlier: Vec<Arc<Server>>, clients: Weak<ClientRegistry>) {
    for earlier in &earlier {
        earlier.gone().await;
    }
    server.release();
    if let Some(clients) = clients.upgrade() {
        clients.all().iter().for_each(|client| client.take_upstreams());
    }
}
