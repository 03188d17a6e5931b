//! Where clients listen: GET streams of Streamable HTTP, what is left of a cut response, and HTTP+SSE.

use std::io;
use std::sync::Arc;

use super::exchange::Exchange;
use super::response::Plain;
use crate::server::output::Output;
use crate::server::wire::Message;
use crate::server::{Server, one_word};
use crate::sync::lock;

impl Server {
    /// A client listens, or comes back for the rest of a response.
    pub(super) fn listen_on_get(self: &Arc<Self>, exchange: &Exchange<'_>) -> io::Result<bool> {
        let last = exchange.incoming.head.header("last-event-id").unwrap_or("-");
        let session = exchange.session_id().unwrap_or("-");
        self.evidence.note(&format!("get {} {}", one_word(session), one_word(last)));
        if exchange.orders.has("no-get")
            || exchange.orders.has("stateless")
            || exchange.orders.has("modern-only")
        {
            return exchange.send(&Plain::text(405, "Method Not Allowed\n"));
        }
        let session = match self.session_of(exchange, None) {
            Ok(session) => session,
            Err(refusal) => return exchange.send(&refusal),
        };
        let resumed = last.split_once('-').and_then(|(stream, event)| {
            let (stream, event): (u64, u64) = (stream.parse().ok()?, event.parse().ok()?);
            let known = lock(&exchange.http.streams).iter().find(|known| known.number == stream).cloned()?;
            Some((known, event))
        });
        let (stream, attached) = match resumed {
            Some((stream, event)) => {
                let attached = stream.resume(exchange.response()?, event);
                (stream, attached)
            }
            None => {
                let stream = exchange.stream(self.life, vec![], true)?;
                if let Some(session) = session {
                    session.listen_on(Some(Arc::clone(&stream)));
                }
                stream.begin(); // A client that sees this misses nothing from now on.
                (stream, 0)
            }
        };
        Ok(self.watch(exchange, &stream, attached, || ()))
    }

    pub(super) fn delete(&self, exchange: &Exchange<'_>) -> io::Result<bool> {
        let id = exchange.session_id().unwrap_or("-");
        self.evidence.note(&format!("delete {}", one_word(id)));
        if exchange.orders.has("no-delete") || exchange.orders.has("modern-only") {
            return exchange.send(&Plain::text(405, "Method Not Allowed\n"));
        }
        let known = exchange.http.sessions.end(id);
        exchange.send(&Plain::empty(if known { 200 } else { 404 }))
    }

    /// The one stream of a client of HTTP+SSE.
    pub(super) fn open_sse(self: &Arc<Self>, exchange: &Exchange<'_>) -> io::Result<bool> {
        let session = exchange.http.sessions.begin(self.life, &exchange.orders);
        self.evidence.note(&format!("session {}", session.id));
        let stream = exchange.stream(self.life, vec![], true)?;
        session.listen_on(Some(Arc::clone(&stream)));
        let port = exchange.orders.number("foreign-endpoint");
        let origin = port.map(|port| format!("http://127.0.0.1:{port}")).unwrap_or_default();
        stream.endpoint(&format!("{origin}/messages?session={}", session.id));
        let good = self.watch(exchange, &stream, 0, || ());
        exchange.http.sessions.end(&session.id);
        Ok(good)
    }

    /// A message of a client of HTTP+SSE: taken now, answered on its stream.
    pub(super) fn post_to_sse(
        self: &Arc<Self>,
        exchange: &Exchange<'_>,
        message: Message,
    ) -> io::Result<bool> {
        let stream = match self.session_of(exchange, None) {
            Ok(session) => session.and_then(|session| session.stream()),
            Err(refusal) => return exchange.send(&refusal),
        };
        let Some(stream) = stream else { return exchange.send(&Plain::text(404, "no such session\n")) };
        let output = Output::Response(stream);
        exchange.send(&Plain { status: 202, ..Plain::text(202, "Accepted") })?;
        match message {
            Message::Request(mut request) => {
                request.output = output;
                self.request(request);
            }
            message => self.receive(message, exchange.incoming.body.len(), &output),
        }
        Ok(true)
    }
}
