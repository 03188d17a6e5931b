//! What stands in front of every page: is this host ours, may this web page talk to us, and who is it?

use std::sync::Arc;

use axum::response::{IntoResponse, Response};
use http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_HEADERS,
    ACCESS_CONTROL_REQUEST_METHOD, CONNECTION, HOST, ORIGIN, VARY,
};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri, Version};
use regrow_protocol::header::SESSION_ID;
use tokio::time::Instant;

use super::access::{Access, Stranger};
use super::connections::ConnectionInfo;
use super::face_stats::FaceStats;
use super::origin::{Hosts, Origins, Standing};
use super::refusal::{Refusal, empty};
use crate::admit::Principal;
use crate::audit::{Audit, Record, principal_name, session_tag};
use crate::operate::is_browser;

/// These tell a stranger no more than that we are there, and those who ask cannot be given a token.
const OPEN: [&str; 2] = ["/livez", "/readyz"];

const SEC_FETCH_MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");
const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

#[derive(Debug)]
pub(super) struct Guard {
    pub(super) hosts: Hosts,
    pub(super) origins: Origins,
    pub(super) access: Access,
    pub(super) audit: Audit,
    pub(super) face_stats: Arc<FaceStats>,
}

/// What the audit log gets to know of an HTTP request.
struct Asked {
    principal: Result<Principal, Stranger>,
    method: Method,
    uri: Uri,
    session: Option<HeaderValue>,
    began: Instant,
}

impl Asked {
    fn of(head: &Parts, principal: Result<Principal, Stranger>) -> Asked {
        Asked {
            principal,
            method: head.method.clone(),
            uri: head.uri.clone(),
            session: head.headers.get(SESSION_ID).cloned(),
            began: Instant::now(),
        }
    }

    fn complete(self, record: Record, status: StatusCode) -> Record {
        let principal = match self.principal {
            Ok(principal) => principal_name(principal),
            Err(Stranger::OtherUser(user)) => format!("user-{user}").into(),
            Err(_) => "none".into(),
        };
        Record {
            principal: Some(principal),
            // Without the query, which may have a session id.
            request: Some(format!("{} {}", self.method, self.uri.path()).into()),
            session: self.session.and_then(|id| id.to_str().ok().map(session_tag)),
            http_status: Some(status.as_u16()),
            duration: Some(self.began.elapsed()),
            ..record
        }
    }
}

