//! One server behind the gateway: its connections, its catalog, and what is let through to it.

mod report;
mod tending;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::SystemTime;

use regrow::core::{Fault, Manner, State as Lifecycle};
use regrow::frame::{self, Frame, RawId};
use regrow::{Builder, CallError, Connection, Era, ErrorKind, Inbox, Outcome, Reply, Status};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{Instant, sleep_until};

pub(crate) use tending::is_of_catalog;

use crate::admit::Principal;
use crate::catalog::{Catalog, Keeper, List};
use crate::config::{self, Sessions, Start};
use crate::gate::{Limits, Pass, Turned, Turnstile};
use crate::operate::plain;
use crate::request::Request;
use crate::seat::{Seat, expire};
use crate::share::{Commons, Heard};
use crate::stats::{Stats, Watcher};
use crate::usage::Usage;
use crate::workshop::{Clients, Workshop, store_key};

/// Which server: a number that no other ever gets, not even one of the same name in a later configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Key(pub(crate) u32);

/// One server of the configuration.
pub(crate) struct Server {
    me: Weak<Server>,
    pub(crate) key: Key,
    /// Its name, safe to print.
    pub(crate) name: Arc<str>,
    pub(crate) config: config::Server,
    pub(crate) stats: Arc<Stats>,
    workshop: Arc<Workshop>,
    catalog: Arc<watch::Sender<Arc<Catalog>>>,
    /// Known by the client's number and the call's.
    turnstile: Turnstile<(u64, u64)>,
    usage: Usage,
    /// Since when somebody waits to learn what it offers.
    awaited: OnceLock<Instant>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Nobody gets a place any more: it is gone from the configuration, or the gateway ends.
    is_ended: bool,
    home: Option<Home>,
    /// Shared connections of principals other than the first.
    commons: HashMap<Principal, Weak<Commons>>,
    /// The connections that clients have for themselves.
    own: Vec<Connection>,
}

