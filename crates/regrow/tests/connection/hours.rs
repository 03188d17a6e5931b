//! Hours and days: outages, restarts that never add up, a machine that slept.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use regrow::core::{Fault, Outlook, Policy, State};
use regrow::{Connection, ErrorKind};
use regrow_testkit::script::{Act, Plan};
use regrow_testkit::server::Server;
use regrow_testkit::world::*;
use serde_json::json;
use tokio::time::{Instant, advance, sleep, timeout};

fn killed() -> Fault {
    Fault::Killed { signal: 9 }
}

/// A server that can be switched off: then every start of it fails.
fn switched() -> (Server, Arc<AtomicBool>) {
    let on = Arc::new(AtomicBool::new(true));
    let switch = on.clone();
    let server = Server::new(move |_| match on.load(Ordering::Relaxed) {
        true => Plan::default(),
        false => Plan::default().on("initialize", |_| vec![Act::Die(Fault::Exited { code: 1 })]),
    });
    (server, switch)
}

async fn outage(length: Duration) -> (Server, Connection, Arc<AtomicBool>) {
    let (server, on) = switched();
    let connection = ready(&server).await;
    work(&connection, json!({})).await.unwrap();
    on.store(false, Ordering::Relaxed);
    server.die(killed());
    sleep(length).await;
    assert_eq!(state(&connection).name(), "parked");
    on.store(true, Ordering::Relaxed);
    (server, connection, on)
}

#[tokio::test(start_paused = true)]
async fn after_an_outage_of_half_an_hour_or_six_the_next_call_succeeds() {
    for length in [secs(60), secs(1800), secs(6 * 3600)] {
        let (server, connection, _) = outage(length).await;
        let before = Instant::now();
        work(&connection, json!({})).await.unwrap();
        assert!(before.elapsed() <= secs(1), "{:?} after {length:?}", before.elapsed());
        // Ten at pace, then slow probes: 30 s, 60 s, ... 300 s apart.
        let most = 20 + length.as_secs() / 250;
        assert!(server.starts().len() as u64 <= most, "{} starts in {length:?}", server.starts().len());
    }
}

#[tokio::test(start_paused = true)]
async fn after_an_outage_a_slow_probe_finds_the_server_without_any_call() {
    for length in [secs(60), secs(1800), secs(6 * 3600)] {
        let (_, connection, _) = outage(length).await;
        let before = Instant::now();
        until(&connection, |status| status.is_ready()).await;
        assert!(before.elapsed() <= secs(300), "{:?} after {length:?}", before.elapsed());
    }
}

#[tokio::test(start_paused = true)]
async fn during_an_outage_every_call_ends_soon_and_one_attempt_a_second_serves_them_all() {
    let (server, on) = switched();
    let connection = ready(&server).await;
    on.store(false, Ordering::Relaxed);
    server.die(killed());
    until(&connection, |status| status.state.name() == "parked").await;
    let (starts, before) = (server.starts().len(), Instant::now());
    while before.elapsed() < secs(60) {
        let calls: Vec<_> = (0..10).map(|_| begin(&connection, json!({ "effect": "a" }))).collect();
        for call in calls {
            let error = timeout(secs(2), call).await.expect("it waits for one attempt").unwrap().unwrap_err();
            assert_eq!(error.kind, ErrorKind::Unavailable);
            assert_eq!(error.fault.as_deref(), Some(&Fault::Exited { code: 1 }));
            assert!(matches!(error.outlook, Outlook::Parked(_)), "{:?}", error.outlook);
        }
    }
    let attempts = server.starts().len() - starts;
    assert!((55..=61).contains(&attempts), "{attempts}");
    assert_eq!(server.effects("a"), 0);
}

#[tokio::test(start_paused = true)]
async fn a_crash_loop_is_told_in_one_line_per_change() {
    let server = Server::always(Plan::default().dies_after(millis(100), Fault::Exited { code: 1 }));
    let connection = ready(&server).await;
    let life = Life::of(&connection);
    until(&connection, |status| status.state.name() == "parked").await;
    life.check(
        "0.1s the server process exited with code 1
         0.1s starting the server (session 2)
         0.1s ready (session 2); in-memory state of the old server process is lost
         0.2s the server process exited with code 1
         0.2s next attempt in 0.25 s
         0.5s starting the server (session 3)
         0.5s ready (session 3); in-memory state of the old server process is lost
         0.6s the server process exited with code 1
         0.6s next attempt in 0.5 s
         1.1s starting the server (session 4)
         1.1s ready (session 4); in-memory state of the old server process is lost
         1.1s the server process exited with code 1
         1.1s next attempt in 1 s
         2.1s starting the server (session 5)
         2.1s ready (session 5); in-memory state of the old server process is lost
         2.2s the server process exited with code 1
         2.2s next attempt in 2 s
         4.2s starting the server (session 6)
         4.2s ready (session 6); in-memory state of the old server process is lost
         4.3s the server process exited with code 1
         4.3s parked: too many faults; retrying slowly, and on the next call",
    );
}

