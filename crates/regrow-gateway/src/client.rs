//! One client of the gateway, over all the servers that it may use: what it writes finds its server here, and what servers tell it
//! finds its way back.

mod audited;
mod call;
mod calls;
mod greeting;
mod lists;
mod one_call;
mod registry;
mod streams;
mod subscribing;
mod upstream_inbox;

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError, Weak};

use bytes::Bytes;
use memchr::memmem::Finder;
use regrow::core::Epoch;
use regrow::{CallError, Inbox, Incoming, Request, Upstream};
use regrow_protocol::frame::{self, Frame, RawId};
use regrow_protocol::notification;

use crate::answers;
use crate::directory::Directory;
use crate::route::{OwnMethod, Route, route, unknown_task};
use crate::server::{InUse, Server, ServerKey};
use crate::servers::ServerRegistry;
use crate::session_record::SessionRecord;
use crate::upstream::UpstreamSession;
use call::OnEnd;
use calls::WaitingCalls;
use greeting::needs;
use streams::Streams;
use subscribing::subscription;
use upstream_inbox::UpstreamInbox;

pub(crate) use registry::ClientRegistry;

/// Links in longer results are not remembered: reading them would cost more than a call.
const MAX_LINKING_RESULT: usize = 1 << 20;
/// Made once: making it takes longer than the search in a short result.
static LINK: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b"\"uri\""));

/// A client that was admitted. It leaves when this is dropped.
pub(crate) struct Client {
    me: Weak<Client>,
    number: u64,
    servers: Arc<ServerRegistry>,
    clients: Arc<ClientRegistry>,
    inbox: Arc<dyn Inbox>,
    /// Held while an upstream session is taken and greeted, so that nothing overtakes the greeting, and no second upstream session is made beside it.
    taking: Mutex<()>,
    /// Never locked while a server, the inbox or a reply is called: each of them may call us.
    state: Mutex<ClientState>,
}

struct ClientState {
    record: SessionRecord,
    upstreams: BTreeMap<ServerKey, AtServer>,
    /// Sessions for one call each: see `one_call`.
    one_call: Vec<Arc<UpstreamSession>>,
    waiting: WaitingCalls,
    streams: Streams,
    /// How many lists wait for servers that start.
    waiting_lists: usize,
}

/// A client's upstream session at one server, and its inbox there.
struct AtServer {
    upstream: Arc<UpstreamSession>,
    inbox: Arc<UpstreamInbox>,
    /// Who is subscribed to something uses the server.
    subscribed: Option<InUse>,
}

impl ClientState {
    /// Its upstream session at this server, if it is still of use.
    fn upstream(&self, key: ServerKey) -> Option<Arc<UpstreamSession>> {
        let taken = self.upstreams.get(&key)?;
        (!taken.inbox.is_over() && !taken.upstream.is_over()).then(|| taken.upstream.clone())
    }

    /// Whether it has a list, or wants to hear of changes.
    fn knows_lists(&self) -> bool {
        self.record.lists.iter().any(Option::is_some) || self.streams.tell_of_lists()
    }
}

impl Client {
    /// The client whose session this is, with nothing under way.
    fn restore(
        number: u64,
        servers: Arc<ServerRegistry>,
        clients: Arc<ClientRegistry>,
        record: SessionRecord,
        inbox: Arc<dyn Inbox>,
    ) -> Arc<Client> {
        let state = ClientState {
            record,
            upstreams: BTreeMap::new(),
            one_call: vec![],
            waiting: WaitingCalls::default(),
            streams: Streams::default(),
            waiting_lists: 0,
        };
        Arc::new_cyclic(|me| Client {
            me: me.clone(),
            number,
            servers,
            clients,
            inbox,
            taking: Mutex::default(),
            state: Mutex::new(state),
        })
    }