/// The connection that keeps the catalog.
struct Home {
    connection: Connection,
    /// None where it is the one client's own.
    commons: Option<Arc<Commons>>,
    keeper: Keeper,
    watcher: Watcher,
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
    pub(crate) fn new(key: Key, config: config::Server, workshop: Arc<Workshop>) -> Arc<Server> {
        let name: Arc<str> = config.name.escape_debug().to_string().into();
        let store = workshop.settings.store.as_ref();
        let known = store.and_then(|store| store.recall(store_key(&config), SystemTime::now()));
        let catalog = Arc::new(watch::Sender::new(Arc::new(known.unwrap_or_default())));
        Arc::new_cyclic(|me| Server {
            me: me.clone(),
            key,
            stats: Arc::default(),
            name,
            turnstile: Turnstile::new(Limits::of(&config.options)),
            config,
            workshop,
            catalog,
            usage: Usage::new(),
            awaited: OnceLock::new(),
            state: Mutex::default(),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What it offers, as far as is known.
    pub(crate) fn catalog(&self) -> Arc<Catalog> {
        self.catalog.borrow().clone()
    }

    /// Whether it has ever told what it offers.
    pub(crate) fn is_listed(&self) -> bool {
        is_told(&self.catalog.borrow())
    }

    /// Whether its one client starts it: a server that is to be started when it is needed is started all the same if nobody knows
    /// what it offers.
    pub(crate) fn starts_with_its_client(&self) -> bool {
        self.workshop.settings.clients == Clients::One && self.starts_unasked()
    }

    fn starts_unasked(&self) -> bool {
        self.config.options.start == Start::Eager || !self.is_listed()
    }

    /// Makes its home, and starts it if it is to be started before anybody calls it.
    pub(crate) fn start(&self) {
        if self.workshop.settings.clients == Clients::Many
            && let Ok(commons) = self.commons(Principal::default())
            && self.starts_unasked()
        {
            commons.connection().start();
        }
    }

    /// Resolves when it has told what it offers, or has failed to; or when it has been waited for long enough, counted from the first
    /// who waits: all the lists that a client begins with do not take longer than one.
    pub(crate) fn settled(self: Arc<Self>) -> impl Future<Output = ()> + Send + 'static {
        let until = *self.awaited.get_or_init(Instant::now) + self.workshop.settings.list_wait;
        async move {
            let listed = async {
                let mut catalog = self.catalog.subscribe();
                // The sender is ours: it does not close.
                let _ = catalog.wait_for(|catalog| is_told(catalog)).await;
            };
            let failed = async {
                // Who cannot even be set up has failed, too.
                let Some(connection) = self.connection() else { return };
                let has_failed = |status: &Status| {
                    matches!(
                        status.state,
                        Lifecycle::Backoff { .. } | Lifecycle::Parked { .. } | Lifecycle::Closed
                    )
                };
                // It closes with the connection, which is a failure as well.
                let _ = connection.status().wait_for(has_failed).await;
            };
            tokio::select! {
                () = listed => {}
                () = failed => {}
                () = sleep_until(until) => {}
            }
        }
    }

    /// A place at this server for a client.
    pub(crate) fn seat(&self, principal: Principal, hears: Arc<dyn Inbox>) -> Result<Seat, Box<CallError>> {
        let me = self.me.upgrade().ok_or_else(|| self.unavailable("it is no longer configured"))?;
        if self.workshop.settings.clients == Clients::One {
            let seat = Seat::own(&me, self.builder()?, hears);
            if let Some(connection) = seat.connection() {
                let home = self.home(connection.clone(), None);
                let mut state = self.state();
                if state.is_ended {
                    return Err(self.error(ErrorKind::Closed));
                }
                let before = state.home.replace(home);
                drop(state);
                drop(before); // Not under the lock: it ends tasks.
            }
            return Ok(seat);
        }
        // A modern server has no sessions: nobody gets in another's way there.
        let shares = self.config.options.sessions == Sessions::Shared || self.catalog().era == Era::Modern;
        match shares {
            true => {
                let commons = self.commons(principal)?;
                Ok(Seat::shared(self, &commons, hears))
            }
            false => self.private_seat(&me, hears),
        }
    }

    fn private_seat(&self, me: &Arc<Server>, hears: Arc<dyn Inbox>) -> Result<Seat, Box<CallError>> {
        let options = &self.config.options;
        let mut state = self.state();
        if state.is_ended {
            return Err(self.error(ErrorKind::Closed));
        }
        state.own.retain(|own| !own.status().borrow().is_closed());
        if state.own.len() >= usize::try_from(options.max_sessions).unwrap_or(usize::MAX) {
            return Err(self.error(ErrorKind::Overloaded));
        }
        let seat = Seat::own(me, self.builder()?, hears);
        if let Some(connection) = seat.connection() {
            state.own.push(connection.clone());
            Watcher::start(self.stats.clone(), connection);
            tokio::spawn(expire(connection.clone(), seat.usage().clone(), options.session_idle));
        }
        Ok(seat)
    }

    /// The shared connection of this principal. That of the first is the server's home.
    fn commons(&self, principal: Principal) -> Result<Arc<Commons>, Box<CallError>> {
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
                state.commons.insert(principal, Arc::downgrade(&commons));
            }
        }
        Ok(commons)
    }

    /// Makes this connection the one that keeps the catalog.
    fn home(&self, connection: Connection, commons: Option<Arc<Commons>>) -> Home {
        let keeper = Keeper::start(connection.clone(), self.catalog.clone());
        let tasks = vec![
            Task(tokio::spawn(follow(self.me.clone(), self.catalog.subscribe()))),
            Task(tokio::spawn(tending::tend(self.me.clone(), connection.clone()))),
        ];
        let watcher = Watcher::start(self.stats.clone(), &connection);
        Home { connection, commons, keeper, watcher, _tasks: tasks }
    }

    fn builder(&self) -> Result<Builder, Box<CallError>> {
        let made = (self.workshop.settings.connect)(&self.config, self.stats.stderr());
        made.map_err(|error| self.unavailable(&error.to_string()))
    }

    /// The connection that keeps the catalog, once there is one.
    pub(crate) fn connection(&self) -> Option<Connection> {
        self.state().home.as_ref().map(|home| home.connection.clone())
    }

    /// A request comes, for this place. It goes when it is its turn.
    pub(crate) fn enter(&self, client: u64, number: u64, request: Request, seat: Arc<Seat>) {
        let Some(me) = self.me.upgrade() else { return };
        let used = InUse::of(&me, &seat);
        let queued = self.stats.queued();
        let limit = self.config.options.call_timeout;
        self.turnstile.submit((client, number), limit, move |turn| {
            drop(queued);
            let Request { frame, id, reply } = request;
            match turn {
                Ok(pass) => seat.submit(frame, id, Box::new(Passing { reply, _pass: pass, _used: used })),
                Err(turned) => {
                    let kind = match turned {
                        Turned::Full => ErrorKind::Overloaded,
                        Turned::Late => ErrorKind::Timeout,
                        Turned::Closed => ErrorKind::Closed,
                    };
                    reply.end(Outcome::Failed(CallError::unsent(me.name.clone(), &frame, kind)));
                }
            }
        });
    }

