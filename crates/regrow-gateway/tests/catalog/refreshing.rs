//! When lists are fetched again; and that no refresh wakes a server, or loses what was known.

use std::sync::Arc;
use std::time::Duration;

use regrow::Era;
use regrow::core::Requester;
use regrow_gateway::catalog::CatalogRefresher;
use regrow_protocol::list::List;
use regrow_testkit::world::{secs, until};
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::fake::{Fake, Kept, connection};

fn strings(texts: &[&str]) -> Option<Vec<String>> {
    Some(texts.iter().map(|text| (*text).to_owned()).collect())
}

/// The server takes so long for its tools.
fn slow(fake: &Fake, tools: &'static [&str], millis: u64) {
    fake.answers("tools/list", move |_| {
        let tools: Vec<_> = tools.iter().map(|name| json!({ "name": name })).collect();
        Ok(json!({ "tools": tools, "pauseMs": millis }))
    });
}

#[tokio::test(start_paused = true)]
async fn a_hundred_changes_in_a_burst_cost_one_fetch() {
    let fake = Fake::new();
    let kept = Kept::ready(&fake, Era::Legacy).await;
    fake.offers(&["two"]);
    for _ in 0..100 {
        kept.keeper.changed(List::Tools);
    }
    sleep(secs(10)).await;
    assert_eq!(kept.keys(List::Tools), strings(&["two"]));
    assert_eq!(fake.count("tools/list"), 2);
}

