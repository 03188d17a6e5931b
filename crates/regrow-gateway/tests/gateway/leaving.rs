//! A client leaves, or has been away for long: what it had ends, and nobody else notices.

use std::time::Duration;

use regrow_gateway::Clients::{Many, One};
use regrow_gateway::admit::{Admit, AdmitError, Principal, ServerScope};
use regrow_gateway::config::Sessions;
use regrow_gateway::operate::Operate;
use serde_json::json;
use tokio::time::sleep;

use crate::fake::Fake;
use crate::guest::*;
use crate::house::House;

#[tokio::test(start_paused = true)]
async fn the_calls_of_a_client_that_leaves_are_cancelled_and_those_of_others_go_on() {
    for sessions in [Sessions::Shared, Sessions::Private, Sessions::Auto] {
        let (a, b) = (Fake::legacy("a"), Fake::modern("b"));
        let house = House::with(Many, &[&a, &b], |options| options.sessions = sessions);
        let leaves = Guest::legacy(&house.gateway).await;
        let stays = Guest::legacy(&house.gateway).await;
        leaves.tools().await;
        let mut ended = [leaves.begin(1, "a__hang", json!({})), leaves.begin(1, "b__hang", json!({}))];
        let stay = stays.begin(1, "a__wait", json!({ "text": "x", "ms": 60_000 }));
        settle().await;
        let live = a.live();
        drop(leaves);
        settle().await;
        assert!(ended.iter_mut().all(|call| call.now().is_some()), "{sessions:?}");
        match sessions {
            Sessions::Shared => assert_eq!(a.count("notifications/cancelled"), 1),
            Sessions::Private | Sessions::Auto => {
                assert_eq!((live, a.live()), (3, 2), "its own session is closed");
                assert_eq!(house.report("a").private_sessions, 1);
            }
        }
        assert_eq!(b.count("notifications/cancelled"), 1);
        assert_eq!(said(&stay.end().await), "a: x");
        assert_eq!(house.gateway.gateway().clients, 1);
        assert_eq!((house.report("a").in_flight, house.report("b").in_flight), (0, 0));
    }
}

#[tokio::test(start_paused = true)]
async fn the_tasks_of_a_client_end_with_it() {
    let a = Fake::legacy("a");
    let house = House::with(Many, &[&a], |options| options.sessions = Sessions::Private);
    settle().await;
    let tasks = || house.gateway.gateway().tasks;
    let before = tasks();
    let guest = Guest::legacy(&house.gateway).await;
    guest.begin(1, "hang", json!({}));
    settle().await;
    assert!(tasks() > before, "{} after {before}", tasks());
    drop(guest);
    settle().await;
    assert_eq!(tasks(), before);
}