/// A client that is nobody to us does not keep its connection. HTTP/2 has no header for that: there the connection has a short time.
fn close(version: Version, mut response: Response) -> Response {
    if version < Version::HTTP_2 {
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

impl Guard {
    /// Lets a request through to its page, or answers it. What the response has for the audit log is written before it leaves.
    /// The page hears who makes the request; it may be nobody if the page is open to all.
    pub(super) async fn guard<F: Future<Output = Response>>(
        &self,
        head: &Parts,
        client: &ConnectionInfo,
        page: impl FnOnce(Option<Principal>) -> F,
    ) -> Response {
        let principal = self.access.principal(&head.method, &head.headers, client.peer);
        let asked = self.audit.is_on().then(|| Box::new(Asked::of(head, principal)));
        let mut response = self.admit(head, principal, client, page).await;
        let written = asked.and_then(|asked| {
            let record = response.extensions_mut().remove()?;
            self.audit.write(&asked.complete(record, response.status()))
        });
        if let Some(written) = written {
            written.wait().await;
        }
        response
    }

    async fn admit<F: Future<Output = Response>>(
        &self,
        head: &Parts,
        principal: Result<Principal, Stranger>,
        client: &ConnectionInfo,
        page: impl FnOnce(Option<Principal>) -> F,
    ) -> Response {
        let standing = match self.meets(head) {
            Ok(standing) => standing,
            Err(refusal) => {
                self.face_stats.refuse();
                return close(head.version, refusal.into_response());
            }
        };
        let is_allowed = standing == Some(Standing::Allowed);
        let origin = is_allowed.then(|| head.headers.get(ORIGIN).cloned()).flatten();
        if let Some(origin) = &origin
            && head.method == Method::OPTIONS
            && head.headers.contains_key(ACCESS_CONTROL_REQUEST_METHOD)
        {
            return preflight(origin, &head.headers);
        }
        let mut response = match principal {
            Ok(principal) if client.slot.as_ref().is_none_or(|slot| slot.authenticate(principal)) => {
                page(Some(principal)).await
            }
            Err(_) if OPEN.contains(&head.uri.path()) => close(head.version, page(None).await),
            refused => {
                self.face_stats.refuse();
                let refusal = match refused {
                    Ok(_) => Refusal::full("this client has too many connections"),
                    Err(stranger) => Refusal::stranger(stranger, is_browser(&head.headers)),
                };
                close(head.version, refusal.into_response())
            }
        };
        if let Some(origin) = origin {
            admit_origin(response.headers_mut(), origin);
        }
        response
    }

    /// What the origin may do, if there is one.
    fn meets(&self, head: &Parts) -> Result<Option<Standing>, Refusal> {
        let named = head.headers.get_all(HOST).iter().map(HeaderValue::to_str);
        let aimed = head.uri.authority().map(|authority| Ok(authority.as_str()));
        let mut hosts = named.chain(aimed);
        let is_ours = |host: Result<&str, _>| host.is_ok_and(|host| self.hosts.has(host));
        // Two hosts may be the same one, said by HTTP/2 and by a proxy; none of them may be another.
        let are_ours = hosts.next().is_some_and(is_ours) && hosts.next().is_none_or(is_ours);
        if !are_ours || hosts.next().is_some() {
            let refusal = Refusal::forbidden("this host is not served here; the operator can allow it");
            return Err(refusal.named("foreign-host"));
        }
        let mut origins = head.headers.get_all(ORIGIN).iter();
        let standing = match (origins.next(), origins.next()) {
            (None, _) => None,
            (Some(origin), None) => {
                Some(origin.to_str().map_or(Standing::Foreign, |origin| self.origins.standing(origin)))
            }
            (Some(_), Some(_)) => Some(Standing::Foreign),
        };
        match standing {
            Some(Standing::Allowed) => Ok(standing),
            None | Some(Standing::Local) if !is_by_another_page(head) => Ok(standing),
            _ => {
                let refusal = Refusal::forbidden("this origin is not served here; the operator can allow it");
                Err(refusal.named("foreign-origin"))
            }
        }
    }
}

/// Whether a page of another origin has its browser send this, also without `Origin`, as for an image. A person who follows a link
/// from there is not meant.
fn is_by_another_page(head: &Parts) -> bool {
    let says = |name: HeaderName, values: &[&str]| {
        let value = head.headers.get(name).and_then(|value| value.to_str().ok());
        value.is_some_and(|value| values.contains(&value))
    };
    let is_link = || head.method == Method::GET && says(SEC_FETCH_MODE, &["navigate"]);
    says(SEC_FETCH_SITE, &["cross-site", "same-site"]) && !is_link()
}

fn preflight(origin: &HeaderValue, asked: &HeaderMap) -> Response {
    let mut response = empty(StatusCode::NO_CONTENT);
    let headers = response.headers_mut();
    admit_origin(headers, origin.clone());
    headers.insert(ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static("GET, POST, DELETE"));
    // Any: the headers that a tool's parameters are mirrored in are not known here.
    if let Some(asked) = asked.get(ACCESS_CONTROL_REQUEST_HEADERS) {
        headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, asked.clone());
    }
    headers.insert(ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("600"));
    response
}

fn admit_origin(headers: &mut HeaderMap, origin: HeaderValue) {
    headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static("Mcp-Session-Id"));
    headers.append(VARY, HeaderValue::from_static("Origin"));
}
