//! The gateway: its servers, its clients, and what both know of each other.

mod announce;
mod operator;
mod reload;

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use regrow::Inbox;
use regrow::core::Manner;
use regrow::transport::http::MirroredArguments;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::admit::{Admit, AdmitError, ClientHandle, Principal, ServerScope};
use crate::client::ClientRegistry;
use crate::config::Config;
use crate::context::{Context, Settings};
use crate::server::Server;
use crate::servers::ServerRegistry;
use crate::session_record::SessionRecord;

pub use reload::Changes;

/// The shutdown waits at most this long for catalogs that are not written yet.
const STORE_WITHIN: Duration = Duration::from_secs(1);

/// Many servers behind one endpoint. Clones share it; it ends with [`Gateway::shutdown`].
#[derive(Clone)]
pub struct Gateway(Arc<Inner>);

struct Inner {
    context: Arc<Context>,
    started: Instant,
    keys: AtomicU32,
    servers: Arc<ServerRegistry>,
    clients: Arc<ClientRegistry>,
    /// Those of earlier configurations that may not have ended yet.
    leaving: Mutex<Vec<Weak<Server>>>,
    is_closing: AtomicBool,
    /// Why a newer configuration is not in use, if so.
    config_problem: Mutex<Option<String>>,
}

impl Gateway {
    /// A gateway to these servers. Must be called inside a tokio runtime.
    pub fn new(config: Config, settings: Settings) -> Gateway {
        let context = Arc::new(Context { settings, changed: Notify::new(), revision: Arc::default() });
        let clients = ClientRegistry::new(context.clone());
        tokio::spawn(announce::announce(context.clone(), Arc::downgrade(&clients)));
        let inner = Arc::new(Inner {
            servers: Arc::new(ServerRegistry::new(context.revision.clone())),
            context,
            started: Instant::now(),
            keys: AtomicU32::new(1),
            clients,
            leaving: Mutex::default(),
            is_closing: AtomicBool::new(false),
            config_problem: Mutex::default(),
        });
        let gateway = Gateway(inner);
        gateway.reload(config);
        gateway
    }

    /// Says in the status why a newer configuration is not in use, and what to do; none where there is no such problem.
    pub fn set_config_problem(&self, problem: Option<String>) {
        *lock(&self.0.config_problem) = problem;
    }

    /// Takes no more clients, and says that it is not ready.
    pub fn close(&self) {
        self.0.is_closing.store(true, Ordering::Relaxed);
    }

    /// Takes no more clients, lets calls in flight finish, and ends every server; bounded by the drain of each connection. What is
    /// done is told, for somebody who waits.
    pub async fn shutdown(&self, manner: Manner, tell: impl Fn(&str, usize)) {
        self.close();
        let servers = self.0.servers.all();
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
        if let Some(store) = &self.0.context.settings.store {
            // What is not written by then costs the start of a server next time.
            let _ = timeout(STORE_WITHIN, store.settled()).await;
        }
    }
}

impl Admit for Gateway {
    fn admit(
        &self,
        scope: &ServerScope,
        principal: Principal,
        inbox: Arc<dyn Inbox>,
    ) -> Result<Arc<dyn ClientHandle>, AdmitError> {
        if self.0.is_closing.load(Ordering::Relaxed) {
            return Err(AdmitError::Closing);
        }
        if matches!(scope, ServerScope::One(name) if self.0.servers.named(name).is_none()) {
            return Err(AdmitError::NoSuchServer);
        }
        let client =
            self.0.clients.admit(&self.0.servers, SessionRecord::new(scope.clone(), principal), inbox)?;
        Ok(client)
    }

    fn mirrored(&self, scope: &ServerScope, tool: &str) -> Option<MirroredArguments> {
        self.0.servers.directory(scope).mirrored(tool).cloned()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
