//! Subscriptions: those of either era, at servers of either era, by one client or many.

use std::time::Duration;

use regrow_gateway::Clients::{Many, One};
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::fake::{Fake, SUBSCRIPTION};
use crate::guest::*;
use crate::house::House;

const UPDATED: &str = "notifications/resources/updated";
const ACKNOWLEDGED: &str = "notifications/subscriptions/acknowledged";

fn listen(guest: &Guest, id: u64, uris: &[&str]) -> Waiting {
    let params = json!({ "notifications": { "resourceSubscriptions": uris } });
    guest.send(&json!(id), "subscriptions/listen", params)
}

#[tokio::test(start_paused = true)]
async fn a_legacy_subscription_is_told_its_subscriber_only_until_it_ends() {
    for clients in [One, Many] {
        let (a, b) = (Fake::legacy("a"), Fake::modern("b"));
        let house = House::new(clients, &[&a, &b]);
        let guest = Guest::legacy(&house.gateway).await;
        guest.tools().await;
        let other = match clients {
            Many => Some(Guest::legacy(&house.gateway).await),
            One => None,
        };
        if let Some(other) = &other {
            other.call("a__echo", "x").await;
        }
        for uri in ["a://listed", "b://listed"] {
            let answer = guest.ask("resources/subscribe", json!({ "uri": uri })).await;
            assert!(answer["result"].is_object(), "{answer}");
        }
        for (fake, uri) in [(&a, "a://listed"), (&b, "b://listed")] {
            fake.updates(uri);
            settle().await;
            let heard = guest.heard();
            assert_eq!(heard.len(), 1, "{clients:?} {uri}: {heard:?}");
            assert_eq!((&heard[0]["method"], &heard[0]["params"]["uri"]), (&json!(UPDATED), &json!(uri)));
        }
        // They are told again after a restart, once.
        a.die();
        sleep(Duration::from_secs(5)).await;
        a.updates("a://listed");
        settle().await;
        assert_eq!(guest.methods(), [UPDATED]);
        guest.ask("resources/unsubscribe", json!({ "uri": "a://listed" })).await;
        a.updates("a://listed");
        settle().await;
        assert_eq!(guest.methods(), [""; 0]);
        assert!(other.is_none_or(|other| other.methods().is_empty()));
    }
}

#[tokio::test(start_paused = true)]
async fn a_stream_over_several_servers_is_acknowledged_once_and_keeps_its_id() {
    for clients in [One, Many] {
        let (a, b, c) = (Fake::legacy("a"), Fake::modern("b"), Fake::modern("c"));
        let house = House::new(clients, &[&a, &b, &c]);
        let guest = Guest::modern(&house.gateway);
        guest.tools().await;
        let mut open = listen(&guest, 5, &["a://listed", "b://listed"]);
        settle().await;
        let heard = guest.heard();
        assert_eq!(heard.len(), 1, "{clients:?}: {heard:?}");
        assert_eq!(heard[0]["method"], ACKNOWLEDGED);
        assert_eq!(heard[0]["params"]["_meta"][SUBSCRIPTION], 5);
        let honoured = &heard[0]["params"]["notifications"]["resourceSubscriptions"];
        assert_eq!(*honoured, json!(["a://listed", "b://listed"]));
        for (fake, uri) in [(&a, "a://listed"), (&b, "b://listed")] {
            fake.updates(uri);
            settle().await;
            let heard = guest.heard();
            assert_eq!(heard.len(), 1, "{uri}: {heard:?}");
            assert_eq!(heard[0]["params"]["uri"], uri);
            assert_eq!(heard[0]["params"]["_meta"][SUBSCRIPTION], 5);
        }
        b.die();
        sleep(Duration::from_secs(5)).await;
        b.updates("b://listed");
        settle().await;
        assert_eq!(guest.methods(), [UPDATED], "it goes on after a restart, and is not opened twice");
        assert_eq!(open.now(), None);
        let streams = c.heard_of("subscriptions/listen");
        let asks = |stream: &Value| stream["params"]["notifications"]["resourceSubscriptions"].is_array();
        assert!(!streams.iter().any(asks), "it has nothing to do with it");
        assert!(guest.cancel(5));
        settle().await;
        b.updates("b://listed");
        a.updates("a://listed");
        settle().await;
        assert_eq!(guest.methods(), [""; 0]);
        assert_eq!(a.count("resources/unsubscribe"), 1);
        assert_eq!(b.count("notifications/cancelled"), 1);
        assert!(!guest.cancel(5));
    }
}

