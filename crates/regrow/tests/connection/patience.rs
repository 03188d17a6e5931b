//! Calls that wait through failing attempts because the server was healthy shortly before.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use regrow::core::{Delivery, Fault, Policy};
use regrow::{Connection, ErrorKind};
use regrow_testkit::script::Plan;
use regrow_testkit::server::Server;
use regrow_testkit::world::*;
use serde_json::json;
use tokio::time::{Instant, sleep};

/// A server whose program exits at once while this says so.
fn fragile() -> (Server, Arc<AtomicBool>) {
    let down = Arc::new(AtomicBool::new(false));
    let is_down = down.clone();
    let server = Server::new(move |_| match is_down.load(Ordering::Relaxed) {
        true => {
            Plan::default().on("initialize", |_| vec![]).dies_after(millis(50), Fault::Exited { code: 1 })
        }
        false => Plan::default(),
    });
    (server, down)
}

/// A connection that was healthy, to a server that has just died and cannot start.
async fn bereft(policy: Policy) -> (Server, Arc<AtomicBool>, Connection) {
    let (server, down) = fragile();
    let connection = to(&server).policy(policy).build();
    start(&connection).await;
    work(&connection, json!({})).await.unwrap();
    sleep(secs(60)).await;
    down.store(true, Ordering::Relaxed);
    server.die(Fault::Killed { signal: 9 });
    settle().await;
    (server, down, connection)
}

#[tokio::test(start_paused = true)]
async fn calls_made_while_a_healthy_server_cannot_start_for_3_s_run_once_when_it_can() {
    let (server, down, connection) = bereft(policy()).await;
    let calls: Vec<_> =
        (0..100).map(|n| begin(&connection, json!({ "effect": format!("{n}"), "say": n }))).collect();
    sleep(secs(3)).await;
    down.store(false, Ordering::Relaxed);
    let back = Instant::now();
    for (n, call) in calls.into_iter().enumerate() {
        assert_eq!(said(&call.await.unwrap().unwrap()), n);
    }
    assert!(back.elapsed() <= millis(1500), "{:?}", back.elapsed());
    assert!(server.all_effects().values().all(|&times| times == 1));
    assert_eq!(server.most_alive(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_call_whose_patience_is_over_fails_with_the_last_fault_and_the_number_of_attempts() {
    let (server, _down, connection) = bereft(policy()).await;
    let starts = server.starts().len();
    let before = Instant::now();
    let error = work(&connection, json!({ "effect": "x" })).await.unwrap_err();
    assert!((secs(10)..=secs(12)).contains(&before.elapsed()), "{:?}", before.elapsed());
    assert_eq!((error.kind, error.delivery), (ErrorKind::Unavailable, Delivery::NotSent));
    assert_eq!(error.fault.as_deref(), Some(&Fault::Exited { code: 1 }));
    assert_eq!(error.attempts as usize, server.starts().len() - starts + 1, "the first runs already");
    assert!(error.to_string().contains(&format!("{} attempts to connect failed", error.attempts)), "{error}");
    assert_eq!(error.data()["dev.regrow/fault"]["attempts"], error.attempts);
    let demanded = server.starts()[starts + 4..].windows(2).all(|pair| pair[1] - pair[0] >= secs(1));
    assert!(demanded, "a waiting call demands at most one attempt a second: {:?}", server.starts());
}

#[tokio::test(start_paused = true)]
async fn a_call_to_a_server_that_is_parked_already_fails_fast() {
    let (_server, _down, connection) = bereft(policy()).await;
    until(&connection, |status| status.state.name() == "parked").await;
    let before = Instant::now();
    let error = work(&connection, json!({ "effect": "x" })).await.unwrap_err();
    assert!(before.elapsed() <= millis(1100), "{:?}", before.elapsed());
    assert_eq!((error.delivery, error.attempts), (Delivery::NotSent, 1));
}

#[tokio::test(start_paused = true)]
async fn without_patience_a_call_fails_with_the_first_attempt() {
    let (_server, _down, connection) = bereft(Policy { patience: None, ..policy() }).await;
    let before = Instant::now();
    let error = work(&connection, json!({ "effect": "x" })).await.unwrap_err();
    assert!(before.elapsed() <= millis(100), "{:?}", before.elapsed());
    assert_eq!((error.delivery, error.attempts), (Delivery::NotSent, 1));
    assert!(!error.to_string().contains("attempts"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn patience_ends_with_the_deadline_of_the_call() {
    let (_server, _down, connection) = bereft(policy()).await;
    let before = Instant::now();
    let params = Some(json!({ "name": "work", "arguments": {} }));
    let error = connection.request_within("tools/call", params, Some(secs(4))).await.unwrap_err();
    assert_eq!((before.elapsed(), error.kind), (secs(4), ErrorKind::Timeout));
    assert_eq!(error.fault.as_deref(), Some(&Fault::Exited { code: 1 }));
    assert!(error.attempts > 3, "{error}");
}
