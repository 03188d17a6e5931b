//! What an operator may order: rest, park, wake, and a fresh budget.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use regrow::core::{Delivery, Fault, Outlook, Requester, State};
use regrow::{Connection, Era, ErrorKind, Outcome, Reply, Request};
use regrow_protocol::frame::Frame;
use regrow_testkit::process::Stubborn;
use regrow_testkit::script::{Act, Plan, Speaks};
use regrow_testkit::server::Server;
use regrow_testkit::world::*;
use serde_json::json;
use tokio::time::{Instant, sleep, timeout};

fn standing(connection: &Connection) -> &'static str {
    connection.status().borrow().standing()
}

async fn is_parked_by_command(connection: &Connection) {
    until(connection, |status| status.standing() == "parked-by-order").await;
}

/// A server that can be switched on: before that every start of it fails.
fn broken() -> (Server, Arc<AtomicBool>) {
    let on = Arc::new(AtomicBool::new(false));
    let switch = on.clone();
    let server = Server::new(move |_| match on.load(Ordering::Relaxed) {
        true => Plan::default(),
        false => Plan::default().on("initialize", |_| vec![Act::Die(Fault::Exited { code: 1 })]),
    });
    (server, switch)
}

/// A stream's end is of no interest here.
struct Stream;

impl Reply for Stream {
    fn end(self: Box<Self>, _: Outcome) {}
}

