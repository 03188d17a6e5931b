//! The older HTTP+SSE (2024-11-05): messages go to an address that a stream names, and answers come on that stream.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use regrow_core::Fault;
use regrow_protocol::events::Event;
use regrow_protocol::lines::Line;
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio::time::timeout;
use url::Url;

use super::address::{Masked, same_origin};
use super::answer::{self, Content};
use super::errand::Errand;
use super::link::HttpLink;
use super::refusal::Refusal;
use super::request::{Outgoing, Reply};
use super::response::Response;
use super::stream::{self, Bookmark};
use crate::transport::{BoxFuture, Ear};
use crate::within::within;

/// A stream that is open, and where messages go.
pub(super) struct Older {
    endpoint: Url,
    ear: Arc<Switch>,
    stream: Stream,
}

/// How long a message may still be answered when the stream is over.
const LAST_WORD: Duration = Duration::from_millis(100);

/// The task that reads the stream. It ends with the link, and with this.
struct Stream {
    /// Why the stream is over, once it is.
    over: watch::Receiver<Option<Fault>>,
    task: AbortHandle,
}

/// Whether such a refusal of a handshake is what a server of this kind gives.
pub(super) fn is_hinted_by(refusal: &Refusal) -> bool {
    matches!(refusal.code, 400 | 404 | 405 | 406 | 415) && refusal.response().is_none()
}

impl Older {
    /// Opens the stream; none if there is none at this address. What it brings goes to `ear`.
    pub(super) async fn open(link: &Arc<HttpLink>, ear: Arc<dyn Ear>) -> Result<Option<Older>, Fault> {
        let opening = link.send(Outgoing::get(link.url()));
        let limit = link.client.connect;
        let opened = within(limit, opening).await;
        let response = match opened {
            Some(Ok(Reply::Good(response))) if answer::content(&response) == Ok(Content::Events) => response,
            Some(Err(fault)) => return Err(fault),
            Some(Ok(_)) | None => return Ok(None),
        };
        let ear = Arc::new(Switch { current: Mutex::new(ear), answered: watch::Sender::new(false) });
        let (named, mut endpoint) = watch::channel(None);
        let stream = Stream::start(link.clone(), response, ear.clone(), named);
        let named = within(limit, endpoint.wait_for(Option::is_some)).await;
        let Some(Ok(Some(text))) = named.map(|named| named.map(|named| named.clone())) else {
            return Ok(None);
        };
        let from = link.url();
        let endpoint = from.join(&text).map_err(|_| Fault::NotMcp {
            found: "a stream of events that names no valid address for messages".into(),
        })?;
        if !same_origin(&from, &endpoint) {
            let found = format!("a stream of events that sends messages elsewhere, to {}", Masked(&endpoint));
            return Err(Fault::NotMcp { found });
        }
        Ok(Some(Older { endpoint, ear, stream }))
    }

    /// Carries a message; its answer comes on the stream. Without that there is none to wait for.
    pub(super) async fn post(&self, link: &HttpLink, errand: &mut Errand) -> Result<Reply, Fault> {
        errand.in_session = true;
        let over = self.stream.over.borrow().clone();
        if let Some(fault) = over {
            return Err(fault);
        }
        let bytes = errand.message.bytes().clone();
        let sending = link.send(Outgoing::post(self.endpoint.clone(), bytes, errand.ear.clone()));
        tokio::pin!(sending);
        tokio::select! {
            reply = &mut sending => reply,
            // What the server says to the message itself tells whether that has arrived.
            fault = self.stream.end() => timeout(LAST_WORD, sending).await.unwrap_or(Err(fault)),
        }
    }

    /// Resolves when the ear that the stream was opened with has its answer, or with the fault if that cannot come.
    pub(super) async fn answered(&self) -> Result<(), Fault> {
        let mut answered = self.ear.answered.subscribe();
        tokio::select! {
            biased;
            _ = answered.wait_for(|answered| *answered) => Ok(()),
            fault = self.stream.end() => Err(fault),
        }
    }

    /// From now on this ear hears what comes; resolves with the end of the stream, which is that of the session.
    pub(super) async fn listen(&self, ear: Arc<dyn Ear>) -> Fault {
        *self.ear.current.lock().unwrap_or_else(PoisonError::into_inner) = ear;
        self.stream.end().await
    }
}

impl Stream {
    fn start(
        link: Arc<HttpLink>,
        mut response: Response,
        ear: Arc<Switch>,
        endpoint: watch::Sender<Option<String>>,
    ) -> Stream {
        let (over, told) = watch::channel(None);
        let task = tokio::spawn(async move {
            let heard: Arc<dyn Ear> = ear.clone();
            let read = async {
                let mut bookmark = Bookmark::default();
                let take = |event| {
                    take(event, &ear, &endpoint);
                    Ok(false)
                };
                stream::until(&link, &heard, None, &mut response, &mut bookmark, take).await
            };
            let fault = match link.during_life(read).await {
                Some(Ok(_)) => Fault::SessionExpired { ran: true }, // In good order; what was sent may have run.
                Some(Err(fault)) => fault,
                None => Fault::Closed,
            };
            over.send_replace(Some(fault));
        });
        Stream { over: told, task: task.abort_handle() }
    }

    async fn end(&self) -> Fault {
        match self.over.clone().wait_for(Option::is_some).await.map(|over| over.clone()) {
            Ok(Some(fault)) => fault,
            // The task is gone without a word: so is the runtime.
            Ok(None) | Err(_) => Fault::Closed,
        }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn take(event: Event, ear: &Switch, endpoint: &watch::Sender<Option<String>>) {
    if event.name.as_deref() != Some("endpoint") {
        if let Some(line) = event.into_message() {
            ear.take(line);
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

/// Hands on to the ear that was given last.
struct Switch {
    current: Mutex<Arc<dyn Ear>>,
    answered: watch::Sender<bool>,
}

impl Switch {
    fn current(&self) -> Arc<dyn Ear> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Ear for Switch {
    fn sent(&self) -> bool {
        true
    }

    fn heard(&self) {
        self.current().heard();
    }

    fn take(&self, message: Line) -> bool {
        let answered = self.current().take(message);
        self.answered.send_if_modified(|before| !std::mem::replace(before, *before || answered) && answered);
        answered
    }

    fn room(&self) -> BoxFuture<()> {
        self.current().room()
    }
}
