//! What an operator sees and does, over HTTP.
//!
//! The code that mounts these routes finds out who asks, and puts the [`Principal`] into the extensions of each request. What each may do
//! is decided here; without a principal, a request learns whether the gateway lives and is ready, and nothing else.

mod admin;
mod answer;

use std::sync::Arc;

use axum::Router;
use axum::extract::{DefaultBodyLimit, RawQuery, Request, State};
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::Response;
use axum::routing::{any, get, post};
use regrow_protocol::header::is_json;
use serde_json::json;

use super::report::Overview;
use super::{Operate, html, metrics};
use crate::admit::Principal;
pub(crate) use answer::PASSWORD_CHALLENGE;
use answer::{elsewhere, html_page, no_such_server, not_the_operator, refused, say, text};

/// No body that is sent here is longer.
const LONGEST_BODY: usize = 4096;

type Operator = State<Arc<dyn Operate>>;

/// The routes, to be mounted at the root.
pub fn routes(operate: Arc<dyn Operate>) -> Router {
    let to_read = Router::new()
        .route("/", any(front))
        .route("/status", get(status))
        .route("/metrics", get(all_metrics))
        .route("/admin/servers/{name}/logs", get(admin::logs))
        .layer(middleware::from_fn(only_readers));
    let to_command = Router::new()
        .route("/admin/log-level", post(admin::log_level))
        .route("/admin/servers/{name}/{command}", post(admin::command))
        .layer(middleware::from_fn(only_commanders))
        .layer(DefaultBodyLimit::max(LONGEST_BODY));
    let open = Router::new().route("/livez", get(livez)).route("/readyz", get(readyz));
    open.merge(to_read).merge(to_command).with_state(operate)
}

async fn only_readers(request: Request, next: Next) -> Response {
    match principal(&request) {
        Some(principal) if principal.may_read() => next.run(request).await,
        other => not_the_operator(other, request.headers()),
    }
}

/// A web page can make a browser post a form with the credentials that it knows, but not JSON, and no bearer token.
async fn only_commanders(request: Request, next: Next) -> Response {
    match principal(&request) {
        Some(principal) if principal.may_command() => {}
        other => return not_the_operator(other, request.headers()),
    }
    let content_type = request.headers().get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    if request.method() == Method::POST && !content_type.is_some_and(is_json) {
        return refused(StatusCode::UNSUPPORTED_MEDIA_TYPE, "Content-Type must be application/json");
    }
    next.run(request).await
}

fn principal(request: &Request) -> Option<Principal> {
    request.extensions().get().copied()
}

async fn livez() -> Response {
    text("alive\n")
}

/// A request that may not read the status learns whether the gateway is ready, and nothing about a server, not even whether there is one of
/// this name.
async fn readyz(State(operate): Operator, RawQuery(query): RawQuery, request: Request) -> Response {
    let principal = principal(&request);
    let may_read = principal.is_some_and(Principal::may_read);
    let server = query.as_deref().and_then(|query| {
        let mut pairs = url::form_urlencoded::parse(query.as_bytes());
        pairs.find(|(name, _)| name == "server").map(|(_, value)| value.into_owned())
    });
    if server.is_some() && !may_read {
        return not_the_operator(principal, request.headers());
    }
    let overview = overview(&*operate);
    let unknown = server.as_ref().filter(|name| !overview.servers.iter().any(|server| server.name == **name));
    match (unknown, overview.not_ready(server.as_deref())) {
        (Some(name), _) => no_such_server(&overview.servers, name),
        (None, None) => say(StatusCode::OK, json!({ "ready": true })),
        (None, Some(why)) if may_read => say(StatusCode::SERVICE_UNAVAILABLE, why),
        (None, Some(_)) => say(StatusCode::SERVICE_UNAVAILABLE, json!({ "ready": false })),
    }
}

/// Leads a browser to the status. A client that has forgotten the path gets an error.
async fn front(method: Method, headers: HeaderMap) -> Response {
    if [Method::GET, Method::HEAD].contains(&method) && is_browser(&headers) {
        return elsewhere("status");
    }
    refused(
        StatusCode::NOT_FOUND,
        "not found; servers are at /mcp and /servers/NAME/mcp, the status is at /status",
    )
}

pub(crate) fn is_browser(headers: &HeaderMap) -> bool {
    let mut accepted = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    accepted.any(|accepted| accepted.contains("text/html"))
}

async fn status(State(operate): Operator, headers: HeaderMap) -> Response {
    let overview = overview(&*operate);
    if is_browser(&headers) {
        return html_page(html::page(&overview));
    }
    match serde_json::to_value(&overview) {
        Ok(value) => say(StatusCode::OK, value),
        Err(error) => refused(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()),
    }
}

async fn all_metrics(State(operate): Operator) -> Response {
    let mut response = text(metrics::exposition(&overview(&*operate)));
    let version = header::HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, version);
    response
}

fn overview(operate: &dyn Operate) -> Overview {
    Overview { gateway: operate.gateway(), servers: operate.servers() }
}