    fn state(&self) -> MutexGuard<'_, ClientState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn directory(&self) -> Arc<Directory> {
        self.servers.directory(&self.state().record.scope)
    }

    /// The servers that it may use.
    fn servers(&self) -> Vec<Arc<Server>> {
        self.servers.of(&self.state().record.scope)
    }

    /// The one server behind it, where there is only one: then nothing is renamed, and what we do not know is that server's.
    fn only_server(&self) -> Option<Arc<Server>> {
        let mut servers = self.servers();
        servers.pop().filter(|_| servers.is_empty())
    }

    /// Its upstream session at this server, taken with its first request there.
    fn upstream(&self, server: &Arc<Server>) -> Result<Arc<UpstreamSession>, Box<CallError>> {
        let taking = self.taking.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(upstream) = self.state().upstream(server.key) {
            return Ok(upstream);
        }
        let inbox = Arc::new(UpstreamInbox::new(self.me.clone(), server, self.inbox.is_one_client()));
        let record = self.state().record.clone();
        let upstream = Arc::new(server.upstream(record.principal, needs(&record), inbox.clone())?);
        inbox.belongs_to(&upstream);
        let subscriptions: Vec<_> = record.subscriptions(&server.config.name).map(subscription).collect();
        let subscribed = (!subscriptions.is_empty()).then(|| InUse::of(server, &upstream));
        let taken = AtServer { upstream: upstream.clone(), inbox, subscribed };
        let over = self.state().upstreams.insert(server.key, taken);
        // What it has told us is told to each server that it comes to later.
        for request in record.greeting.iter().chain(&record.level) {
            upstream.tell(request.clone());
        }
        if record.greeting.is_some() && record.is_ready {
            upstream.forward(&Frame::built(frame::notification(notification::INITIALIZED, None)));
        }
        for subscription in subscriptions {
            upstream.tell(subscription);
        }
        if server.starts_with_its_client() {
            upstream.start(); // Only now: it is greeted in the client's name.
        }
        drop(taking);
        drop(over); // Not under a lock: it may end calls, which may go on elsewhere.
        Ok(upstream)
    }

    /// Remembers the URIs in a result of this server, where several servers may have them.
    fn note_links(&self, server: &str, result: &[u8]) {
        let matters = self.servers.has_several(&self.state().record.scope);
        if matters && result.len() <= MAX_LINKING_RESULT && LINK.find(result).is_some() {
            let result = answers::parsed(Some(result));
            self.state().record.links.remember(server, &result);
        }
    }

    /// Whether no other client uses its session at this server, or will.
    fn has_own_session(&self, server: &str) -> bool {
        let Some(server) = self.servers.named(server) else { return false };
        let state = self.state();
        match state.upstream(server.key) {
            Some(taken) => taken.connection().is_some() && self.inbox.is_one_client(),
            None => server.gives_own_session(needs(&state.record)) && self.inbox.is_one_client(),
        }
    }

    /// Forgets what is left of a server that is gone from the configuration.
    pub(crate) fn leave(&self, gone: ServerKey) {
        let left = self.state().upstreams.remove(&gone);
        drop(left); // Not under the lock: it may end calls.
    }

    /// Takes what a server sends: to the call that it belongs to, else to the client.
    fn take(&self, mut incoming: Incoming) -> bool {
        match incoming.to.take() {
            Some(call) => call.take(incoming),
            None => self.inbox.take(incoming),
        }
    }
}

impl Upstream for Client {
    fn submit(&self, request: Request) {
        let route = {
            let state = self.state();
            let directory = self.servers.directory(&state.record.scope);
            route(&request.frame, &state.record, &directory)
        };
        if !matches!(route, Route::Refused(_)) {
            self.note_greeting(&request.frame);
        }
        let request = self.audited(request, &route);
        match route {
            Route::Gateway(OwnMethod::Initialize) => self.initialize(request),
            Route::Gateway(OwnMethod::Discover) => self.discover(request),
            Route::Gateway(OwnMethod::Ping) => request.reply.end(answers::answer(b"{}")),
            Route::Gateway(OwnMethod::SetLevel) => self.set_level(request),
            Route::Gateway(OwnMethod::Listen) => self.listen(request),
            Route::Gateway(OwnMethod::List(list)) => self.list(list, request),
            Route::Server { name, frame } => self.call(&name, Request { frame, ..request }, OnEnd::Nothing),
            Route::Subscription { owner, begins } => self.subscribe(owner, begins, request),
            Route::ForeignTask { name, frame } if self.has_own_session(&name) => {
                self.call(&name, Request { frame, ..request }, OnEnd::Nothing);
            }
            Route::ForeignTask { .. } => request.reply.end(unknown_task()),
            Route::Held { name } => self.refuse_held(&name, request),
            Route::Refused(answer) => request.reply.end(answer),
        }
    }

    fn cancel(&self, id: &RawId, notification: &Frame) -> bool {
        if self.end_stream(id) {
            return true;
        }
        let waited = self.state().waiting.withdraw(id);
        if waited.is_some() {
            return true; // It is dropped here, not under the lock.
        }
        let one_call = self.state().one_call.clone();
        if one_call.iter().any(|session| session.cancel(id, notification)) {
            return true;
        }
        // Also at servers that are gone from the configuration: their calls may finish.
        let upstreams: Vec<_> = self
            .state()
            .upstreams
            .values()
            .map(|taken| (taken.inbox.server(), taken.upstream.clone()))
            .collect();
        upstreams.iter().any(|(server, upstream)| {
            let withdrawn = server.as_ref().is_some_and(|server| server.withdraw(self.number, id));
            withdrawn || upstream.cancel(id, notification)
        })
    }

    fn forward(&self, notification: &Frame) -> bool {
        let method = notification.method().unwrap_or_default();
        // A request without an id: no gate would count it, and nobody would hear how it ended.
        if !method.starts_with("notifications/") {
            return false;
        }
        let is_ready = method == notification::INITIALIZED;
        let upstreams: Vec<Arc<UpstreamSession>> = {
            let mut state = self.state();
            state.record.is_ready |= is_ready;
            state.upstreams.values().map(|taken| taken.upstream.clone()).collect()
        };
        // Of several servers it is not known which one's question it belongs to.
        if method == notification::PROGRESS && upstreams.len() != 1 {
            return false;
        }
        let told = upstreams.iter().filter(|upstream| upstream.forward(notification)).count();
        is_ready || told > 0
    }

    fn hand_over(&self, epoch: Epoch, server_id: &RawId, answer: Bytes) -> bool {
        let (key, epoch) = upstream_inbox::split(epoch);
        let upstream = self.state().upstream(key);
        upstream.is_some_and(|upstream| upstream.hand_over(epoch, server_id, answer))
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let (servers, principal): (Vec<_>, _) = {
            let state = self.state();
            let servers = state.upstreams.values().filter_map(|taken| taken.inbox.server()).collect();
            (servers, state.record.principal)
        };
        for server in servers {
            server.withdraw_all(self.number);
        }
        self.clients.remove(self.number, principal);
    }
}
