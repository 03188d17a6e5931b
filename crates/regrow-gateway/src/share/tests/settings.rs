//! What the session has only once: its log level, and its subscriptions.

use std::time::Duration;

use regrow::{Era, ErrorKind};
use regrow_testkit::script::{answer, refusal};
use regrow_testkit::server::Server;
use serde_json::{Value, json};

use super::client::*;
use super::server::{killed, legacy, server};

fn level(client: &TestClient, id: &str, level: &str) {
    client.ask(id, "logging/setLevel", &json!({ "level": level }));
}

fn subscribe(client: &TestClient, id: &str, uri: &str) {
    client.ask(id, "resources/subscribe", &json!({ "uri": uri }));
}

fn unsubscribe(client: &TestClient, id: &str, uri: &str) {
    client.ask(id, "resources/unsubscribe", &json!({ "uri": uri }));
}

fn updated(uri: &str) -> Value {
    json!({ "jsonrpc": "2.0", "method": "notifications/resources/updated", "params": { "uri": uri } })
}

fn ids(heard: &[Value]) -> Vec<Value> {
    assert!(heard.iter().all(|answer| answer["result"] == json!({})), "{heard:?}");
    heard.iter().map(|answer| answer["id"].clone()).collect()
}

/// A server that takes a second for what is settled for all, and refuses what is called bad.
fn slow() -> Server {
    server(false, |message| {
        let method = message["method"].as_str()?;
        let is_setting = method.starts_with("resources/") || method.starts_with("logging/");
        let id = &message["id"];
        let said = match message["params"]["uri"] == "bad" {
            true => refusal(id, -32002, "no such thing"),
            false => answer(id, json!({})),
        };
        is_setting.then(|| vec![(Duration::from_secs(1), said)])
    })
}

#[tokio::test(start_paused = true)]
async fn the_level_is_the_most_verbose_that_a_present_client_wants_and_each_is_answered() {
    let server = legacy();
    let (session, keeper) = shared(&server, Era::Legacy);
    let [one, two] = [TestClient::of(&session), TestClient::of(&session)];
    let told = || -> Vec<_> {
        server.heard_of("logging/setLevel").iter().map(|told| told["params"]["level"].clone()).collect()
    };
    level(&one, "1", "warning");
    settle().await;
    level(&two, "1", "error");
    level(&two, "2", "debug");
    settle().await;
    level(&one, "2", "info");
    level(&one, "3", "loud");
    settle().await;
    assert_eq!(told(), ["warning", "debug"]);
    assert_eq!(ids(&two.heard()), [1, 2]);
    let heard = one.heard();
    assert_eq!(ids(&heard[..2]), [1, 2]);
    assert_eq!((&heard[2]["id"], &heard[2]["error"]["code"]), (&json!(3), &json!(-32602)));

    let log = json!({ "jsonrpc": "2.0", "method": "notifications/message", "params": { "level": "debug", "data": 1 } });
    server.say(log.clone());
    settle().await;
    assert!(one.heard().is_empty() && two.heard().is_empty());
    assert_eq!(*keeper.logs.lock().unwrap(), [log]);

    drop(two);
    settle().await;
    assert_eq!(told(), ["warning", "debug", "info"]);
    server.die(killed());
    come_back().await;
    assert_eq!(told(), ["warning", "debug", "info", "info"], "the next session is told");
}

