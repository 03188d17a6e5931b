//! Which page is where, and what stands before all of them.

use std::sync::Arc;

use axum::extract::{Path, Request, State};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::any;
use axum::{Extension, Router};
use http::Method;

use super::guard::{Guard, guard};
use super::refusal::Refusal;
use super::sessions::Caller;
use super::shield::shield;
use super::{Face, legacy, older, post};
use crate::admit::{Principal, ServerScope};

/// All pages: ours, and the operator's in `more`, which must not have the same paths.
pub(super) fn router(face: Arc<Face>, guarded: Guard, more: Router, with_sse: bool) -> Router {
    let mut ours = Router::new().route("/mcp", any(mcp)).route("/servers/{server}/mcp", any(mcp));
    if with_sse {
        ours = ours
            .route("/sse", any(sse))
            .route("/servers/{server}/sse", any(sse))
            .route("/messages", any(messages))
            .route("/servers/{server}/messages", any(messages));
    }
    ours.layer(from_fn(only_clients))
        .with_state(face)
        .merge(more)
        .fallback(nowhere)
        .layer(from_fn_with_state(Arc::new(guarded), guard))
        .layer(from_fn(shield))
}

/// The operator is no client: a token that stops servers does not call tools as well.
async fn only_clients(Extension(principal): Extension<Principal>, request: Request, next: Next) -> Response {
    if principal == Principal::Operator {
        let message = "the operator token does not open this address; use a client token, or none if the gateway has none";
        return Refusal::forbidden(message).into_response();
    }
    next.run(request).await
}

type ServerPath = Option<Path<String>>;

async fn mcp(
    State(face): State<Arc<Face>>,
    Extension(principal): Extension<Principal>,
    server: ServerPath,
    request: Request,
) -> Response {
    let caller = caller(server, principal, false, &request);
    let answered = match *request.method() {
        Method::POST => Box::pin(post::post(&face, caller, request)).await,
        Method::GET => legacy::get(&face, &caller, request.headers()),
        Method::DELETE => legacy::delete(&face, &caller, request.headers()),
        _ => Err(Refusal::method("POST, GET, DELETE")),
    };
    told(&face, answered)
}

async fn sse(
    State(face): State<Arc<Face>>,
    Extension(principal): Extension<Principal>,
    server: ServerPath,
    request: Request,
) -> Response {
    let caller = caller(server, principal, true, &request);
    let answered = match *request.method() {
        Method::GET => older::open(&face, caller, request.headers(), request.uri().path()),
        _ => Err(Refusal::method("GET")),
    };
    told(&face, answered)
}

async fn messages(
    State(face): State<Arc<Face>>,
    Extension(principal): Extension<Principal>,
    server: ServerPath,
    request: Request,
) -> Response {
    let caller = caller(server, principal, true, &request);
    let answered = match *request.method() {
        Method::POST => older::post(&face, caller, request).await,
        _ => Err(Refusal::method("POST")),
    };
    told(&face, answered)
}

async fn nowhere() -> Refusal {
    Refusal::not_found("not found; servers are at /mcp and /servers/NAME/mcp")
}

fn caller(server: ServerPath, principal: Principal, is_older: bool, request: &Request) -> Caller {
    let scope = server.map_or(ServerScope::All, |Path(name)| ServerScope::One(name));
    Caller { scope, principal, is_older, slot: request.extensions().get().cloned() }
}

fn told(face: &Face, answered: Result<Response, Refusal>) -> Response {
    answered.unwrap_or_else(|refusal| {
        face.face_stats.refuse();
        refusal.into_response()
    })
}
