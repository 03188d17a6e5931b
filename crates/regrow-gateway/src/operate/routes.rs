//! What an operator sees and does, over HTTP.
//!
//! The code that mounts these routes guards them: who may ask, and from where. [`Authorized`] carries the result.

mod admin;
mod answer;

use std::sync::Arc;

use axum::Router;
use axum::extract::{DefaultBodyLimit, RawQuery, Request, State};
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::Response;
use axum::routing::{any, get, post};
use serde_json::json;

use super::report::Overview;
use super::{Operate, html, metrics};
use answer::{elsewhere, html_page, no_such_server, refused, say, text};

/// Whether who asks may see everything and give commands. Put it into the extensions of a request; where it is absent, they may.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Authorized(pub bool);

/// No body that is sent here is longer.
const LONGEST_BODY: usize = 4096;

type Operator = State<Arc<dyn Operate>>;

/// The routes, to be mounted at the root.
pub fn routes(operate: Arc<dyn Operate>) -> Router {
    let guarded = Router::new()
        .route("/", any(front))
        .route("/status", get(status))
        .route("/metrics", get(all_metrics))
        .route("/admin/log-level", post(admin::log_level))
        .route("/admin/servers/{name}/logs", get(admin::logs))
        .route("/admin/servers/{name}/{command}", post(admin::command))
        .layer(middleware::from_fn(only_authorized))
        .layer(DefaultBodyLimit::max(LONGEST_BODY));
    Router::new().route("/livez", get(livez)).route("/readyz", get(readyz)).merge(guarded).with_state(operate)
}

async fn only_authorized(request: Request, next: Next) -> Response {
    match is_authorized(request.extensions()) {
        true => next.run(request).await,
        false => refused(StatusCode::UNAUTHORIZED, "the token of the gateway is required"),
    }
}

fn is_authorized(extensions: &axum::http::Extensions) -> bool {
    extensions.get().is_none_or(|Authorized(authorized)| *authorized)
}

async fn livez() -> Response {
    text("alive\n")
}

/// Who is not authorized learns whether it is ready, and nothing else.
async fn readyz(State(operate): Operator, RawQuery(query): RawQuery, request: Request) -> Response {
    let authorized = is_authorized(request.extensions());
    let overview = overview(&*operate);
    let server = query.as_deref().and_then(|query| {
        let mut pairs = url::form_urlencoded::parse(query.as_bytes());
        pairs.find(|(name, _)| name == "server").map(|(_, value)| value.into_owned())
    });
    let unknown = server.as_ref().filter(|name| !overview.servers.iter().any(|server| server.name == **name));
    match (unknown, overview.not_ready(server.as_deref())) {
        (Some(name), _) if authorized => no_such_server(&overview.servers, name),
        (None, None) => say(StatusCode::OK, json!({ "ready": true })),
        (None, Some(why)) if authorized => say(StatusCode::SERVICE_UNAVAILABLE, why),
        _ => say(StatusCode::SERVICE_UNAVAILABLE, json!({ "ready": false })),
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

fn is_browser(headers: &HeaderMap) -> bool {
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
