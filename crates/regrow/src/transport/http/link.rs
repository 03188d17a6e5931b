//! One link to a server over HTTP: what is known of the session, and the way of a message through it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use http::{HeaderValue, Method};
use regrow_core::Fault;
use serde::Deserialize;
use tokio::sync::watch;
use url::Url;

use super::client::HttpClient;
use super::errand::Errand;
use super::mirror::{self, Tools};
use super::refusal::Meaning;
use super::request::{Outgoing, PROTOCOL_VERSION, Reply, SESSION_ID};
use super::stream::Bookmark;
use super::{Http, answer, listen};
use crate::frame::Frame;
use crate::lines::Line;
use crate::transport::{BoxFuture, Deaf, Ear, Exchanges, Receipt};

/// A link, from its opening to its end.
pub(super) struct HttpLink {
    pub(super) http: Http,
    pub(super) client: HttpClient,
    known: Mutex<Known>,
    pub(super) tools: Mutex<Tools>,
    /// Becomes true with the end.
    ended: watch::Sender<bool>,
    /// How many exchanges run.
    running: watch::Sender<usize>,
}

/// What the server has told us.
struct Known {
    /// Where it is to be found, after redirects.
    url: Url,
    session: Session,
    version: Option<HeaderValue>,
    /// How far we heard what it said by itself.
    heard: Bookmark,
}

/// The session at the server, of the era that has them.
enum Session {
    /// Not shaken hands yet, or in the era without.
    None,
    /// Some servers need no id.
    Open { id: Option<HeaderValue> },
    /// The server has forgotten it.
    Expired,
}

impl HttpLink {
    pub(super) fn new(http: Http, client: HttpClient) -> Arc<HttpLink> {
        let known = Known {
            url: http.url.clone(),
            session: Session::None,
            version: None,
            heard: Bookmark::default(),
        };
        Arc::new(HttpLink {
            http,
            client,
            known: Mutex::new(known),
            tools: Mutex::default(),
            ended: watch::Sender::new(false),
            running: watch::Sender::new(0),
        })
    }

    async fn exchange(&self, message: Frame, ear: Arc<dyn Ear>) -> Result<Receipt, Fault> {
        let mut errand = Errand::new(message, ear);
        let reply = self.post(&mut errand).await?;
        match reply {
            Reply::Good(response) => {
                if errand.is("initialize") {
                    self.open_session(response.headers().get(SESSION_ID).cloned());
                }
                answer::read(self, &errand, response).await
            }
            Reply::Refused(refusal) => match refusal.meaning(&errand, SystemTime::now()) {
                Meaning::Fault(fault) => Err(fault),
                Meaning::Answer(bytes) => {
                    errand.hand_on(self, Line::Whole(bytes))?;
                    Ok(Receipt::Done)
                }
            },
        }
    }

    async fn post(&self, errand: &mut Errand) -> Result<Reply, Fault> {
        let mut outgoing = Outgoing::post(self.url(), errand.message.bytes().clone(), errand.ear.clone());
        if errand.modern {
            mirror::headers(&errand.message, &self.tools(), &mut outgoing.headers);
        } else if !errand.is("initialize") {
            if matches!(self.known().session, Session::Expired) {
                return Err(Fault::SessionExpired { ran: false }); // Another exchange has just learnt it.
            }
            errand.session = self.session_id();
            outgoing =
                outgoing.with(SESSION_ID, errand.session.clone()).with(PROTOCOL_VERSION, self.version());
        }
        self.send(outgoing).await
    }

    /// Takes note of what an answer tells about the server. Before it is handed on: the next message may follow at once.
    pub(super) fn learn(&self, errand: &Errand, response: &Frame) {
        #[derive(Deserialize)]
        struct Initialized {
            #[serde(rename = "protocolVersion")]
            version: String,
        }
        let Some(result) = response.result() else { return };
        if errand.is("initialize") {
            let initialized = serde_json::from_slice::<Initialized>(result).ok();
            self.known().version =
                initialized.and_then(|initialized| HeaderValue::try_from(initialized.version).ok());
        }
        if errand.modern && errand.is("tools/list") {
            self.tools().learn(result);
        }
    }

