//! One server behind the gateway: its connections, its catalog, and what is let through to it.

mod catalog_connection;
mod maintenance;
mod report;
mod sign_in;
mod turns;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::{Duration, SystemTime};

use regrow::core::{Fault, Manner, Outlook, State as Lifecycle};
use regrow::{Builder, CallError, Connection, ErrorKind, Inbox, Status};
use regrow_protocol::frame::{self, Frame, RawId};
use regrow_protocol::list::List;
use regrow_protocol::method;
use regrow_protocol::version::Era;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use catalog_connection::CatalogConnection;
pub(crate) use turns::InUse;

use crate::admit::Principal;
use crate::catalog::{Catalog, Pinning, SessionReview, WatchedCatalog};
use crate::config::{self, Sessions, Start};
use crate::context::{Clients, Context, pinning, store_key};
use crate::gate::{Limiter, Limits};
use crate::latch::Latch;
use crate::operate::traces::Traces;
use crate::share::SharedSession;
use crate::shares::is_left;
use crate::stats::{self, Stats};
use crate::upstream::{UpstreamSession, expire};
use crate::usage::Usage;

/// Which server: a number that no other ever gets, not even one of the same name in a later configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct ServerKey(pub(crate) u32);

/// What a client can have only on a session of its own: on a shared one, nothing tells whose it is.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Needs {
    /// It answers questions of a server: elicitation, sampling, roots.
    pub(crate) questions: bool,
    /// It has set a log level.
    pub(crate) log_messages: bool,
}

/// One server of the configuration.
pub(crate) struct Server {
    me: Weak<Server>,
    pub(crate) key: ServerKey,
    /// Its name, safe to print.
    pub(crate) name: Arc<str>,
    pub(crate) config: config::ServerConfig,
    pub(crate) stats: Arc<Stats>,
    context: Arc<Context>,
    catalog: Arc<WatchedCatalog>,
    /// What was approved of it.
    pinning: Arc<Pinning>,
    /// Calls are known by the client's number and its id.
    pub(crate) limiter: Limiter<(u64, RawId)>,
    usage: Usage,
    /// Since when somebody waits to learn what it offers.
    awaited: OnceLock<Instant>,
    /// Nothing is left of the earlier server of its name.
    may_start: Latch,
    /// Nothing is left of it.
    is_gone: Latch,
    /// Why no connection could be made the last time, if so. Not a part of the state: connections are made under its lock.
    refused: Mutex<Option<String>>,
    state: Mutex<ServerConnections>,
}

#[derive(Default)]
struct ServerConnections {
    /// Nobody gets a place any more: it is gone from the configuration, or the gateway ends.
    is_ended: bool,
    catalog_connection: Option<CatalogConnection>,
    /// Shared connections of principals other than the first.
    shared: BTreeMap<Principal, Weak<SharedSession>>,
    /// The connections that clients have for themselves, and whose clients those are.
    own: Vec<(Principal, Connection)>,
}

impl ServerConnections {
    /// What an operator has parked is parked for those who come later, too.
    fn heed_commands(&self, new: &Connection) {
        let is_parked = |catalog_connection: &CatalogConnection| {
            catalog_connection.connection.status().borrow().state.is_parked_by_command()
        };
        if self.catalog_connection.as_ref().is_some_and(is_parked) {
            new.park();
        }
    }
}

impl Server {
    /// `waits`: it must not start before [`Server::release`].
    pub(crate) fn new(
        key: ServerKey,
        config: config::ServerConfig,
        context: Arc<Context>,
        waits: bool,
    ) -> Arc<Server> {
        let name: Arc<str> = config.name.escape_debug().to_string().into();
        let store = context.settings.store.as_ref();
        let known = store.and_then(|store| store.recall(store_key(&config), SystemTime::now()));
        let pinning = Arc::new(pinning(&config, &context.settings));
        let known = match pinning.refusal() {
            Some(_) => Some(pinning.catalog()),
            None => known.map(|known| pinning.known(known)),
        };
        let catalog = Arc::new(WatchedCatalog::new(known.unwrap_or_default(), context.revision.clone()));
        Arc::new_cyclic(|me| Server {
            me: me.clone(),
            key,
            stats: Arc::default(),
            name,
            limiter: Limiter::new(Limits::of(&config.options), context.settings.shares.is_one_principal()),
            config,
            context,
            catalog,
            pinning,
            usage: Usage::default(),
            awaited: OnceLock::new(),
            may_start: Latch::new(!waits),
            is_gone: Latch::new(false),
            refused: Mutex::default(),
            state: Mutex::default(),
        })
    }

    fn state(&self) -> MutexGuard<'_, ServerConnections> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What it offers, as far as is known.
    pub(crate) fn catalog(&self) -> Arc<Catalog> {
        self.catalog.current()
    }

