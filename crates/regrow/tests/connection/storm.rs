//! Many calls in flight when the server dies. Storms of every kind are in `tests/simulation`.

use std::sync::Arc;

use regrow::ErrorKind;
use regrow::core::Fault;
use regrow_testkit::script::{Act, Plan, answer};
use regrow_testkit::server::Server;
use regrow_testkit::world::*;
use serde_json::json;

#[tokio::test(start_paused = true)]
async fn a_thousand_calls_in_flight_when_the_server_dies_end_once_each() {
    let server = Server::always(Plan::default().on("tools/call", |message| {
        match message["params"]["arguments"]["n"].as_u64() {
            Some(999) => vec![Act::Die(Fault::Killed { signal: 9 })],
            Some(n) if n % 3 == 0 => vec![Act::Say(answer(&message["id"], json!({ "got": n })))],
            _ => vec![],
        }
    }));
    let connection = Arc::new(ready(&server).await);
    let calls: Vec<_> = (0..1000).map(|n| begin(&connection, json!({ "n": n }))).collect();
    let mut answered = 0;
    for call in calls {
        match call.await.unwrap() {
            Ok(_) => answered += 1,
            Err(error) => assert_eq!(error.kind, ErrorKind::Interrupted),
        }
    }
    assert_eq!(answered, 333);
    until(&connection, |status| status.sessions == 2).await;
    assert_eq!(server.starts().len(), 2);
}
