//! One exchange: what is asked at which path, whether it is looked at, and what becomes of it.

use std::io;
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use regrow_protocol::version::MODERN;

use super::access::{refusal, resource_metadata};
use super::faults::{Fate, expiry, fate};
use super::response::{Plain, ResponseWriter};
use super::sessions::Session;
use super::{Http, Stream, has_left, rules};
use crate::incoming::Incoming;
use crate::plan::Orders;
use crate::server::output::Output;
use crate::server::wire::{self, Message, RpcRequest};
use crate::server::{Server, one_word};
use crate::sync::lock;

/// What an exchange needs at every step.
pub(super) struct Exchange<'a> {
    pub(super) http: &'a Http,
    pub(super) socket: &'a TcpStream,
    pub(super) incoming: &'a Incoming,
    /// Without the faults that are not meant for this request.
    pub(super) orders: Orders,
    /// The JSON-RPC or HTTP method.
    pub(super) name: String,
}

impl Exchange<'_> {
    pub(super) fn response(&self) -> io::Result<ResponseWriter> {
        Ok(ResponseWriter::new(self.socket.try_clone()?, &self.orders))
    }

    pub(super) fn send(&self, plain: &Plain) -> io::Result<bool> {
        self.response()?.plain(plain).map(|()| true)
    }

    pub(super) fn stream(
        &self,
        life: u32,
        headers: Vec<(&'static str, String)>,
        endless: bool,
    ) -> io::Result<Arc<Stream>> {
        let number = self.http.next_stream.fetch_add(1, Ordering::SeqCst) + u64::from(life) * 1_000_000;
        let stream = Stream::new(number, self.orders.clone(), headers, self.response()?, endless);
        let stream = Arc::new(stream);
        self.http.keep(&stream);
        Ok(stream)
    }

    pub(super) fn session_id(&self) -> Option<&str> {
        self.incoming.head.header("mcp-session-id")
    }
}

impl Server {
    /// Answers one HTTP request. Returns whether the connection is good for another.
    pub(super) fn exchange(
        self: &Arc<Self>,
        http: &Http,
        socket: &TcpStream,
        incoming: &Incoming,
        port: u16,
    ) -> io::Result<bool> {
        let message = match incoming.method.as_str() {
            "POST" => wire::parse(&incoming.body, &Output::default()).pop(),
            _ => None,
        };
        let (name, id) = match &message {
            Some(Message::Request(request)) => (request.method.clone(), Some(request.id.clone())),
            Some(Message::Notification { method, .. }) => (method.clone(), None),
            Some(Message::Response { .. }) => ("response".to_owned(), None),
            Some(Message::Unreadable) | None => (incoming.method.clone(), None),
        };
        let orders = http.arrivals.of(self.orders(), &name, &incoming.path);
        if let Some(credential) = incoming.head.header("authorization") {
            self.evidence.note(&format!("authorization {} {credential}", one_word(&name)));
        }
        let writer = || Ok::<_, io::Error>(ResponseWriter::new(socket.try_clone()?, &Orders::default()));
        if let Some(metadata) = resource_metadata(&orders, incoming, port) {
            return writer()?.plain(&metadata).map(|()| true);
        }
        if let Some(refusal) = refusal(&orders, incoming, &name) {
            self.evidence.note(&format!("refused {} {}", refusal.status, one_word(&name)));
            return writer()?.plain(&refusal).map(|()| true);
        }
        let tool = match &message {
            Some(Message::Request(request)) if name == "tools/call" => request.params["name"].as_str(),
            _ => None,
        };
        let orders = http.strikes.of(orders, &name, tool);
        let exchange = Exchange { http, socket, incoming, orders, name };
        if incoming.path != "/moved"
            && let Some(fate) = fate(&exchange.orders, port, id.as_deref())
        {
            return self.meet(&exchange, fate);
        }
        match (incoming.method.as_str(), incoming.path.as_str(), message) {
            ("POST", "/mcp" | "/moved", Some(message)) => self.post(&exchange, message),
            ("POST", "/messages", Some(message)) => self.post_to_sse(&exchange, message),
            ("GET", "/mcp" | "/moved", _) => self.listen_on_get(&exchange),
            ("DELETE", "/mcp" | "/moved", _) => self.delete(&exchange),
            ("GET", "/sse", _) => self.open_sse(&exchange),
            ("POST", "/sse", _) => exchange.send(&Plain::text(405, "Method Not Allowed\n")),
            _ => exchange.send(&Plain::text(404, "no such page\n")),
        }
    }

