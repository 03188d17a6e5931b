//! Servers that are down, for a moment or for hours, and come back.

use regrow::core::{Delivery, Fault, State};
use regrow::{Era, ErrorKind, Status};
use regrow_testkit::remote::{Path, Remote};
use regrow_testkit::script::unreachable;
use regrow_testkit::world::*;
use serde_json::json;
use tokio::time::{Instant, sleep};

#[tokio::test(start_paused = true)]
async fn a_server_that_is_down_at_the_start_says_why_and_is_ready_soon_after_it_appears() {
    for era in [Era::Auto, Era::Legacy, Era::Modern] {
        let server = if era == Era::Modern { Remote::modern() } else { Remote::legacy() };
        server.set_path(Path::Down);
        let connection = to(&server).era(era).build();
        connection.start();
        sleep(secs(2)).await;
        let status = connection.status().borrow().clone();
        assert_eq!(status.last_fault.as_deref(), Some(&unreachable()), "{era:?}");
        assert_eq!(status.sessions, 0);
        server.revive();
        let back = Instant::now();
        until(&connection, Status::is_ready).await;
        assert!(back.elapsed() <= secs(3), "{era:?}: {:?}", back.elapsed());
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_to_a_server_that_is_down_is_told_at_once_and_did_not_run() {
    let server = Remote::legacy();
    server.set_path(Path::Down);
    let connection = to(&server).build();
    let before = Instant::now();
    let error = work(&connection, json!({ "effect": "x" })).await.unwrap_err();
    assert!(before.elapsed() <= millis(200), "{:?}", before.elapsed());
    assert_eq!((error.kind, error.delivery), (ErrorKind::Unavailable, Delivery::NotSent));
    assert_eq!(error.fault.as_deref(), Some(&unreachable()));
    server.revive();
    work(&connection, json!({ "effect": "y" })).await.unwrap();
    assert_eq!((server.effects("x"), server.effects("y")), (0, 1));
}

#[tokio::test(start_paused = true)]
async fn a_call_made_while_a_healthy_server_is_down_for_3_s_waits_for_it() {
    for server in [Remote::legacy(), Remote::modern()] {
        let connection = to(&server).era(Era::Auto).build();
        start(&connection).await;
        work(&connection, json!({})).await.unwrap();
        server.kill();
        let early = begin(&connection, json!({ "effect": "early" }));
        sleep(secs(2)).await;
        let late = begin(&connection, json!({ "effect": "late" }));
        sleep(secs(1)).await;
        server.revive();
        let back = Instant::now();
        early.await.unwrap().unwrap();
        late.await.unwrap().unwrap();
        assert!(back.elapsed() <= secs(2), "{:?}", back.elapsed());
        assert_eq!((server.effects("early"), server.effects("late")), (1, 1));
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_to_a_healthy_server_that_does_not_come_back_fails_after_its_patience() {
    let server = Remote::legacy();
    let connection = ready(&server).await;
    work(&connection, json!({})).await.unwrap();
    server.kill();
    let before = Instant::now();
    let error = work(&connection, json!({ "effect": "x" })).await.unwrap_err();
    assert!((secs(10)..=secs(12)).contains(&before.elapsed()), "{:?}", before.elapsed());
    assert_eq!((error.kind, error.delivery), (ErrorKind::Unavailable, Delivery::NotSent));
    assert_eq!(error.fault.as_deref(), Some(&unreachable()));
    assert!((10..=16).contains(&error.attempts), "{error}");
    let before = Instant::now();
    let error = work(&connection, json!({ "effect": "x" })).await.unwrap_err();
    assert!(before.elapsed() <= secs(2), "parked, it fails fast: {:?}", before.elapsed());
    assert_eq!((error.attempts, server.effects("x")), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_killed_while_idle_is_missed_with_no_call_made() {
    let server = Remote::legacy();
    let connection = ready(&server).await;
    sleep(secs(10)).await;
    server.kill();
    sleep(millis(100)).await;
    assert!(!connection.status().borrow().is_ready());
    assert_eq!(connection.status().borrow().last_fault.as_deref(), Some(&unreachable()));
    server.revive();
    work(&connection, json!({ "effect": "x" })).await.unwrap();
    assert_eq!(server.effects("x"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_restarts_while_idle_has_a_new_session_before_the_next_call() {
    let server = Remote::legacy();
    let connection = ready(&server).await;
    work(&connection, json!({})).await.unwrap();
    server.kill();
    server.revive();
    until(&connection, |status| status.sessions == 2).await;
    assert!(server.elapsed() <= secs(1), "{:?}", server.elapsed());
    work(&connection, json!({ "effect": "x" })).await.unwrap();
    assert_eq!(server.effects("x"), 1);
    assert_eq!(connection.status().borrow().budget_left, 5, "the session was only forgotten");
}

#[tokio::test(start_paused = true)]
async fn killed_after_a_call_has_left_that_call_fails_at_once_and_says_that_it_may_have_run() {
    for server in [Remote::legacy(), Remote::modern()] {
        let connection = to(&server).era(Era::Auto).build();
        start(&connection).await;
        let call = begin(&connection, json!({ "effect": "pay", "stays": true }));
        sleep(secs(1)).await;
        let before = Instant::now();
        server.kill();
        let error = call.await.unwrap().unwrap_err();
        assert!(before.elapsed() <= millis(200), "{:?}", before.elapsed());
        assert_eq!((error.kind, error.delivery), (ErrorKind::Interrupted, Delivery::Unknown));
        assert!(error.to_string().contains("may have run"), "{error}");
        assert_eq!(server.effects("pay"), 1);
        sleep(millis(100)).await;
        assert!(!connection.status().borrow().is_ready());
        server.revive();
        work(&connection, json!({ "effect": "again" })).await.unwrap();
        assert_eq!((server.effects("pay"), server.effects("again")), (1, 1));
    }
}

#[tokio::test(start_paused = true)]
async fn killed_before_a_call_has_left_that_call_moves_to_the_next_session_by_itself() {
    let server = Remote::legacy();
    server.world().has_stream = false;
    let connection = ready(&server).await;
    work(&connection, json!({})).await.unwrap();
    server.world().latency = millis(40);
    let call = begin(&connection, json!({ "effect": "pay", "say": 1 }));
    settle().await;
    server.kill();
    sleep(millis(30)).await;
    server.revive();
    assert_eq!(said(&call.await.unwrap().unwrap()), 1);
    assert_eq!(server.effects("pay"), 1);
    assert_eq!(connection.status().borrow().sessions, 2);
}

#[tokio::test(start_paused = true)]
async fn a_safe_call_that_its_server_died_of_is_sent_again() {
    let server = Remote::legacy();
    let connection = to(&server).safe_tools(|_| true).build();
    start(&connection).await;
    let call = begin(&connection, json!({ "effect": "read", "ms": 500, "say": 7 }));
    sleep(millis(100)).await;
    server.kill();
    server.revive();
    assert_eq!(said(&call.await.unwrap().unwrap()), 7);
    assert_eq!(server.effects("read"), 2);
}

#[tokio::test(start_paused = true)]
async fn an_outage_of_a_minute_of_half_an_hour_and_of_six_hours_ends_within_one_probe_interval() {
    for outage in [60, 1800, 6 * 3600] {
        let server = Remote::legacy();
        let connection = ready(&server).await;
        work(&connection, json!({})).await.unwrap();
        server.kill();
        sleep(secs(outage)).await;
        let attempts = server.starts().len();
        // At pace until the budget is spent, then after 30 s, 60 s, ... and every 300 s.
        assert!(attempts <= 10 + outage as usize / 300 + 10, "{attempts} attempts in {outage} s");
        server.revive();
        let back = Instant::now();
        until(&connection, Status::is_ready).await;
        assert!(back.elapsed() <= secs(300), "{:?} after {outage} s", back.elapsed());
    }
}

#[tokio::test(start_paused = true)]
async fn the_first_call_after_an_outage_ends_it() {
    for outage in [60, 1800, 6 * 3600] {
        let server = Remote::legacy();
        let connection = ready(&server).await;
        server.kill();
        sleep(secs(outage)).await;
        server.revive();
        let before = Instant::now();
        work(&connection, json!({ "effect": "x" })).await.unwrap();
        assert!(before.elapsed() <= secs(1), "{:?}", before.elapsed());
        assert_eq!(server.effects("x"), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn callers_during_an_outage_are_told_and_cause_at_most_one_attempt_a_second() {
    let server = Remote::legacy();
    let connection = ready(&server).await;
    server.kill();
    sleep(secs(60)).await;
    let before = server.starts().len();
    for _ in 0..600 {
        let error = work(&connection, json!({ "effect": "x" })).await.unwrap_err();
        assert_eq!(error.delivery, Delivery::NotSent);
        sleep(millis(100)).await;
    }
    let taken = server.elapsed() - secs(60);
    let attempts = server.starts().len() - before;
    assert!(attempts as u64 <= taken.as_secs() + 2, "{attempts} attempts in {taken:?}");
    assert_eq!(server.effects("x"), 0);
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_comes_and_goes_does_not_spin() {
    let server = Remote::legacy();
    let connection = ready(&server).await;
    for _ in 0..3600 {
        sleep(secs(1)).await;
        server.kill();
        server.revive();
    }
    assert!(server.starts().len() <= 4000, "{} attempts in an hour", server.starts().len());
    assert!(server.world().listened.len() <= 8000, "{}", server.world().listened.len());
    server.revive();
    work(&connection, json!({ "effect": "x" })).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_gone_is_missed_although_it_had_just_shown_life_when_doubted() {
    let server = Remote::modern();
    let connection = to(&server).era(Era::Modern).build();
    start(&connection).await;
    sleep(secs(10)).await;
    work(&connection, json!({ "cut": true })).await.unwrap_err();
    sleep(secs(1)).await;
    assert!(connection.status().borrow().is_ready(), "one cut answer is nothing");
    let call = begin(&connection, json!({ "stays": true }));
    settle().await;
    server.kill();
    call.await.unwrap().unwrap_err();
    sleep(millis(100)).await;
    assert!(!connection.status().borrow().is_ready(), "{:?}", state(&connection));
}

#[tokio::test(start_paused = true)]
async fn a_lost_stream_to_a_server_that_lives_is_opened_again_and_replaces_no_session() {
    let server = Remote::legacy();
    let connection = ready(&server).await;
    let mut incoming = connection.incoming().unwrap();
    for n in 0..10 {
        server.cut();
        sleep(secs(60)).await;
        server.say(json!({ "jsonrpc": "2.0", "method": "notifications/message", "params": { "n": n } }));
        assert_eq!(incoming.next().await.unwrap().frame.method(), Some("notifications/message"));
    }
    assert_eq!(connection.status().borrow().sessions, 1);
    assert_eq!(server.world().listened.len(), 11);
    assert_eq!(connection.status().borrow().budget_left, 5);
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_is_always_cut_at_once_is_opened_less_and_less_often() {
    let server = Remote::legacy();
    let connection = ready(&server).await;
    for _ in 0..36_000 {
        sleep(millis(100)).await;
        server.cut();
    }
    let listened = server.world().listened.len();
    assert!((60..200).contains(&listened), "{listened} times in an hour");
    assert!(server.count("ping") <= listened + 60, "{} pings", server.count("ping"));
    assert!(connection.status().borrow().is_ready());
    assert_eq!(connection.status().borrow().sessions, 1);
}

#[tokio::test(start_paused = true)]
async fn parked_after_an_outage_says_so_and_when_to_try_again() {
    let server = Remote::legacy();
    let connection = ready(&server).await;
    server.kill();
    until(&connection, |status| matches!(status.state, State::Parked { .. })).await;
    let error = work(&connection, json!({})).await.unwrap_err();
    assert!(error.retry_after().is_some_and(|wait| wait <= secs(1)), "{error:?}");
    assert!(matches!(error.fault.as_deref(), Some(Fault::Unreachable { .. })));
}