fn listen(connection: &Connection) {
    let frame = Frame::parse(r#"{"id":7,"method":"subscriptions/listen","params":{}}"#.into()).unwrap();
    let id = frame.id().unwrap();
    connection.submit(Request::new(frame, id, Box::new(Stream)));
}

// Rest.

#[tokio::test(start_paused = true)]
async fn a_resting_connection_runs_no_server_and_starts_it_with_the_next_call_as_it_was() {
    let server = Server::always(Plan::default());
    let connection = ready(&server).await;
    let life = Life::of(&connection);
    connection.request("logging/setLevel", Some(json!({ "level": "debug" }))).await.unwrap();
    sleep(secs(600)).await;
    connection.rest();
    until(&connection, |status| status.is_resting()).await;
    let status = connection.status().borrow().clone();
    assert!(status.since.elapsed() < secs(600), "it rests since a moment ago: {:?}", status.since.elapsed());
    assert_eq!((server.alive(), status.pid, status.state, status.budget_left), (0, None, State::Idle, 5));
    assert_eq!((standing(&connection), status.last_fault), ("resting", None));

    sleep(secs(6 * 3600)).await;
    assert_eq!((server.starts().len(), standing(&connection)), (1, "resting"), "it never wakes by itself");
    assert_eq!(said(&work(&connection, json!({ "say": 1 })).await.unwrap()), 1);
    let told = server.told(2);
    assert_eq!(told, ["initialize", "notifications/initialized", "logging/setLevel", "tools/call"]);
    life.check(
        "600.0s ending the session as requested
         600.0s resting; the next call starts the server again
         22200.0s starting the server (session 2)
         22200.0s ready (session 2); in-memory state of the old server process is lost",
    );
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_was_never_started_is_idle_and_not_resting() {
    let server = Server::always(Plan::default());
    let connection = to(&server).build();
    connection.rest();
    settle().await;
    assert_eq!((standing(&connection), connection.status().borrow().is_resting()), ("idle", false));
}

#[tokio::test(start_paused = true)]
async fn a_busy_connection_does_not_rest_and_asked_again_later_it_does() {
    let server = Server::always(Plan::default());
    let connection = ready(&server).await;
    let running = begin(&connection, json!({ "say": 1, "ms": 5000 }));
    settle().await;
    connection.rest();
    assert_eq!(said(&running.await.unwrap().unwrap()), 1);
    settle().await;
    assert_eq!(standing(&connection), "ready");
    connection.rest();
    settle().await;
    assert_eq!(standing(&connection), "resting");
}

#[tokio::test(start_paused = true)]
async fn a_client_that_listens_is_not_made_deaf_by_a_rest() {
    let server = Server::always(Plan::default());
    let connection = ready(&server).await;
    let uri = || Some(json!({ "uri": "a://1" }));
    connection.request("resources/subscribe", uri()).await.unwrap();
    connection.rest();
    settle().await;
    assert_eq!(standing(&connection), "ready", "it is subscribed to a resource");
    connection.request("resources/unsubscribe", uri()).await.unwrap();
    connection.rest();
    settle().await;
    assert_eq!(standing(&connection), "resting");

    let server = Server::always(Plan { speaks: Speaks::Modern, ..Plan::default() });
    let connection = to(&server).era(Era::Modern).build();
    start(&connection).await;
    listen(&connection);
    settle().await;
    connection.rest();
    settle().await;
    assert_eq!(standing(&connection), "ready", "it has a stream open");
}

#[tokio::test(start_paused = true)]
async fn a_session_that_began_a_task_does_not_rest_for_that_may_still_run() {
    let server = Server::always(Plan::default());
    let connection = ready(&server).await;
    let task = json!({ "name": "work", "arguments": {}, "task": {} });
    connection.request("tools/call", Some(task)).await.unwrap();
    connection.rest();
    settle().await;
    assert_eq!(standing(&connection), "ready");
    connection.reconnect(Requester::Person);
    until(&connection, |status| status.sessions == 2).await;
    connection.rest();
    settle().await;
    assert_eq!(standing(&connection), "resting", "the next one began none");
}

#[tokio::test(start_paused = true)]
async fn a_call_that_comes_while_a_stubborn_server_goes_to_rest_is_served_by_the_next() {
    let server = Server::always(Plan { stubborn: Stubborn::IgnoresEnd, ..Plan::default() });
    let connection = ready(&server).await;
    connection.rest();
    sleep(secs(1)).await;
    assert_eq!(state(&connection).name(), "closing");
    let before = Instant::now();
    assert_eq!(said(&work(&connection, json!({ "say": 1, "effect": "a" })).await.unwrap()), 1);
    assert_eq!(before.elapsed().as_secs(), 4, "it gets SIGTERM five seconds after its input has ended");
    assert_eq!((server.effects("a"), server.most_alive()), (1, 1));
    assert_eq!(connection.status().borrow().budget_left, 5);
}

// Park.

#[tokio::test(start_paused = true)]
async fn what_an_operator_parks_finishes_its_calls_and_then_fails_every_call_at_once() {
    let server = Server::always(Plan { stderr: vec!["hello".into()], ..Plan::default() });
    let connection = to(&server).stderr_in_errors(true).build();
    start(&connection).await;
    let killed = work(&connection, json!({ "dies": true })).await.unwrap_err();
    assert_eq!(killed.stderr, ["hello"]);
    until(&connection, |status| status.sessions == 2).await;
    let life = Life::of(&connection);
    let running = begin(&connection, json!({ "say": "old", "ms": 3000 }));
    settle().await;
    connection.park();
    settle().await;
    assert_eq!(standing(&connection), "draining");
    for calls in 0..2 {
        let before = Instant::now();
        let error = work(&connection, json!({ "effect": "a" })).await.unwrap_err();
        assert_eq!(before.elapsed(), millis(0));
        assert_eq!((error.kind, error.delivery), (ErrorKind::Unavailable, Delivery::NotSent));
        assert_eq!((error.fault.as_deref(), error.outlook), (Some(&Fault::Parked), Outlook::NeedsWaking));
        assert_eq!((error.retry_after(), error.stderr.len()), (None, 0));
        assert_eq!(
            error.to_string(),
            "fake: the server was parked by an operator, so there is no session for this call (work). \
             It did not run. Calls fail until an operator wakes it."
        );
        if calls == 0 {
            is_parked_by_command(&connection).await;
        }
    }
    assert_eq!(said(&running.await.unwrap().unwrap()), "old");

    sleep(secs(3600)).await;
    connection.start();
    connection.reconnect(Requester::Program);
    settle().await;
    let status = connection.status().borrow().clone();
    assert_eq!((server.starts().len(), server.alive(), server.effects("a")), (2, 0, 0));
    assert!(matches!(status.state, State::Parked { probe_at: None, fault: Fault::Parked, .. }));
    assert_eq!((status.budget_left, status.pending), (5, 0));
    assert_eq!(status.last_fault.as_deref(), Some(&Fault::Killed { signal: 9 }), "that is not forgotten");
    life.check(
        "3.0s ending the session as requested
         3.0s parked by an operator; calls fail until it is woken",
    );
}

#[tokio::test(start_paused = true)]
async fn parking_has_the_limit_of_a_drain_and_then_calls_may_have_run() {
    let server = Server::always(Plan::default());
    let connection = ready(&server).await;
    let running = begin(&connection, json!({ "silent": true }));
    settle().await;
    let before = Instant::now();
    connection.park();
    let error = running.await.unwrap().unwrap_err();
    assert_eq!(before.elapsed().as_secs(), 30);
    assert_eq!((error.kind, error.delivery), (ErrorKind::Interrupted, Delivery::Unknown));
    assert_eq!(
        error.to_string(),
        "fake: the server was parked by an operator while this call was running (work). \
         It may have run; check before repeating it. Calls fail until an operator wakes it."
    );
    is_parked_by_command(&connection).await;
}

#[tokio::test(start_paused = true)]
async fn a_connection_can_be_parked_whatever_it_does_and_calls_that_wait_are_told() {
    let hanging = Plan { start_delay: secs(50), ..Plan::default() };
    let missing = Plan { cannot_start: Some(Fault::NotFound { program: "x".into() }), ..Plan::default() };
    let plans = [("idle", None), ("connecting", Some(hanging)), ("parked", Some(missing))];
    for (state_before, plan) in plans {
        let server = Server::always(plan.clone().unwrap_or_default());
        let connection = to(&server).build();
        let call = plan.map(|_| begin(&connection, json!({})));
        settle().await;
        assert_eq!(state(&connection).name(), state_before);
        connection.park();
        if let Some(call) = call {
            let error = timeout(millis(1), call).await.expect("it does not wait on").unwrap().unwrap_err();
            assert_eq!((error.kind, error.delivery), (ErrorKind::Unavailable, Delivery::NotSent));
        }
        is_parked_by_command(&connection).await;
        assert_eq!(server.alive(), 0, "{state_before}");
        let starts = server.starts().len();
        work(&connection, json!({})).await.unwrap_err();
        sleep(secs(3600)).await;
        assert_eq!(server.starts().len(), starts, "{state_before}");
    }
}

#[tokio::test(start_paused = true)]
async fn parked_by_faults_and_parked_by_order_can_be_told_apart_and_the_fault_is_not_forgotten() {
    let (server, _) = broken();
    let connection = to(&server).build();
    connection.start();
    until(&connection, |status| status.standing() == "parked").await;
    assert!(!connection.status().borrow().is_parked_by_command());
    let life = Life::of(&connection);
    connection.park();
    is_parked_by_command(&connection).await;
    let status = connection.status().borrow().clone();
    assert_eq!(status.last_fault.as_deref(), Some(&Fault::Exited { code: 1 }));
    assert_eq!(status.budget_left, 0);
    settle().await;
    assert_eq!(life.text().lines().count(), 1, "{}", life.text());
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_parked_before_it_told_its_era_is_asked_again() {
    let server = Server::new(|start| {
        let start_delay = if start == 1 { secs(5) } else { secs(0) };
        Plan { speaks: Speaks::Modern, start_delay, ..Plan::default() }
    });
    let connection = to(&server).era(Era::Auto).build();
    connection.start();
    settle().await;
    connection.park();
    is_parked_by_command(&connection).await;
    connection.wake();
    until(&connection, |status| status.is_ready()).await;
    assert_eq!(server.told(2), ["server/discover"], "that it ended says nothing about it");
}

#[tokio::test(start_paused = true)]
async fn a_parked_connection_can_be_closed() {
    let server = Server::always(Plan::default());
    let connection = ready(&server).await;
    connection.park();
    is_parked_by_command(&connection).await;
    connection.close().await;
    settle().await;
    assert_eq!((tasks(), standing(&connection)), (0, "closed"));
    connection.wake();
    settle().await;
    assert_eq!(server.starts().len(), 1);
}

// Wake.

#[tokio::test(start_paused = true)]
async fn a_wake_brings_back_what_was_parked_or_rests_with_one_attempt() {
    let server = Server::always(Plan { speaks: Speaks::Modern, ..Plan::default() });
    let connection = to(&server).era(Era::Modern).build();
    start(&connection).await;
    connection.rest();
    until(&connection, |status| status.is_resting()).await;
    sleep(secs(10)).await;
    connection.wake();
    until(&connection, |status| status.sessions == 2).await;

    listen(&connection);
    settle().await;
    connection.park();
    is_parked_by_command(&connection).await;
    sleep(secs(10)).await;
    for _ in 0..10 {
        connection.wake();
    }
    until(&connection, |status| status.sessions == 3).await;
    settle().await;
    assert_eq!(server.told(3), ["server/discover", "subscriptions/listen"], "its stream is open again");
    connection.wake();
    sleep(secs(10)).await;
    assert_eq!((server.starts().len(), standing(&connection)), (3, "ready"));
    assert_eq!(connection.status().borrow().budget_left, 5);
}

#[tokio::test(start_paused = true)]
async fn a_wake_does_not_wait_for_the_next_slow_probe() {
    let (server, on) = broken();
    let connection = to(&server).build();
    connection.start();
    until(&connection, |status| status.standing() == "parked").await;
    sleep(secs(3600)).await;
    on.store(true, Ordering::Relaxed);
    let before = Instant::now();
    connection.wake();
    until(&connection, |status| status.is_ready()).await;
    assert!(before.elapsed() < millis(100), "{:?}", before.elapsed());
}

// The budget.

#[tokio::test(start_paused = true)]
async fn a_reset_budget_is_whole_again_and_what_was_parked_for_it_is_tried_at_once() {
    let (server, on) = broken();
    let connection = to(&server).build();
    connection.start();
    until(&connection, |status| status.standing() == "parked").await;
    sleep(secs(10)).await;
    assert_eq!(connection.status().borrow().budget_left, 0);
    on.store(true, Ordering::Relaxed);
    let (life, starts) = (Life::of(&connection), server.starts().len());
    connection.reset_budget();
    until(&connection, |status| status.is_ready()).await;
    settle().await;
    assert_eq!(connection.status().borrow().budget_left, 5);
    assert_eq!(server.starts().len(), starts + 1);
    let text = life.text();
    assert!(text.contains("the restart budget was reset"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn a_reset_budget_disturbs_nobody() {
    let server = Server::always(Plan::default());
    let connection = ready(&server).await;
    server.die(Fault::Killed { signal: 9 });
    until(&connection, |status| status.sessions == 2).await;
    let running = begin(&connection, json!({ "say": 1, "ms": 1000 }));
    settle().await;
    connection.reset_budget();
    settle().await;
    assert_eq!(connection.status().borrow().budget_left, 5);
    assert_eq!(said(&running.await.unwrap().unwrap()), 1);
    assert_eq!(server.starts().len(), 2);
}