#[tokio::test(start_paused = true)]
async fn a_server_that_drops_every_second_for_an_hour_is_started_a_bounded_number_of_times() {
    let server = Server::always(Plan::default().dies_after(secs(1), Fault::Exited { code: 1 }));
    let _connection = ready(&server).await;
    sleep(secs(3600)).await;
    assert!(server.starts().len() < 150, "{}", server.starts().len());
}

#[tokio::test(start_paused = true)]
async fn a_hundred_deaths_hours_apart_never_park() {
    let server = Server::always(Plan::default());
    let connection = ready(&server).await;
    for n in 0..100 {
        sleep(secs(3 * 3600)).await;
        work(&connection, json!({ "effect": n.to_string() })).await.unwrap();
        let before = Instant::now();
        server.die(killed());
        until(&connection, |status| status.sessions == n + 2).await;
        assert!(before.elapsed() < millis(100), "no pause: it had proven healthy");
    }
    assert_eq!(server.starts().len(), 101);
    assert!(server.all_effects().values().all(|&count| count == 1));
}

#[tokio::test(start_paused = true)]
async fn an_idle_server_is_probed_and_a_silent_one_replaced_but_never_one_that_refuses_the_probe() {
    let server = Server::new(|start| match start {
        1 => Plan::default().on("ping", |_| vec![]),
        _ => Plan::default(),
    });
    let connection = ready(&server).await;
    let life = Life::of(&connection);
    sleep(secs(3600)).await;
    life.check(
        "70.0s the server did not respond for 70 s
         70.0s starting the server (session 2)
         70.0s ready (session 2); in-memory state of the old server process is lost",
    );
    assert!((55..=61).contains(&server.heard_of("ping").len()), "{}", server.heard_of("ping").len());

    let refuses = Server::always(
        Plan::default()
            .on("ping", |m| vec![Act::Say(regrow_testkit::script::refusal(&m["id"], -32601, "what?"))]),
    );
    let connection = ready(&refuses).await;
    sleep(secs(3600)).await;
    assert_eq!(connection.status().borrow().sessions, 1);
}

#[tokio::test(start_paused = true)]
async fn a_busy_server_is_not_dead() {
    let server = Server::always(Plan::default());
    let connection = ready(&server).await;
    let params = json!({ "name": "work", "arguments": { "ms": 7_200_000, "say": 1 } });
    let answer = connection.request_within("tools/call", Some(params), None).await.unwrap();
    assert_eq!(said(&answer), 1);
    assert_eq!((server.heard_of("ping").len(), connection.status().borrow().sessions), (0, 1));
}

#[tokio::test(start_paused = true)]
async fn a_hung_server_is_replaced_after_a_call_timed_out() {
    let server =
        Server::new(|_| Plan { stubborn: regrow_testkit::process::Stubborn::IgnoresTerm, ..Plan::default() });
    let connection = ready(&server).await;
    let life = Life::of(&connection);
    let params = json!({ "name": "work", "arguments": { "hangs": true } });
    let error = connection.request_within("tools/call", Some(params), Some(secs(10))).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Timeout);
    until(&connection, |status| status.sessions == 2).await;
    life.check(
        "10.0s a call timed out; probing the server
         15.0s the server did not respond for 15 s
         15.1s starting the server (session 2)
         15.1s ready (session 2); in-memory state of the old server process is lost",
    );
    work(&connection, json!({})).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn after_the_machine_slept_servers_are_asked_before_anything_is_charged() {
    let server = Server::always(Plan::default());
    let connection = ready(&server).await;
    sleep(secs(30)).await;
    advance(secs(3600)).await;
    sleep(secs(5)).await;
    let status = connection.status().borrow().clone();
    assert_eq!((status.sessions, status.budget_left), (1, 5));
    assert_eq!(server.heard_of("ping").len(), 1);
}

#[tokio::test(start_paused = true)]
async fn parked_holds_no_waiting_call() {
    let (_, connection, on) = outage(secs(60)).await;
    on.store(false, Ordering::Relaxed);
    let call = begin(&connection, json!({}));
    assert!(call.await.unwrap().is_err());
    until(&connection, |status| matches!(status.state, State::Parked { .. })).await;
    assert_eq!(connection.status().borrow().pending, 0);
}

#[tokio::test(start_paused = true)]
async fn eight_connections_do_not_reconnect_in_the_same_instant_after_the_machine_slept() {
    let servers: Vec<Server> = (0..8)
        .map(|_| {
            Server::new(|start| match start {
                1 => Plan::default().on("ping", |_| vec![]), // It will not have survived.
                _ => Plan::default(),
            })
        })
        .collect();
    let mut connections = vec![];
    for (seed, server) in servers.iter().enumerate() {
        let connection = to(server).policy(Policy::default()).seed(seed as u64).build();
        start(&connection).await;
        connections.push(connection);
    }
    sleep(secs(30)).await;
    advance(secs(3600)).await;
    for connection in &connections {
        until(connection, |status| status.sessions == 2).await;
    }
    let mut restarts: Vec<Duration> = servers.iter().map(|server| server.starts()[1]).collect();
    restarts.sort();
    restarts.dedup();
    assert!(restarts.len() >= 6, "{restarts:?}");
    assert!(restarts[restarts.len() - 1] - restarts[0] >= millis(200), "{restarts:?}");
}