    fn open_session(&self, id: Option<HeaderValue>) {
        let id = id.map(|mut id| {
            id.set_sensitive(true);
            id
        });
        let mut known = self.known();
        known.session = Session::Open { id };
        known.version = None;
    }

    pub(super) fn session_id(&self) -> Option<HeaderValue> {
        match &self.known().session {
            Session::Open { id } => id.clone(),
            Session::None | Session::Expired => None,
        }
    }

    /// Whether hands were shaken, so that the server may say something by itself.
    pub(super) fn has_session(&self) -> bool {
        matches!(self.known().session, Session::Open { .. })
    }

    pub(super) fn version(&self) -> Option<HeaderValue> {
        self.known().version.clone()
    }

    pub(super) fn heard(&self) -> Bookmark {
        self.known().heard.clone()
    }

    pub(super) fn has_heard(&self, bookmark: Bookmark) {
        self.known().heard = bookmark;
    }

    pub(super) fn url(&self) -> Url {
        self.known().url.clone()
    }

    pub(super) fn moved_to(&self, url: &Url) {
        self.known().url = url.clone();
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tools(&self) -> MutexGuard<'_, Tools> {
        self.tools.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on nothing starts, and what runs stops.
    pub(super) fn stop(&self) {
        self.ended.send_replace(true);
    }

    /// Resolves when no exchange runs.
    pub(super) async fn stopped(&self) {
        // It cannot fail: the sender is ours.
        let _ = self.running.subscribe().wait_for(|running| *running == 0).await;
    }

    /// Runs an exchange until it is over, or the link is.
    async fn during_life<T>(&self, exchange: impl Future<Output = T>) -> Option<T> {
        let mut ended = self.ended.subscribe();
        let _running = Running::new(&self.running);
        tokio::select! {
            biased;
            _ = ended.wait_for(|ended| *ended) => None,
            done = exchange => Some(done),
        }
    }

    fn note(&self, fault: &Fault) {
        if matches!(fault, Fault::SessionExpired { .. }) {
            self.known().session = Session::Expired;
        }
    }
}

impl Exchanges for HttpLink {
    fn carry(self: Arc<Self>, message: Frame, ear: Arc<dyn Ear>) -> BoxFuture<Result<Receipt, Fault>> {
        Box::pin(async move {
            let carried = self.during_life(self.exchange(message, ear)).await.unwrap_or(Err(Fault::Closed));
            carried.inspect_err(|fault| self.note(fault))
        })
    }

    fn listen(self: Arc<Self>, ear: Arc<dyn Ear>) -> BoxFuture<Deaf> {
        Box::pin(async move {
            let fault = self.during_life(listen::listen(&self, &ear)).await.unwrap_or(Fault::Closed);
            self.note(&fault);
            match fault {
                Fault::SessionExpired { .. } | Fault::Closed => Deaf::Over(fault),
                fault => Deaf::Lost(fault),
            }
        })
    }

    fn knock(self: Arc<Self>) -> BoxFuture<Result<(), Fault>> {
        Box::pin(async move {
            let outgoing = Outgoing::bare(Method::OPTIONS, self.url());
            let answered = self.during_life(self.send(outgoing)).await.unwrap_or(Err(Fault::Closed));
            match answered {
                // Whatever it says, it lives.
                Ok(_) | Err(Fault::Unauthorized { .. } | Fault::Redirected { .. } | Fault::Status { .. }) => {
                    Ok(())
                }
                Err(fault) => Err(fault),
            }
        })
    }
}

/// Counts one exchange while it runs.
struct Running<'a>(&'a watch::Sender<usize>);

impl<'a> Running<'a> {
    fn new(running: &'a watch::Sender<usize>) -> Running<'a> {
        running.send_modify(|running| *running += 1);
        Running(running)
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.send_modify(|running| *running -= 1);
    }
}
