//! What one server gets at once, and that what it does changes nothing for others.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use regrow::{Inbox, Incoming};
use regrow_gateway::Clients::{Many, One};
use regrow_gateway::admit::{Admit, Principal, ServerScope};
use regrow_gateway::config::Sessions;
use serde_json::json;
use tokio::time::{Instant, sleep};

use crate::fake::Fake;
use crate::guest::*;
use crate::house::House;

#[tokio::test(start_paused = true)]
async fn no_more_calls_run_at_once_than_a_server_is_to_get_and_the_rest_wait_their_turn() {
    let (a, b) = (Fake::legacy("a"), Fake::legacy("b"));
    let house = House::with(Many, &[&a, &b], |options| options.concurrency = Some(2));
    let guests = [Guest::legacy(&house.gateway).await, Guest::legacy(&house.gateway).await];
    guests[0].tools().await;
    let start = Instant::now();
    let wait =
        |n: usize| guests[n % 2].begin(n as u64, "a__wait", json!({ "text": n.to_string(), "ms": 1000 }));
    let calls: Vec<_> = (0..6).map(wait).collect();
    settle().await;
    assert_eq!((a.ran("wait").len(), house.report("a").in_flight, house.report("a").queue), (2, 2, 4));
    assert_eq!(guests[0].call("b__echo", "x").await, "b: x");
    for (n, call) in calls.into_iter().enumerate() {
        assert_eq!(said(&call.end().await), format!("a: {n}"));
    }
    assert_eq!(start.elapsed().as_secs(), 3);
    assert_eq!(a.ran("wait"), ["0", "1", "2", "3", "4", "5"]);
}