#[tokio::test(start_paused = true)]
async fn a_hundred_changes_during_a_fetch_cost_one_more_and_the_last_list_counts() {
    let fake = Fake::new();
    let kept = Kept::ready(&fake, Era::Legacy).await;
    slow(&fake, &["two"], 2000);
    kept.keeper.changed(List::Tools);
    sleep(secs(1)).await; // It has answered with two, which is still on its way.
    fake.offers(&["three"]);
    for _ in 0..100 {
        kept.keeper.changed(List::Tools);
        sleep(Duration::from_millis(10)).await;
    }
    sleep(secs(10)).await;
    assert_eq!(kept.keys(List::Tools), strings(&["three"]));
    assert_eq!(fake.count("tools/list"), 3);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_cries_change_without_end_is_asked_once_a_second_at_most() {
    let fake = Fake::new();
    let kept = Kept::ready(&fake, Era::Legacy).await;
    for _ in 0..1000 {
        kept.keeper.changed(List::Tools);
        sleep(Duration::from_millis(10)).await;
    }
    assert!((5..=12).contains(&fake.count("tools/list")), "{}", fake.count("tools/list"));
}

#[tokio::test(start_paused = true)]
async fn a_failed_refresh_keeps_the_old_list_says_why_and_is_made_up_for() {
    let fake = Fake::new();
    let kept = Kept::ready(&fake, Era::Legacy).await;
    fake.answers("tools/list", |_| Err(-32603));
    kept.keeper.changed(List::Tools);
    sleep(secs(2)).await;
    assert_eq!(kept.keys(List::Tools), strings(&["one"]));
    let problem = "the server responded to tools/list with error -32603";
    assert_eq!(kept.now().stale(List::Tools), Some(problem), "without the server's words");
    fake.offers(&["two"]);
    sleep(secs(61)).await;
    assert_eq!((kept.keys(List::Tools), kept.now().stale(List::Tools)), (strings(&["two"]), None));
    assert_eq!(fake.count("tools/list"), 3);
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_is_no_list_is_a_failure() {
    for answer in [json!({}), json!({ "tools": {} }), json!([]), json!({ "tools": 1, "nextCursor": 2 })] {
        let fake = Fake::new();
        let kept = Kept::ready(&fake, Era::Legacy).await;
        let said = answer.clone();
        fake.answers("tools/list", move |_| Ok(said.clone()));
        kept.keeper.changed(List::Tools);
        sleep(secs(2)).await;
        assert_eq!(kept.keys(List::Tools), strings(&["one"]), "{answer}");
        assert!(kept.now().stale(List::Tools).unwrap().contains("not a list"), "{answer}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_list_that_runs_out_is_looked_at_again_but_never_too_often() {
    let fetched_in_an_hour = async |ttl: u64| {
        let fake = Fake::new();
        fake.answers("tools/list", move |_| Ok(json!({ "tools": [], "ttlMs": ttl })));
        let _kept = Kept::ready(&fake, Era::Modern).await;
        sleep(secs(3600)).await;
        fake.count("tools/list")
    };
    assert_eq!(fetched_in_an_hour(600_000).await, 7);
    assert_eq!(fetched_in_an_hour(1).await, 721, "every 5 s at most");
    assert_eq!(fetched_in_an_hour(0).await, 61, "what never holds is looked at every minute");
}

#[tokio::test(start_paused = true)]
async fn looking_again_wakes_observers_only_where_something_changed() {
    let fake = Fake::new();
    fake.answers("tools/list", |_| Ok(json!({ "tools": [], "ttlMs": 10_000 })));
    let kept = Kept::ready(&fake, Era::Modern).await;
    let mut seen = kept.catalog.subscribe();
    let before = kept.now();
    sleep(secs(60)).await;
    assert!(!seen.has_changed().unwrap());
    assert!(!Arc::ptr_eq(&before, &kept.now()), "when it was fetched is told all the same");
    fake.offers(&["one"]);
    seen.changed().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_keeper_never_starts_a_server() {
    let fake = Fake::new();
    let kept = Kept::new(&fake, Era::Legacy);
    kept.keeper.changed(List::Tools);
    sleep(secs(3600)).await;
    assert_eq!(fake.starts(), 0);
    kept.start().await;
    assert_eq!(kept.keys(List::Tools), strings(&["one"]));
}

#[tokio::test(start_paused = true)]
async fn a_list_that_runs_out_after_the_connection_was_closed_wakes_nobody() {
    let fake = Fake::new();
    fake.answers("tools/list", |_| Ok(json!({ "tools": [{ "name": "one" }], "ttlMs": 10_000 })));
    let kept = Kept::ready(&fake, Era::Modern).await;
    kept.connection.close().await;
    kept.keeper.changed(List::Tools);
    sleep(secs(3600)).await;
    assert_eq!((fake.starts(), fake.count("tools/list")), (1, 1));
    assert_eq!(kept.keys(List::Tools), strings(&["one"]), "what was known stays");
}

#[tokio::test(start_paused = true)]
async fn a_plain_restart_of_a_legacy_server_needs_no_fetch_of_ours() {
    let fake = Fake::new();
    let kept = Kept::ready(&fake, Era::Legacy).await;
    kept.connection.reconnect(Requester::Person);
    until(&kept.connection, |status| status.sessions == 2).await;
    sleep(secs(60)).await;
    // The connection itself compares.
    assert_eq!(fake.count("tools/list"), 2);
    assert_eq!(kept.keys(List::Tools), strings(&["one"]));
}

#[tokio::test(start_paused = true)]
async fn a_restarted_modern_server_is_asked_again() {
    let fake = Fake::new();
    let kept = Kept::ready(&fake, Era::Modern).await;
    fake.offers(&["two"]);
    kept.connection.reconnect(Requester::Person);
    until(&kept.connection, |status| status.sessions == 2).await;
    sleep(secs(10)).await;
    assert_eq!(kept.keys(List::Tools), strings(&["two"]));
}

#[tokio::test(start_paused = true)]
async fn a_list_that_was_being_fetched_when_the_server_died_is_fetched_anew() {
    let fake = Fake::new();
    fake.answers("tools/list", |_| Ok(Value::Null));
    let kept = Kept::ready(&fake, Era::Legacy).await;
    assert_eq!(fake.count("tools/list"), 1);
    fake.offers(&["two"]);
    fake.die();
    until(&kept.connection, |status| status.sessions == 2).await;
    sleep(secs(5)).await;
    assert_eq!(kept.keys(List::Tools), strings(&["two"]));
    // The connection repeats the question, which is harmless, and we do: pages of two sessions make no list.
    assert_eq!((fake.count("tools/list"), fake.starts()), (3, 2));
}

#[tokio::test(start_paused = true)]
async fn a_dead_server_is_tried_no_more_often_for_lists_that_run_out_and_changes_that_were_told() {
    let starts = async |is_kept: bool| {
        let fake = Fake::new();
        fake.answers("tools/list", |_| Ok(json!({ "tools": [], "ttlMs": 10_000 })));
        let Kept { connection: _connection, keeper, .. } = Kept::ready(&fake, Era::Modern).await;
        let keeper = is_kept.then_some(keeper);
        fake.world().is_broken = true;
        fake.die();
        sleep(secs(3600)).await;
        keeper.iter().for_each(|keeper| keeper.changed(List::Tools));
        sleep(secs(3600)).await;
        fake.starts()
    };
    let alone = starts(false).await;
    assert!(alone > 5, "{alone}");
    assert_eq!(starts(true).await, alone);
}

#[tokio::test(start_paused = true)]
async fn the_next_keeper_confirms_what_the_last_one_knew() {
    let fake = Fake::new();
    let Kept { connection: first, catalog, keeper } = Kept::ready(&fake, Era::Legacy).await;
    drop(keeper);
    first.close().await;
    fake.offers(&["two"]);
    let second = connection(&fake, Era::Legacy);
    let kept = Kept {
        keeper: CatalogRefresher::start(
            second.clone(),
            catalog.clone(),
            std::sync::Arc::new(regrow_gateway::catalog::Pinning::off()),
        ),
        connection: second,
        catalog,
    };
    assert_eq!(kept.keys(List::Tools), strings(&["one"]), "known at once");
    kept.start().await;
    assert_eq!(kept.keys(List::Tools), strings(&["two"]));
}

#[tokio::test(start_paused = true)]
async fn a_list_that_the_server_no_longer_has_goes() {
    let fake = Fake::new();
    let Kept { connection: first, catalog, keeper } = Kept::ready(&fake, Era::Legacy).await;
    drop(keeper);
    first.close().await;
    fake.world().capabilities = json!({});
    let second = connection(&fake, Era::Legacy);
    let kept = Kept {
        keeper: CatalogRefresher::start(
            second.clone(),
            catalog.clone(),
            std::sync::Arc::new(regrow_gateway::catalog::Pinning::off()),
        ),
        connection: second,
        catalog,
    };
    kept.start().await;
    assert_eq!((kept.keys(List::Tools), fake.count("tools/list")), (None, 1));
}

#[tokio::test(start_paused = true)]
async fn a_dropped_keeper_cancels_what_it_asked_and_lets_the_connection_go() {
    let fake = Fake::new();
    fake.answers("tools/list", |_| Ok(Value::Null));
    let Kept { connection, keeper, .. } = Kept::ready(&fake, Era::Legacy).await;
    drop(keeper);
    sleep(secs(1)).await;
    assert_eq!(fake.count("notifications/cancelled"), 1);
    let status = connection.status();
    drop(connection);
    sleep(secs(60)).await;
    assert!(status.borrow().is_closed());
    assert_eq!(fake.count("tools/list"), 1);
}