#[tokio::test(start_paused = true)]
async fn two_streams_of_two_clients_with_equal_ids_hear_what_each_asked_for() {
    let (a, b) = (Fake::modern("a"), Fake::modern("b"));
    let house = House::new(Many, &[&a, &b]);
    let guests = [Guest::modern(&house.gateway), Guest::modern(&house.gateway)];
    guests[0].tools().await;
    let _open = [listen(&guests[0], 1, &["a://listed"]), listen(&guests[1], 1, &["b://listed"])];
    settle().await;
    a.updates("a://listed");
    settle().await;
    assert_eq!(guests[0].methods(), [ACKNOWLEDGED, UPDATED]);
    assert_eq!(guests[1].methods(), [ACKNOWLEDGED]);
}

#[tokio::test(start_paused = true)]
async fn a_stream_ends_when_the_last_server_has_ended_its_part() {
    let (a, b) = (Fake::modern("a"), Fake::modern("b"));
    let house = House::new(Many, &[&a, &b]);
    let guest = Guest::modern(&house.gateway);
    guest.tools().await;
    let mut open = listen(&guest, 9, &["a://listed", "b://listed"]);
    settle().await;
    a.ends_streams();
    settle().await;
    assert_eq!(open.now(), None, "the other part goes on");
    b.ends_streams();
    let end = open.end().await;
    assert_eq!(end["id"], 9);
    assert_eq!(end["result"]["_meta"][SUBSCRIPTION], 9, "{end}");
    sleep(Duration::from_secs(10)).await;
    assert_eq!(guest.methods(), [ACKNOWLEDGED]);
    b.changes_tools(&["echo"]);
    refresh().await;
    assert_eq!(guest.tools().await.len(), 10, "the catalog's own stream was opened again");
}

#[tokio::test(start_paused = true)]
async fn a_stream_at_a_server_that_hangs_is_acknowledged_with_what_is_open() {
    let (a, b) = (Fake::modern("a"), Fake::modern("b"));
    let house = House::new(Many, &[&a, &b]);
    let guest = Guest::modern(&house.gateway);
    guest.tools().await;
    a.world().is_mute = true;
    let mut open = listen(&guest, 1, &["a://listed", "b://listed"]);
    sleep(Duration::from_secs(6)).await;
    let heard = guest.heard();
    assert_eq!(heard.len(), 1, "{heard:?}");
    assert_eq!(heard[0]["params"]["notifications"]["resourceSubscriptions"], json!(["b://listed"]));
    assert_eq!(open.now(), None);
}

#[tokio::test(start_paused = true)]
async fn changes_of_lists_are_told_to_streams_that_asked_for_them() {
    let (a, b) = (Fake::modern("a"), Fake::legacy("b"));
    let house = House::new(Many, &[&a, &b]);
    let guest = Guest::modern(&house.gateway);
    guest.tools().await;
    let params = json!({ "notifications": { "toolsListChanged": true } });
    let _tools = guest.send(&json!(1), "subscriptions/listen", params);
    let params = json!({ "notifications": { "promptsListChanged": true } });
    let _prompts = guest.send(&json!(2), "subscriptions/listen", params);
    settle().await;
    assert_eq!(guest.methods(), [ACKNOWLEDGED; 2]);
    a.changes_tools(&["echo"]);
    refresh().await;
    let heard = guest.heard();
    assert_eq!(heard.len(), 1, "{heard:?}");
    assert_eq!(heard[0]["params"]["_meta"][SUBSCRIPTION], 1);
}

#[tokio::test(start_paused = true)]
async fn more_streams_than_are_borne_are_refused() {
    let (a, b) = (Fake::modern("a"), Fake::legacy("b"));
    let house = House::new(Many, &[&a, &b]);
    let guest = Guest::modern(&house.gateway);
    let params = || json!({ "notifications": { "toolsListChanged": true } });
    let open: Vec<_> = (0..64).map(|id| guest.send(&json!(id), "subscriptions/listen", params())).collect();
    let refused = guest.send(&json!(64), "subscriptions/listen", params()).end().await;
    assert!(refused["error"].is_object(), "{refused}");
    assert!(guest.cancel(0));
    let mut again = guest.send(&json!(65), "subscriptions/listen", params());
    assert_eq!(again.now(), None);
    drop(open);
}
