//! With a hang timeout: servers that hang during a call, and servers that are only busy.

use regrow::ErrorKind;
use regrow::core::{Delivery, Fault, Policy};
use regrow_testkit::script::{Act, Plan, answer};
use regrow_testkit::server::Server;
use regrow_testkit::world::*;
use serde_json::json;
use tokio::time::{Instant, sleep};

fn hang_timeout() -> Policy {
    Policy { hang_timeout: Some(secs(5)), ..policy() }
}

#[tokio::test(start_paused = true)]
async fn a_hung_server_that_answered_a_probe_during_an_earlier_call_is_replaced_within_15_s() {
    let server = Server::always(Plan::default());
    let connection = to(&server).policy(hang_timeout()).build();
    start(&connection).await;
    work(&connection, json!({ "ms": 8000 })).await.unwrap();
    assert_eq!(server.heard_of("ping").len(), 1, "asked beside the call");
    sleep(secs(30)).await;
    let before = Instant::now();
    let error = work(&connection, json!({ "hangs": true, "effect": "x" })).await.unwrap_err();
    assert!((secs(10)..=secs(11)).contains(&before.elapsed()), "{:?}", before.elapsed());
    assert_eq!((error.kind, error.delivery), (ErrorKind::Interrupted, Delivery::Unknown));
    assert!(matches!(error.fault.as_deref(), Some(Fault::Silent { .. })), "{error}");
    assert_eq!(error.data()["dev.regrow/fault"]["cause"], "silent");
    work(&connection, json!({})).await.unwrap();
    assert_eq!((server.starts().len(), server.effects("x")), (2, 1));
}

#[tokio::test(start_paused = true)]
async fn a_busy_server_that_answers_probes_is_asked_and_kept() {
    let server = Server::always(Plan::default());
    let connection = to(&server).policy(hang_timeout()).build();
    start(&connection).await;
    work(&connection, json!({ "ms": 120_000 })).await.unwrap();
    assert_eq!(server.starts().len(), 1);
    assert!((20..=24).contains(&server.heard_of("ping").len()), "{}", server.heard_of("ping").len());
}

#[tokio::test(start_paused = true)]
async fn a_server_that_never_answered_a_probe_during_a_call_is_left_alone() {
    // It answers probes, but not while a call runs, as servers that work on one thing at a time do.
    let server = Server::always(
        Plan::default()
            .on("ping", |ping| vec![Act::Wait(secs(100)), Act::Say(answer(&ping["id"], json!({})))]),
    );
    let connection = to(&server).policy(hang_timeout()).build();
    start(&connection).await;
    for _ in 0..3 {
        work(&connection, json!({ "ms": 90_000 })).await.unwrap();
    }
    assert_eq!(server.starts().len(), 1);
    assert!(server.heard_of("ping").len() <= 6, "it is not asked again and again");
}

#[tokio::test(start_paused = true)]
async fn without_a_hang_timeout_a_busy_server_is_not_asked() {
    let server = Server::always(Plan::default());
    let connection = ready(&server).await;
    work(&connection, json!({ "ms": 120_000 })).await.unwrap();
    assert_eq!(server.heard_of("ping").len(), 0);
}
