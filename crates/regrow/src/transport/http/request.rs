//! One HTTP request to the server: with its headers, through credentials and redirects, up to the head of its answer.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::header::{ACCEPT, ACCEPT_ENCODING, CONTENT_TYPE, LOCATION};
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use regrow_core::Fault;
use regrow_protocol::frame::Parts;
use regrow_protocol::header;
use tokio::sync::watch;
use tokio::time::timeout;
use url::Url;

use super::access::Shown;
use super::address::{Masked, same_origin};
use super::credential::Rejected;
use super::departure::Departure;
use super::diagnose;
use super::link::HttpLink;
use super::plain_connection::Unanswered;
use super::plain_pool::Home;
use super::plain_request::{self, Target};
use super::refusal::{MAX_BODY, Refusal};
use super::response::Response;
use crate::transport::ExchangeHandler;
use crate::within::{passed, within};

pub(super) const SESSION_ID: HeaderName = HeaderName::from_static(header::SESSION_ID);
pub(super) const PROTOCOL_VERSION: HeaderName = HeaderName::from_static(header::PROTOCOL_VERSION);
pub(super) const LAST_EVENT_ID: HeaderName = HeaderName::from_static(header::LAST_EVENT_ID);

const JSON: HeaderValue = HeaderValue::from_static(header::JSON);
const EVENTS: HeaderValue = HeaderValue::from_static(header::EVENT_STREAM);
const BOTH: HeaderValue = HeaderValue::from_static("application/json, text/event-stream");
/// There is room for this many headers of a message's own before their list grows,
const USUAL_HEADERS: usize = 6;
/// and for this many of a whole request.
const USUAL_ALL_HEADERS: usize = 12;
const MAX_REDIRECTS: usize = 3;
/// So often may a message be refused for what the credential lacks: others widen it for their needs at the same time.
const MAX_STEP_UPS: usize = 3;
const READ_REFUSAL: Duration = Duration::from_secs(5);

/// What is to be sent. It can be sent again, where the server provably did not take it.
pub(super) struct Outgoing {
    pub(super) method: Method,
    pub(super) target: Arc<Target>,
    /// Each name once.
    pub(super) headers: Vec<(HeaderName, HeaderValue)>,
    pub(super) message: Option<(Parts, Arc<dyn ExchangeHandler>)>,
    /// Whether it goes on a connection outside of the pool, where that can be.
    pub(super) dedicated: bool,
    /// Whether the answer may begin as late as it likes: the server waits for something first.
    pub(super) blocks: bool,
}

/// How often a message was sent again with another credential.
#[derive(Default)]
struct Renewals {
    /// After 401,
    unauthorized: usize,
    /// and after 403.
    forbidden: usize,
}

/// How the server began to answer.
pub(super) enum HttpReply {
    /// With success: the body is still to be read.
    Good(Response),
    /// With another status: all that we want of it was read.
    Refused(Refusal),
}

impl Outgoing {
    /// A message to the server.
    pub(super) fn post(target: Arc<Target>, message: Parts, handler: Arc<dyn ExchangeHandler>) -> Outgoing {
        let mut headers = Vec::with_capacity(USUAL_HEADERS);
        headers.extend([(ACCEPT, BOTH), (CONTENT_TYPE, JSON)]);
        Outgoing {
            method: Method::POST,
            target,
            headers,
            message: Some((message, handler)),
            dedicated: false,
            blocks: false,
        }
    }

    /// A request for a stream of events.
    pub(super) fn get(target: Arc<Target>) -> Outgoing {
        let headers = vec![(ACCEPT, EVENTS)];
        Outgoing { method: Method::GET, target, headers, message: None, dedicated: true, blocks: false }
    }

    /// A request without a body or a wish.
    pub(super) fn bare(method: Method, target: Arc<Target>) -> Outgoing {
        Outgoing { method, target, headers: vec![], message: None, dedicated: false, blocks: false }
    }