#[tokio::test(start_paused = true)]
async fn no_more_calls_begin_in_a_time_than_a_server_is_to_get() {
    let (a, b) = (Fake::legacy("a"), Fake::legacy("b"));
    let house = House::with(Many, &[&a, &b], |options| options.rate = Some((2, Duration::from_secs(10))));
    let guest = Guest::legacy(&house.gateway).await;
    guest.tools().await;
    let start = Instant::now();
    let calls: Vec<_> = (0..4).map(|n| guest.begin(n, "a__echo", json!({ "text": "x" }))).collect();
    settle().await;
    assert_eq!(a.ran("echo").len(), 2);
    for call in calls {
        assert_eq!(said(&call.end().await), "a: x");
    }
    assert!(start.elapsed() >= Duration::from_secs(10), "{:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_request_without_an_id_does_not_get_past_the_limits() {
    let a = Fake::legacy("a");
    for clients in [Many, One] {
        let house = House::with(clients, &[&a], |options| options.concurrency = Some(1));
        let guest = Guest::legacy(&house.gateway).await;
        assert_eq!(guest.call("echo", "with").await, "a: with");
        let told = guest.notify("tools/call", &json!({ "name": "echo", "arguments": { "text": "without" } }));
        assert!(!told);
        assert_eq!(guest.call("echo", "again").await, "a: again");
    }
    assert_eq!(a.ran("echo"), ["with", "again", "with", "again"]);
}

#[tokio::test(start_paused = true)]
async fn a_full_queue_is_a_typed_error_at_once_and_waiting_ends_with_the_call_s_deadline() {
    let (a, b) = (Fake::legacy("a"), Fake::legacy("b"));
    let house = House::with(Many, &[&a, &b], |options| {
        (options.concurrency, options.queue) = (Some(1), 2);
        options.call_timeout = Some(Duration::from_secs(30));
    });
    let guest = Guest::legacy(&house.gateway).await;
    guest.tools().await;
    let start = Instant::now();
    let hangs = guest.begin(1, "a__wait", json!({ "text": "long", "ms": 29_000 }));
    sleep(Duration::from_secs(5)).await;
    let waits = guest.begin(2, "a__hang", json!({}));
    let late = guest.begin(3, "a__echo", json!({ "text": "late" }));
    let full = guest.begin(4, "a__echo", json!({ "text": "full" })).end().await;
    assert_eq!((&full["failed"], &full["delivery"]), (&json!("Overloaded"), &json!("NotSent")));
    assert_eq!(full["server"], "a");
    assert_eq!(start.elapsed(), Duration::from_secs(5));
    assert_eq!(said(&hangs.end().await), "a: long");
    let late = late.end().await;
    assert_eq!((&late["failed"], &late["delivery"]), (&json!("Timeout"), &json!("NotSent")));
    assert_eq!(start.elapsed(), Duration::from_secs(35));
    // What it has waited for its turn was part of its time.
    let waits = waits.end().await;
    assert_eq!((&waits["failed"], &waits["delivery"]), (&json!("Timeout"), &json!("Unknown")));
    assert_eq!((start.elapsed(), a.ran("hang").len()), (Duration::from_secs(35), 1));
    assert_eq!(a.ran("echo"), [""; 0]);
    assert_eq!(guest.call("a__echo", "x").await, "a: x");
}

#[tokio::test(start_paused = true)]
async fn a_call_that_waits_at_the_gate_is_cancelled_there_and_never_sent() {
    let (a, b) = (Fake::legacy("a"), Fake::legacy("b"));
    let house = House::with(Many, &[&a, &b], |options| options.concurrency = Some(1));
    let guest = Guest::legacy(&house.gateway).await;
    guest.tools().await;
    let running = guest.begin(1, "a__wait", json!({ "text": "x", "ms": 1000 }));
    let mut waits = guest.begin(2, "a__echo", json!({ "text": "never" }));
    settle().await;
    assert!(guest.cancel(2));
    assert_eq!(waits.now(), Some(json!(null)), "nobody answers what was cancelled");
    assert_eq!(said(&running.end().await), "a: x");
    settle().await;
    assert_eq!((a.ran("echo").len(), a.count("notifications/cancelled")), (0, 0));
    assert_eq!(guest.call("a__echo", "y").await, "a: y");
}

#[tokio::test(start_paused = true)]
async fn a_hung_a_crashing_and_a_flooding_server_change_nothing_for_another() {
    for clients in [One, Many] {
        let names = ["hung", "crashing", "flooding", "good"];
        let fakes = names.map(Fake::legacy);
        let house = House::new(clients, &fakes.iter().collect::<Vec<_>>());
        let guest = Guest::legacy(&house.gateway).await;
        guest.tools().await;
        let [hung, _, flooding, good] = &fakes;
        hung.world().is_mute = true;
        let mut hanging: Vec<_> = (0..50).map(|n| guest.begin(n, "hung__echo", json!({}))).collect();
        let flood = json!({ "jsonrpc": "2.0", "method": "notifications/message", "params": { "level": "info", "data": "x".repeat(1000) } });
        for n in 0..100 {
            let crash = guest.begin(1000 + n, "crashing__die", json!({}));
            for _ in 0..100 {
                flooding.say(&flood);
            }
            let start = Instant::now();
            assert_eq!(guest.call("good__echo", "x").await, "good: x");
            assert_eq!(start.elapsed(), Duration::ZERO, "{clients:?}, round {n}");
            sleep(Duration::from_millis(100)).await;
            drop(crash);
        }
        assert_eq!((good.starts(), good.ran("echo").len()), (1, 100));
        assert!(hanging.iter_mut().all(|call| call.now().is_none()));
        for call in hanging {
            assert_eq!(call.end().await["failed"], "Timeout");
        }
    }
}

/// A client whose ear breaks.
struct Broken(AtomicBool);

impl Inbox for Broken {
    fn take(&self, _: Incoming) -> bool {
        self.0.store(true, Ordering::Relaxed);
        panic!("on purpose")
    }
}

#[tokio::test(start_paused = true)]
async fn a_panic_over_one_server_s_message_ends_that_session_only() {
    let (a, b) = (Fake::legacy("a"), Fake::legacy("b"));
    let house = House::with(Many, &[&a, &b], |options| options.sessions = Sessions::Private);
    let good = Guest::legacy(&house.gateway).await;
    good.tools().await;
    good.call("a__echo", "x").await;
    let broken = Arc::new(Broken(AtomicBool::new(false)));
    let admitted =
        house.gateway.admit(&ServerScope::All, Principal::default(), broken.clone()).expect("it is let in");
    let bad = Guest::of(admitted);
    bad.greet().await;
    let call = bad.begin(1, "a__log", json!({ "text": "boom" }));
    let still = good.begin(1, "a__wait", json!({ "text": "still", "ms": 5000 }));
    let end = call.end().await;
    assert!(broken.0.load(Ordering::Relaxed));
    assert_eq!(end["failed"], "Interrupted", "{end}");
    assert_eq!(said(&still.end().await), "a: still");
    assert_eq!(good.call("b__echo", "x").await, "b: x");
    assert_eq!(bad.call("a__echo", "again").await, "a: again", "its next session works");
    assert_eq!(a.starts(), 4, "the catalog's, two clients', and the one that replaced the broken one");
}

#[tokio::test(start_paused = true)]
async fn waiting_for_the_result_of_a_task_outlasts_the_call_timeout_and_keeps_no_other_call_out() {
    for clients in [Many, One] {
        let a = Fake::legacy("a");
        let house = House::with(clients, &[&a], |options| {
            options.concurrency = Some(1);
            options.call_timeout = Some(Duration::from_secs(10));
        });
        let guest = Guest::legacy(&house.gateway).await;
        let task = json!({ "name": "task", "arguments": {}, "task": { "ttl": 1 } });
        let task = guest.ask("tools/call", task).await["result"]["task"]["taskId"].clone();
        let waiting = guest.send(&json!(1), "tasks/result", json!({ "taskId": task, "ms": 3_600_000 }));
        settle().await;
        assert_eq!(guest.call("echo", "meanwhile").await, "a: meanwhile");
        assert_eq!(waiting.end().await["result"]["at"], "a");
        assert_eq!(a.count("notifications/cancelled"), 0);
    }
}
