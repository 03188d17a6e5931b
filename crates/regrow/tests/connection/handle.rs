//! The handle: requests, notifications, what comes in, status and notices, drain and close.

use std::task::{Context, Waker};

use regrow::core::{Delivery, Fault, Manner, Requester};
use regrow::transport::Ended;
use regrow::{CloseReport, ErrorKind};
use regrow_testkit::process::Stubborn;
use regrow_testkit::script::{Act, Plan};
use regrow_testkit::server::Server;
use regrow_testkit::world::*;
use serde_json::json;
use tokio::time::{Instant, timeout};

#[tokio::test(start_paused = true)]
async fn the_first_call_starts_the_server_and_a_life_can_be_told() {
    let server = Server::always(Plan::default());
    let connection = to(&server).build();
    let life = Life::of(&connection);
    assert_eq!(server.starts().len(), 0);
    assert_eq!(said(&work(&connection, json!({ "say": 1, "ms": 2000 })).await.unwrap()), 1);
    server.die(Fault::Killed { signal: 9 });
    settle().await;
    assert_eq!(said(&work(&connection, json!({ "say": 2 })).await.unwrap()), 2);
    connection.close().await;
    settle().await;
    life.check(
        "0.0s starting the server (session 1)
         0.0s ready (session 1)
         2.0s the server process was killed by SIGKILL
         2.0s starting the server (session 2)
         2.0s ready (session 2); in-memory state of the old server process is lost
         2.0s ending the session as requested
         2.0s closed",
    );
    assert_eq!(server.most_alive(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_error_of_the_server_is_an_answer() {
    let server = Server::always(Plan::default());
    let connection = ready(&server).await;
    let answer = connection.request("no/such", None).await.unwrap();
    assert_eq!(answer.frame().error_code(), Some(-32601));
    assert!(answer.into_result().is_err());
    assert_eq!(connection.status().borrow().sessions, 1);
}

#[tokio::test(start_paused = true)]
async fn a_notification_needs_a_session_and_says_so() {
    let server = Server::always(Plan::default());
    let connection = to(&server).build();
    assert!(!connection.notify("notifications/roots/list_changed", None));
    start(&connection).await;
    assert!(connection.notify("notifications/roots/list_changed", None));
    settle().await;
    assert_eq!(
        server.told(1),
        ["initialize", "notifications/initialized", "notifications/roots/list_changed"]
    );
    connection.close().await;
    assert!(!connection.notify("notifications/roots/list_changed", None));
}

#[tokio::test(start_paused = true)]
async fn requests_of_the_server_come_in_and_are_answered_to_the_session_that_asked() {
    let server = Server::always(Plan::default());
    let connection = ready(&server).await;
    let mut incoming = connection.incoming().unwrap();
    assert!(connection.incoming().is_none(), "only the first caller gets it");

    server.say(json!({ "jsonrpc": "2.0", "id": "q", "method": "sampling/createMessage", "params": {} }));
    let asked = incoming.next().await.unwrap();
    let id = asked.frame.id().unwrap();
    assert_eq!(id.as_bytes(), br#""q""#);
    assert!(connection.respond(&asked, &json!({})));
    settle().await;
    assert_eq!(server.told(1).last().unwrap(), "answer");

    server.die(Fault::Killed { signal: 9 });
    settle().await;
    until(&connection, |status| status.sessions == 2).await;
    assert!(!connection.respond(&asked, &json!({})), "that session is gone");
    settle().await;
    assert_eq!(server.told(2), ["initialize", "notifications/initialized"]);
}

#[tokio::test(start_paused = true)]
async fn a_dropped_request_is_cancelled_on_the_wire_and_leaves_nothing() {
    let server = Server::always(Plan::default());
    let connection = ready(&server).await;
    let given_up = timeout(secs(3), work(&connection, json!({ "silent": true }))).await;
    assert!(given_up.is_err());
    settle().await;
    assert_eq!(connection.status().borrow().pending, 0);
    let (call, cancelled) = (server.heard_of("tools/call"), server.heard_of("notifications/cancelled"));
    assert_eq!(cancelled.len(), 1);
    assert_eq!(cancelled[0].message["params"]["requestId"], call[0].message["id"]);
    assert!(state(&connection).name() == "ready");
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_gives_up_while_waiting_returns_at_once_and_is_never_sent() {
    let server = Server::always(Plan { start_delay: secs(20), ..Plan::default() });
    let connection = to(&server).build();
    let before = Instant::now();
    assert!(timeout(secs(1), work(&connection, json!({ "effect": "a" }))).await.is_err());
    assert_eq!(before.elapsed(), secs(1));
    settle().await;
    assert_eq!(connection.status().borrow().pending, 1, "only our own handshake");
    until(&connection, |status| status.is_ready()).await;
    settle().await;
    assert_eq!(server.effects("a"), 0);
    assert_eq!(connection.status().borrow().pending, 0);
}

#[tokio::test(start_paused = true)]
async fn a_request_that_is_dropped_before_it_was_polled_was_never_made() {
    let server = Server::always(Plan::default());
    let connection = ready(&server).await;
    drop(work(&connection, json!({ "effect": "a" })));
    settle().await;
    assert_eq!(server.effects("a"), 0);
    // Polled once, it is on its way.
    let mut call = Box::pin(work(&connection, json!({ "effect": "b", "silent": true })));
    assert!(call.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    drop(call);
    settle().await;
    assert_eq!(server.effects("b"), 1);
    assert_eq!(connection.status().borrow().pending, 0);
}

#[tokio::test(start_paused = true)]
async fn a_drain_has_a_limit_and_then_calls_may_have_run() {
    let server = Server::always(Plan::default());
    let connection = ready(&server).await;
    let running = begin(&connection, json!({ "silent": true }));
    settle().await;
    let before = Instant::now();
    connection.drain().await;
    assert!(before.elapsed() < secs(31));
    let error = running.await.unwrap().unwrap_err();
    assert_eq!(error.delivery, Delivery::Unknown);
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_ended_is_abandoned_and_said() {
    let server = Server::always(Plan { stubborn: Stubborn::Immortal, ..Plan::default() });
    let connection = ready(&server).await;
    let before = Instant::now();
    let closed = connection.close().await;
    assert_eq!(before.elapsed(), secs(9), "the ladder, and two seconds");
    assert_eq!(closed, CloseReport { ended: None, helpers: 0, abandoned: true });
}

#[tokio::test(start_paused = true)]
async fn close_twice_and_from_another_task_is_one_close() {
    let server = Server::always(Plan { stubborn: Stubborn::IgnoresEnd, ..Plan::default() });
    let connection = ready(&server).await;
    let other = tokio::spawn({
        let connection = connection.clone();
        async move { connection.close().await }
    });
    let (one, other) = (connection.close().await, other.await.unwrap());
    assert_eq!(one, other);
    assert_eq!(connection.close().await, one, "and once more when it is over");
    assert_eq!(work(&connection, json!({})).await.unwrap_err().kind, ErrorKind::Closed);
}

#[tokio::test(start_paused = true)]
async fn a_faster_close_overtakes_a_gentle_one() {
    let server = Server::always(Plan { stubborn: Stubborn::IgnoresTerm, ..Plan::default() });
    let connection = ready(&server).await;
    let gentle = tokio::spawn({
        let connection = connection.clone();
        async move { connection.close().await }
    });
    settle().await;
    let before = Instant::now();
    let closed = connection.close_in(Manner::Told).await;
    assert_eq!(before.elapsed(), millis(500));
    assert_eq!(gentle.await.unwrap(), closed);
}

#[tokio::test(start_paused = true)]
async fn a_reconnect_during_close_changes_nothing() {
    let server = Server::always(Plan { stubborn: Stubborn::IgnoresEnd, ..Plan::default() });
    let connection = ready(&server).await;
    let closing = tokio::spawn({
        let connection = connection.clone();
        async move { connection.close().await }
    });
    settle().await;
    for _ in 0..3 {
        connection.reconnect(Requester::Person);
        connection.reconnect(Requester::Program);
        connection.start();
        settle().await;
    }
    closing.await.unwrap();
    connection.reconnect(Requester::Person);
    settle().await;
    assert_eq!((server.starts().len(), server.alive()), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn a_close_ends_calls_in_flight_and_calls_that_wait() {
    let server = Server::new(|start| match start {
        1 => Plan::default(),
        _ => Plan { start_delay: secs(1000), ..Plan::default() },
    });
    let connection = ready(&server).await;
    let running = begin(&connection, json!({ "silent": true }));
    settle().await;
    let waiting = {
        let connection = to(&Server::always(Plan { start_delay: secs(1000), ..Plan::default() })).build();
        let waiting = begin(&connection, json!({}));
        settle().await;
        connection.close().await;
        waiting.await.unwrap().unwrap_err()
    };
    assert_eq!((waiting.kind, waiting.delivery), (ErrorKind::Closed, Delivery::NotSent));
    connection.close().await;
    let error = running.await.unwrap().unwrap_err();
    assert_eq!((error.kind, error.delivery), (ErrorKind::Closed, Delivery::Unknown));
    assert_eq!(connection.status().borrow().pending, 0);
}

#[tokio::test(start_paused = true)]
async fn the_last_handle_that_is_dropped_ends_the_server() {
    let server = Server::always(Plan::default());
    let connection = ready(&server).await;
    let clone = connection.clone();
    drop(connection);
    settle().await;
    assert_eq!(server.alive(), 1);
    drop(clone);
    settle().await;
    assert_eq!(server.alive(), 0);
    settle().await;
    assert_eq!(tasks(), 0);
}

#[tokio::test(start_paused = true)]
async fn after_close_no_task_and_no_call_is_left_whatever_went_before() {
    let plans: Vec<(&str, Plan)> = vec![
        ("ready", Plan::default()),
        ("slow", Plan { start_delay: secs(100), ..Plan::default() }),
        ("stubborn", Plan { stubborn: Stubborn::IgnoresTerm, ..Plan::default() }),
        ("dying", Plan::default().dies_after(millis(50), Fault::Killed { signal: 9 })),
        ("deaf", Plan::default().on("initialize", |_| vec![Act::StopReading])),
        ("missing", Plan { cannot_start: Some(Fault::NotFound { program: "x".into() }), ..Plan::default() }),
    ];
    for (name, plan) in plans {
        for after in [0, 20, 60, 400, 70_000] {
            let server = Server::always(plan.clone());
            let connection = to(&server).build();
            let calls: Vec<_> = (0..5).map(|n| begin(&connection, json!({ "ms": n * 100 }))).collect();
            tokio::time::sleep(millis(after)).await;
            connection.close().await;
            for call in calls {
                let _ = timeout(secs(1), call).await.expect("a call that never ended").unwrap();
            }
            settle().await;
            assert_eq!(tasks(), 0, "{name} closed after {after} ms");
            assert_eq!(server.alive(), 0, "{name} closed after {after} ms");
            assert_eq!(connection.status().borrow().pending, 0, "{name} closed after {after} ms");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_drain_waits_for_its_calls_and_no_longer() {
    let server = Server::always(Plan::default());
    let connection = ready(&server).await;
    let running = begin(&connection, json!({ "say": 1, "ms": 4000 }));
    settle().await;
    let draining = tokio::spawn({
        let connection = connection.clone();
        async move { connection.drain().await }
    });
    settle().await;
    let refused = work(&connection, json!({})).await.unwrap_err();
    assert_eq!((refused.kind, refused.delivery), (ErrorKind::Closed, Delivery::NotSent));
    let before = Instant::now();
    draining.await.unwrap();
    assert!(before.elapsed() < secs(5), "{:?}", before.elapsed());
    assert_eq!(said(&running.await.unwrap().unwrap()), 1);
}

#[tokio::test(start_paused = true)]
async fn a_reconnect_lets_calls_finish_and_holds_new_ones() {
    let server = Server::always(Plan::default());
    let connection = ready(&server).await;
    let life = Life::of(&connection);
    let running = begin(&connection, json!({ "say": "old", "ms": 3000 }));
    settle().await;
    connection.reconnect(Requester::Person);
    settle().await;
    let held = begin(&connection, json!({ "say": "new" }));
    assert_eq!(said(&running.await.unwrap().unwrap()), "old");
    assert_eq!(said(&held.await.unwrap().unwrap()), "new");
    life.check(
        "3.0s ending the session as requested
         3.0s starting the server (session 2)
         3.0s ready (session 2); in-memory state of the old server process is lost",
    );
    assert_eq!(connection.status().borrow().budget_left, 5, "not counted against the restart budget");
}

#[tokio::test(start_paused = true)]
async fn the_status_does_not_claim_calls_that_have_ended() {
    let server = Server::always(Plan::default());
    let connection = to(&server).build();
    let call = begin(&connection, json!({ "ms": 500 }));
    until(&connection, |status| status.pending > 0).await;
    call.await.unwrap().unwrap();
    settle().await;
    assert_eq!(connection.status().borrow().pending, 0);
}

#[tokio::test(start_paused = true)]
async fn fifty_reconnects_leave_no_task_behind() {
    let server = Server::always(Plan::default());
    let connection = ready(&server).await;
    connection.request("tools/list", None).await.unwrap();
    connection.request("logging/setLevel", Some(json!({ "level": "debug" }))).await.unwrap();
    connection.reconnect(Requester::Person);
    until(&connection, |status| status.sessions == 2).await;
    settle().await;
    let before = tasks();
    for session in 3..53 {
        connection.reconnect(Requester::Person);
        until(&connection, |status| status.sessions == session).await;
        work(&connection, json!({})).await.unwrap();
    }
    settle().await;
    assert_eq!(tasks(), before);
    assert_eq!(connection.status().borrow().pending, 0);
    assert_eq!(server.most_alive(), 1);
}

#[tokio::test(start_paused = true)]
async fn close_says_what_it_had_to_do() {
    let exit = |fault, termed, killed| Ended { fault: Some(fault), termed, killed, helpers: 0 };
    let (left, termed, killed) =
        (Fault::Exited { code: 0 }, Fault::Killed { signal: 15 }, Fault::Killed { signal: 9 });
    let cases = [
        (Stubborn::No, 0, exit(left, false, false)),
        (Stubborn::IgnoresEnd, 5, exit(termed, true, false)),
        (Stubborn::IgnoresTerm, 7, exit(killed, true, true)),
    ];
    for (stubborn, seconds, ended) in cases {
        let server = Server::always(Plan { stubborn, helpers: 2, ..Plan::default() });
        let connection = ready(&server).await;
        let life = Life::of(&connection);
        let before = Instant::now();
        let closed = connection.close().await;
        assert_eq!(before.elapsed().as_secs(), seconds);
        settle().await;
        let said = life
            .text()
            .contains("killed by SIGKILL when it was stopped; not counted against the restart budget");
        assert_eq!(said, stubborn == Stubborn::IgnoresTerm, "{}", life.text());
        assert_eq!(closed, CloseReport { ended: Some(ended), helpers: 2, abandoned: false });
        assert_eq!(server.alive(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_was_ended_where_nothing_ran() {
    let idle = to(&Server::always(Plan::default())).build();
    assert_eq!(idle.close().await, CloseReport::default());

    let missing = Fault::NotFound { program: "x".into() };
    let server = Server::always(Plan { cannot_start: Some(missing), ..Plan::default() });
    let parked = to(&server).build();
    work(&parked, json!({})).await.unwrap_err();
    assert_eq!(parked.close().await, CloseReport::default());

    let server = Server::always(Plan { spawn_delay: secs(1000), ..Plan::default() });
    let starting = to(&server).build();
    starting.start();
    settle().await;
    let before = Instant::now();
    assert_eq!(starting.close().await, CloseReport::default());
    assert!(before.elapsed() < secs(1));

    // A process of an earlier session is not one that close had to end.
    let server = Server::new(|start| match start {
        1 => Plan::default(),
        _ => Plan { cannot_start: Some(Fault::NotFound { program: "x".into() }), ..Plan::default() },
    });
    let connection = ready(&server).await;
    server.die(Fault::Killed { signal: 9 });
    until(&connection, |status| status.state.name() == "parked").await;
    assert_eq!(connection.close().await, CloseReport::default());
}

#[tokio::test(start_paused = true)]
async fn calls_held_for_a_reconnect_fail_at_once_when_it_becomes_a_drain() {
    let server = Server::always(Plan::default());
    let connection = ready(&server).await;
    let _running = begin(&connection, json!({ "silent": true }));
    settle().await;
    connection.reconnect(Requester::Person);
    settle().await;
    let held = begin(&connection, json!({ "effect": "held" }));
    settle().await;
    tokio::spawn({
        let connection = connection.clone();
        async move { connection.drain().await }
    });
    let error = timeout(secs(1), held).await.expect("nothing will come for it").unwrap().unwrap_err();
    assert_eq!((error.kind, error.delivery), (ErrorKind::Closed, Delivery::NotSent));
}

#[tokio::test(start_paused = true)]
async fn what_comes_in_and_what_is_told_ends_with_the_connection() {
    let server = Server::always(Plan::default());
    let connection = ready(&server).await;
    let (mut incoming, mut notices) = (connection.incoming().unwrap(), connection.notices());
    connection.close().await;
    assert!(timeout(secs(1), incoming.next()).await.expect("nothing will come").is_none());
    let told = timeout(secs(1), async { while notices.next().await.is_some() {} }).await;
    assert!(told.is_ok(), "nothing will be told");
    assert!(timeout(secs(1), connection.notices().next()).await.expect("it is over").is_none());
}

#[tokio::test(start_paused = true)]
async fn a_ping_of_the_server_is_answered_and_what_nobody_can_answer_is_refused() {
    let server = Server::always(Plan::default());
    let connection = ready(&server).await;
    let ask = |method: &str| {
        server.say(json!({ "jsonrpc": "2.0", "id": method, "method": method }));
        settle()
    };
    let last = || server.heard().pop().unwrap().message;
    ask("ping").await;
    assert_eq!(last(), json!({ "jsonrpc": "2.0", "id": "ping", "result": {} }));
    ask("roots/list").await;
    assert_eq!((&last()["id"], &last()["error"]["code"]), (&json!("roots/list"), &json!(-32601)));
    let incoming = connection.incoming().unwrap();
    ask("ping").await;
    assert_eq!(last()["result"], json!({}));
    let heard = server.heard().len();
    ask("roots/list").await;
    assert_eq!(server.heard().len(), heard, "somebody will answer that");
    drop(incoming);
    ask("roots/list").await;
    assert_eq!(last()["error"]["code"], -32601);
}
