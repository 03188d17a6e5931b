//! Calls, each on an exchange of its own: what one of them suffers, no other does.

use regrow::core::{Delivery, Fault, Policy};
use regrow::{Connection, Era, ErrorKind};
use regrow_testkit::remote::{Path, Remote};
use regrow_testkit::script::{Act, answer, deferred, status};
use regrow_testkit::world::*;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, timeout};

async fn both_eras() -> Vec<(Remote, Connection)> {
    let mut all = vec![];
    for server in [Remote::legacy(), Remote::modern()] {
        let connection = to(&server).era(Era::Auto).build();
        start(&connection).await;
        all.push((server, connection));
    }
    all
}

/// The first so many of these requests end so; the others are answered.
fn at_first(times: usize, fault: Fault) -> impl Fn(&Value) -> Option<Vec<Act>> {
    let left = std::sync::atomic::AtomicUsize::new(times);
    move |_| {
        let left = left.fetch_update(
            std::sync::atomic::Ordering::Relaxed,
            std::sync::atomic::Ordering::Relaxed,
            |left| left.checked_sub(1),
        );
        left.is_ok().then(|| vec![Act::Fail(fault.clone())])
    }
}

#[tokio::test(start_paused = true)]
async fn one_bad_gateway_fails_only_its_own_call() {
    for (server, connection) in both_eras().await {
        let slow = begin(&connection, json!({ "ms": 2000, "say": "slow" }));
        settle().await;
        let error = work(&connection, json!({ "effect": "pay", "status": 502 })).await.unwrap_err();
        assert_eq!((error.kind, error.delivery), (ErrorKind::Refused, Delivery::Unknown));
        assert_eq!(error.data()["dev.regrow/fault"]["httpStatus"], 502);
        assert_eq!(said(&slow.await.unwrap().unwrap()), "slow");
        work(&connection, json!({})).await.unwrap();
        assert_eq!(server.effects("pay"), 1);
        let status = connection.status().borrow().clone();
        assert_eq!((status.sessions, status.budget_left), (1, 5));
    }
}

