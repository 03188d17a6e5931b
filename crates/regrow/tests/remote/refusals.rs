//! A server that refuses one call as if it had forgotten the session: that call is told, and nobody else notices.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use regrow::core::{Delivery, Evidence, Fault};
use regrow::{CallError, Connection, ErrorKind};
use regrow_testkit::remote::Remote;
use regrow_testkit::script::{Act, deferred, no_session, refusal, status};
use regrow_testkit::world::*;
use serde_json::json;

/// A connection whose session has answered a call.
async fn healthy(server: &Remote) -> Connection {
    let connection = to(server).safe_tools(|tool| tool == "safe").build();
    work(&connection, json!({})).await.unwrap();
    connection
}

async fn refused(connection: &Connection, key: &str) -> CallError {
    let begun = tokio::time::Instant::now();
    let error = work(connection, json!({ "effect": key, "refused": true })).await.unwrap_err();
    assert!(begun.elapsed() < secs(5), "{:?}", begun.elapsed());
    error
}

fn assert_is_answer(error: &CallError) {
    assert_eq!((error.kind, error.delivery), (ErrorKind::Refused, Delivery::Unknown), "{error}");
    assert_eq!(error.data()["dev.regrow/fault"]["httpStatus"], 404);
    let text = error.to_string();
    assert!(text.contains("HTTP 404: not found") && text.contains("may have run"), "{text}");
}