    /// Whether a client waits for it now.
    fn is_awaited(&self) -> bool {
        self.message.as_ref().is_some_and(|(_, handler)| handler.is_awaited())
    }

    pub(super) fn with(mut self, name: HeaderName, value: Option<HeaderValue>) -> Outgoing {
        self.headers.extend(value.map(|value| (name, value)));
        self
    }
}

impl HttpLink {
    /// Sends it, once more where new credentials or a new place on the same server are all that it takes.
    pub(super) async fn send(&self, outgoing: &mut Outgoing) -> Result<HttpReply, Fault> {
        let mut asked: Option<Arc<Target>> = None;
        let mut redirects = 0;
        let mut renewals = Renewals::default();
        loop {
            let shown = self.http.access.show();
            let response = self.send_once(outgoing, &shown.headers).await?;
            if response.status.is_success() {
                if let Some(asked) = asked {
                    self.moved(&asked, &outgoing.target);
                }
                return Ok(HttpReply::Good(response));
            }
            if response.status.is_redirection() {
                let target = Target::new(followed(&outgoing.target.url, &response, redirects)?);
                asked.get_or_insert(std::mem::replace(&mut outgoing.target, target));
                redirects += 1;
                continue;
            }
            // Boxed, since few requests are refused.
            if let Some(refusal) = Box::pin(self.refusal(outgoing, &shown, response, &mut renewals)).await? {
                return Ok(HttpReply::Refused(refusal));
            }
        }
    }

    /// The server refused it. None if there is another credential to send it with.
    async fn refusal(
        &self,
        outgoing: &Outgoing,
        shown: &Shown,
        mut response: Response,
        renewals: &mut Renewals,
    ) -> Result<Option<Refusal>, Fault> {
        let code = response.status.as_u16();
        let headers = std::mem::take(&mut response.headers);
        let refusal = Refusal { code, headers, body: beginning(response).await };
        if !refusal.wants_credentials() {
            return Ok(Some(refusal));
        }
        let mut rejected = Rejected::new(shown.headers.clone(), code, refusal.challenges());
        rejected.is_awaited = outgoing.is_awaited();
        let count = if code == 401 { &mut renewals.unauthorized } else { &mut renewals.forbidden };
        if self.renew(outgoing, shown, &mut rejected, *count).await {
            *count += 1;
            return Ok(None);
        }
        if code == 403 && refusal.answers() {
            return Ok(Some(refusal));
        }
        let mut fault = self.http.access.fault(code);
        if let Fault::SignInNeeded { may_ask, .. } = &mut fault {
            *may_ask &= !rejected.is_awaited;
        }
        Err(fault)
    }

    /// Gets another credential to show, for a message that had another one this often. Returns false if there is none.
    async fn renew(&self, outgoing: &Outgoing, shown: &Shown, rejected: &mut Rejected, count: usize) -> bool {
        loop {
            let most = match (rejected.code, rejected.is_awaited) {
                (401, false) => 1,
                (401, true) => 2, // The first may have come without asking the user, through another request.
                _ => MAX_STEP_UPS,
            };
            if count < most && self.http.access.renew(shown, rejected.clone()).await {
                return true;
            }
            if rejected.is_awaited || !outgoing.is_awaited() {
                return false;
            }
            rejected.is_awaited = true; // A client has begun to wait for it.
        }
    }

