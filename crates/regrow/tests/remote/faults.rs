//! Faults that trying again cannot mend: one attempt, no loop, and back at once when they are mended.

use regrow::core::{Delivery, Fault, Outlook, State};
use regrow::{Connection, Era, ErrorKind, Status};
use regrow_testkit::remote::Remote;
use regrow_testkit::script::status;
use regrow_testkit::world::*;
use serde_json::json;
use tokio::time::{Instant, sleep};

fn unauthorized() -> Fault {
    Fault::Unauthorized { code: 401 }
}

fn is_parked(status: &Status) -> bool {
    matches!(status.state, State::Parked { probe_at: None, .. })
}

#[tokio::test(start_paused = true)]
async fn without_credentials_it_parks_does_not_try_and_wakes_at_once_when_they_come() {
    for era in [Era::Auto, Era::Legacy, Era::Modern] {
        let server = if era == Era::Modern { Remote::modern() } else { Remote::legacy() };
        server.world().refuses = Some(unauthorized());
        let connection = to(&server).era(era).build();
        connection.start();
        until(&connection, is_parked).await;
        sleep(secs(24 * 3600)).await;
        assert_eq!(server.starts().len(), 1, "{era:?}");
        assert!(server.world().checks.is_empty());
        server.mend();
        sleep(millis(100)).await;
        assert!(connection.status().borrow().is_ready(), "{era:?}: {:?}", state(&connection));
    }
}

#[tokio::test(start_paused = true)]
async fn credentials_that_go_bad_in_a_session_are_told_once_to_each_call_and_park_it() {
    let server = Remote::legacy();
    let connection = ready(&server).await;
    work(&connection, json!({})).await.unwrap();
    server.world().refuses = Some(unauthorized());
    let calls: Vec<_> = (0..10).map(|_| begin(&connection, json!({ "effect": "x" }))).collect();
    for call in calls {
        let error = call.await.unwrap().unwrap_err();
        assert_eq!((error.kind, error.delivery), (ErrorKind::Refused, Delivery::NotSent));
        assert!(matches!(error.outlook, Outlook::NeedsMending(_)), "{error:?}");
        assert_eq!(error.data()["dev.regrow/fault"]["httpStatus"], 401);
    }
    until(&connection, is_parked).await;
    let opened = server.starts().len();
    sleep(secs(3600)).await;
    assert_eq!(server.starts().len(), opened);
    let before = Instant::now();
    server.mend();
    until(&connection, Status::is_ready).await;
    assert!(before.elapsed() <= millis(100), "{:?}", before.elapsed());
    work(&connection, json!({ "effect": "y" })).await.unwrap();
    assert_eq!((server.effects("x"), server.effects("y")), (0, 1));
}

#[tokio::test(start_paused = true)]
async fn what_is_mended_while_the_last_attempt_is_being_ended_counts() {
    let server = Remote::legacy();
    server.world().latency = millis(100);
    server.world().refuses = Some(unauthorized());
    let connection = to(&server).build();
    connection.start();
    until(&connection, |status| matches!(status.state, State::Closing { .. })).await;
    server.mend();
    sleep(secs(1)).await;
    assert!(connection.status().borrow().is_ready(), "{:?}", state(&connection));
}

#[tokio::test(start_paused = true)]
async fn calls_to_a_server_that_wants_credentials_fail_at_once_and_try_once_in_ten_seconds() {
    let server = Remote::legacy();
    server.world().refuses = Some(unauthorized());
    let connection = to(&server).build();
    for _ in 0..600 {
        let before = Instant::now();
        let error = work(&connection, json!({})).await.unwrap_err();
        assert!(before.elapsed() <= millis(200), "{:?}", before.elapsed());
        assert_eq!(error.delivery, Delivery::NotSent);
        assert_eq!(error.fault.as_deref(), Some(&unauthorized()));
        sleep(millis(100)).await;
    }
    assert!(server.starts().len() <= 8, "{} attempts in a minute", server.starts().len());
}

async fn parks_with(connection: &Connection, server: &Remote, fault: &Fault) {
    let error = work(connection, json!({})).await.unwrap_err();
    assert_eq!((error.kind, error.delivery), (ErrorKind::Unavailable, Delivery::NotSent));
    assert_eq!(error.fault.as_deref(), Some(fault));
    sleep(secs(3600)).await;
    assert_eq!(server.starts().len(), 1, "{fault}");
    assert!(is_parked(&connection.status().borrow()), "{fault}");
}

#[tokio::test(start_paused = true)]
async fn what_only_a_person_can_mend_is_tried_once() {
    let found = Fault::NotMcp { found: "HTML".into() };
    let faults = [
        found,
        Fault::Redirected { to: "https://elsewhere/".into() },
        Fault::Untrusted { host: "fake".into(), reason: "expired".into() },
        unauthorized(),
    ];
    for fault in faults {
        for era in [Era::Auto, Era::Legacy, Era::Modern] {
            let server = if era == Era::Modern { Remote::modern() } else { Remote::legacy() };
            server.world().refuses = Some(fault.clone());
            let connection = to(&server).era(era).build();
            parks_with(&connection, &server, &fault).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_link_that_cannot_be_opened_is_judged_by_its_fault() {
    let server = Remote::legacy();
    let fault = Fault::Untrusted { host: "fake".into(), reason: "no such file".into() };
    server.world().closed = Some(fault.clone());
    let connection = to(&server).build();
    parks_with(&connection, &server, &fault).await;
    server.world().closed = None;
    server.mend();
    settle().await;
    work(&connection, json!({})).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_wrong_path_is_no_server_and_says_what_was_found_there() {
    for code in [400, 404, 405, 410] {
        let server = Remote::legacy();
        server.world().refuses = Some(status(code));
        let connection = to(&server).era(Era::Auto).build();
        let error = work(&connection, json!({})).await.unwrap_err();
        assert!(matches!(error.fault.as_deref(), Some(Fault::NotMcp { .. })), "{error}");
        assert!(error.to_string().contains(&code.to_string()), "{error}");
        sleep(secs(3600)).await;
        assert_eq!(server.starts().len(), 2, "in each era once");
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_fails_inside_is_tried_again() {
    for code in [500, 502, 503] {
        let server = Remote::legacy();
        server.world().refuses = Some(status(code));
        let connection = to(&server).era(Era::Auto).build();
        connection.start();
        sleep(secs(2)).await;
        assert_eq!(connection.status().borrow().last_fault.as_deref(), Some(&status(code)));
        server.world().refuses = None;
        until(&connection, Status::is_ready).await;
        assert!(server.elapsed() <= secs(5), "{:?}", server.elapsed());
    }
}
