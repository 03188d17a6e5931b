//! One client of the gateway, over all the servers that it may use: what it writes finds its server here, and what servers tell it
//! finds its way back.

mod call;
mod calls;
mod completion;
mod greeting;
mod lists;
mod registry;
mod streams;
mod subscribing;
mod tasks;
mod upstream_inbox;

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use bytes::Bytes;
use regrow::core::Epoch;
use regrow::{CallError, Inbox, Incoming, Request, Upstream};
use regrow_protocol::frame::{Frame, RawId};
use regrow_protocol::list::List;
use regrow_protocol::{method, notification};

use crate::admit::{Principal, Scope};
use crate::answers;
use crate::directory::Directory;
use crate::server::{InUse, Key, Server};
use crate::servers::ServerRegistry;
use crate::upstream::UpstreamSession;
use call::OnEnd;
use calls::WaitingCalls;
use streams::Streams;
use tasks::Tasks;
use upstream_inbox::UpstreamInbox;

pub(crate) use registry::ClientRegistry;

/// A client that was admitted. It leaves when this is dropped.
pub(crate) struct Client {
    me: Weak<Client>,
    number: u64,
    servers: Arc<ServerRegistry>,
    clients: Arc<ClientRegistry>,
    scope: Scope,
    principal: Principal,
    inbox: Arc<dyn Inbox>,
    /// Held while an upstream session is taken and greeted, so that nothing overtakes the greeting, and no second upstream session is made beside it.
    taking: Mutex<()>,
    /// Never locked while a server, the inbox or a reply is called: each of them may call us.
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// How it greeted: its `initialize`, or `server/discover` in the name of the sender of its first modern request.
    greeting: Option<Frame>,
    /// It has said that it is ready to be told things.
    is_ready: bool,
    /// The log level that it asked for.
    level: Option<Frame>,
    /// The revisions of the lists that it was last given, or told to look at.
    known: [Option<u64>; 4],
    upstreams: BTreeMap<Key, AtServer>,
    waiting: WaitingCalls,
    streams: Streams,
    tasks: Tasks,
    /// How many lists wait for servers that start.
    waiting_lists: usize,
}

/// A client's upstream session at one server, and its inbox there.
struct AtServer {
    upstream: Arc<UpstreamSession>,
    inbox: Arc<UpstreamInbox>,
    /// The resources that it is subscribed to there.
    subscribed: HashMap<String, InUse>,
}

impl State {
    /// Its upstream session at this server, if it is still of use.
    fn upstream(&self, key: Key) -> Option<Arc<UpstreamSession>> {
        let taken = self.upstreams.get(&key)?;
        (!taken.inbox.is_over() && !taken.upstream.is_over()).then(|| taken.upstream.clone())
    }
}

impl Client {
    fn new(
        number: u64,
        servers: Arc<ServerRegistry>,
        clients: Arc<ClientRegistry>,
        scope: Scope,
        principal: Principal,
        inbox: Arc<dyn Inbox>,
    ) -> Arc<Client> {
        Arc::new_cyclic(|me| Client {
            me: me.clone(),
            number,
            servers,
            clients,
            scope,
            principal,
            inbox,
            taking: Mutex::default(),
            state: Mutex::default(),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn directory(&self) -> Arc<Directory> {
        self.servers.directory(&self.scope)
    }

    /// The servers that it may use.
    fn servers(&self) -> Vec<Arc<Server>> {
        self.servers.of(&self.scope)
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
        let inbox = Arc::new(UpstreamInbox::new(self.me.clone(), server));
        let upstream = Arc::new(server.upstream(self.principal, self.needs(), inbox.clone())?);
        let (greeting, is_ready, level, over) = {
            let mut state = self.state();
            let taken = AtServer { upstream: upstream.clone(), inbox, subscribed: HashMap::new() };
            let over = state.upstreams.insert(server.key, taken);
            (state.greeting.clone(), state.is_ready, state.level.clone(), over)
        };
        // What it has told us is told to each server that it comes to later.
        for request in greeting.iter().chain(&level) {
            upstream.tell(request.clone());
        }
        if greeting.is_some() && is_ready {
            upstream.forward(&Frame::built(regrow_protocol::frame::notification(
                notification::INITIALIZED,
                None,
            )));
        }
        if server.starts_with_its_client() {
            upstream.start(); // Only now: it is greeted in the client's name.
        }
        drop(taking);
        drop(over); // Not under a lock: it may end calls, which may go on elsewhere.
        Ok(upstream)
    }

    /// Forgets what is left of a server that is gone from the configuration.
    pub(crate) fn leave(&self, gone: Key) {
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
        if let Some(refusal) = greeting::wrong_version(&request.frame) {
            return request.reply.end(refusal);
        }
        if greeting::is_gone(&request.frame) {
            return request.reply.end(answers::unknown_method());
        }
        self.note_greeting(&request.frame);
        match request.frame.method().unwrap_or_default() {
            method::INITIALIZE => self.initialize(request),
            method::SERVER_DISCOVER => self.discover(request),
            method::PING => request.reply.end(answers::answer(b"{}")),
            method::LOGGING_SET_LEVEL => self.set_level(request),
            method::SUBSCRIPTIONS_LISTEN => self.listen(request),
            method::TOOLS_CALL | method::PROMPTS_GET => match self.by_name(&request.frame) {
                Some((server, frame)) => self.call(&server, Request { frame, ..request }, OnEnd::Nothing),
                None => request.reply.end(calls::unknown_name(&request.frame)),
            },
            method::RESOURCES_READ => self.read(request),
            method::RESOURCES_SUBSCRIBE | method::RESOURCES_UNSUBSCRIBE => self.subscribe(request),
            method::COMPLETION_COMPLETE => self.complete(request),
            method if method::is_about_tasks(method) => self.task(request),
            method if List::by_method(method).is_some() => self.list(request),
            _ => match self.only_server() {
                Some(server) => self.call(&server, request, OnEnd::Nothing),
                None => request.reply.end(answers::unknown_method()),
            },
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
            state.is_ready |= is_ready;
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
        let servers: Vec<_> =
            self.state().upstreams.values().filter_map(|taken| taken.inbox.server()).collect();
        for server in servers {
            server.withdraw_all(self.number);
        }
        self.clients.remove(self.number);
    }
}
