//! How answers look: JSON, text or a page, never kept by a cache, and nothing in them acts on who reads them.

use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::Response;
use serde_json::{Value, json};

use super::is_browser;
use crate::admit::Principal;
use crate::audit::Record;
use crate::config::nearest;
use crate::operate::escape::escape_texts;
use crate::operate::report::ServerReport;

/// A page may show what stands in it, with its own style, and can neither load nor run nor send anything.
const PAGE_POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
);

pub(super) fn say(code: StatusCode, value: Value) -> Response {
    let mut response = response(format!("{:#}\n", escape_texts(value)), "application/json");
    *response.status_mut() = code;
    response
}

pub(super) fn refused(code: StatusCode, why: &str) -> Response {
    let mut response = say(code, json!({ "error": why }));
    response.extensions_mut().insert(Record::refusal(code));
    response
}

/// What a browser is answered, so that it asks its user: any name, and the operator token as the password. The token is in no URL.
pub(crate) const PASSWORD_CHALLENGE: &str = "Basic realm=\"Regrow: the operator token is the password\"";

/// To somebody who may not do this. It says how to become the one who may.
pub(super) fn not_the_operator(principal: Option<Principal>, headers: &HeaderMap) -> Response {
    let next_step = "needs the operator token: run `regrow status`, `regrow park` and the like on the same machine as the same user, \
                     or send the token of `regrow serve --admin-token-env` as a bearer token";
    let mut response = match principal {
        // Another token does not help a client that has the right one for what it is.
        Some(Principal::Client(_)) => {
            return refused(
                StatusCode::FORBIDDEN,
                &format!("a client token opens /mcp only; this {next_step}"),
            );
        }
        _ => refused(StatusCode::UNAUTHORIZED, &format!("this {next_step}")),
    };
    let challenge = if is_browser(headers) { PASSWORD_CHALLENGE } else { "Bearer" };
    response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static(challenge));
    response
}

/// With the name that was probably meant.
pub(super) fn no_such_server(servers: &[ServerReport], name: &str) -> Response {
    let near = nearest(name, servers.iter().map(|server| &*server.name));
    let hint = near.map(|near| format!("; did you mean {near}?")).unwrap_or_default();
    refused(StatusCode::NOT_FOUND, &format!("no server is called {name}{hint}"))
}

pub(super) fn text(text: impl Into<String>) -> Response {
    response(text.into(), "text/plain; charset=utf-8")
}

pub(super) fn html_page(page: String) -> Response {
    let mut response = response(page, "text/html; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_SECURITY_POLICY, PAGE_POLICY);
    response
}

/// At this place, relative to the one that was asked for: a proxy may serve us below a path of its own.
pub(super) fn elsewhere(place: &'static str) -> Response {
    let mut response = text("");
    *response.status_mut() = StatusCode::SEE_OTHER;
    response.headers_mut().insert(header::LOCATION, HeaderValue::from_static(place));
    response
}

fn response(body: String, kind: &'static str) -> Response {
    let mut response = Response::new(Body::from(body));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}