    /// The plan has something else in mind for this one.
    fn meet(&self, exchange: &Exchange<'_>, fate: Fate) -> io::Result<bool> {
        let name = one_word(&exchange.name);
        match fate {
            Fate::Refused(plain) => {
                self.evidence.note(&format!("refused {} {name}", plain.status));
                exchange.send(&plain)
            }
            Fate::Swallowed => {
                self.evidence.note(&format!("swallowed {name}"));
                while !has_left(exchange.socket) {}
                Ok(false)
            }
            Fate::Dropped => {
                self.evidence.note(&format!("dropped {name}"));
                Ok(false)
            }
        }
    }

    fn post(self: &Arc<Self>, exchange: &Exchange<'_>, message: Message) -> io::Result<bool> {
        let accepts = |kind| exchange.incoming.head.lists("accept", kind);
        if !accepts("application/json") || !accepts("text/event-stream") {
            return exchange.send(&Plain::text(406, "accept both application/json and text/event-stream\n"));
        }
        if !exchange.incoming.head.lists("content-type", "application/json") {
            return exchange.send(&Plain::text(415, "send application/json\n"));
        }
        match message {
            Message::Request(request) => self.post_request(exchange, request),
            Message::Unreadable => exchange.send(&Plain::error(400, "null", -32700, "this is not JSON-RPC")),
            message => {
                if exchange.incoming.head.header("mcp-protocol-version") != Some(MODERN)
                    && let Err(refusal) = self.session_of(exchange, None)
                {
                    return exchange.send(&refusal);
                }
                self.receive(message, exchange.incoming.body.len(), &Output::default());
                exchange.send(&Plain::empty(202))
            }
        }
    }

    fn post_request(self: &Arc<Self>, exchange: &Exchange<'_>, mut request: RpcRequest) -> io::Result<bool> {
        let orders = &exchange.orders;
        let modern = request.modern && !orders.has("refuse-discover");
        let mut headers = vec![];
        if modern {
            if let Some((code, problem)) = rules::objection(exchange.incoming, &request) {
                self.evidence.note(&format!("mismatch {problem}"));
                return exchange.send(&Plain::error(400, &request.id, code, problem));
            }
        } else if request.method == "initialize" {
            if !orders.has("modern-only") && !orders.has("stateless") {
                let session = exchange.http.sessions.begin(self.life, orders);
                self.evidence.note(&format!("session {}", session.id));
                lock(&self.subscriptions).clear(); // They are those of the session before.
                headers.push(("Mcp-Session-Id", session.id.clone()));
            }
        } else {
            match self.session_of(exchange, Some(&request.id)) {
                Ok(Some(session)) if request.method == "tools/call" => session.count_call(),
                Ok(_) => {}
                Err(refusal) => return exchange.send(&refusal),
            }
        }
        let stream = exchange.stream(self.life, headers, false)?;
        request.output = Output::Response(Arc::clone(&stream));
        if orders.text("answer") == Some("sse") {
            stream.begin();
        }
        let id = request.id_value();
        self.request(request);
        Ok(self.watch(exchange, &stream, 0, || {
            if modern {
                self.cancel(&id); // The end of the stream says so.
            }
        }))
    }

    /// Stays until the response is over or the client has left. Returns whether the connection is good for another request.
    pub(super) fn watch(
        &self,
        exchange: &Exchange<'_>,
        stream: &Stream,
        attached: u64,
        left: impl FnOnce(),
    ) -> bool {
        loop {
            if let Some(outcome) = stream.outcome(attached) {
                return outcome;
            }
            if has_left(exchange.socket) && stream.detach(attached) {
                self.evidence.note(&format!("gone {}", one_word(&exchange.name)));
                left();
                return false;
            }
        }
    }

    /// The session that a request names; none where none is needed.
    pub(super) fn session_of(
        &self,
        exchange: &Exchange<'_>,
        id: Option<&str>,
    ) -> Result<Option<Arc<Session>>, Plain> {
        let orders = &exchange.orders;
        if orders.has("stateless") {
            return Ok(None);
        }
        if orders.has("modern-only") {
            return Err(Plain::error(400, "null", -32602, "params._meta is missing"));
        }
        let named = exchange.session_id().or(exchange.incoming.asked("session"));
        match named.map(|named| exchange.http.sessions.find(named, orders)) {
            Some(Some(session)) => Ok(Some(session)),
            Some(None) => {
                self.evidence.note(&format!("expired {}", one_word(&exchange.name)));
                Err(expiry(orders, id))
            }
            None => {
                self.evidence.note(&format!("refused 400 {}", one_word(&exchange.name)));
                Err(Plain::error(400, "null", -32000, "Bad Request: Server not initialized"))
            }
        }
    }
}
