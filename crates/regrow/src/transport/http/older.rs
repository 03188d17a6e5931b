//! The older HTTP+SSE (2024-11-05): messages go to an address that a stream names, and answers come on that stream.

use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use regrow_core::Fault;
use regrow_protocol::events::Event;
use regrow_protocol::lines::Line;
use tokio::sync::watch;
use tokio::time::timeout;

use super::address::{Masked, same_origin};
use super::bookmark::Bookmark;
use super::http_exchange::HttpExchange;
use super::link::HttpLink;
use super::plain_request::Target;
use super::refusal::Refusal;
use super::request::{HttpReply, Outgoing};
use super::response::{Content, Response};
use crate::transport::ExchangeHandler;
use crate::within::within;
use stream::{Older, OlderStream, Switch};

pub(super) mod stream;

/// How long a message may still be answered when the stream is over.
const LAST_WORD: Duration = Duration::from_millis(100);

/// Whether such a refusal of a handshake is what a server of this kind gives.
pub(super) fn is_hinted_by(refusal: &Refusal) -> bool {
    matches!(refusal.code, 400 | 404 | 405 | 406 | 415) && refusal.response().is_none()
}

impl Older {
    /// Opens the stream; none if there is none at this address. What it brings goes to `handler`.
    pub(super) async fn open(
        link: &Arc<HttpLink>,
        handler: Arc<dyn ExchangeHandler>,
    ) -> Result<Option<Older>, Fault> {
        let mut outgoing = Outgoing::get(link.target());
        let limit = link.client.connect;
        let opened = within(limit, link.send(&mut outgoing)).await;
        let response = match opened {
            Some(Ok(HttpReply::Good(response))) if response.content() == Ok(Content::Events) => response,
            Some(Err(fault)) => return Err(fault),
            Some(Ok(_)) | None => return Ok(None),
        };
        let handler = Arc::new(Switch { current: Mutex::new(handler), answered: watch::Sender::new(false) });
        let (named, mut endpoint) = watch::channel(None);
        let stream = OlderStream::start(link.clone(), response, handler.clone(), named);
        let named = within(limit, endpoint.wait_for(Option::is_some)).await;
        let Some(Ok(Some(text))) = named.map(|named| named.map(|named| named.clone())) else {
            return Ok(None);
        };
        let from = &link.target().url;
        let endpoint = from.join(&text).map_err(|_| Fault::NotMcp {
            found: "an event stream without a valid address for messages".into(),
        })?;
        if !same_origin(from, &endpoint) {
            let found = format!("an event stream that points to another origin, {}", Masked(&endpoint));
            return Err(Fault::NotMcp { found });
        }
        Ok(Some(Older { endpoint: Target::new(endpoint), handler, stream }))
    }

    /// Carries a message; its answer comes on the stream. Without that there is none to wait for.
    pub(super) async fn post(
        &self,
        link: &HttpLink,
        http_exchange: &mut HttpExchange,
    ) -> Result<HttpReply, Fault> {
        http_exchange.in_session = true;
        let over = self.stream.over.borrow().clone();
        if let Some(fault) = over {
            return Err(fault);
        }
        let body = http_exchange.message.body();
        let mut outgoing = Outgoing::post(self.endpoint.clone(), body, http_exchange.handler.clone());
        let mut sending = pin!(link.send(&mut outgoing));
        tokio::select! {
            biased;
            reply = &mut sending => reply,
            // What the server says to the message itself tells whether that has arrived.
            fault = self.stream.end() => timeout(LAST_WORD, sending).await.unwrap_or(Err(fault)),
        }
    }
}

impl OlderStream {
    fn start(
        link: Arc<HttpLink>,
        mut response: Response,
        handler: Arc<Switch>,
        endpoint: watch::Sender<Option<String>>,
    ) -> OlderStream {
        let (over, told) = watch::channel(None);
        let task = tokio::spawn(async move {
            let heard: Arc<dyn ExchangeHandler> = handler.clone();
            let read = async {
                let mut bookmark = Bookmark::default();
                let take = |event| {
                    take(event, &handler, &endpoint);
                    Ok(false)
                };
                super::stream::until(&link, &heard, None, &mut response, &mut bookmark, None, take).await
            };
            let fault = match link.during_life(pin!(read)).await {
                Some(Ok(_)) => Fault::SessionExpired { ran: true }, // In good order; what was sent may have run.
                Some(Err(fault)) => fault,
                None => Fault::Closed,
            };
            over.send_replace(Some(fault));
        });
        OlderStream { over: told, task: task.abort_handle() }
    }
}

fn take(event: Event, handler: &Switch, endpoint: &watch::Sender<Option<String>>) {
    if event.name.as_deref() != Some("endpoint") {
        if let Some(line) = event.into_message() {
            handler.take(line);
        }
        return;
    }
    if let Some(Line::Whole(bytes)) = event.data {
        let named = String::from_utf8_lossy(&bytes).trim().to_owned();
        // The first counts.
        endpoint.send_if_modified(|before| {
            let first = before.is_none();
            before.get_or_insert(named);
            first
        });
    }
}