    pub(super) async fn send_once(
        &self,
        outgoing: &Outgoing,
        credentials: &[(HeaderName, HeaderValue)],
    ) -> Result<Response, Fault> {
        let mut headers = HeaderMap::with_capacity(USUAL_ALL_HEADERS);
        let given = self.http.headers.iter().chain(credentials.iter().map(|(name, value)| (name, value)));
        for (name, value) in given.filter(|(name, _)| !name.as_str().starts_with("mcp-")) {
            headers.insert(name.clone(), value.clone());
        }
        // Ours come last: nobody else's stand in their place, nor where we have none.
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        for (name, value) in &outgoing.headers {
            headers.insert(name.clone(), value.clone());
        }
        let header_limit = self.http.limits.header.filter(|_| !outgoing.blocks);
        let (mut body, mut left) = (None, None);
        if let Some((message, handler)) = &outgoing.message {
            let mut departure = Departure::new(message.clone(), handler.clone());
            left = header_limit.map(|limit| (departure.left(), limit));
            body = Some(departure);
        }
        let sending = pin!(async {
            match &self.plain_origin {
                Some(origin) if outgoing.message.is_none() => {
                    Box::pin(self.send_bare(outgoing, origin, &headers)).await
                }
                None if outgoing.message.is_none() => {
                    Box::pin(self.send_bare_reqwest(outgoing, headers)).await
                }
                Some(_) if outgoing.dedicated => {
                    Box::pin(self.send_dedicated(outgoing, headers, body.unwrap_or_default())).await
                }
                Some(origin) => self.send_plain(outgoing, origin, headers, body.unwrap_or_default()).await,
                None => Box::pin(self.send_reqwest(outgoing, headers, body)).await,
            }
        });
        let response = match left {
            Some((left, limit)) => tokio::select! {
                biased;
                response = sending => response,
                () = Box::pin(late(left, limit)) => return Err(Fault::Stalled { after: limit }),
            },
            None => sending.await,
        }?;
        if let Some((_, handler)) = &outgoing.message {
            handler.heard();
        }
        Ok(response)
    }

    async fn send_reqwest(
        &self,
        outgoing: &Outgoing,
        headers: HeaderMap,
        body: Option<Departure>,
    ) -> Result<Response, Fault> {
        let mut request = reqwest::Request::new(outgoing.method.clone(), outgoing.target.url.clone());
        *request.headers_mut() = headers;
        *request.body_mut() = body.map(reqwest::Body::wrap);
        let response = self.client.reqwest().await?.execute(request).await;
        let response =
            response.map_err(|error| diagnose::start(&error, &outgoing.target.url, &self.client))?;
        Ok(Response::reqwest(response))
    }

    /// Like `send_bare`, but nobody knows whether the connection was used before.
    async fn send_bare_reqwest(&self, outgoing: &Outgoing, headers: HeaderMap) -> Result<Response, Fault> {
        match self.send_reqwest(outgoing, headers.clone(), None).await {
            Err(Fault::Broken { .. }) => self.send_reqwest(outgoing, headers, None).await,
            sent => sent,
        }
    }

    /// On a connection of the pool, or a new one that goes there.
    async fn send_plain(
        &self,
        outgoing: &Outgoing,
        origin: &Arc<str>,
        headers: HeaderMap,
        body: Departure,
    ) -> Result<Response, Fault> {
        let mut request = self.plain_request(outgoing, headers, body)?;
        let pool = &self.client.pool;
        loop {
            let (mut connection, is_new) = match pool.take(origin) {
                Some(connection) => (connection, false),
                None => (Box::pin(plain_request::connect(&self.client, &outgoing.target.url)).await?, true),
            };
            match connection.send(request).await {
                Ok(response) => {
                    return Ok(Response::plain(connection, response, Some(Home::new(pool, origin))));
                }
                Err(unanswered) => match *unanswered {
                    // The server has just closed it.
                    Unanswered { unsent: Some(unsent), .. } if !is_new => request = unsent,
                    Unanswered { fault, .. } => return Err(fault),
                },
            }
        }
    }

