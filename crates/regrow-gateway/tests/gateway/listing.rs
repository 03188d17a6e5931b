//! Lists: at once, whatever the servers do, and told anew when they change.

use std::time::Duration;

use regrow::core::Policy;
use regrow_gateway::Clients::{Many, One};
use regrow_gateway::catalog::Store;
use regrow_protocol::version::Era;
use serde_json::json;
use tokio::time::{Instant, sleep};

use crate::fake::Fake;
use crate::guest::*;
use crate::house::{House, LIST_WAIT};

const TOOLS_CHANGED: &str = "notifications/tools/list_changed";
const FRESHNESS: &str = "dev.regrow/freshness";

#[tokio::test(start_paused = true)]
async fn the_first_list_is_answered_at_once_from_a_warm_store_while_servers_are_down_hung_or_starting() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = || Some(Store::open(folder.path(), std::time::SystemTime::now()));
    let fakes = [Fake::legacy("down"), Fake::modern("hung"), Fake::legacy("slow")];
    let all: Vec<&Fake> = fakes.iter().collect();
    for clients in [Many, One] {
        for fake in &fakes {
            let mut world = fake.world();
            (world.is_broken, world.is_mute, world.start_takes) = (false, false, Duration::ZERO);
        }
        let kept = store();
        let house = House::kept(clients, &all, kept.clone(), |_| {});
        let guest = Guest::legacy(&house.gateway).await;
        assert_eq!(guest.tools().await.len(), 27);
        settle().await;
        kept.expect("it is one").settled().await;
        house.gateway.shutdown(regrow::core::Manner::Told, |_, _| {}).await;

        fakes[0].world().is_broken = true;
        fakes[1].world().is_mute = true;
        fakes[2].world().start_takes = Duration::from_secs(15);
        let house = House::kept(clients, &all, store(), |_| {});
        let guest = Guest::enter(
            &house.gateway,
            &regrow_gateway::admit::ServerScope::All,
            regrow_gateway::admit::Principal::default(),
            false,
        );
        let start = Instant::now();
        guest.greet().await;
        let (tools, answer) = guest.list("tools/list").await;
        assert_eq!((tools.len(), start.elapsed()), (27, Duration::ZERO), "{clients:?}");
        let freshness = &answer["result"]["_meta"][FRESHNESS];
        for name in ["down", "hung", "slow"] {
            assert!(freshness[name]["reason"].is_string(), "{freshness}");
        }
        assert_eq!(guest.call("slow__echo", "x").await, "slow: x");
        assert_eq!(guest.methods(), [""; 0], "the lists are what they were");
        house.gateway.shutdown(regrow::core::Manner::Told, |_, _| {}).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_first_list_waits_for_servers_never_seen_and_answers_as_soon_as_the_slowest_is_there() {
    for clients in [One, Many] {
        let (a, b) = (Fake::legacy("a"), Fake::modern("b"));
        a.world().start_takes = Duration::from_secs(1);
        b.world().start_takes = Duration::from_secs(3);
        let house = House::new(clients, &[&a, &b]);
        let start = Instant::now();
        let guest = Guest::legacy(&house.gateway).await;
        assert_eq!(guest.tools().await.len(), 18);
        let took = start.elapsed();
        assert!(
            took >= Duration::from_secs(3) && took < Duration::from_millis(3100),
            "{clients:?}: {took:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_first_list_waits_for_a_server_whose_era_is_found_by_trying() {
    for clients in [One, Many] {
        let (a, b) = (Fake::legacy("a"), Fake::modern("b"));
        a.world().start_takes = Duration::from_secs(1);
        let house = House::with(clients, &[&a, &b], |options| options.era = Era::Auto);
        let guest = Guest::legacy(&house.gateway).await;
        assert_eq!(guest.tools().await.len(), 18, "{clients:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_first_list_waits_for_all_hung_servers_together_and_not_longer_than_it_may() {
    for clients in [One, Many] {
        let fakes = [Fake::legacy("a"), Fake::legacy("b"), Fake::modern("c"), Fake::legacy("d")];
        fakes[..3].iter().for_each(|fake| fake.world().is_mute = true);
        let house = House::new(clients, &fakes.iter().collect::<Vec<_>>());
        let guest = Guest::legacy(&house.gateway).await;
        let start = Instant::now();
        assert_eq!(guest.tools().await.len(), 9);
        assert!(
            start.elapsed() <= LIST_WAIT + Duration::from_millis(10),
            "{clients:?}: {:?}",
            start.elapsed()
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_first_list_does_not_wait_for_servers_that_have_failed() {
    for clients in [One, Many] {
        let (a, b) = (Fake::legacy("a"), Fake::modern("b"));
        b.world().is_broken = true;
        let house = House::new(clients, &[&a, &b]);
        let guest = Guest::legacy(&house.gateway).await;
        let start = Instant::now();
        assert_eq!(guest.tools().await.len(), 9);
        assert!(start.elapsed() < Duration::from_secs(1), "{clients:?}: {:?}", start.elapsed());
    }
}

#[tokio::test(start_paused = true)]
async fn servers_that_come_later_appear_with_one_notice_of_each_list() {
    for clients in [One, Many] {
        let fakes = [Fake::legacy("a"), Fake::legacy("b"), Fake::modern("c")];
        fakes[1..].iter().for_each(|fake| fake.world().start_takes = Duration::from_secs(15));
        let house = House::new(clients, &fakes.iter().collect::<Vec<_>>());
        let legacy = Guest::legacy(&house.gateway).await;
        for method in ["tools/list", "resources/list", "resources/templates/list"] {
            assert_eq!(legacy.list(method).await.0.len(), if method == "tools/list" { 9 } else { 1 });
        }
        assert_eq!(legacy.methods(), [""; 0]);
        sleep(Duration::from_secs(20)).await;
        assert_eq!(legacy.methods(), [TOOLS_CHANGED, "notifications/resources/list_changed"], "{clients:?}");
        assert_eq!(legacy.tools().await.len(), 27);
        sleep(Duration::from_secs(60)).await;
        assert_eq!(legacy.methods(), [""; 0], "told once");
    }
}

#[tokio::test(start_paused = true)]
async fn many_servers_that_come_one_after_the_other_are_not_told_of_one_by_one() {
    for clients in [One, Many] {
        let fakes: Vec<Fake> = (0..40).map(|number| Fake::legacy(&format!("s{number}"))).collect();
        for (number, fake) in fakes[1..].iter().enumerate() {
            fake.world().start_takes = Duration::from_secs(15) + Duration::from_millis(150) * number as u32;
        }
        let house = House::new(clients, &fakes.iter().collect::<Vec<_>>());
        let guest = Guest::legacy(&house.gateway).await;
        assert_eq!(guest.tools().await.len(), 9);
        sleep(Duration::from_secs(30)).await;
        let told = guest.methods().len();
        assert!((1..=12).contains(&told), "{clients:?}: {told} times for 39 servers in 6 s");
        assert_eq!(guest.tools().await.len(), 360);
        // What comes after a quiet time is told at once.
        fakes[7].changes_tools(&["echo"]);
        refresh().await;
        assert_eq!(guest.methods(), [TOOLS_CHANGED], "{clients:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_change_is_told_once_and_what_did_not_change_is_not_told() {
    for (clients, modern) in [(One, false), (Many, false), (One, true), (Many, true)] {
        let (a, b) = (Fake::new("a", modern), Fake::legacy("b"));
        let house = House::new(clients, &[&a, &b]);
        let guest = Guest::legacy(&house.gateway).await;
        guest.tools().await;
        settle().await;
        a.says_changed("tools");
        sleep(Duration::from_secs(5)).await;
        assert_eq!(guest.methods(), [""; 0], "the list is the same");
        for _ in 0..100 {
            a.changes_tools(&["echo", "new"]);
        }
        sleep(Duration::from_secs(5)).await;
        assert_eq!(guest.methods(), [TOOLS_CHANGED], "{clients:?} modern {modern}");
        assert_eq!(guest.tools().await.len(), 11);
        assert!(a.count("tools/list") <= 4, "{}", a.count("tools/list"));
        // A restarted server that offers the same is nothing to tell.
        a.die();
        b.die();
        sleep(Duration::from_secs(10)).await;
        assert_eq!(guest.call("a__echo", "x").await, "a: x");
        assert_eq!(guest.methods(), [""; 0]);
        assert_eq!((a.starts(), b.starts()), (2, 2));
    }
}

#[tokio::test(start_paused = true)]
async fn an_old_list_is_kept_when_its_refresh_fails_and_its_age_is_told() {
    let (a, b) = (Fake::legacy("a"), Fake::legacy("b"));
    let house = House::new(Many, &[&a, &b]);
    let guest = Guest::legacy(&house.gateway).await;
    let (before, fresh) = guest.list("tools/list").await;
    assert!(fresh["result"]["_meta"].is_null(), "what is fresh needs no words: {fresh}");
    a.world().refuses_lists = true;
    a.changes_tools(&["other"]);
    sleep(Duration::from_secs(2)).await;
    let (after, stale) = guest.list("tools/list").await;
    assert_eq!(before, after);
    let freshness = &stale["result"]["_meta"][FRESHNESS];
    assert!(freshness["a"]["reason"].is_string() && freshness["b"].is_null(), "{freshness}");
    assert!(house.report("a").catalog["tools"].stale.is_some());
    assert_eq!(guest.call("a__echo", "x").await, "a: x");
    a.world().refuses_lists = false;
    a.says_changed("tools");
    sleep(Duration::from_secs(60)).await;
    assert_eq!(guest.tools().await.len(), 10);
    assert!(house.report("a").catalog["tools"].stale.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_down_keeps_its_list_and_the_list_says_so() {
    let (a, b) = (Fake::legacy("a"), Fake::legacy("b"));
    let house = House::new(Many, &[&a, &b]);
    let guest = Guest::legacy(&house.gateway).await;
    let before = guest.tools().await;
    a.world().is_broken = true;
    a.die();
    sleep(Duration::from_secs(5)).await;
    let start = Instant::now();
    let (after, answer) = guest.list("tools/list").await;
    assert_eq!((before, start.elapsed()), (after, Duration::ZERO));
    let reason = answer["result"]["_meta"][FRESHNESS]["a"]["reason"].as_str().unwrap_or_default().to_owned();
    assert!(!reason.is_empty(), "{answer}");
    assert_eq!(guest.methods(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_stream_is_told_of_a_change_that_another_request_of_the_same_client_has_seen_already() {
    let (a, b) = (Fake::legacy("a"), Fake::legacy("b"));
    let house = House::new(Many, &[&a, &b]);
    let guest = Guest::modern(&house.gateway);
    guest.tools().await;
    refresh().await;
    let params = json!({ "notifications": { "toolsListChanged": true } });
    let _open = guest.send(&json!(1), "subscriptions/listen", params);
    settle().await;
    assert_eq!(guest.methods(), ["notifications/subscriptions/acknowledged"]);
    a.changes_tools(&["echo"]);
    sleep(Duration::from_millis(120)).await; // The list is there, and nobody was told.
    assert_eq!(guest.methods(), [""; 0]);
    // It may be another program behind the same principal that asks.
    assert_eq!(guest.tools().await.len(), 10);
    settle().await;
    assert_eq!(guest.methods(), [TOOLS_CHANGED]);
    b.changes_tools(&["echo"]);
    refresh().await;
    assert_eq!(guest.methods(), [TOOLS_CHANGED]);
}

#[tokio::test(start_paused = true)]
async fn a_list_that_nobody_answers_does_not_keep_a_hung_server() {
    for fake in [Fake::legacy("a"), Fake::modern("a")] {
        let call_timeout = Duration::from_secs(3);
        let house = House::with(Many, &[&fake], |options| options.call_timeout = Some(call_timeout));
        let guest = Guest::legacy(&house.gateway).await;
        guest.tools().await;
        fake.world().is_mute = true;
        fake.says_changed("tools");
        refresh().await; // The list is asked for.
        guest.begin(1, "echo", json!({}));
        sleep(call_timeout + Policy::default().doubt_timeout + Duration::from_secs(1)).await;
        assert_eq!(house.report("a").epoch, 2, "{}", fake.is_modern());
    }
}
