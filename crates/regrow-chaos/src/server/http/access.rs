//! Who may come in: tokens, scopes, and the metadata that says who issues them.

use serde_json::json;

use super::response::Plain;
use crate::incoming::Incoming;
use crate::plan::Orders;

/// The refusal of a request whose token is not good enough.
pub(super) fn refusal(orders: &Orders, incoming: &Incoming, name: &str) -> Option<Plain> {
    let shown = incoming.head.header("authorization");
    let is_shown = |token: &str| shown == Some(&*format!("Bearer {token}"));
    let needed = orders.text("need-token");
    if needed.is_some() && !needed.into_iter().chain(orders.text("also-token")).any(is_shown) {
        let challenge = r#"Bearer error="invalid_token""#.to_owned();
        return Some(Plain::text(401, "Unauthorized\n").with("WWW-Authenticate", challenge));
    }
    let is_call = name == "tools/call";
    if is_call && orders.text("call-token").is_some_and(|token| !is_shown(token)) {
        let challenge = r#"Bearer error="insufficient_scope", scope="write""#.to_owned();
        return Some(Plain::text(403, "Forbidden\n").with("WWW-Authenticate", challenge));
    }
    None
}

/// The protected-resource metadata of `/mcp`, which needs no token.
pub(super) fn resource_metadata(orders: &Orders, incoming: &Incoming, port: u16) -> Option<Plain> {
    let issuer = orders.text("issuer")?;
    let is_asked = incoming.path == "/.well-known/oauth-protected-resource/mcp";
    let metadata = json!({
        "resource": format!("http://127.0.0.1:{port}/mcp"),
        "authorization_servers": [format!("http://127.0.0.1:{issuer}")],
        "scopes_supported": ["read"],
    });
    is_asked.then(|| Plain::json(200, &metadata.to_string()))
}