    /// A request without a message, on a connection that was used before if there is one. The server may be closing that at this moment. Such a
    /// request runs nothing (it asks for a stream, whether the server lives, or to forget a session), so it is sent once more, on a new
    /// connection. Calls never are: whether they may be is for the core to decide.
    async fn send_bare(
        &self,
        outgoing: &Outgoing,
        origin: &Arc<str>,
        headers: &HeaderMap,
    ) -> Result<Response, Fault> {
        let pool = &self.client.pool;
        let home = || (!outgoing.dedicated).then(|| Home::new(pool, origin));
        let request = || self.plain_request(outgoing, headers.clone(), Departure::default());
        let used = if outgoing.dedicated { self.take_kept() } else { pool.take(origin) };
        if let Some(mut used) = used {
            match used.send(request()?).await.map_err(|unanswered| unanswered.fault) {
                Ok(response) => return Ok(Response::plain(used, response, home())),
                Err(Fault::Broken { .. }) => {}
                Err(fault) => return Err(fault),
            }
        }
        let mut connection = plain_request::connect(&self.client, &outgoing.target.url).await?;
        let response = connection.send(request()?).await.map_err(|unanswered| unanswered.fault)?;
        Ok(Response::plain(connection, response, home()))
    }

    /// A message on a new connection outside of the pool.
    async fn send_dedicated(
        &self,
        outgoing: &Outgoing,
        headers: HeaderMap,
        body: Departure,
    ) -> Result<Response, Fault> {
        let mut connection = plain_request::connect(&self.client, &outgoing.target.url).await?;
        let request = self.plain_request(outgoing, headers, body)?;
        let response = connection.send(request).await.map_err(|unanswered| unanswered.fault)?;
        Ok(Response::plain(connection, response, None))
    }

    fn plain_request(
        &self,
        outgoing: &Outgoing,
        headers: HeaderMap,
        body: Departure,
    ) -> Result<http::Request<Departure>, Fault> {
        let Outgoing { method, target, .. } = outgoing;
        let request = plain_request::request(method.clone(), target, headers, body);
        request.map_err(|reason| diagnose::unreachable(reason, &target.url, &self.client))
    }

    /// The next piece of an answer, within the limit; none at its end.
    pub(super) async fn next_chunk(
        &self,
        response: &mut Response,
        limit: Option<Duration>,
    ) -> Result<Option<Bytes>, Fault> {
        match limit {
            None => response.chunk().await,
            // Boxed, since most limits are not set.
            Some(limit) => Box::pin(within(limit, response.chunk()))
                .await
                .unwrap_or(Err(Fault::Stalled { after: limit })),
        }
    }
}

/// Resolves when so much time has passed since the message left.
async fn late(mut left: watch::Receiver<bool>, limit: Duration) {
    let has_left = left.wait_for(|left| *left).await.is_ok();
    if has_left {
        passed(limit).await;
    } else {
        // The body is gone without having left, so the request has failed: that is told elsewhere.
        std::future::pending().await
    }
}

/// Where a redirect leads, if we go there.
fn followed(from: &Url, response: &Response, redirects: usize) -> Result<Url, Fault> {
    let code = response.status.as_u16();
    let location = response.headers.get(LOCATION).and_then(|value| value.to_str().ok());
    let target = location.and_then(|location| from.join(location).ok());
    let Some(mut target) = target else {
        return Err(Fault::Status { code, said: ": a redirect to nowhere".into() });
    };
    // Only these two keep method and body.
    if !matches!(code, 307 | 308) || redirects == MAX_REDIRECTS || !same_origin(from, &target) {
        return Err(Fault::Redirected { to: Masked(&target).to_string() });
    }
    target.set_fragment(None);
    // Of a URL with a host, which it has as we have come from the same one.
    let _ = target.set_username("").and(target.set_password(None));
    Ok(target)
}

/// As much of a body as we want to see of a refusal.
async fn beginning(mut response: Response) -> Bytes {
    let mut body = BytesMut::new();
    let read = async {
        while let Ok(Some(chunk)) = response.chunk().await {
            body.extend_from_slice(&chunk[..chunk.len().min(MAX_BODY - body.len())]);
            if body.len() == MAX_BODY {
                break;
            }
        }
    };
    // The status is what counts: a body that does not come is not waited for.
    let _ = timeout(READ_REFUSAL, read).await;
    body.freeze()
}
