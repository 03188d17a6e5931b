//! Which page is where, and what stands before all of them.

use std::pin::pin;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::response::{IntoResponse, Response};
use http::request::Parts;
use http::{Method, Request};
use percent_encoding::percent_decode_str;
use tower::ServiceExt;

use super::body::RequestBody;
use super::connections::ConnectionInfo;
use super::guard::Guard;
use super::refusal::Refusal;
use super::sessions::Caller;
use super::shield::shield;
use super::{Face, legacy, older, post};
use crate::admit::{Principal, ServerScope};

/// All pages: ours, and the operator's. Ours are found without a router, which would copy what each request passes through.
pub(super) struct Pages {
    face: Arc<Face>,
    guard: Guard,
    with_sse: bool,
    more: Router,
}

/// One of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Page {
    Mcp,
    /// Of the older HTTP+SSE.
    Sse,
    Messages,
}

impl Pages {
    /// The operator's, in `more`, must not have the paths of ours.
    pub(super) fn new(face: Arc<Face>, guard: Guard, more: Router, with_sse: bool) -> Pages {
        Pages { face, guard, with_sse, more: more.fallback(nowhere) }
    }

    /// Answers a request that came on this connection.
    pub(super) async fn answer(
        &self,
        head: &Parts,
        body: impl RequestBody,
        client: &ConnectionInfo,
    ) -> Response {
        let page = |principal| self.page(head, body, principal, client);
        shield(pin!(self.guard.guard(head, client, page))).await
    }

    async fn page(
        &self,
        head: &Parts,
        body: impl RequestBody,
        principal: Option<Principal>,
        client: &ConnectionInfo,
    ) -> Response {
        let ours = find(head.uri.path()).filter(|(page, _)| *page == Page::Mcp || self.with_sse);
        let (Some((page, scope)), Some(principal)) = (ours, principal) else {
            return Box::pin(self.others(head, body, principal)).await;
        };
        // The operator is no client: a token that stops servers does not call tools as well.
        if principal == Principal::Operator {
            let message = "the operator token does not open this address; use a client token, or none if the gateway has none";
            return Refusal::forbidden(message).into_response();
        }
        let is_older = page != Page::Mcp;
        let caller = Caller { scope, principal, is_older, slot: client.slot.clone() };
        let answered = match page {
            Page::Mcp => self.mcp(caller, head, body).await,
            Page::Sse => self.sse(caller, head),
            Page::Messages => self.messages(caller, head, body).await,
        };
        answered.unwrap_or_else(|refusal| {
            self.face.face_stats.refuse();
            refusal.into_response()
        })
    }

    /// A page of the operator's.
    async fn others(&self, head: &Parts, body: impl RequestBody, principal: Option<Principal>) -> Response {
        let mut request = Request::from_parts(head.clone(), Body::new(body));
        if let Some(principal) = principal {
            request.extensions_mut().insert(principal);
        }
        self.more.clone().oneshot(request).await.into_response()
    }

    async fn mcp(&self, caller: Caller, head: &Parts, body: impl RequestBody) -> Result<Response, Refusal> {
        match head.method {
            Method::POST => Box::pin(post::post(&self.face, caller, head, body)).await,
            Method::GET => legacy::get(&self.face, &caller, &head.headers),
            Method::DELETE => legacy::delete(&self.face, &caller, &head.headers),
            _ => Err(Refusal::method("POST, GET, DELETE")),
        }
    }

    fn sse(&self, caller: Caller, head: &Parts) -> Result<Response, Refusal> {
        match head.method {
            Method::GET => older::open(&self.face, caller, &head.headers, head.uri.path()),
            _ => Err(Refusal::method("GET")),
        }
    }

    async fn messages(
        &self,
        caller: Caller,
        head: &Parts,
        body: impl RequestBody,
    ) -> Result<Response, Refusal> {
        match head.method {
            Method::POST => Box::pin(older::post(&self.face, caller, head, body)).await,
            _ => Err(Refusal::method("POST")),
        }
    }
}

/// The page of ours at this path, and the server that it is about.
fn find(path: &str) -> Option<(Page, ServerScope)> {
    let (scope, name) = match path.strip_prefix("/servers/").and_then(|rest| rest.split_once('/')) {
        Some(("", _)) => return None,
        Some((server, name)) => {
            (ServerScope::One(percent_decode_str(server).decode_utf8().ok()?.into_owned()), name)
        }
        None => (ServerScope::All, path.strip_prefix('/')?),
    };
    let page = match name {
        "mcp" => Page::Mcp,
        "sse" => Page::Sse,
        "messages" => Page::Messages,
        _ => return None,
    };
    Some((page, scope))
}

async fn nowhere() -> Refusal {
    Refusal::not_found("not found; servers are at /mcp and /servers/NAME/mcp")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_page_has_one_path_for_all_servers_and_one_for_each() {
        let one = |name: &str| ServerScope::One(name.into());
        for (path, found) in [
            ("/mcp", Some((Page::Mcp, ServerScope::All))),
            ("/sse", Some((Page::Sse, ServerScope::All))),
            ("/servers/a/mcp", Some((Page::Mcp, one("a")))),
            ("/servers/a%20%2Fb/messages", Some((Page::Messages, one("a /b")))),
            ("/servers/mcp", None),
            ("/servers//mcp", None),
            ("/servers/a/b/mcp", None),
            ("/servers/%ff/mcp", None),
            ("/mcp/", None),
            ("/MCP", None),
            ("mcp", None),
            ("/", None),
            ("", None),
        ] {
            assert_eq!(find(path), found, "{path}");
        }
    }
}
