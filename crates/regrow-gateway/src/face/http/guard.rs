//! What stands in front of every page: is this host ours, may this web page talk to us, and who is it?

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_HEADERS,
    ACCESS_CONTROL_REQUEST_METHOD, HOST, ORIGIN, VARY,
};
use http::{HeaderMap, HeaderValue, Method, StatusCode};

use super::access::{Access, Stranger};
use super::face_stats::FaceStats;
use super::origin::{Hosts, Origins, Standing};
use super::peer::Peer;
use super::refusal::{Refusal, empty};
use crate::admit::Principal;
use crate::operate::is_browser;

/// These tell a stranger no more than that we are there, and those who ask cannot be given a token.
const OPEN: [&str; 2] = ["/livez", "/readyz"];

#[derive(Debug)]
pub(super) struct Guard {
    pub(super) hosts: Hosts,
    pub(super) origins: Origins,
    pub(super) access: Access,
    pub(super) face_stats: Arc<FaceStats>,
}

/// Lets a request through to its page, with its [`Principal`] as an extension, or answers it.
pub(super) async fn guard(State(guard): State<Arc<Guard>>, mut request: Request, next: Next) -> Response {
    let standing = match guard.meets(&request) {
        Ok(standing) => standing,
        Err(refusal) => {
            guard.face_stats.refuse();
            return refusal.into_response();
        }
    };
    let origin = request.headers().get(ORIGIN).filter(|_| standing == Some(Standing::Allowed)).cloned();
    if let Some(origin) = &origin
        && request.method() == Method::OPTIONS
        && request.headers().contains_key(ACCESS_CONTROL_REQUEST_METHOD)
    {
        return preflight(origin, request.headers());
    }
    let mut response = match guard.principal(&request) {
        Ok(principal) => {
            request.extensions_mut().insert(principal);
            next.run(request).await
        }
        Err(_) if OPEN.contains(&request.uri().path()) => next.run(request).await,
        Err(stranger) => {
            guard.face_stats.refuse();
            Refusal::stranger(stranger, is_browser(request.headers())).into_response()
        }
    };
    if let Some(origin) = origin {
        admit_origin(response.headers_mut(), origin);
    }
    response
}

impl Guard {
    fn principal(&self, request: &Request) -> Result<Principal, Stranger> {
        let peer = request.extensions().get().copied().unwrap_or(Peer::Unknown);
        self.access.principal(request.method(), request.headers(), peer)
    }

    /// What the origin may do, if there is one.
    fn meets(&self, request: &Request) -> Result<Option<Standing>, Refusal> {
        let named = request.headers().get_all(HOST).iter().map(HeaderValue::to_str);
        let aimed = request.uri().authority().map(|authority| Ok(authority.as_str()));
        let hosts: Vec<_> = named.chain(aimed).collect();
        let is_ours = |host: &Result<&str, _>| host.as_ref().is_ok_and(|host| self.hosts.has(host));
        // Two hosts may be the same one, said by HTTP/2 and by a proxy; none of them may be another.
        if hosts.is_empty() || hosts.len() > 2 || !hosts.iter().all(is_ours) {
            return Err(Refusal::forbidden("this host is not served here; the operator can allow it"));
        }
        let mut origins = request.headers().get_all(ORIGIN).iter();
        let standing = match (origins.next(), origins.next()) {
            (None, _) => None,
            (Some(origin), None) => {
                Some(origin.to_str().map_or(Standing::Foreign, |origin| self.origins.standing(origin)))
            }
            (Some(_), Some(_)) => Some(Standing::Foreign),
        };
        match standing {
            Some(Standing::Allowed) => Ok(standing),
            None | Some(Standing::Local) if !is_by_another_page(request) => Ok(standing),
            _ => Err(Refusal::forbidden("this origin is not served here; the operator can allow it")),
        }
    }
}

/// Whether a page of another origin has its browser send this, also without `Origin`, as for an image. A person who follows a link
/// from there is not meant.
fn is_by_another_page(request: &Request) -> bool {
    let says = |name: &str, values: &[&str]| {
        let value = request.headers().get(name).and_then(|value| value.to_str().ok());
        value.is_some_and(|value| values.contains(&value))
    };
    let is_link = says("sec-fetch-mode", &["navigate"]) && request.method() == Method::GET;
    says("sec-fetch-site", &["cross-site", "same-site"]) && !is_link
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
