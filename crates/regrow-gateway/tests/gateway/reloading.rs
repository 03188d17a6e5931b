//! Another configuration, the end, and what the operator is told of it all.

use std::sync::Mutex;
use std::time::Duration;

use regrow::core::Manner;
use regrow_gateway::Clients::{Many, One};
use regrow_gateway::admit::{Admit, AdmitError, Principal, ServerScope};
use regrow_gateway::config::Sessions;
use regrow_gateway::operate::{CommandError, Operate, ServerCommand, ServerState};
use serde_json::json;
use tokio::time::{Instant, sleep};

use crate::fake::Fake;
use crate::guest::*;
use crate::house::{House, described};

const TOOLS_CHANGED: &str = "notifications/tools/list_changed";

#[tokio::test(start_paused = true)]
async fn another_configuration_touches_only_what_it_changes() {
    for (clients, sessions) in [(One, Sessions::Shared), (Many, Sessions::Shared), (Many, Sessions::Private)]
    {
        let [kept, changed, gone, new] = ["kept", "changed", "gone", "new"].map(Fake::legacy);
        let set = |options: &mut regrow_gateway::config::Options| options.sessions = sessions;
        let house = House::with(clients, &[&kept, &changed, &gone], set);
        let guest = Guest::legacy(&house.gateway).await;
        guest.tools().await;
        let calls = ["kept", "changed", "gone"]
            .map(|name| guest.begin(1, &format!("{name}__wait"), json!({ "text": "x", "ms": 2000 })));
        settle().await;
        let otherwise = described(&changed, |options| {
            set(options);
            options.concurrency = Some(3);
        });
        let mut moved = described(&kept, set);
        moved.place.line = 99;
        let changes = house.reload(vec![(&new, described(&new, set)), (&kept, moved), (&changed, otherwise)]);
        assert_eq!(
            (&changes.added[..], &changes.removed[..]),
            (&["new".to_owned()][..], &["gone".to_owned()][..])
        );
        assert_eq!((&changes.changed[..], changes.kept), (&["changed".to_owned()][..], 1));
        for (call, name) in calls.into_iter().zip(["kept", "changed", "gone"]) {
            assert_eq!(
                said(&call.end().await),
                format!("{name}: x"),
                "{clients:?} {sessions:?}: it is drained"
            );
        }
        sleep(Duration::from_secs(40)).await;
        assert_eq!(gone.live(), 0, "{clients:?} {sessions:?}");
        let told = guest.methods();
        assert!(told.contains(&TOOLS_CHANGED.to_owned()) && told.len() <= 2, "{told:?}");
        assert_eq!(guest.tools().await.len(), 27);
        for name in ["kept", "changed", "new"] {
            assert_eq!(guest.call(&format!("{name}__echo"), "y").await, format!("{name}: y"));
        }
        assert!(guest.call("gone__echo", "y").await.contains("Unknown tool"));
        let starts = kept.starts();
        assert_eq!(starts, if sessions == Sessions::Private { 2 } else { 1 }, "it goes on");
        let order: Vec<_> = house.gateway.servers().into_iter().map(|report| report.name).collect();
        assert_eq!(order, ["new", "kept", "changed"]);
        let live: usize = [&kept, &changed, &new].iter().map(|fake| fake.live()).sum();
        assert_eq!(live, if sessions == Sessions::Private { 6 } else { 3 });
    }
}

