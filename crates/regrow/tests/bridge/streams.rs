//! A modern client's subscription streams, on a legacy server that knows none.

use regrow::core::Fault;
use regrow_testkit::script::{Act, Plan, answer, refusal};
use regrow_testkit::server::Server;
use regrow_testkit::world::*;
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::client::*;

fn listen(id: impl Into<Value>, filter: Value) -> Value {
    modern(id, "subscriptions/listen", json!({ "notifications": filter }))
}

fn acknowledgement(id: Value, filter: Value) -> Value {
    json!({
        "jsonrpc": "2.0",
        "method": "notifications/subscriptions/acknowledged",
        "params": { "notifications": filter, "_meta": { SUBSCRIPTION: id } },
    })
}

fn updated(uri: &str) -> Value {
    json!({ "jsonrpc": "2.0", "method": "notifications/resources/updated", "params": { "uri": uri } })
}

fn uris(server: &Server, method: &str) -> Vec<Value> {
    server.heard_of(method).iter().map(|heard| heard.message["params"]["uri"].clone()).collect()
}

/// The stream that the next message belongs to, and what it tells.
async fn next(client: &mut Client) -> (Value, String) {
    let message = client.next().await;
    let method = message["method"].as_str().unwrap().trim_start_matches("notifications/").to_owned();
    (message["params"]["_meta"][SUBSCRIPTION].clone(), method)
}

#[tokio::test(start_paused = true)]
async fn lists_that_a_server_never_tells_of_are_told_of_after_a_restart() {
    let server = Server::new(|start| Plan {
        capabilities: json!({ "tools": {} }),
        tools: if start < 3 { vec!["add"] } else { vec!["add", "sub"] }, // The first is only asked for its era.
        ..Plan::default()
    });
    let mut client = Client::modern(&server).await;
    client.modern_call("tools/list", json!({})).await;
    let filter = json!({ "toolsListChanged": true, "promptsListChanged": true });
    client.send(listen("s", filter)).await;
    let honoured = json!({ "toolsListChanged": true });
    assert_eq!(client.next().await, acknowledgement(json!("s"), honoured), "it has no prompts");
    server.die(Fault::Killed { signal: 9 });
    assert_eq!(next(&mut client).await, (json!("s"), "tools/list_changed".into()));
    client.hears_nothing(secs(60)).await;
}

#[tokio::test(start_paused = true)]
async fn two_streams_with_the_ids_1_and_text_1_are_two() {
    let server = Server::always(legacy_server());
    let mut client = Client::modern(&server).await;
    let tools = json!({ "toolsListChanged": true });
    client.send(listen(1, tools.clone())).await;
    assert_eq!(client.next().await, acknowledgement(json!(1), tools.clone()));
    let both = json!({ "toolsListChanged": true, "promptsListChanged": true });
    client.send(listen("1", both.clone())).await;
    assert_eq!(
        client.next().await,
        acknowledgement(json!("1"), both),
        "what changes with a restart is told by us"
    );
    let changed = json!({ "jsonrpc": "2.0", "method": "notifications/tools/list_changed" });
    server.say(changed.clone());
    assert_eq!(next(&mut client).await, (json!(1), "tools/list_changed".into()));
    assert_eq!(next(&mut client).await, (json!("1"), "tools/list_changed".into()));
    client.cancel(json!(1)).await;
    settle().await;
    server.say(changed);
    assert_eq!(next(&mut client).await, (json!("1"), "tools/list_changed".into()));
    client.hears_nothing(secs(3600)).await;
    assert!(server.heard_of("subscriptions/listen").is_empty());
    assert!(server.heard_of("notifications/cancelled").is_empty());
}