#[tokio::test(start_paused = true)]
async fn the_servers_of_the_one_client_end_with_it() {
    let (a, b) = (Fake::legacy("a"), Fake::modern("b"));
    let house = House::new(One, &[&a, &b]);
    let guest = Guest::legacy(&house.gateway).await;
    guest.tools().await;
    let mut call = guest.begin(1, "a__hang", json!({}));
    settle().await;
    assert_eq!((a.live(), b.live()), (1, 1));
    drop(guest);
    settle().await;
    assert!(call.now().is_some());
    assert_eq!((a.live(), b.live()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn calls_that_wait_at_the_gate_are_withdrawn_with_their_client() {
    let (a, b) = (Fake::legacy("a"), Fake::legacy("b"));
    let house = House::with(Many, &[&a, &b], |options| options.concurrency = Some(1));
    let stays = Guest::legacy(&house.gateway).await;
    let leaves = Guest::legacy(&house.gateway).await;
    stays.tools().await;
    let running = stays.begin(1, "a__wait", json!({ "text": "x", "ms": 1000 }));
    let mut waiting = leaves.begin(1, "a__echo", json!({ "text": "never" }));
    settle().await;
    assert_eq!(house.report("a").queue, 1);
    drop(leaves);
    assert!(waiting.now().is_some());
    assert_eq!(house.report("a").queue, 0);
    running.end().await;
    settle().await;
    assert_eq!(a.ran("echo"), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn more_sessions_of_their_own_than_allowed_are_a_typed_error_and_room_comes_back() {
    let (a, b) = (Fake::legacy("a"), Fake::legacy("b"));
    let house = House::with(Many, &[&a, &b], |options| {
        options.sessions = Sessions::Private;
        options.max_sessions = 2;
    });
    let mut guests = vec![];
    for _ in 0..3 {
        guests.push(Guest::legacy(&house.gateway).await);
    }
    guests[0].tools().await;
    for guest in &guests[..2] {
        assert_eq!(guest.call("a__echo", "x").await, "a: x");
    }
    let refused = guests[2].ask("tools/call", json!({ "name": "a__echo" })).await;
    assert_eq!(refused["failed"], "TooManySessions { limit: 2 }");
    assert_eq!(
        refused["says"],
        "a: it already has 2 private sessions, the most that maxSessions allows, so there is none for this call (echo). \
         It did not run. Close another client of this server, or raise maxSessions."
    );
    assert_eq!(refused["delivery"], "NotSent");
    assert_eq!(guests[2].call("b__echo", "x").await, "b: x", "the other server is another matter");
    assert_eq!(house.report("a").private_sessions, 2);
    guests.remove(0);
    settle().await;
    assert_eq!(guests[1].call("a__echo", "y").await, "a: y");
}

#[tokio::test(start_paused = true)]
async fn a_session_of_its_own_that_is_not_used_is_closed_and_the_next_call_opens_another() {
    let (a, b) = (Fake::legacy("a"), Fake::legacy("b"));
    let house = House::with(Many, &[&a, &b], |options| {
        options.sessions = Sessions::Private;
        options.session_idle = Duration::from_secs(60);
        options.call_timeout = None;
    });
    let guest = Guest::legacy(&house.gateway).await;
    guest.tools().await;
    let long = guest.begin(1, "a__wait", json!({ "text": "x", "ms": 300_000 }));
    sleep(Duration::from_secs(200)).await;
    assert_eq!(a.live(), 2, "it is used as long as a call runs");
    assert_eq!(said(&long.end().await), "a: x");
    sleep(Duration::from_secs(61)).await;
    assert_eq!((a.live(), house.report("a").private_sessions), (1, 0));
    assert_eq!(guest.call("a__echo", "y").await, "a: y");
    settle().await;
    assert_eq!(a.heard_in(2, "initialize")[0]["params"]["capabilities"]["sampling"], json!({}));
}

#[tokio::test(start_paused = true)]
async fn clients_of_one_principal_share_a_session_and_others_have_another() {
    let (a, b) = (Fake::legacy("a"), Fake::modern("b"));
    let house = House::new(Many, &[&a, &b]);
    let enter =
        |principal| Guest::enter(&house.gateway, &ServerScope::All, Principal::Client(principal), true);
    let mut guests = vec![enter(0), enter(0), enter(1), enter(1)];
    guests[0].tools().await;
    for guest in &guests {
        guest.call("a__echo", "x").await;
        guest.call("b__echo", "x").await;
    }
    assert_eq!((a.live(), b.live()), (2, 2));
    guests.truncate(3);
    guests.remove(0);
    settle().await;
    assert_eq!((a.live(), b.live()), (2, 2), "one is the home of the catalog, the other is still used");
    drop(guests);
    settle().await;
    assert_eq!((a.live(), b.live()), (1, 1), "nobody of the other principal is left");
}

#[tokio::test(start_paused = true)]
async fn clients_that_may_not_come_in_are_told_why() {
    let a = Fake::legacy("a");
    let house = House::new(Many, &[&a]);
    let enter = |scope| {
        let told = std::sync::Arc::new(Told::default());
        house.gateway.admit(&scope, Principal::default(), told).err()
    };
    assert_eq!(enter(ServerScope::One("b".into())), Some(AdmitError::NoSuchServer));
    let mut guests: Vec<_> = (0..16).map(|_| Guest::modern(&house.gateway)).collect();
    assert_eq!(enter(ServerScope::All), Some(AdmitError::Full));
    guests.pop();
    assert_eq!(enter(ServerScope::All), None);
}

#[tokio::test(start_paused = true)]
async fn who_is_subscribed_to_a_resource_uses_its_session_until_it_is_not_any_more() {
    let (a, b) = (Fake::legacy("a"), Fake::modern("b"));
    let house = House::with(Many, &[&a, &b], |options| {
        options.sessions = Sessions::Private;
        options.session_idle = Duration::from_secs(60);
        options.idle_stop = Some(Duration::from_secs(60));
    });
    let guest = Guest::legacy(&house.gateway).await;
    guest.tools().await;
    let uris = ["a://listed", "b://listed"];
    for uri in uris {
        guest.ask("resources/subscribe", json!({ "uri": uri })).await;
    }
    sleep(Duration::from_secs(600)).await;
    assert_eq!(house.report("a").private_sessions, 1);
    assert!(b.count("subscriptions/listen") <= 3, "{}", b.count("subscriptions/listen"));
    a.updates(uris[0]);
    b.updates(uris[1]);
    settle().await;
    assert_eq!(guest.methods(), ["notifications/resources/updated"; 2]);
    for uri in uris {
        guest.ask("resources/unsubscribe", json!({ "uri": uri })).await;
    }
    sleep(Duration::from_secs(120)).await;
    assert_eq!((a.live(), b.live()), (0, 0));
}
