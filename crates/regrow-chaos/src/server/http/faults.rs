//! What the plan does to a request before it is looked at.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::time::{Duration, SystemTime};

use super::response::Plain;
use crate::plan::Orders;
use crate::sync::lock;

/// The items of a plan that strike only the requests that they are meant for.
const FAULTS: [&str; 13] = [
    "status",
    "redirect",
    "swallow",
    "drop-request",
    "drop-answer",
    "cut",
    "finish",
    "cut-body",
    "drip-head",
    "drip-body",
    "bomb",
    "endless",
    "answer-id",
];

/// What becomes of a request that is not looked at.
pub(super) enum Fate {
    Refused(Plain),
    /// Never answered.
    Swallowed,
    /// The connection is closed.
    Dropped,
}

/// The fate that the plan has for a request; none if it is to be looked at.
pub(super) fn fate(orders: &Orders, port: u16, id: Option<&str>) -> Option<Fate> {
    if orders.has("drop-request") {
        return Some(Fate::Dropped);
    }
    if orders.has("swallow") {
        return Some(Fate::Swallowed);
    }
    if orders.has("redirect") {
        let location = match orders.text("redirect") {
            Some("same") | None => format!("http://127.0.0.1:{port}/moved"),
            Some(other) => format!("http://127.0.0.1:{other}/mcp"),
        };
        return Some(Fate::Refused(Plain::empty(307).with("Location", location)));
    }
    let status = u16::try_from(orders.number("status")?).unwrap_or(500);
    let mut plain = planned_body(orders.text("body").unwrap_or("text"), status, id);
    if let Some(seconds) = orders.number("retry-after") {
        plain = plain.with("Retry-After", seconds.to_string());
    }
    if let Some(seconds) = orders.number("retry-after-date") {
        plain = plain
            .with("Retry-After", httpdate::fmt_http_date(SystemTime::now() + Duration::from_secs(seconds)));
    }
    Some(Fate::Refused(plain))
}

fn planned_body(kind: &str, status: u16, id: Option<&str>) -> Plain {
    let code = match status {
        404 => -32601,
        400 => -32602,
        500 => -32603,
        _ => -32000,
    };
    match kind {
        "rpc" => Plain::error(status, id.unwrap_or("null"), code, "refused as planned"),
        "rpc-null" => Plain::error(status, "null", code, "refused as planned"),
        "json" => Plain::json(status, r#"{"error":"refused as planned"}"#),
        "html" => Plain {
            kind: "text/html; charset=utf-8",
            ..Plain::text(status, "<!doctype html><title>Welcome</title><h1>It works!</h1>\n")
        },
        "empty" => Plain::empty(status),
        _ => Plain::text(status, "refused as planned\n"),
    }
}

/// How a request on a session that is not known is refused.
pub(super) fn expiry(orders: &Orders, id: Option<&str>) -> Plain {
    let missing = r#""error":{"code":-32000,"message":"Bad Request: No valid session ID provided"}"#;
    match (orders.text("expiry").unwrap_or("404"), id) {
        ("404-text", _) => Plain::text(404, "Not Found\n"),
        ("404-empty", _) => Plain::empty(404),
        ("400", _) => Plain::json(400, &format!(r#"{{"jsonrpc":"2.0",{missing},"id":null}}"#)),
        ("400-bare", _) => Plain::json(400, &format!(r#"{{"jsonrpc":"2.0",{missing}}}"#)),
        ("400-text", _) => Plain::text(400, "Bad Request: no valid session\n"),
        ("200", Some(id)) => Plain::error(200, id, -32603, "Session not found"),
        _ => Plain::error(404, "null", -32001, "Session not found"),
    }
}

/// The requests that a plan waits for, and that have come.
#[derive(Default)]
pub(super) struct Arrivals(Mutex<BTreeSet<String>>);

impl Arrivals {
    /// What the plan says once a request of this name has come to this path. One for metadata is none that a plan waits for.
    pub(super) fn of(&self, orders: Orders, name: &str, path: &str) -> Orders {
        let mut arrived = lock(&self.0);
        if !path.starts_with("/.well-known/") && orders.texts("from").any(|awaited| awaited == name) {
            arrived.insert(name.to_owned());
        }
        orders.until(|name| arrived.contains(name))
    }
}

/// How many requests the faults of a plan have struck since the plan was changed.
#[derive(Default)]
pub(super) struct Strikes(Mutex<(Orders, u64)>);

impl Strikes {
    /// What the plan says for a request of this name: its faults only if they strike this one.
    pub(super) fn of(&self, orders: Orders, name: &str, tool: Option<&str>) -> Orders {
        if self.strike(&orders, name, tool) { orders } else { orders.without(&FAULTS) }
    }

    /// Whether the faults of the plan are meant for a request of this name; counts it if they are.
    /// `tool`: the tool that it calls, if it calls one.
    fn strike(&self, orders: &Orders, name: &str, tool: Option<&str>) -> bool {
        let meant = match orders.text("on") {
            Some(names) => names.split('|').any(|known| {
                known == name || known.strip_prefix("tools/call#").is_some_and(|known| Some(known) == tool)
            }),
            None => !matches!(name, "GET" | "DELETE" | "OPTIONS") && !name.starts_with("notifications/"),
        };
        let mut counted = lock(&self.0);
        if counted.0 != *orders {
            *counted = (orders.clone(), 0);
        }
        counted.1 += u64::from(meant);
        let skipped = orders.number("skip").unwrap_or(0);
        let last = skipped.saturating_add(orders.number("times").unwrap_or(u64::MAX));
        meant && (skipped + 1..=last).contains(&counted.1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Plan;

    #[test]
    fn faults_strike_the_requests_that_they_are_meant_for_as_often_as_planned() {
        let strikes = Strikes::default();
        let orders = |text: &str| Plan::parse(text).unwrap().for_life(1);
        let plan = orders("status=503 on=tools/call|GET skip=1 times=2");
        let struck: Vec<bool> = ["tools/call", "tools/list", "GET", "tools/call", "tools/call"]
            .map(|name| strikes.strike(&plan, name, None))
            .into();
        assert_eq!(struck, [false, false, true, true, false]);
        assert!(strikes.strike(&orders("status=503"), "initialize", None), "a new plan counts anew");
        assert!(!strikes.strike(&orders("status=503"), "GET", None));
        let one_tool = orders("status=404 on=tools/call#pay");
        let struck =
            [Some("pay"), Some("echo"), None].map(|tool| strikes.strike(&one_tool, "tools/call", tool));
        assert_eq!(struck, [true, false, false]);
    }
}