#[tokio::test(start_paused = true)]
async fn the_end_ends_servers_of_earlier_configurations_too() {
    for manner in [Manner::Told, Manner::Planned] {
        let (kept, gone) = (Fake::legacy("kept"), Fake::legacy("gone"));
        let house = House::new(Many, &[&kept, &gone]);
        let guest = Guest::legacy(&house.gateway).await;
        guest.tools().await;
        let mut call = guest.begin(1, "gone__hang", json!({ "text": "x" }));
        settle().await;
        house.reload(vec![(&kept, described(&kept, |_| {}))]);
        settle().await;
        assert_eq!(gone.live(), 1, "{manner:?}: it is drained");
        house.gateway.shutdown(manner, |_, _| {}).await;
        assert_eq!((kept.live(), gone.live()), (0, 0), "{manner:?}");
        assert!(call.now().is_some_and(|end| end["failed"].is_string()), "{manner:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn no_task_outlives_a_gateway_that_has_ended() {
    let (a, b) = (Fake::legacy("a"), Fake::modern("b"));
    let house = House::new(Many, &[&a, &b]);
    let guest = Guest::legacy(&house.gateway).await;
    assert_eq!(guest.tools().await.len(), 18);
    house.gateway.shutdown(Manner::Told, |_, _| {}).await;
    sleep(Duration::from_secs(60)).await; // Nothing changes any more.
    drop((guest, house));
    sleep(Duration::from_secs(60)).await;
    assert_eq!(tokio::runtime::Handle::current().metrics().num_alive_tasks(), 0);
}

#[tokio::test(start_paused = true)]
async fn the_same_configuration_again_changes_nothing() {
    let (a, b) = (Fake::legacy("a"), Fake::modern("b"));
    let house = House::new(Many, &[&a, &b]);
    let guest = Guest::legacy(&house.gateway).await;
    guest.tools().await;
    let changes = house.reload(vec![(&a, described(&a, |_| {})), (&b, described(&b, |_| {}))]);
    assert_eq!((changes.kept, changes.added.len() + changes.removed.len() + changes.changed.len()), (2, 0));
    settle().await;
    assert_eq!((guest.methods().len(), a.starts(), b.starts()), (0, 1, 1));
}

#[tokio::test(start_paused = true)]
async fn the_end_lets_calls_finish_tells_of_each_server_and_leaves_nothing() {
    for (clients, sessions) in [(One, Sessions::Shared), (Many, Sessions::Shared), (Many, Sessions::Private)]
    {
        let fakes = [Fake::legacy("a"), Fake::modern("b"), Fake::legacy("c")];
        let house =
            House::with(clients, &fakes.iter().collect::<Vec<_>>(), |options| options.sessions = sessions);
        let guest = Guest::legacy(&house.gateway).await;
        guest.tools().await;
        let finishes = guest.begin(1, "a__wait", json!({ "text": "x", "ms": 5000 }));
        let hangs = guest.begin(2, "b__hang", json!({}));
        settle().await;
        let start = Instant::now();
        let told = Mutex::new(vec![]);
        let ending = house.gateway.shutdown(Manner::Planned, |name, left| {
            told.lock().expect("no panic").push((name.to_owned(), left));
        });
        let trying = async {
            settle().await;
            let told = std::sync::Arc::new(Told::default());
            let refused = house.gateway.admit(&ServerScope::All, Principal::default(), told).err();
            assert_eq!(refused, Some(AdmitError::Closing));
            assert!(house.gateway.gateway().shutting_down);
            assert_eq!(house.gateway.command("a", ServerCommand::Wake), Err(CommandError::Closing));
        };
        tokio::join!(ending, trying);
        assert!(start.elapsed() <= Duration::from_secs(40), "{:?}", start.elapsed());
        assert_eq!(said(&finishes.end().await), "a: x");
        let hung = hangs.end().await;
        assert_eq!(hung["delivery"], "Unknown", "{hung}");
        let told = told.into_inner().expect("no panic");
        assert_eq!(told.len(), 3);
        assert_eq!(told[2], ("b".to_owned(), 0), "the slowest comes last: {told:?}");
        let live = || fakes.iter().map(Fake::live).sum::<usize>();
        assert_eq!(live(), 0, "{clients:?} {sessions:?}");
        // A client that has not heard of it yet wakes nobody.
        for name in ["a", "b", "c"] {
            let late = guest.ask("tools/call", json!({ "name": format!("{name}__echo") })).await;
            assert_eq!((&late["failed"], &late["delivery"]), (&json!("Closed"), &json!("NotSent")), "{late}");
        }
        guest.tools().await;
        sleep(Duration::from_secs(600)).await;
        assert_eq!(live(), 0, "{clients:?} {sessions:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_end_that_we_are_told_does_not_wait_for_calls() {
    let (a, b) = (Fake::legacy("a"), Fake::legacy("b"));
    let house = House::new(Many, &[&a, &b]);
    let guest = Guest::legacy(&house.gateway).await;
    guest.tools().await;
    let hangs = guest.begin(1, "a__hang", json!({}));
    settle().await;
    let start = Instant::now();
    house.gateway.shutdown(Manner::Told, |_, _| {}).await;
    assert!(start.elapsed() < Duration::from_secs(2), "{:?}", start.elapsed());
    assert_eq!(hangs.end().await["failed"], "Closed");
    assert_eq!((a.live(), b.live()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn reports_tell_the_truth() {
    let (a, b, c) = (Fake::legacy("a"), Fake::modern("b"), Fake::legacy("c"));
    c.world().is_broken = true;
    let house = House::new(Many, &[&a, &b, &c]);
    let guest = Guest::legacy(&house.gateway).await;
    guest.tools().await;
    let report = house.report("a");
    assert_eq!((report.state, report.epoch, report.era.as_deref()), (ServerState::Ready, 1, Some("legacy")));
    assert_eq!(house.report("b").era.as_deref(), Some("modern"));
    assert_eq!(report.catalog["tools"].count, 9);
    let broken = house.report("c");
    assert!(matches!(broken.state, ServerState::Backoff | ServerState::Parked), "{:?}", broken.state);
    assert!(broken.last_fault.is_some());
    guest.call("a__echo", "x").await;
    let hangs = guest.begin(1, "a__hang", json!({}));
    settle().await;
    assert_eq!(house.report("a").in_flight, 1);
    a.die();
    assert_eq!(hangs.end().await["failed"], "Interrupted");
    sleep(Duration::from_secs(5)).await;
    let report = house.report("a");
    assert_eq!((report.state, report.epoch, report.in_flight), (ServerState::Ready, 2, 0));
    assert_eq!((report.restarts.values().sum::<u64>(), report.budget_left), (1, 4));
    let calls: Vec<_> =
        report.calls.iter().map(|calls| (&*calls.outcome, &*calls.delivery, calls.count)).collect();
    assert!(calls.iter().any(|(_, delivery, count)| (*delivery, *count) == ("answered", 1)), "{calls:?}");
    assert!(calls.iter().any(|(_, delivery, count)| (*delivery, *count) == ("unknown", 1)), "{calls:?}");
}

#[tokio::test(start_paused = true)]
async fn orders_reach_every_session_with_a_server_also_those_that_come_later() {
    let (a, b) = (Fake::legacy("a"), Fake::legacy("b"));
    let house = House::with(Many, &[&a, &b], |options| options.sessions = Sessions::Private);
    let early = Guest::legacy(&house.gateway).await;
    early.tools().await;
    assert_eq!(early.call("a__echo", "x").await, "a: x");
    assert_eq!(a.live(), 2, "its home, and the session of its client");
    let command = |command| house.gateway.command("a", command).expect("it is followed");
    command(ServerCommand::Reconnect);
    sleep(Duration::from_secs(2)).await;
    assert_eq!((a.starts(), a.live()), (4, 2));
    command(ServerCommand::Park);
    sleep(Duration::from_secs(2)).await;
    let late = Guest::legacy(&house.gateway).await;
    for guest in [&early, &late] {
        assert_eq!(guest.ask("tools/call", json!({ "name": "a__echo" })).await["failed"], "Unavailable");
    }
    assert_eq!((a.starts(), a.live()), (4, 0));
    command(ServerCommand::Wake);
    sleep(Duration::from_secs(2)).await;
    for guest in [&early, &late] {
        assert_eq!(guest.call("a__echo", "x").await, "a: x");
    }
}

#[tokio::test(start_paused = true)]
async fn orders_are_followed() {
    let (a, b) = (Fake::legacy("a"), Fake::legacy("b"));
    let house = House::new(Many, &[&a, &b]);
    let guest = Guest::legacy(&house.gateway).await;
    guest.tools().await;
    let command = |command| house.gateway.command("a", command).expect("it is followed");
    command(ServerCommand::Reconnect);
    sleep(Duration::from_secs(2)).await;
    assert_eq!((a.starts(), b.starts()), (2, 1));
    command(ServerCommand::Park);
    sleep(Duration::from_secs(2)).await;
    assert_eq!((a.live(), house.report("a").state), (0, ServerState::Parked));
    assert!(house.report("a").stopped);
    assert_eq!(guest.ask("tools/call", json!({ "name": "a__echo" })).await["failed"], "Unavailable");
    command(ServerCommand::Wake);
    sleep(Duration::from_secs(2)).await;
    assert_eq!(guest.call("a__echo", "x").await, "a: x");
    assert_eq!(house.gateway.command("c", ServerCommand::Wake), Err(CommandError::NoSuchServer));
}

/// A gateway to one server with a call in flight that takes so long, and then another configuration.
async fn changed_under_a_call(
    clients: regrow_gateway::Clients,
    ms: u64,
    set: impl Fn(&mut regrow_gateway::config::Options),
) -> (Fake, House, Guest, Waiting) {
    let a = Fake::legacy("a");
    let house = House::new(clients, &[&a]);
    let guest = Guest::legacy(&house.gateway).await;
    guest.tools().await;
    let call = guest.begin(1, "wait", json!({ "text": "old", "ms": ms }));
    settle().await;
    let otherwise = described(&a, |options| {
        options.concurrency = Some(3);
        set(options);
    });
    house.reload(vec![(&a, otherwise)]);
    (a, house, guest, call)
}

#[tokio::test(start_paused = true)]
async fn scenario_57_a_changed_server_starts_when_nothing_is_left_of_what_it_was_and_calls_wait_for_that() {
    for clients in [One, Many] {
        let (a, house, guest, mut old) = changed_under_a_call(clients, 5000, |_| {}).await;
        let new = guest.begin(2, "echo", json!({ "text": "new" }));
        for again in 0..3 {
            // Changed again while it waits: then that one waits for all before it.
            let otherwise = described(&a, |options| options.concurrency = Some(10 + again));
            house.reload(vec![(&a, otherwise)]);
            sleep(Duration::from_secs(1)).await;
            assert_eq!((a.live(), a.starts()), (1, 1), "{clients:?}");
            assert!(old.now().is_none());
        }
        let newest = guest.begin(3, "echo", json!({ "text": "newest" }));
        assert_eq!(said(&old.end().await), "a: old");
        assert_eq!(said(&newest.end().await), "a: newest", "{clients:?}");
        assert_eq!(said(&new.end().await), "a: new", "{clients:?}");
        assert_eq!((a.live(), a.starts()), (1, 2), "{clients:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_waits_for_a_changed_server_no_longer_than_its_deadline() {
    let limit = |options: &mut regrow_gateway::config::Options| {
        options.call_timeout = Some(Duration::from_secs(2));
    };
    let (a, _house, guest, old) = changed_under_a_call(Many, 5000, limit).await;
    let start = Instant::now();
    let late = guest.begin(2, "echo", json!({ "text": "late" })).end().await;
    assert_eq!(start.elapsed().as_secs(), 2);
    assert_eq!((&late["failed"], &late["delivery"]), (&json!("Timeout"), &json!("NotSent")), "{late}");
    let _cancelled = guest.begin(3, "echo", json!({ "text": "cancelled" }));
    assert!(guest.cancel(3));
    assert_eq!(said(&old.end().await), "a: old");
    sleep(Duration::from_secs(40)).await;
    assert_eq!(a.ran("echo"), [""; 0], "neither ran after all");
    assert_eq!(guest.call("echo", "next").await, "a: next");
}

#[tokio::test(start_paused = true)]
async fn what_a_client_is_subscribed_to_it_is_subscribed_to_at_the_changed_server_too() {
    let a = Fake::legacy("a");
    let house = House::new(Many, &[&a]);
    let guest = Guest::legacy(&house.gateway).await;
    guest.ask("resources/subscribe", json!({ "uri": "a://listed" })).await;
    guest.ask("resources/subscribe", json!({ "uri": "a://other" })).await;
    guest.ask("resources/unsubscribe", json!({ "uri": "a://other" })).await;
    house.reload(vec![(&a, described(&a, |options| options.concurrency = Some(3)))]);
    let before = a.count("resources/subscribe");
    assert_eq!(guest.call("echo", "x").await, "a: x");
    settle().await;
    let again: Vec<_> = a.heard_of("resources/subscribe").split_off(before);
    let uris: Vec<_> = again.iter().map(|heard| heard["params"]["uri"].as_str().expect("a text")).collect();
    assert_eq!(uris, ["a://listed"]);
}