#[tokio::test(start_paused = true)]
async fn resources_are_subscribed_to_once_and_unsubscribed_from_by_the_last() {
    let server = Server::always(legacy_server());
    let mut client = Client::modern(&server).await;
    client.send(listen("a", json!({ "resourceSubscriptions": ["u://1", "u://2"] }))).await;
    let expected = acknowledgement(json!("a"), json!({ "resourceSubscriptions": ["u://1", "u://2"] }));
    assert_eq!(client.next().await, expected);
    client.send(listen("b", json!({ "resourceSubscriptions": ["u://2", "u://3"] }))).await;
    client.next().await;
    assert_eq!(uris(&server, "resources/subscribe"), ["u://1", "u://2", "u://3"]);
    server.say(updated("u://2"));
    assert_eq!(next(&mut client).await.0, "a");
    assert_eq!(next(&mut client).await.0, "b");
    server.say(updated("u://3/part"));
    assert_eq!(next(&mut client).await.0, "b");
    server.say(updated("v://"));
    client.cancel(json!("a")).await;
    settle().await;
    assert_eq!(uris(&server, "resources/unsubscribe"), ["u://1"]);
    client.cancel(json!("b")).await;
    settle().await;
    assert_eq!(uris(&server, "resources/unsubscribe"), ["u://1", "u://2", "u://3"]);
    server.say(updated("u://2"));
    client.hears_nothing(secs(1)).await;
}

#[tokio::test(start_paused = true)]
async fn a_stream_is_acknowledged_when_the_server_has_confirmed_and_without_what_it_refused() {
    let server = Server::always(legacy_server().on("resources/subscribe", |message| {
        let id = &message["id"];
        match message["params"]["uri"] == "no://" {
            true => vec![Act::Say(refusal(id, -32002, "no such resource"))],
            false => vec![Act::Wait(secs(3)), Act::Say(answer(id, json!({})))],
        }
    }));
    let mut client = Client::modern(&server).await;
    client.send(listen("a", json!({ "resourceSubscriptions": ["no://", "u://"] }))).await;
    client.hears_nothing(secs(2)).await;
    let expected = acknowledgement(json!("a"), json!({ "resourceSubscriptions": ["u://"] }));
    assert_eq!(client.next().await, expected);
}

#[tokio::test(start_paused = true)]
async fn a_death_is_not_seen_and_all_is_told_to_the_next_server_once() {
    let server = Server::always(legacy_server());
    let mut client = Client::modern(&server).await;
    client.send(listen("a", json!({ "toolsListChanged": true, "resourceSubscriptions": ["u://"] }))).await;
    client.next().await;
    client.modern_call("tools/list", json!({})).await;
    server.die(Fault::Killed { signal: 9 });
    sleep(secs(5)).await;
    let told = server.told(server.starts().len());
    assert_eq!(told.iter().filter(|method| *method == "resources/subscribe").count(), 1, "{told:?}");
    client.hears_nothing(secs(1)).await;
    server.say(updated("u://"));
    assert_eq!(next(&mut client).await, (json!("a"), "resources/updated".into()));
}

#[tokio::test(start_paused = true)]
async fn changed_tools_after_a_death_are_told_on_the_streams_that_asked() {
    let server = Server::new(|start| match start {
        1 | 2 => legacy_server(), // The first is only asked for its era.
        _ => regrow_testkit::script::Plan { tools: vec!["other"], ..legacy_server() },
    });
    let mut client = Client::modern(&server).await;
    client.send(listen("a", json!({ "toolsListChanged": true }))).await;
    client.next().await;
    client.modern_call("tools/list", json!({})).await;
    server.die(Fault::Killed { signal: 9 });
    assert_eq!(next(&mut client).await, (json!("a"), "tools/list_changed".into()));
    client.hears_nothing(secs(10)).await;
}

#[tokio::test(start_paused = true)]
async fn nothing_is_told_to_a_client_that_listens_to_nothing() {
    let server = Server::always(legacy_server());
    let mut client = Client::modern(&server).await;
    server.say(json!({ "jsonrpc": "2.0", "method": "notifications/tools/list_changed" }));
    server.say(updated("u://"));
    client.hears_nothing(secs(1)).await;
}

#[tokio::test(start_paused = true)]
async fn streams_are_bounded() {
    let server = Server::always(legacy_server());
    let mut client = Client::modern(&server).await;
    for id in 0..256 {
        client.send(listen(id, json!({ "toolsListChanged": true }))).await;
        client.next().await;
    }
    let refused = client.ask(listen(256, json!({}))).await;
    assert_eq!((&refused["error"]["code"], &fault(&refused)["kind"]), (&json!(-31004), &json!("overloaded")));
}
