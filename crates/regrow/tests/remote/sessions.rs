//! Sessions that a server forgets: one new handshake for all, and nobody notices.

use regrow::core::{Delivery, Evidence, Fault, Requester};
use regrow::{Connection, ErrorKind};
use regrow_testkit::remote::Remote;
use regrow_testkit::script::{Act, no_session};
use regrow_testkit::world::*;
use serde_json::{Value, json};
use tokio::time::sleep;

const HANDSHAKE: [&str; 2] = ["initialize", "notifications/initialized"];

async fn proven(server: &Remote) -> Connection {
    let connection = to(server).safe_tools(|tool| tool == "safe").build();
    start(&connection).await;
    work(&connection, json!({})).await.unwrap();
    connection
}

#[tokio::test(start_paused = true)]
async fn a_forgotten_session_costs_one_handshake_whoever_finds_out_and_each_call_runs_once() {
    for callers in [1, 10, 1000] {
        for latency in [0, 10, 400] {
            let server = Remote::legacy();
            server.world().latency = millis(latency);
            let connection = proven(&server).await;
            server.forget();
            let calls: Vec<_> = (0..callers)
                .map(|n| begin(&connection, json!({ "effect": format!("call {n}"), "say": n })))
                .collect();
            for (n, call) in calls.into_iter().enumerate() {
                assert_eq!(said(&call.await.unwrap().unwrap()), n, "{callers} callers, {latency} ms");
                assert_eq!(server.effects(&format!("call {n}")), 1);
            }
            assert_eq!(server.count("initialize"), 2, "{callers} callers");
            let status = connection.status().borrow().clone();
            assert_eq!((status.sessions, status.budget_left), (2, 5));
            let ran = server.heard_of("tools/call").into_iter().filter(|heard| heard.start == 2);
            let order: Vec<Value> =
                ran.map(|heard| heard.message["params"]["arguments"]["say"].clone()).collect();
            assert!(order.is_sorted_by_key(|n| n.as_u64()), "in the order in which they were made");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn calls_that_follow_each_other_into_a_forgotten_session_far_away_all_succeed() {
    let server = Remote::legacy();
    server.world().latency = millis(600);
    let connection = proven(&server).await;
    server.forget();
    let mut calls = vec![];
    for n in 0..20 {
        calls.push(begin(&connection, json!({ "effect": format!("call {n}"), "say": n })));
        sleep(millis(50)).await;
    }
    for (n, call) in calls.into_iter().enumerate() {
        assert_eq!(said(&call.await.unwrap().unwrap()), n);
        assert_eq!(server.effects(&format!("call {n}")), 1);
    }
    assert_eq!(server.count("initialize"), 2);
    assert_eq!(connection.status().borrow().budget_left, 5);
}

#[tokio::test(start_paused = true)]
async fn every_kind_of_request_survives_a_forgotten_session() {
    for method in ["tools/list", "tools/call", "ping", "no/such", "resources/subscribe", "logging/setLevel"] {
        let server = Remote::legacy();
        let connection = proven(&server).await;
        server.forget();
        let answer = connection.request(method, Some(json!({ "uri": "a://1" }))).await.unwrap();
        assert_eq!(answer.into_result().is_err(), method == "no/such", "{method}");
        assert_eq!(server.count("initialize"), 2);
        assert_eq!(server.told(2).last().unwrap(), method);
    }
}

#[tokio::test(start_paused = true)]
async fn a_new_session_is_told_the_log_level_and_the_subscriptions_once_before_any_call() {
    let server = Remote::legacy();
    let connection = proven(&server).await;
    connection.request("logging/setLevel", Some(json!({ "level": "debug" }))).await.unwrap();
    for uri in ["a://1", "a://2"] {
        connection.request("resources/subscribe", Some(json!({ "uri": uri }))).await.unwrap();
    }
    for round in 2..10 {
        server.forget();
        let calls: Vec<_> = (0..10).map(|n| begin(&connection, json!({ "say": n }))).collect();
        for call in calls {
            call.await.unwrap().unwrap();
        }
        let told = server.told(round);
        let before: Vec<&str> = told.iter().take_while(|m| *m != "tools/call").map(String::as_str).collect();
        let restored = ["logging/setLevel", "resources/subscribe", "resources/subscribe"];
        assert_eq!(before, [&HANDSHAKE[..], &restored].concat());
        assert_eq!(told.len(), before.len() + 10);
    }
}

#[tokio::test(start_paused = true)]
async fn an_expiry_after_which_the_call_may_have_run_is_repeated_for_safe_calls_alone() {
    let server = Remote::legacy().on("tools/call", {
        let told = std::sync::atomic::AtomicUsize::new(0);
        move |message| {
            let first = message["params"]["arguments"]["once"] == true
                && told.fetch_add(1, std::sync::atomic::Ordering::Relaxed).is_multiple_of(2);
            let key = message["params"]["arguments"]["effect"].as_str()?.to_owned();
            first.then(|| {
                use regrow_testkit::script::Act::*;
                vec![Effect(key), Forget, Fail(no_session(Evidence::Response))]
            })
        }
    });
    let connection = proven(&server).await;
    let params =
        |tool: &str| json!({ "name": tool, "arguments": { "effect": tool, "once": true, "say": 1 } });
    let answer = connection.request("tools/call", Some(params("safe"))).await.unwrap();
    assert_eq!((said(&answer), server.effects("safe")), (json!(1), 2));
    let error = connection.request("tools/call", Some(params("pay"))).await.unwrap_err();
    assert_eq!((error.kind, error.delivery), (ErrorKind::Interrupted, Delivery::Unknown));
    assert_eq!(server.effects("pay"), 1);
    assert!(error.to_string().contains("may have run"), "{error}");
    work(&connection, json!({})).await.unwrap();
    assert_eq!(connection.status().borrow().sessions, 3);
}

#[tokio::test(start_paused = true)]
async fn torn_down_every_three_calls_fifty_times_all_calls_succeed_and_nothing_is_charged() {
    let server = Remote::legacy();
    let connection = to(&server).build();
    for round in 0..50 {
        for n in 0..3 {
            work(&connection, json!({ "effect": format!("{round} {n}") })).await.unwrap();
            assert_eq!(server.effects(&format!("{round} {n}")), 1);
        }
        assert_eq!(connection.status().borrow().sessions, round + 1, "no more sessions than needed");
        assert_eq!(connection.status().borrow().budget_left, 5);
        server.forget();
    }
    assert_eq!(server.count("initialize"), 50);
    assert_eq!(server.world().most_live, 1);
}

#[tokio::test(start_paused = true)]
async fn a_session_that_is_forgotten_before_it_ever_served_is_a_fault_and_no_loop() {
    let server = Remote::legacy()
        .on("tools/call", |_| Some(vec![Act::Forget, Act::Fail(no_session(Evidence::Words))]));
    let connection = to(&server).build();
    let call = connection.request_within("tools/call", Some(json!({ "name": "x" })), Some(secs(3600)));
    let error = call.await.unwrap_err();
    assert_eq!((error.kind, error.delivery), (ErrorKind::Refused, Delivery::Unknown));
    assert_eq!((server.count("initialize"), server.count("tools/call")), (2, 2));
    assert_eq!(connection.status().borrow().budget_left, 4);
}

#[tokio::test(start_paused = true)]
async fn a_call_in_flight_when_its_session_is_forgotten_may_still_be_answered() {
    let server = Remote::legacy();
    let connection = proven(&server).await;
    let slow = begin(&connection, json!({ "effect": "slow", "ms": 500, "say": "slow" }));
    settle().await;
    server.forget();
    work(&connection, json!({ "effect": "quick" })).await.unwrap();
    assert_eq!(said(&slow.await.unwrap().unwrap()), "slow");
    assert_eq!((server.effects("slow"), server.effects("quick")), (1, 1));
    assert_eq!(connection.status().borrow().budget_left, 5);
}

#[tokio::test(start_paused = true)]
async fn a_planned_reconnect_lets_calls_finish_and_begins_a_new_session() {
    let server = Remote::legacy();
    let connection = proven(&server).await;
    let slow = begin(&connection, json!({ "effect": "slow", "ms": 5000, "say": 1 }));
    settle().await;
    connection.reconnect(Requester::Person);
    settle().await;
    let next = begin(&connection, json!({ "effect": "next", "say": 2 }));
    sleep(secs(1)).await;
    assert_eq!(server.effects("next"), 0, "it waits");
    assert_eq!(said(&slow.await.unwrap().unwrap()), 1);
    assert_eq!(said(&next.await.unwrap().unwrap()), 2);
    assert!(server.elapsed() < millis(5100), "{:?}", server.elapsed());
    let status = connection.status().borrow().clone();
    assert_eq!((status.sessions, status.budget_left), (2, 5));
    assert_eq!(server.world().ended.len(), 1);
    assert_eq!(server.world().most_live, 1);
}

#[tokio::test(start_paused = true)]
async fn what_a_drain_cannot_wait_for_is_told_and_safe_calls_go_on_with_the_next_session() {
    let server = Remote::legacy();
    let connection = proven(&server).await;
    let pay = begin(&connection, json!({ "effect": "pay", "stays": true }));
    let params = json!({ "name": "safe", "arguments": { "effect": "safe", "ms": 40_000, "say": 3 } });
    let safe = {
        let connection = connection.clone();
        tokio::spawn(async move { connection.request("tools/call", Some(params)).await })
    };
    settle().await;
    connection.reconnect(Requester::Person);
    let error = pay.await.unwrap().unwrap_err();
    assert_eq!((error.kind, error.delivery), (ErrorKind::Interrupted, Delivery::Unknown));
    assert_eq!(error.fault.as_deref(), Some(&Fault::Replaced));
    until(&connection, |status| status.sessions == 2).await;
    assert!(server.elapsed() < millis(30_200), "{:?}", server.elapsed());
    assert_eq!(said(&safe.await.unwrap().unwrap()), 3);
    assert_eq!((server.effects("pay"), server.effects("safe")), (1, 2));
}