#[tokio::test(start_paused = true)]
async fn the_first_subscribes_the_last_unsubscribes_and_updates_go_to_subscribers() {
    let server = slow();
    let (session, _) = shared(&server, Era::Legacy);
    let [one, two, three] = [TestClient::of(&session), TestClient::of(&session), TestClient::of(&session)];
    subscribe(&one, "1", "a://x");
    settle().await;
    subscribe(&two, "1", "a://x");
    settle().await;
    assert!(one.heard().is_empty() && two.heard().is_empty(), "the server has not confirmed it");
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!((ids(&one.heard()), ids(&two.heard())), (vec![json!(1)], vec![json!(1)]));
    subscribe(&two, "2", "a://x/part");
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(ids(&two.heard()), [2]);
    assert_eq!(server.heard_of("resources/subscribe").len(), 2);

    server.say(updated("a://x/part/1"));
    server.say(updated("b://x"));
    settle().await;
    assert_eq!((one.heard(), two.heard()), (vec![updated("a://x/part/1")], vec![updated("a://x/part/1")]));
    unsubscribe(&one, "2", "a://x");
    assert_eq!(ids(&one.heard()), [2], "the other still wants it");
    server.say(updated("a://x"));
    settle().await;
    assert_eq!((one.heard().len(), two.heard().len()), (0, 1));
    drop(two);
    tokio::time::sleep(Duration::from_secs(2)).await;
    let unsubscribed = server.heard_of("resources/unsubscribe");
    let uris: Vec<_> = unsubscribed.iter().map(|told| told["params"]["uri"].clone()).collect();
    assert_eq!(uris, ["a://x", "a://x/part"]);
    assert!(three.heard().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_subscription_that_fails_fails_for_all_who_wait_for_it() {
    let server = slow();
    let (session, _) = shared(&server, Era::Legacy);
    let [one, two] = [TestClient::of(&session), TestClient::of(&session)];
    subscribe(&one, "1", "bad");
    subscribe(&two, "1", "bad");
    subscribe(&two, "2", "good");
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(one.heard()[0]["error"]["code"], -32002);
    let heard = two.heard();
    assert_eq!(
        (heard.len(), &heard[0]["error"]["code"], &heard[1]["result"]),
        (2, &json!(-32002), &json!({}))
    );
    one.ask("2", "resources/subscribe", &json!({}));
    assert_eq!(one.heard()[0]["error"]["code"], -32602);
    session.connection().close().await;
    subscribe(&one, "3", "late");
    level(&one, "4", "debug");
    let failed = one.told.failed.lock().unwrap();
    assert!(failed.len() == 2 && failed.iter().all(|(_, error)| error.kind == ErrorKind::Closed));
}

#[tokio::test(start_paused = true)]
async fn who_cancels_a_subscription_that_it_waits_for_does_not_have_it() {
    let server = slow();
    let (session, _) = shared(&server, Era::Legacy);
    let [one, two] = [TestClient::of(&session), TestClient::of(&session)];
    subscribe(&one, "1", "a");
    subscribe(&two, "1", "a");
    subscribe(&one, "2", "b");
    settle().await;
    assert!(one.cancel("1") && one.cancel("2") && !one.cancel("1"));
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert!(one.heard().is_empty(), "a cancelled request gets no answer");
    assert_eq!(ids(&two.heard()), [1]);
    server.say(updated("a"));
    settle().await;
    assert_eq!((one.heard().len(), two.heard().len()), (0, 1));
    let unsubscribed = server.heard_of("resources/unsubscribe");
    assert_eq!((unsubscribed.len(), &unsubscribed[0]["params"]["uri"]), (1, &json!("b")));
}

#[tokio::test(start_paused = true)]
async fn after_a_restart_what_is_still_wanted_is_subscribed_once() {
    let server = legacy();
    let (session, _) = shared(&server, Era::Legacy);
    let [one, two] = [TestClient::of(&session), TestClient::of(&session)];
    for client in [&one, &two] {
        subscribe(client, "1", "a");
        subscribe(client, "2", "b");
    }
    settle().await;
    unsubscribe(&one, "3", "b");
    unsubscribe(&two, "3", "b");
    settle().await;
    server.die(killed());
    come_back().await;
    let mut subscribed = server.heard_of("resources/subscribe");
    subscribed.retain(|heard| heard.start == 2);
    assert_eq!((subscribed.len(), &subscribed[0]["params"]["uri"]), (1, &json!("a")));
    server.say(updated("a"));
    settle().await;
    assert_eq!(two.heard().last(), Some(&updated("a")));
}

#[tokio::test(start_paused = true)]
async fn changes_of_lists_are_told_to_the_keeper_of_the_catalog() {
    let server = legacy();
    let (session, keeper) = shared(&server, Era::Legacy);
    let client = TestClient::of(&session);
    client.call("1", &json!({}));
    settle().await;
    client.lines();
    server.say(json!({ "jsonrpc": "2.0", "method": "notifications/tools/list_changed" }));
    settle().await;
    assert_eq!(*keeper.lists.lock().unwrap(), ["notifications/tools/list_changed"]);
    assert!(client.heard().is_empty());
}
