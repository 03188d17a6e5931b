//! Close, drain, reconnect and drop, at every moment: bounded, every caller told, one end of the session, nothing left.

use regrow::core::{Delivery, Manner, Requester};
use regrow::{Connection, Era, ErrorKind};
use regrow_testkit::remote::{Path, Remote};
use regrow_testkit::script::Act;
use regrow_testkit::world::*;
use serde_json::json;
use tokio::time::{Instant, sleep};

/// Nothing of it is left, and each of its links was ended once, with nothing carried after.
async fn check_over(server: &Remote, connection: Connection) {
    assert!(connection.status().borrow().is_closed());
    drop(connection);
    settle().await;
    assert_eq!(tasks(), 0, "tasks are left");
    let world = server.world();
    assert_eq!((world.live, world.most_live), (0, 1));
    assert_eq!(world.after_end, Vec::<String>::new());
    let mut ended: Vec<usize> = world.ended.iter().map(|(_, link)| *link).collect();
    ended.dedup();
    assert_eq!(ended.len(), world.ended.len(), "each is ended once");
}

#[tokio::test(start_paused = true)]
async fn a_close_with_calls_in_flight_tells_them_all_at_once() {
    for server in [Remote::legacy(), Remote::modern()] {
        let connection = to(&server).era(Era::Auto).build();
        start(&connection).await;
        let calls: Vec<_> = (0..10).map(|_| begin(&connection, json!({ "stays": true }))).collect();
        sleep(secs(1)).await;
        let before = Instant::now();
        connection.close().await;
        assert!(before.elapsed() <= millis(200), "{:?}", before.elapsed());
        for call in calls {
            let error = call.await.unwrap().unwrap_err();
            assert_eq!((error.kind, error.delivery), (ErrorKind::Closed, Delivery::Unknown), "{error}");
        }
        let error = work(&connection, json!({})).await.unwrap_err();
        assert_eq!((error.kind, error.delivery), (ErrorKind::Closed, Delivery::NotSent));
        check_over(&server, connection).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_that_left_may_still_read_what_its_calls_bring() {
    let server = Remote::legacy();
    let connection = ready(&server).await;
    let soon = begin(&connection, json!({ "ms": 500, "say": 1 }));
    let never = begin(&connection, json!({ "stays": true }));
    settle().await;
    let before = Instant::now();
    connection.close_in(Manner::ClientLeft).await;
    assert!(before.elapsed() <= millis(1200), "{:?}", before.elapsed());
    assert_eq!(said(&soon.await.unwrap().unwrap()), 1);
    assert_eq!(never.await.unwrap().unwrap_err().kind, ErrorKind::Closed);
    check_over(&server, connection).await;
}

#[tokio::test(start_paused = true)]
async fn a_close_that_must_go_faster_does() {
    let server = Remote::legacy();
    let connection = ready(&server).await;
    let never = begin(&connection, json!({ "stays": true }));
    settle().await;
    let slowly = connection.clone();
    let slowly = tokio::spawn(async move { slowly.close_in(Manner::ClientLeft).await });
    sleep(millis(100)).await;
    let before = Instant::now();
    let closed = connection.close_in(Manner::Told).await;
    assert!(before.elapsed() <= millis(2600), "{:?}", before.elapsed());
    assert!(!closed.abandoned);
    slowly.await.unwrap();
    assert_eq!(never.await.unwrap().unwrap_err().kind, ErrorKind::Closed);
    check_over(&server, connection).await;
}

#[tokio::test(start_paused = true)]
async fn a_server_that_does_not_hear_the_farewell_delays_nobody() {
    for manner in [Manner::Planned, Manner::ClientLeft, Manner::Told] {
        for path in [Path::Partitioned, Path::Down] {
            let server = Remote::legacy();
            let connection = ready(&server).await;
            let call = begin(&connection, json!({ "stays": true }));
            settle().await;
            server.set_path(path);
            let before = Instant::now();
            let closed = connection.close_in(manner).await;
            assert!(before.elapsed() <= secs(8), "{manner:?} {path:?}: {:?}", before.elapsed());
            assert!(!closed.abandoned);
            call.await.unwrap().unwrap_err();
            check_over(&server, connection).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_close_during_a_handshake_ends_it() {
    for method in ["initialize", "notifications/initialized", "server/discover"] {
        let server = match method {
            "server/discover" => Remote::modern(),
            _ => Remote::legacy(),
        };
        let server = server.on(method, |_| Some(vec![Act::Stay]));
        let era = if method == "server/discover" { Era::Auto } else { Era::Legacy };
        let connection = to(&server).era(era).build();
        let call = begin(&connection, json!({ "effect": "x" }));
        sleep(secs(1)).await;
        assert_eq!(server.count(method), 1);
        let before = Instant::now();
        connection.close().await;
        assert!(before.elapsed() <= millis(200), "{method}: {:?}", before.elapsed());
        let error = call.await.unwrap().unwrap_err();
        assert_eq!((error.kind, error.delivery), (ErrorKind::Closed, Delivery::NotSent));
        check_over(&server, connection).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_close_during_an_outage_is_at_once() {
    for outage in [millis(10), secs(1), secs(600)] {
        let server = Remote::legacy();
        let connection = ready(&server).await;
        server.kill();
        sleep(outage).await;
        let before = Instant::now();
        connection.close().await;
        assert!(before.elapsed() <= secs(3), "{:?}", before.elapsed());
        check_over(&server, connection).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_drain_waits_for_calls_and_for_no_stream() {
    let server = Remote::modern();
    let connection = to(&server).era(Era::Modern).build();
    start(&connection).await;
    let listening = connection.clone();
    let stream = tokio::spawn(async move { listening.request("subscriptions/listen", None).await });
    let call = begin(&connection, json!({ "ms": 5000, "say": 1 }));
    settle().await;
    let before = Instant::now();
    connection.drain().await;
    assert_eq!(before.elapsed().as_secs(), 4, "{:?}", before.elapsed());
    assert_eq!(said(&call.await.unwrap().unwrap()), 1);
    assert_eq!(stream.await.unwrap().unwrap_err().kind, ErrorKind::Closed);
    check_over(&server, connection).await;
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_is_dropped_closes() {
    let server = Remote::legacy();
    let connection = ready(&server).await;
    let notices = connection.notices();
    connection.notify("notifications/roots/list_changed", None);
    drop(connection);
    sleep(secs(1)).await;
    assert_eq!(tasks(), 0);
    let world = server.world();
    assert_eq!((world.live, world.ended.len()), (0, 1));
    drop(notices);
}

#[tokio::test(start_paused = true)]
async fn reconnects_and_closes_from_everywhere_at_once_leave_nothing() {
    for seed in 0..50 {
        let server = Remote::legacy();
        server.world().latency = millis(seed * 7 % 90);
        let connection = to(&server).build();
        let calls: Vec<_> = (0..20).map(|n| begin(&connection, json!({ "ms": n * 10, "say": n }))).collect();
        sleep(millis(seed * 13 % 300)).await;
        connection.reconnect(Requester::Person);
        sleep(millis(seed * 31 % 100)).await;
        let closers: Vec<_> = (0..3)
            .map(|_| {
                let connection = connection.clone();
                tokio::spawn(async move { connection.close().await })
            })
            .collect();
        connection.reconnect(Requester::Program);
        for closer in closers {
            closer.await.unwrap();
        }
        for call in calls {
            let _ = call.await.unwrap();
        }
        check_over(&server, connection).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_session_that_is_replaced_hears_nothing_more_once_it_has_been_taken_leave_of() {
    let server = Remote::legacy();
    server.world().farewell = secs(1);
    let connection = ready(&server).await;
    for round in 0..5 {
        server.cut(); // Whoever listens is about to listen again.
        for _ in 0..10 {
            connection.notify("notifications/roots/list_changed", None);
        }
        let given_up = begin(&connection, json!({ "stays": true }));
        settle().await;
        given_up.abort();
        connection.reconnect(Requester::Person);
        until(&connection, |status| status.sessions == round + 2).await;
    }
    connection.close().await;
    check_over(&server, connection).await;
}