#[tokio::test(start_paused = true)]
async fn a_read_that_meets_a_bad_gateway_is_repeated_at_most_twice() {
    for failures in [1, 2, 3] {
        let server = Remote::legacy().on("tools/list", at_first(failures, status(502)));
        let connection = ready(&server).await;
        let end = connection.request("tools/list", None).await;
        assert_eq!(end.is_ok(), failures < 3);
        assert_eq!(server.count("tools/list"), 3.min(failures + 1));
        assert_eq!(connection.status().borrow().budget_left, 5);
        if let Err(error) = end {
            assert_eq!((error.kind, error.delivery), (ErrorKind::Refused, Delivery::Unknown));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_refusal_of_the_request_itself_is_not_repeated() {
    for (code, delivery) in [
        (400, Delivery::Unknown),
        (404, Delivery::Unknown),
        (405, Delivery::NotSent),
        (413, Delivery::NotSent),
    ] {
        let server = Remote::legacy().on("tools/list", move |_| Some(vec![Act::Fail(status(code))]));
        let connection = ready(&server).await;
        let error = connection.request("tools/list", None).await.unwrap_err();
        assert_eq!((error.kind, error.delivery), (ErrorKind::Refused, delivery));
        assert_eq!(server.count("tools/list"), 1);
        assert_eq!(connection.status().borrow().sessions, 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_asks_to_wait_is_waited_for_and_nothing_is_charged() {
    let server = Remote::legacy().on("tools/call", at_first(2, deferred(secs(20))));
    let connection = ready(&server).await;
    let before = Instant::now();
    assert_eq!(said(&work(&connection, json!({ "effect": "pay", "say": 1 })).await.unwrap()), 1);
    assert_eq!(before.elapsed().as_secs(), 40);
    assert_eq!(server.effects("pay"), 1);
    assert_eq!(connection.status().borrow().budget_left, 5);
    assert_eq!(connection.status().borrow().sessions, 1);
}

#[tokio::test(start_paused = true)]
async fn asked_to_wait_too_long_a_call_is_told_at_once_and_when_to_come_back() {
    for (after, deadline) in [(secs(61), secs(300)), (secs(20), secs(10)), (secs(86_400), secs(300))] {
        let server = Remote::legacy().on("tools/call", at_first(1, deferred(after)));
        let connection = ready(&server).await;
        let before = Instant::now();
        let error = connection.request_within("tools/call", None, Some(deadline)).await.unwrap_err();
        assert!(before.elapsed() <= millis(1));
        assert_eq!((error.kind, error.delivery), (ErrorKind::Refused, Delivery::NotSent));
        assert_eq!(error.data()["dev.regrow/fault"]["retryAfterMs"], after.as_millis() as u64);
        assert_eq!(connection.status().borrow().budget_left, 5);
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_asks_to_wait_for_no_time_at_all_is_not_asked_on_and_on() {
    let server = Remote::legacy().on("tools/call", |_| Some(vec![Act::Fail(deferred(secs(0)))]));
    let connection = ready(&server).await;
    let error = work(&connection, json!({})).await.unwrap_err();
    assert_eq!(error.delivery, Delivery::NotSent);
    assert_eq!(server.count("tools/call"), 3);
}

#[tokio::test(start_paused = true)]
async fn a_handshake_that_is_deferred_waits_as_asked_and_its_calls_with_it() {
    let server = Remote::legacy().on("initialize", at_first(1, deferred(secs(30))));
    let connection = to(&server).build();
    let before = Instant::now();
    let calls: Vec<_> = (0..10).map(|n| begin(&connection, json!({ "say": n }))).collect();
    for call in calls {
        call.await.unwrap().unwrap();
    }
    assert!((30..35).contains(&before.elapsed().as_secs()), "{:?}", before.elapsed());
    assert_eq!(server.starts().len(), 2);
    assert_eq!(connection.status().borrow().budget_left, 5);
}

#[tokio::test(start_paused = true)]
async fn a_handshake_that_is_deferred_for_longer_than_a_call_waits_is_told_at_once() {
    let server = Remote::legacy().on("initialize", at_first(1, deferred(secs(3600))));
    let connection = to(&server).build();
    let before = Instant::now();
    let error = work(&connection, json!({})).await.unwrap_err();
    assert!(before.elapsed() <= millis(200), "{:?}", before.elapsed());
    assert_eq!((error.kind, error.delivery), (ErrorKind::Unavailable, Delivery::NotSent));
    assert_eq!(error.fault.as_deref(), Some(&deferred(secs(3600))));
    assert!(error.retry_after().is_some(), "{error:?}");
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_is_cut_is_told_at_once_and_the_connection_serves_on() {
    for (server, connection) in both_eras().await {
        let before = Instant::now();
        let error = work(&connection, json!({ "effect": "pay", "cut": true })).await.unwrap_err();
        assert!(before.elapsed() <= millis(200));
        assert_eq!((error.kind, error.delivery), (ErrorKind::Interrupted, Delivery::Unknown));
        assert_eq!(error.fault.as_deref(), Some(&Fault::AnswerCut));
        assert_eq!(server.effects("pay"), 1);
        work(&connection, json!({})).await.unwrap();
        sleep(secs(10)).await;
        let status = connection.status().borrow().clone();
        assert_eq!((status.sessions, status.budget_left), (1, 5));
    }
}

#[tokio::test(start_paused = true)]
async fn an_exchange_that_ends_in_good_order_without_an_answer_is_a_cut_answer() {
    let server = Remote::legacy().on("tools/call", |_| Some(vec![]));
    let connection = ready(&server).await;
    let error = work(&connection, json!({})).await.unwrap_err();
    assert_eq!(error.fault.as_deref(), Some(&Fault::AnswerCut));
    assert!(connection.status().borrow().is_ready());
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_comes_on_the_servers_own_stream_is_as_good() {
    let server = Remote::legacy();
    let connection = ready(&server).await;
    let calls: Vec<_> =
        (0..10).map(|n| begin(&connection, json!({ "elsewhere": true, "ms": 1000, "say": n }))).collect();
    for (n, call) in calls.into_iter().enumerate() {
        assert_eq!(said(&call.await.unwrap().unwrap()), n);
    }
    assert_eq!(server.elapsed().as_secs(), 1);
    assert_eq!(connection.status().borrow().anomalies.stray, 0);
}

#[tokio::test(start_paused = true)]
async fn a_call_whose_answer_comes_elsewhere_ends_with_its_session() {
    let server = Remote::legacy();
    let connection = ready(&server).await;
    let call = begin(&connection, json!({ "elsewhere": true, "effect": "pay", "ms": 100_000 }));
    sleep(secs(1)).await;
    let before = Instant::now();
    server.kill();
    let error = call.await.unwrap().unwrap_err();
    assert!(before.elapsed() <= millis(300), "{:?}", before.elapsed());
    assert_eq!((error.kind, error.delivery), (ErrorKind::Interrupted, Delivery::Unknown));
}

#[tokio::test(start_paused = true)]
async fn a_slow_call_delays_no_other_no_probe_and_no_cancel() {
    for (server, connection) in both_eras().await {
        let slow = begin(&connection, json!({ "ms": 200_000, "say": "slow" }));
        settle().await;
        let before = Instant::now();
        for _ in 0..100 {
            work(&connection, json!({})).await.unwrap();
        }
        assert!(before.elapsed() <= millis(1));
        let given_up = timeout(millis(10), work(&connection, json!({ "stays": true }))).await;
        assert!(given_up.is_err());
        sleep(secs(150)).await;
        let probes = server.count("ping") + server.count("server/discover");
        assert!(probes >= 2, "{probes} probes");
        assert_eq!(said(&slow.await.unwrap().unwrap()), "slow");
        assert_eq!(connection.status().borrow().sessions, 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_gives_up_cancels_in_the_way_of_the_era() {
    for (server, connection) in both_eras().await {
        let given_up = timeout(secs(1), work(&connection, json!({ "stays": true }))).await;
        assert!(given_up.is_err());
        settle().await;
        let id = server.heard_of("tools/call")[0].message["id"].clone();
        let told: Vec<Value> = server
            .heard_of("notifications/cancelled")
            .into_iter()
            .map(|heard| heard.message["params"]["requestId"].clone())
            .collect();
        let expected = if connection.is_modern() { vec![] } else { vec![id] };
        assert_eq!(told, expected);
        assert_eq!(server.dropped(), ["tools/call"]);
        assert_eq!(connection.status().borrow().pending, 0);
        work(&connection, json!({})).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_that_times_out_is_cancelled_once_and_the_connection_stays_ready() {
    for (server, connection) in both_eras().await {
        let before = Instant::now();
        let params = json!({ "name": "work", "arguments": { "effect": "pay", "stays": true } });
        let error = connection.request_within("tools/call", Some(params), Some(secs(30))).await.unwrap_err();
        assert_eq!((before.elapsed(), error.kind), (secs(30), ErrorKind::Timeout));
        assert_eq!(error.delivery, Delivery::Unknown);
        settle().await;
        assert_eq!(server.dropped(), ["tools/call"]);
        assert_eq!(server.count("notifications/cancelled"), usize::from(!connection.is_modern()));
        sleep(secs(30)).await;
        assert_eq!(server.effects("pay"), 1);
        let status = connection.status().borrow().clone();
        assert_eq!((status.sessions, status.budget_left), (1, 5));
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_given_up_before_it_leaves_never_does() {
    for (server, connection) in both_eras().await {
        server.world().latency = millis(100);
        let given_up = timeout(millis(10), work(&connection, json!({ "effect": "x" }))).await;
        assert!(given_up.is_err());
        sleep(secs(1)).await;
        assert_eq!(server.effects("x"), 0);
        assert_eq!(server.count("notifications/cancelled"), 0);
        assert_eq!(server.dropped(), ["tools/call"]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_given_up_while_it_pauses_is_not_sent_again() {
    let server = Remote::legacy().on("tools/call", at_first(1, deferred(secs(20))));
    let connection = ready(&server).await;
    assert!(timeout(secs(5), work(&connection, json!({ "effect": "x" }))).await.is_err());
    sleep(secs(60)).await;
    assert_eq!((server.effects("x"), server.count("tools/call")), (0, 1));
    assert_eq!(connection.status().borrow().pending, 0);
}

#[tokio::test(start_paused = true)]
async fn a_late_answer_is_nobodys() {
    let server = Remote::legacy();
    let connection = ready(&server).await;
    let given_up =
        timeout(secs(1), work(&connection, json!({ "elsewhere": true, "ms": 5000, "say": "late" }))).await;
    assert!(given_up.is_err());
    let next = begin(&connection, json!({ "ms": 10_000, "say": "mine" }));
    assert_eq!(said(&next.await.unwrap().unwrap()), "mine");
    connection.close().await;
    assert_eq!(connection.status().borrow().anomalies.stray, 1);
}

#[tokio::test(start_paused = true)]
async fn an_answer_on_the_exchange_of_another_goes_where_it_belongs() {
    // The second call's exchange brings the answer of the first.
    let server = Remote::legacy().on("tools/call", {
        let first = std::sync::Mutex::new(None);
        move |message| {
            let mut first = first.lock().unwrap();
            match first.take() {
                None => {
                    *first = Some(message["id"].clone());
                    Some(vec![Act::Stay])
                }
                Some(id) => Some(vec![
                    Act::Say(answer(&id, json!({ "got": "first" }))),
                    Act::Say(answer(&message["id"], json!({ "got": "second" }))),
                ]),
            }
        }
    });
    let connection = ready(&server).await;
    let first = begin(&connection, json!({}));
    settle().await;
    assert_eq!(said(&work(&connection, json!({})).await.unwrap()), "second");
    assert_eq!(said(&first.await.unwrap().unwrap()), "first");
}

#[tokio::test(start_paused = true)]
async fn more_calls_than_the_bound_are_refused_at_once_and_the_others_end() {
    let server = Remote::legacy();
    let connection = ready(&server).await;
    let calls: Vec<_> = (0..5000).map(|n| begin(&connection, json!({ "ms": 1000, "say": n }))).collect();
    let mut refused = 0;
    for (n, call) in calls.into_iter().enumerate() {
        match call.await.unwrap() {
            Ok(answer) => assert_eq!(said(&answer), n),
            Err(error) => {
                assert_eq!((error.kind, error.delivery), (ErrorKind::Overloaded, Delivery::NotSent));
                refused += 1;
            }
        }
    }
    assert_eq!(refused, 5000 - 4096);
    work(&connection, json!({})).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn notifications_over_the_bound_are_dropped_and_counted_and_cancels_never_are() {
    let server = Remote::legacy();
    let connection = ready(&server).await;
    let call = begin(&connection, json!({ "stays": true }));
    settle().await;
    server.world().latency = secs(10);
    let sent = (0..2000).filter(|_| connection.notify("notifications/roots/list_changed", None)).count();
    assert_eq!(sent, 1024);
    call.abort();
    sleep(secs(20)).await;
    assert_eq!(server.count("notifications/roots/list_changed"), 1024);
    assert_eq!(server.count("notifications/cancelled"), 1);
    assert!(connection.notify("notifications/roots/list_changed", None), "there is room again");
    settle().await;
    assert_eq!(connection.status().borrow().anomalies.undelivered, 2000 - 1024);
}

#[tokio::test(start_paused = true)]
async fn a_notification_that_does_not_get_through_is_counted() {
    let server = Remote::legacy().on("notifications/message", |_| Some(vec![Act::Fail(status(500))]));
    let connection = ready(&server).await;
    assert!(connection.notify("notifications/message", None));
    settle().await;
    assert!(connection.status().borrow().is_ready());
    connection.close().await;
    assert_eq!(connection.status().borrow().anomalies.undelivered, 1);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_fails_for_one_tool_alone_is_asked_three_times() {
    let server =
        Remote::legacy().on("tools/call", |_| Some(vec![Act::Fail(regrow_testkit::script::unreachable())]));
    let connection = to(&server).policy(Policy { call_timeout: Some(secs(300)), ..policy() }).build();
    start(&connection).await;
    let error = work(&connection, json!({})).await.unwrap_err();
    assert_eq!(error.delivery, Delivery::NotSent);
    assert_eq!(server.count("tools/call"), 3);
    assert_eq!(connection.status().borrow().sessions, 1);
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_gives_up_while_it_waits_for_a_session_leaves_nothing_behind() {
    let server = Remote::legacy();
    server.set_path(regrow_testkit::remote::Path::Partitioned);
    let connection = to(&server).build();
    assert!(timeout(secs(1), work(&connection, json!({ "effect": "x" }))).await.is_err());
    settle().await;
    assert_eq!(connection.status().borrow().pending, 1, "our own handshake");
    server.set_path(regrow_testkit::remote::Path::Up);
    sleep(secs(1)).await;
    assert!(connection.status().borrow().is_ready());
    assert_eq!((server.effects("x"), server.count("tools/call")), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_call_that_timed_out_unsent_on_a_failed_session_never_leaves() {
    let server = Remote::legacy();
    let connection = ready(&server).await;
    server.set_path(Path::Partitioned);
    let call = |key: &str, within| {
        let (connection, params) =
            (connection.clone(), json!({ "name": "pay", "arguments": { "effect": key } }));
        tokio::spawn(async move { connection.request_within("tools/call", Some(params), Some(within)).await })
    };
    // The first raises a doubt at 1 s, and the server is given up at 6 s. For a moment its exchanges may still tell what became
    // of their calls.
    let first = call("first", secs(1));
    sleep(secs(2)).await;
    let second = call("second", millis(4_050));
    let third = call("third", secs(60));
    sleep(millis(4_100)).await;
    assert!(!connection.status().borrow().is_ready(), "{:?}", state(&connection));
    for call in [first, second] {
        assert_eq!(call.await.unwrap().unwrap_err().delivery, Delivery::NotSent);
    }
    server.set_path(Path::Up);
    sleep(secs(60)).await;
    assert_eq!((server.effects("first"), server.effects("second")), (0, 0));
    let _ = third.await; // However that ended.
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_came_while_we_were_stopped_is_delivered() {
    for server in [Remote::legacy(), Remote::modern()] {
        let policy = Policy { call_timeout: Some(secs(2)), ..policy() };
        let connection = to(&server).policy(policy).era(Era::Auto).build();
        start(&connection).await;
        let call = begin(&connection, json!({ "ms": 1000, "say": "in time" }));
        settle().await;
        tokio::time::advance(secs(3)).await;
        assert_eq!(said(&call.await.unwrap().unwrap()), "in time");
    }
}

#[tokio::test(start_paused = true)]
async fn waiting_for_the_result_of_a_task_has_no_deadline_over_http_either() {
    let server = Remote::legacy().on("tasks/result", |message| {
        Some(vec![Act::Wait(secs(86_400)), Act::Say(answer(&message["id"], json!({ "got": "done" })))])
    });
    let connection = ready(&server).await;
    let result = connection.request("tasks/result", Some(json!({ "taskId": "t" }))).await.unwrap();
    assert_eq!(said(&result), "done");
    assert_eq!((server.count("tasks/result"), server.count("notifications/cancelled")), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_only_accepted_by_a_server_without_a_stream_fails_at_once() {
    let server = Remote::legacy();
    server.world().has_stream = false;
    let connection = ready(&server).await;
    let before = Instant::now();
    let error = work(&connection, json!({ "elsewhere": true, "effect": "pay" })).await.unwrap_err();
    assert!(before.elapsed() <= millis(1), "{:?}", before.elapsed());
    assert_eq!((error.kind, error.delivery), (ErrorKind::Refused, Delivery::Unknown));
    assert_eq!(error.data()["dev.regrow/fault"]["httpStatus"], 202);
    assert_eq!(
        error.to_string(),
        "fake: the server responded with HTTP 202 without a stream to send the response on; \
         this call failed (work). It may have run; check before repeating it."
    );
    assert_eq!(server.count("tools/call"), 1);
    work(&connection, json!({})).await.unwrap();
    let status = connection.status().borrow().clone();
    assert_eq!((status.sessions, status.budget_left), (1, 5));
}

#[tokio::test(start_paused = true)]
async fn a_call_that_was_accepted_fails_when_the_server_turns_out_to_have_no_stream_any_more() {
    let server = Remote::legacy();
    let connection = ready(&server).await;
    let call = begin(&connection, json!({ "elsewhere": true, "ms": 3_600_000 }));
    settle().await;
    server.world().has_stream = false;
    let before = Instant::now();
    server.cut();
    let error = call.await.unwrap().unwrap_err();
    assert!(before.elapsed() <= secs(10), "{:?}", before.elapsed());
    assert_eq!((error.kind, error.delivery), (ErrorKind::Refused, Delivery::Unknown));
}
