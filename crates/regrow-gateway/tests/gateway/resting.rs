//! Servers start when they are needed, rest when they are not, and wake with the next call.

use std::time::{Duration, SystemTime};

use regrow_gateway::Clients::{Many, One};
use regrow_gateway::catalog::Store;
use regrow_gateway::config::Start;
use serde_json::json;
use tokio::time::sleep;

use crate::fake::Fake;
use crate::guest::*;
use crate::house::House;

#[tokio::test(start_paused = true)]
async fn a_lazy_server_that_is_known_starts_with_its_first_call_only() {
    for clients in [Many, One] {
        let folder = tempfile::tempdir().expect("a folder");
        let store = Store::open(folder.path(), SystemTime::now());
        let (a, b) = (Fake::legacy("a"), Fake::modern("b"));
        let lazy = |options: &mut regrow_gateway::config::Options| options.start = Start::Lazy;
        let house = House::kept(clients, &[&a, &b], Some(store.clone()), lazy);
        let guest = Guest::legacy(&house.gateway).await;
        assert_eq!(guest.tools().await.len(), 18, "nobody knows what it offers: so it is asked");
        store.settled().await;
        house.gateway.shutdown(regrow::core::Manner::Told, |_, _| {}).await;
        assert_eq!((a.live(), b.live()), (0, 0));

        let house = House::kept(clients, &[&a, &b], Some(store), lazy);
        let guest = Guest::legacy(&house.gateway).await;
        assert_eq!(guest.tools().await.len(), 18);
        sleep(Duration::from_secs(60)).await;
        assert_eq!((a.starts(), b.starts()), (1, 1), "{clients:?}");
        assert_eq!(guest.call("a__echo", "x").await, "a: x");
        assert_eq!((a.starts(), b.starts()), (2, 1));
        assert_eq!(guest.methods(), [""; 0]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_of_a_client_that_never_asked_for_lists_starts_the_server_that_it_names() {
    for has_failed in [false, true] {
        let (a, b) = (Fake::legacy("a"), Fake::modern("b"));
        let house = House::new(One, &[&a, &b]);
        if has_failed {
            b.world().refuses_lists = true;
            Guest::legacy(&house.gateway).await.tools().await;
            b.world().refuses_lists = false;
        }
        settle().await;
        let starts = (a.starts(), b.starts());
        let guest = Guest::modern(&house.gateway);
        assert_eq!(guest.call("b__echo", "x").await, "b: x");
        assert_eq!((a.starts(), b.starts()), (starts.0, starts.1 + 1));
    }
}

#[tokio::test(start_paused = true)]
async fn an_idle_server_rests_keeps_its_catalog_and_wakes_with_the_next_call() {
    for clients in [Many, One] {
        for modern in [false, true] {
            let (a, b) = (Fake::new("a", modern), Fake::legacy("b"));
            let house = House::with(clients, &[&a, &b], |options| {
                options.idle_stop = Some(Duration::from_secs(600));
                options.call_timeout = None;
            });
            let guest = Guest::legacy(&house.gateway).await;
            guest.tools().await;
            let long = guest.begin(1, "a__wait", json!({ "text": "x", "ms": 900_000 }));
            sleep(Duration::from_secs(800)).await;
            assert_eq!((a.live(), b.live()), (1, 0), "{clients:?} modern {modern}: one is used, one is not");
            long.end().await;
            sleep(Duration::from_secs(590)).await;
            assert_eq!(a.live(), 1);
            sleep(Duration::from_secs(30)).await;
            assert_eq!(a.live(), 0, "{clients:?} modern {modern}: a list stream of ours keeps nobody awake");
            assert!(house.report("a").stopped);
            assert_eq!(guest.tools().await.len(), 18);
            assert_eq!(guest.methods(), [""; 0]);
            sleep(Duration::from_secs(3600)).await;
            assert_eq!((a.starts(), b.starts()), (1, 1), "nothing wakes it but a call");
            assert_eq!(guest.call("a__echo", "x").await, "a: x");
            assert_eq!((a.starts(), b.starts()), (2, 1));
            a.changes_tools(&["echo"]);
            refresh().await;
            assert_eq!(guest.tools().await.len(), 10, "its lists are heard of again");
            let report = house.report("a");
            assert!(!report.stopped);
            assert_eq!((report.restarts.get("planned"), report.restarts.len()), (Some(&1), 1));
            assert_eq!(report.budget_left, 5, "it costs nothing");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_somebody_listens_to_does_not_rest_and_its_list_stream_is_left_alone() {
    let (a, b) = (Fake::modern("a"), Fake::legacy("b"));
    let house = House::with(Many, &[&a, &b], |options| options.idle_stop = Some(Duration::from_secs(60)));
    let guest = Guest::modern(&house.gateway);
    guest.tools().await;
    let params = json!({ "notifications": { "resourceSubscriptions": ["a://listed"] } });
    let _open = guest.send(&json!(1), "subscriptions/listen", params);
    sleep(Duration::from_secs(600)).await;
    assert_eq!((a.live(), b.live()), (1, 0));
    assert!(a.count("subscriptions/listen") <= 3, "{}", a.count("subscriptions/listen"));
    a.updates("a://listed");
    settle().await;
    assert_eq!(guest.methods().last().map(String::as_str), Some("notifications/resources/updated"));
    guest.cancel(1);
    sleep(Duration::from_secs(120)).await;
    assert_eq!(a.live(), 0);
}