    /// Whether it has ever told what it offers.
    pub(crate) fn is_listed(&self) -> bool {
        is_told(&self.catalog.current())
    }

    /// Whether its one client starts it: a server that is to be started when it is needed is started all the same if nobody knows
    /// what it offers.
    pub(crate) fn starts_with_its_client(&self) -> bool {
        self.context.settings.clients == Clients::One && self.starts_unasked()
    }

    fn starts_unasked(&self) -> bool {
        self.config.options.start == Start::Eager || !self.is_listed()
    }

    /// Whether it may not start yet.
    pub(crate) fn waits(&self) -> bool {
        !self.may_start.is_open()
    }

    /// Resolves when it may start.
    pub(crate) async fn released(&self) {
        self.may_start.opened().await;
    }

    /// Nothing is left of the earlier server of its name.
    pub(crate) fn release(&self) {
        self.may_start.open();
        self.start();
    }

    /// Whether nothing is left of it.
    pub(crate) fn is_gone(&self) -> bool {
        self.is_gone.is_open()
    }

    /// Resolves when nothing is left of it.
    pub(crate) async fn gone(&self) {
        self.is_gone.opened().await;
    }

    /// Makes its catalog connection, and starts it if it is to be started before anybody calls it.
    pub(crate) fn start(&self) {
        if !self.waits()
            && self.context.settings.clients == Clients::Many
            && let Ok(shared) = self.shared_session(Principal::default())
            && self.starts_unasked()
        {
            shared.connection().start();
        }
    }