fn assert_unharmed(connection: &Connection) {
    let status = connection.status().borrow().clone();
    assert!(status.is_ready(), "{status:?}");
    assert_eq!(status.budget_left, 5);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_refused_again_after_a_new_handshake_has_its_answer() {
    let server = Remote::legacy();
    let connection = healthy(&server).await;
    assert_is_answer(&refused(&connection, "pay").await);
    assert_eq!((server.effects("pay"), server.count("initialize")), (2, 2));
    work(&connection, json!({ "effect": "next" })).await.unwrap();
    assert_eq!((server.effects("next"), server.count("initialize")), (1, 2));
    assert_unharmed(&connection);
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_is_always_refused_costs_one_handshake_in_all() {
    let server = Remote::legacy();
    let connection = healthy(&server).await;
    for round in 0..10 {
        let key = format!("pay {round}");
        assert_is_answer(&refused(&connection, &key).await);
        assert_eq!(server.effects(&key), if round == 0 { 2 } else { 1 });
        work(&connection, json!({})).await.unwrap();
    }
    assert_eq!(server.count("initialize"), 2);
    assert_unharmed(&connection);
}

#[tokio::test(start_paused = true)]
async fn where_refusals_prove_nothing_a_forgotten_session_is_still_found_out_and_the_call_sent_again() {
    let server = Remote::legacy();
    let connection = healthy(&server).await;
    refused(&connection, "pay").await;
    for round in 0..3 {
        work(&connection, json!({})).await.unwrap();
        server.forget();
        let calls: Vec<_> =
            (0..10).map(|n| begin(&connection, json!({ "effect": format!("{round} {n}") }))).collect();
        for call in calls {
            call.await.unwrap().unwrap();
        }
        assert!((0..10).all(|n| server.effects(&format!("{round} {n}")) == 1));
        assert_eq!(server.count("initialize"), 3 + round);
    }
    // All who ask at the same time share one question, and each new session shows that pings are answered.
    assert_eq!(server.count("ping"), 6);
    assert_unharmed(&connection);
}

#[tokio::test(start_paused = true)]
async fn refused_calls_at_the_same_time_share_one_handshake() {
    let server = Remote::legacy();
    server.world().latency = millis(20);
    let connection = healthy(&server).await;
    for round in 1..=2 {
        let calls: Vec<_> = (0..50)
            .map(|n| begin(&connection, json!({ "effect": format!("{round} {n}"), "refused": true })))
            .collect();
        for (n, call) in calls.into_iter().enumerate() {
            assert_is_answer(&call.await.unwrap().unwrap_err());
            assert_eq!(server.effects(&format!("{round} {n}")), if round == 1 { 2 } else { 1 });
        }
        assert_eq!(server.count("initialize"), 2);
    }
    assert_unharmed(&connection);
}

#[tokio::test(start_paused = true)]
async fn a_safe_call_that_is_refused_is_sent_no_more_often() {
    for evidence in [Evidence::Words, Evidence::Status, Evidence::Response] {
        let server = Remote::legacy().on("tools/list", move |_| Some(vec![Act::Fail(no_session(evidence))]));
        let connection = healthy(&server).await;
        let error = connection.request("tools/list", None).await.unwrap_err();
        assert_eq!((error.kind, error.delivery), (ErrorKind::Refused, Delivery::Unknown), "{evidence:?}");
        assert_eq!((server.count("tools/list"), server.count("initialize")), (2, 2), "{evidence:?}");
        assert_unharmed(&connection);
    }
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_tells_of_a_lost_session_of_its_own_costs_one_handshake_in_all() {
    let server = Remote::legacy().on("tools/call", |message| {
        let lost = message["params"]["arguments"]["lost"] == true;
        lost.then(|| vec![Act::Effect("lost".into()), Act::Fail(no_session(Evidence::Response))])
    });
    let connection = healthy(&server).await;
    for round in 1..=5 {
        let error = work(&connection, json!({ "lost": true })).await.unwrap_err();
        assert_eq!(error.delivery, Delivery::Unknown);
        assert_eq!(server.effects("lost"), round, "it may have run, and is not sent again");
        work(&connection, json!({})).await.unwrap();
        assert_eq!(server.count("initialize"), 2);
    }
    assert_unharmed(&connection);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_refuses_pings_in_the_same_way_is_not_left_for_that_again_and_again() {
    let server = Remote::legacy().on("ping", |_| Some(vec![Act::Fail(no_session(Evidence::Status))]));
    let connection = healthy(&server).await;
    for round in 0..5 {
        let key = format!("pay {round}");
        assert_is_answer(&refused(&connection, &key).await);
        assert!(server.effects(&key) <= 2);
        work(&connection, json!({})).await.unwrap();
    }
    tokio::time::sleep(secs(600)).await;
    assert!(server.count("initialize") <= 3, "{}", server.count("initialize"));
    assert_unharmed(&connection);
}

#[tokio::test(start_paused = true)]
async fn what_we_ask_or_say_ourselves_and_is_refused_does_not_end_a_session_that_lives() {
    let server = Remote::legacy()
        .on("notifications/cancelled", |_| Some(vec![Act::Fail(no_session(Evidence::Status))]))
        .on("logging/setLevel", {
            let told = AtomicBool::new(false);
            move |_| {
                let again = told.swap(true, Ordering::Relaxed);
                again.then(|| vec![Act::Fail(no_session(Evidence::Status))])
            }
        });
    let connection = healthy(&server).await;
    connection.request("logging/setLevel", Some(json!({ "level": "debug" }))).await.unwrap();
    let call = json!({ "name": "work", "arguments": { "stays": true } });
    let given_up = connection.request_within("tools/call", Some(call), Some(secs(1))).await.unwrap_err();
    assert_eq!(given_up.kind, ErrorKind::Timeout);
    tokio::time::sleep(secs(20)).await;
    assert_eq!((server.count("notifications/cancelled"), server.count("initialize")), (1, 1));
    // The next session is told the level again, and refuses that.
    server.forget();
    work(&connection, json!({})).await.unwrap();
    tokio::time::sleep(secs(20)).await;
    assert_eq!((server.count("logging/setLevel"), server.count("initialize")), (2, 2));
    assert_unharmed(&connection);
}

#[tokio::test(start_paused = true)]
async fn a_session_that_refuses_everything_but_pings_is_replaced_in_the_end() {
    let lost = Arc::new(AtomicBool::new(false));
    let server = Remote::legacy().on("tools/call", {
        let lost = lost.clone();
        move |_| lost.load(Ordering::Relaxed).then(|| vec![Act::Fail(no_session(Evidence::Status))])
    });
    let connection = healthy(&server).await;
    refused(&connection, "pay").await;
    lost.store(true, Ordering::Relaxed);
    for _ in 0..16 {
        work(&connection, json!({})).await.unwrap_err();
    }
    assert_eq!(server.count("initialize"), 2);
    work(&connection, json!({})).await.unwrap_err();
    assert_eq!(server.count("initialize"), 3);
}

#[tokio::test(start_paused = true)]
async fn no_call_is_sent_more_than_three_times_whatever_the_reason() {
    let faults: [Fault; 3] = [deferred(secs(1)), status(502), no_session(Evidence::Words)];
    for fault in faults {
        for method in ["tools/call", "tools/list"] {
            let refuses = fault.clone();
            let server = Remote::legacy().on(method, move |_| Some(vec![Act::Fail(refuses.clone())]));
            let connection = ready(&server).await;
            let params = json!({ "name": "safe", "arguments": {} });
            connection.request(method, Some(params)).await.unwrap_err();
            assert!(server.count(method) <= 3, "{method} {fault}: {}", server.count(method));
        }
    }
    let server = Remote::legacy()
        .on("tools/list", |message| Some(vec![Act::Say(refusal(&message["id"], -32000, "no"))]));
    ready(&server).await.request("tools/list", None).await.unwrap();
    assert_eq!(server.count("tools/list"), 1, "an error is an answer");
}
