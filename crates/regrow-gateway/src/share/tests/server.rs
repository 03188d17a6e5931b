//! A server that answers calls with their arguments, or does what a test says.

use std::sync::Arc;
use std::time::Duration;

use regrow::core::Fault;
use regrow_testkit::script::{Act, Plan, Speaks, answer, timed};
use regrow_testkit::server::Server;
use serde_json::{Value, json};

pub(super) const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";

/// A server that answers calls with their arguments.
pub(super) fn legacy() -> Server {
    server(false, |_| None)
}

pub(super) fn modern() -> Server {
    server(true, |_| None)
}

/// One that says this to a message, after this long; none: what servers usually say.
pub(super) fn server(
    modern: bool,
    habit: impl Fn(&Value) -> Option<Vec<(Duration, Value)>> + Send + Sync + 'static,
) -> Server {
    Server::always(Plan {
        speaks: if modern { Speaks::Modern } else { Speaks::Legacy },
        capabilities: json!({ "tools": {}, "resources": { "subscribe": true }, "logging": {} }),
        habit: Arc::new(move |message| habit(message).map(timed).or_else(|| usual(message))),
        ..Plan::default()
    })
}

fn usual(message: &Value) -> Option<Vec<Act>> {
    let (id, params) = (&message["id"], &message["params"]);
    match message["method"].as_str()? {
        "tools/call" if params["arguments"]["silent"] == true => Some(vec![]),
        "tools/call" => {
            Some(vec![Act::Say(answer(id, json!({ "content": [], "got": params["arguments"] })))])
        }
        "subscriptions/listen" => {
            let params = json!({ "_meta": { SUBSCRIPTION: id }, "notifications": params["notifications"] });
            let method = "notifications/subscriptions/acknowledged";
            Some(vec![Act::Say(json!({ "jsonrpc": "2.0", "method": method, "params": params }))])
        }
        _ => None,
    }
}

pub(super) fn killed() -> Fault {
    Fault::Killed { signal: 9 }
}