    /// Resolves when it has told what it offers, or has failed to; or when it has been waited for long enough, counted from the first
    /// who waits: all the lists that a client begins with do not take longer than one.
    pub(crate) fn settled(self: Arc<Self>) -> impl Future<Output = ()> + Send + 'static {
        let until = *self.awaited.get_or_init(Instant::now) + self.context.settings.list_wait;
        async move {
            let listed = async {
                let mut catalog = self.catalog.subscribe();
                // The sender is ours: it does not close.
                let _ = catalog.wait_for(|catalog| is_told(catalog)).await;
            };
            let failed = async {
                // Who cannot even be set up has failed, too.
                let Some(connection) = self.connection() else { return };
                let has_failed = |status: &Status| match &status.state {
                    // Next it is greeted in the other era.
                    Lifecycle::Backoff { fault, .. } => *fault != Some(Fault::WrongEra),
                    state => matches!(state, Lifecycle::Parked { .. } | Lifecycle::Closed),
                };
                // It closes with the connection, which is a failure as well.
                let _ = connection.status().wait_for(has_failed).await;
            };
            tokio::select! {
                biased;
                () = listed => {}
                () = failed => {}
                () = sleep_until(until) => {}
            }
        }
    }

    /// A place at this server for a client.
    pub(crate) fn upstream(
        &self,
        principal: Principal,
        needs: Needs,
        inbox: Arc<dyn Inbox>,
    ) -> Result<UpstreamSession, Box<CallError>> {
        if self.waits() {
            return Err(self.unavailable("its earlier process has not ended yet"));
        }
        if self.context.settings.clients == Clients::One {
            let upstream = UpstreamSession::own(self.name.clone(), self.builder()?, self.observer(), inbox);
            if let Some(connection) = upstream.connection() {
                let catalog_connection = self.catalog_connection(connection.clone(), None);
                let mut state = self.state();
                if state.is_ended {
                    return Err(self.error(ErrorKind::Closed));
                }
                let before = state.catalog_connection.replace(catalog_connection);
                drop(state);
                drop(before); // Not under the lock: it ends tasks.
            }
            return Ok(upstream);
        }
        match self.is_private(needs) {
            true => self.private_upstream(principal, inbox),
            false => {
                let shared = self.shared_session(principal)?;
                Ok(UpstreamSession::shared(self.name.clone(), &shared, inbox))
            }
        }
    }

    /// Whether a client with these needs has its session for itself: it is the only client, or gets one of its own.
    pub(crate) fn gives_own_session(&self, needs: Needs) -> bool {
        self.context.settings.clients == Clients::One || self.is_private(needs)
    }

    /// Whether a client with these needs gets a session of its own.
    fn is_private(&self, needs: Needs) -> bool {
        let catalog = self.catalog();
        // A modern server has no sessions: nobody gets in another's way there.
        catalog.era != Era::Modern
            && match self.config.options.sessions {
                Sessions::Shared => false,
                Sessions::Private => true,
                Sessions::Auto => needs.questions || (needs.log_messages && catalog.has(&["logging"])),
            }
    }

    /// Whether each client gets a session of its own, as far as is known. A modern server has no sessions.
    pub(crate) fn has_private_sessions(&self) -> bool {
        let is_private = self.config.options.sessions == Sessions::Private;
        is_private && self.context.settings.clients == Clients::Many && self.catalog().era != Era::Modern
    }

    /// A connection for one client of this principal, unless there are too many, or too many of the principal.
    pub(crate) fn private_upstream(
        &self,
        principal: Principal,
        inbox: Arc<dyn Inbox>,
    ) -> Result<UpstreamSession, Box<CallError>> {
        let options = &self.config.options;
        let mut state = self.state();
        if state.is_ended {
            return Err(self.error(ErrorKind::Closed));
        }
        state.own.retain(|(_, own)| !own.status().borrow().is_closed());
        let total = usize::try_from(options.max_sessions).unwrap_or(usize::MAX);
        let own = state.own.iter().filter(|(owner, _)| *owner == principal).count();
        if !is_left(total, state.own.len(), own, self.context.settings.shares.is_one_principal()) {
            return Err(self.error(ErrorKind::TooManySessions { limit: options.max_sessions }));
        }
        let upstream = UpstreamSession::own(self.name.clone(), self.builder()?, self.observer(), inbox);
        if let Some(connection) = upstream.connection() {
            state.heed_commands(connection);
            state.own.push((principal, connection.clone()));
            stats::watch(self.stats.clone(), connection);
            tokio::spawn(expire(connection.clone(), upstream.usage().clone(), options.session_idle));
        }
        Ok(upstream)
    }

    pub(crate) fn traces(&self) -> &Traces {
        &self.context.settings.traces
    }

    fn builder(&self) -> Result<Builder, Box<CallError>> {
        if let Some(unapproved) = self.pinning.refusal() {
            let error = self.error(ErrorKind::NotApproved(unapproved));
            *self.refused.lock().unwrap_or_else(PoisonError::into_inner) = Some(error.to_string());
            return Err(error);
        }
        let made = (self.context.settings.connect)(&self.config, self.stats.stderr());
        let refused = made.as_ref().err().map(ToString::to_string);
        *self.refused.lock().unwrap_or_else(PoisonError::into_inner) = refused;
        let builder = made.map_err(|error| self.misconfigured(&error.to_string()))?;
        Ok(match self.pinning.holds() {
            true => builder.approver(Arc::new(SessionReview::new(self.pinning.clone()))),
            false => builder,
        })
    }

    /// Why it could not even be tried, if so.
    fn refused(&self) -> Option<String> {
        self.refused.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether this describes the same.
    pub(crate) fn is_as(&self, described: &config::ServerConfig) -> bool {
        self.config.reach == described.reach && self.config.options == described.options
    }

    /// Ends all of its connections: calls in flight may finish, unless there is no time.
    pub(crate) async fn end(&self, manner: Manner) {
        self.state().is_ended = true;
        let connections = self.connections();
        let mut ends = JoinSet::new();
        for connection in connections {
            ends.spawn(async move {
                match manner {
                    Manner::Planned => connection.drain().await,
                    _ => connection.close_in(manner).await,
                }
            });
        }
        while ends.join_next().await.is_some() {}
        let catalog_connection = self.state().catalog_connection.take();
        drop(catalog_connection); // Not under the lock.
        self.is_gone.open();
    }

    /// Every connection that there is with it.
    fn connections(&self) -> Vec<Connection> {
        let state = self.state();
        let catalog_connection =
            state.catalog_connection.iter().map(|catalog_connection| catalog_connection.connection.clone());
        let others =
            state.shared.values().filter_map(Weak::upgrade).map(|shared| shared.connection().clone());
        catalog_connection.chain(others).chain(state.own.iter().map(|(_, own)| own.clone())).collect()
    }

    fn unavailable(&self, reason: &str) -> Box<CallError> {
        let fault = Fault::Broken { reason: reason.into() };
        Box::new(CallError { fault: Some(Arc::new(fault)), ..*self.error(ErrorKind::Unavailable) })
    }

    fn misconfigured(&self, reason: &str) -> Box<CallError> {
        let fault = Fault::Misconfigured { reason: reason.into() };
        let outlook = Outlook::NeedsMending(Duration::ZERO);
        Box::new(CallError { fault: Some(Arc::new(fault)), outlook, ..*self.error(ErrorKind::Unavailable) })
    }

    fn error(&self, kind: ErrorKind) -> Box<CallError> {
        let nothing = Frame::built(frame::request(&RawId::from(0), method::PING, None));
        Box::new(CallError::unsent(self.name.clone(), &nothing, kind))
    }
}

/// Whether all is there that the server has, or why it is not.
fn is_told(catalog: &Catalog) -> bool {
    let is_known = |list: &List| catalog.listing(*list).is_some() || catalog.stale(*list).is_some();
    catalog.capabilities.is_some() && List::ALL.iter().all(|list| is_known(list) || !catalog.offers(*list))
}
