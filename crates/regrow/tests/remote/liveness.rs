//! Is the server still there? Asked by time and in doubt; silence is told from not wanting to answer.

use regrow::core::{Delivery, Fault, Policy};
use regrow::{Era, ErrorKind, Status};
use regrow_testkit::remote::{Path, Remote};
use regrow_testkit::script::{Act, refusal, status};
use regrow_testkit::world::*;
use serde_json::json;
use tokio::time::{Instant, sleep};

#[tokio::test(start_paused = true)]
async fn a_question_that_a_closed_connection_swallowed_is_no_death() {
    for fault in [Fault::Broken { reason: "closed".into() }, Fault::AnswerCut] {
        let server = Remote::legacy().on("ping", move |_| Some(vec![Act::Fail(fault.clone())]));
        let connection = ready(&server).await;
        sleep(secs(3600)).await;
        assert!(server.count("ping") > 10);
        assert_eq!(server.starts().len(), 1);
        server.set_path(Path::Down);
        sleep(secs(61)).await;
        assert!(!connection.status().borrow().is_ready(), "a check that nobody answers is");
    }
}

#[tokio::test(start_paused = true)]
async fn a_link_that_is_half_open_is_found_out_by_time_and_its_session_replaced() {
    for server in [Remote::legacy(), Remote::modern()] {
        let connection = to(&server).era(Era::Auto).build();
        start(&connection).await;
        server.set_path(Path::Partitioned);
        sleep(secs(69)).await;
        assert!(connection.status().borrow().is_ready());
        assert_eq!(server.world().checks.len(), 1, "it is asked below the protocol, too");
        sleep(secs(2)).await;
        assert!(!connection.status().borrow().is_ready());
        let fault = connection.status().borrow().last_fault.clone().unwrap();
        assert!(matches!(*fault, Fault::Silent { .. }), "{fault}");
        server.set_path(Path::Up);
        work(&connection, json!({ "effect": "x" })).await.unwrap();
        assert_eq!(server.effects("x"), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn calls_into_a_half_open_link_end_at_their_deadline_and_raise_a_doubt() {
    let server = Remote::legacy();
    let connection = ready(&server).await;
    server.set_path(Path::Partitioned);
    let before = Instant::now();
    let params = || Some(json!({ "name": "work", "arguments": { "effect": "pay" } }));
    let error = connection.request_within("tools/call", params(), Some(secs(30))).await.unwrap_err();
    assert_eq!((before.elapsed(), error.kind), (secs(30), ErrorKind::Timeout));
    assert_eq!(error.delivery, Delivery::NotSent, "it never left: no connection was made");
    sleep(secs(6)).await;
    assert!(!connection.status().borrow().is_ready(), "{:?}", state(&connection));
    let waiting = begin(&connection, json!({ "effect": "later" }));
    sleep(secs(10)).await;
    server.set_path(Path::Up);
    waiting.await.unwrap().unwrap();
    assert_eq!((server.effects("pay"), server.effects("later")), (0, 1));
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_lost_on_the_way_ends_at_its_deadline_and_may_have_run() {
    let server = Remote::legacy();
    server.world().latency = millis(100);
    let connection = ready(&server).await;
    let call = begin(&connection, json!({ "effect": "pay" }));
    sleep(millis(60)).await;
    server.set_path(Path::Partitioned);
    let before = Instant::now();
    let error = call.await.unwrap().unwrap_err();
    assert!(before.elapsed() <= secs(300), "{:?}", before.elapsed());
    assert_eq!(error.delivery, Delivery::Unknown);
    server.set_path(Path::Up);
    work(&connection, json!({})).await.unwrap();
    assert!(server.effects("pay") <= 1);
}

#[tokio::test(start_paused = true)]
async fn whatever_a_server_answers_to_a_probe_is_a_sign_of_life() {
    let silent = |_: &serde_json::Value| Some(vec![Act::Stay]);
    let servers = [
        (
            "-32601",
            Remote::legacy().on("ping", |ping| Some(vec![Act::Say(refusal(&ping["id"], -32601, "no"))])),
        ),
        (
            "-32600",
            Remote::legacy().on("ping", |ping| Some(vec![Act::Say(refusal(&ping["id"], -32600, "no"))])),
        ),
        ("500", Remote::legacy().on("ping", |_| Some(vec![Act::Fail(status(500))]))),
        ("405", Remote::legacy().on("ping", |_| Some(vec![Act::Fail(status(405))]))),
        (
            "429",
            Remote::legacy()
                .on("ping", |_| Some(vec![Act::Fail(regrow_testkit::script::deferred(secs(60)))])),
        ),
        ("silence", Remote::legacy().on("ping", silent)),
    ];
    for (answer, server) in servers {
        let connection = ready(&server).await;
        sleep(secs(6 * 3600)).await;
        let status = connection.status().borrow().clone();
        assert_eq!((status.sessions, status.budget_left), (1, 5), "{answer}");
        assert!(status.is_ready(), "{answer}");
        assert_eq!(status.pending, 0, "{answer}");
        let pings = server.count("ping");
        assert!((200..=400).contains(&pings), "{answer}: {pings} pings in six hours");
        work(&connection, json!({ "effect": "x" })).await.unwrap();
        connection.close().await;
        settle().await;
        assert_eq!(tasks(), 0, "{answer}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_without_ping_whose_link_becomes_half_open_is_found_out_all_the_same() {
    let server = Remote::legacy().on("ping", |ping| Some(vec![Act::Say(refusal(&ping["id"], -32601, "no"))]));
    let connection = ready(&server).await;
    sleep(secs(1000)).await;
    server.set_path(Path::Partitioned);
    sleep(secs(140)).await;
    assert!(!connection.status().borrow().is_ready());
    server.set_path(Path::Up);
    until(&connection, Status::is_ready).await;
}

#[tokio::test(start_paused = true)]
async fn a_server_whose_name_stays_but_whose_protocol_is_gone_answers_knocks_and_no_calls() {
    // Whoever answers checks may still leave every call without an answer: each ends at its deadline.
    let server = Remote::legacy().on("ping", |_| Some(vec![Act::Stay]));
    let connection = ready(&server).await;
    for _ in 0..3 {
        let params = Some(json!({ "name": "work", "arguments": { "stays": true } }));
        let error = connection.request_within("tools/call", params, Some(secs(20))).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Timeout);
    }
    assert_eq!(connection.status().borrow().sessions, 1);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_talking_is_not_asked() {
    let server = Remote::legacy();
    let connection = ready(&server).await;
    for _ in 0..100 {
        sleep(secs(30)).await;
        work(&connection, json!({})).await.unwrap();
    }
    assert_eq!((server.count("ping"), server.world().checks.len()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_probe_that_is_answered_with_a_forgotten_session_begins_a_new_one() {
    let server = Remote::legacy();
    let connection = ready(&server).await;
    work(&connection, json!({})).await.unwrap();
    server.forget();
    sleep(secs(61)).await;
    assert_eq!(connection.status().borrow().sessions, 2);
    assert_eq!(connection.status().borrow().budget_left, 5);
}

#[tokio::test(start_paused = true)]
async fn one_failed_probe_does_not_take_calls_that_may_still_be_answered() {
    // It takes no new connections any more, and finishes what it has: a graceful end.
    let server = Remote::modern();
    let connection = to(&server).era(Era::Modern).build();
    start(&connection).await;
    let call = begin(&connection, json!({ "effect": "pay", "ms": 40_000, "say": 1 }));
    sleep(secs(1)).await;
    server.set_path(Path::Down);
    let refused = begin(&connection, json!({ "effect": "next", "say": 2 }));
    sleep(secs(10)).await;
    server.set_path(Path::Up);
    assert_eq!(said(&refused.await.unwrap().unwrap()), 2);
    assert_eq!(said(&call.await.unwrap().unwrap()), 1);
    assert_eq!((server.effects("pay"), server.effects("next")), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn with_a_hang_timeout_a_server_that_hangs_during_a_call_is_replaced_within_15_s() {
    for server in [Remote::legacy(), Remote::modern()] {
        let policy = Policy { hang_timeout: Some(secs(5)), ..policy() };
        let connection = to(&server).policy(policy).era(Era::Auto).build();
        start(&connection).await;
        work(&connection, json!({ "ms": 8000 })).await.unwrap();
        let call = begin(&connection, json!({ "effect": "x", "stays": true }));
        sleep(secs(1)).await;
        let before = Instant::now();
        server.set_path(Path::Partitioned);
        let error = call.await.unwrap().unwrap_err();
        assert!(before.elapsed() <= secs(14), "{:?}", before.elapsed());
        assert_eq!((error.kind, error.delivery), (ErrorKind::Interrupted, Delivery::Unknown));
        assert!(matches!(error.fault.as_deref(), Some(Fault::Silent { .. })), "{error}");
        server.set_path(Path::Up);
        work(&connection, json!({ "effect": "y" })).await.unwrap();
        assert_eq!((server.effects("x"), server.effects("y")), (1, 1));
    }
}
