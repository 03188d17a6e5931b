//! One link to a server over HTTP: what is known of the session, and what of it runs.

use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use http::HeaderValue;
use regrow_core::Fault;
use tokio::sync::{Notify, OnceCell, watch};
use url::Position;

use super::Http;
use super::bookmark::Bookmark;
use super::client::HttpClient;
use super::older::stream::Older;
use super::parameters::Parameters;
use super::plain_connection::PlainConnection;
use super::plain_request::Target;
use crate::mask::Mask;

/// A link, from its opening to its end.
pub(super) struct HttpLink {
    pub(super) http: Http,
    pub(super) client: HttpClient,
    /// The server's origin, if requests go there without TLS and without a proxy. No redirect leads to another.
    pub(super) plain_origin: Option<Arc<str>>,
    known: Mutex<ServerFacts>,
    parameters: Mutex<Parameters>,
    /// Whether we have listed the tools ourselves.
    pub(super) listed: OnceCell<()>,
    /// The stream of a server of the first version.
    pub(super) older: OnceLock<Older>,
    /// Becomes true with the end.
    ended: watch::Sender<bool>,
    /// How many exchanges run,
    running: AtomicUsize,
    /// and whom to tell when none does.
    idle: Notify,
    /// A connection outside of the pool that can be used again.
    kept: Mutex<Option<PlainConnection>>,
}

/// What the server has told us.
struct ServerFacts {
    /// Where it is to be found, after redirects.
    target: Arc<Target>,
    session: HttpSession,
    version: Option<HeaderValue>,
    /// How far we heard what it said on its own.
    heard: Bookmark,
    /// It had a stream for that, and has not refused it since.
    had_stream: bool,
}

/// The session at the server, of the era that has them.
enum HttpSession {
    /// Not shaken hands yet, or in the era without.
    None,
    /// Some servers need no id.
    Open { id: Option<HeaderValue> },
    /// The server has forgotten it.
    Expired,
}

impl HttpLink {
    pub(super) fn new(http: Http, client: HttpClient) -> Arc<HttpLink> {
        let known = ServerFacts {
            target: Target::new(http.url.clone()),
            session: HttpSession::None,
            version: None,
            heard: Bookmark::default(),
            had_stream: false,
        };
        let plain_origin = client.goes_straight(&http.url).then(|| http.url[..Position::AfterPort].into());
        Arc::new(HttpLink {
            http,
            client,
            plain_origin,
            known: Mutex::new(known),
            parameters: Mutex::default(),
            listed: OnceCell::new(),
            older: OnceLock::new(),
            ended: watch::Sender::new(false),
            running: AtomicUsize::new(0),
            idle: Notify::new(),
            kept: Mutex::default(),
        })
    }

    pub(super) fn open_session(&self, id: Option<HeaderValue>) {
        // A copy: the original holds on to all that was read with it.
        let id = id.and_then(|id| HeaderValue::from_bytes(id.as_bytes()).ok()).map(|mut id| {
            id.set_sensitive(true);
            id
        });
        let mut known = self.known();
        known.session = HttpSession::Open { id };
        known.version = None;
    }

    pub(super) fn session_id(&self) -> Option<HeaderValue> {
        match &self.known().session {
            HttpSession::Open { id } => id.clone(),
            HttpSession::None | HttpSession::Expired => None,
        }
    }

    /// Whether the handshake is complete, so that the server may say something on its own.
    pub(super) fn has_session(&self) -> bool {
        matches!(self.known().session, HttpSession::Open { .. })
    }

    pub(super) fn set_version(&self, version: Option<HeaderValue>) {
        self.known().version = version;
    }

    pub(super) fn version(&self) -> Option<HeaderValue> {
        self.known().version.clone()
    }

    /// The server has forgotten the session: nothing more is sent in it, and nobody takes leave.
    pub(super) fn expire(&self) {
        self.known().session = HttpSession::Expired;
    }

    /// What a request in the session says about it: its id and the version, if there are any. None if the server has forgotten it.
    pub(super) fn session_headers(&self) -> Option<(Option<HeaderValue>, Option<HeaderValue>)> {
        let known = self.known();
        match &known.session {
            HttpSession::Open { id } => Some((id.clone(), known.version.clone())),
            HttpSession::None => Some((None, known.version.clone())),
            HttpSession::Expired => None,
        }
    }

    pub(super) fn heard(&self) -> Bookmark {
        self.known().heard.clone()
    }

    pub(super) fn has_heard(&self, bookmark: Bookmark) {
        self.known().heard = bookmark;
    }

    pub(super) fn had_stream(&self) -> bool {
        self.known().had_stream
    }

    pub(super) fn set_had_stream(&self, had_stream: bool) {
        self.known().had_stream = had_stream;
    }

    pub(super) fn target(&self) -> Arc<Target> {
        self.known().target.clone()
    }

    /// The server has answered elsewhere: it is asked there from now on.
    pub(super) fn moved(&self, from: &Target, to: &Arc<Target>) {
        let mut known = self.known();
        if known.target.url == from.url {
            known.target = to.clone();
        }
    }

    fn known(&self) -> MutexGuard<'_, ServerFacts> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn parameters(&self) -> MutexGuard<'_, Parameters> {
        self.parameters.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps a connection outside of the pool for the next that goes there.
    pub(super) fn keep(&self, connection: PlainConnection) {
        *self.kept.lock().unwrap_or_else(PoisonError::into_inner) = Some(connection);
    }

    pub(super) fn take_kept(&self) -> Option<PlainConnection> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// From now on nothing starts, and what runs stops.
    pub(super) fn stop(&self) {
        self.ended.send_replace(true);
    }

    /// Resolves when no exchange runs.
    pub(super) async fn stopped(&self) {
        loop {
            let idle = self.idle.notified();
            if self.running.load(SeqCst) == 0 {
                return;
            }
            idle.await;
        }
    }

    /// Runs an exchange until it is over, or the link is.
    pub(super) async fn during_life<T>(&self, exchange: Pin<&mut impl Future<Output = T>>) -> Option<T> {
        let mut ended = self.ended.subscribe();
        let _running = Running::new(self);
        tokio::select! {
            biased;
            _ = ended.wait_for(|ended| *ended) => None,
            done = exchange => Some(done),
        }
    }

    /// A fault on its way out: a session that the server has forgotten needs no farewell, and a server's own
    /// words may hold secrets of ours.
    pub(super) fn told(&self, mut fault: Fault) -> Fault {
        use Fault::*;
        if matches!(fault, SessionExpired { .. }) {
            self.expire();
        }
        let words = match &mut fault {
            Status { said, .. } | NoSession { said, .. } => said,
            NotMcp { found } => found,
            Redirected { to } => to,
            Broken { reason }
            | Unreachable { reason, .. }
            | UnknownHost { reason, .. }
            | RefreshFailed { reason }
            | Untrusted { reason, .. } => reason,
            _ => return fault,
        };
        let session = self.session_id().and_then(|id| id.to_str().ok().map(str::to_owned));
        *words = Mask::new(self.http.secrets().into_iter().chain(session)).apply(words);
        fault
    }
}

/// Counts one exchange while it runs.
struct Running<'a>(&'a HttpLink);

impl<'a> Running<'a> {
    fn new(link: &'a HttpLink) -> Running<'a> {
        link.running.fetch_add(1, SeqCst);
        Running(link)
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        if self.0.running.fetch_sub(1, SeqCst) == 1 {
            self.0.idle.notify_waiters();
        }
    }
}