    /// A call that may still wait for its turn is not wanted any more. Says whether it waited.
    pub(crate) fn withdraw(&self, client: u64, number: u64) -> bool {
        self.turnstile.withdraw(|key| *key == (client, number)) > 0
    }

    /// The same with all of a client that has left.
    pub(crate) fn withdraw_all(&self, client: u64) {
        self.turnstile.withdraw(|(of, _)| *of == client);
    }

    /// The server says that a list has changed, in these words.
    pub(crate) fn list_changed(&self, method: &str) {
        if let Some(home) = &self.state().home {
            List::changed_by(method).for_each(|list| home.keeper.changed(list));
        }
    }

    /// How old a list is, where it may not be what the server has now.
    pub(crate) fn staleness(&self, list: List) -> Option<Value> {
        let catalog = self.catalog();
        let is_up = self.connection().is_some_and(|connection| connection.status().borrow().is_ready());
        let reason = match catalog.stale(list) {
            Some(reason) => reason.to_owned(),
            None if is_up || !catalog.offers(list) => return None,
            None => self.state_text(),
        };
        let age = catalog.listing(list).and_then(|listing| listing.fetched.elapsed().ok());
        Some(json!({ "ageSeconds": age.map(|age| age.as_secs()), "reason": reason }))
    }

    /// Where it stands, in a few words for people and models.
    pub(crate) fn state_text(&self) -> String {
        let Some(connection) = self.connection() else { return "not started yet".to_owned() };
        let status = connection.status().borrow().clone();
        match (&status.state, &status.last_fault) {
            (Lifecycle::Backoff { .. } | Lifecycle::Parked { .. }, Some(fault)) => {
                format!("{}: {}", status.state.name(), fault)
            }
            _ => status.state.name().to_owned(),
        }
    }

    /// Whether this describes the same.
    pub(crate) fn is_as(&self, described: &config::Server) -> bool {
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
        let home = self.state().home.take();
        drop(home); // Not under the lock.
    }

    /// Every connection that there is with it.
    fn connections(&self) -> Vec<Connection> {
        let state = self.state();
        let home = state.home.iter().map(|home| home.connection.clone());
        let others =
            state.commons.values().filter_map(Weak::upgrade).map(|commons| commons.connection().clone());
        home.chain(others).chain(state.own.iter().cloned()).collect()
    }

    /// Resolves when every call was handed to a server.
    pub(crate) async fn all_handed_over(&self) {
        for connection in self.connections() {
            connection.all_handed_over().await;
        }
    }

    fn unavailable(&self, reason: &str) -> Box<CallError> {
        let fault = Fault::Broken { reason: reason.into() };
        Box::new(CallError { fault: Some(Arc::new(fault)), ..*self.error(ErrorKind::Unavailable) })
    }

    fn error(&self, kind: ErrorKind) -> Box<CallError> {
        let nothing =
            Frame::parse(frame::request(&RawId::from(0), "ping", None)).expect("a message of ours is one");
        Box::new(CallError::unsent(self.name.clone(), &nothing, kind))
    }
}

/// Whether all is there that the server has, or why it is not.
fn is_told(catalog: &Catalog) -> bool {
    let is_known = |list: &List| catalog.listing(*list).is_some() || catalog.stale(*list).is_some();
    catalog.capabilities.is_some() && List::ALL.iter().all(|list| is_known(list) || !catalog.offers(*list))
}

/// A call that was let through.
struct Passing {
    reply: Box<dyn Reply>,
    _pass: Pass,
    _used: InUse,
}

impl Reply for Passing {
    fn end(self: Box<Self>, outcome: Outcome) {
        self.reply.end(outcome);
    }
}

/// As long as this lives, the server and the place there are in use. The place itself may go: its calls must not keep it.
pub(crate) struct InUse {
    server: Arc<Server>,
    seat: Arc<Usage>,
}

impl InUse {
    pub(crate) fn of(server: &Arc<Server>, seat: &Seat) -> InUse {
        server.usage.begin();
        seat.usage().begin();
        InUse { server: server.clone(), seat: seat.usage().clone() }
    }
}

impl Drop for InUse {
    fn drop(&mut self) {
        self.server.usage.end();
        self.seat.end();
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
            server.stats.logged(&format!("it logs: {}", plain(&text)));
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
