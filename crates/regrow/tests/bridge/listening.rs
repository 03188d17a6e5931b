//! A legacy client's subscriptions, on one stream of a modern server.

use regrow::core::Fault;
use regrow_testkit::script::{Act, Plan, answer, refusal};
use regrow_testkit::server::Server;
use regrow_testkit::world::*;
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::client::*;

fn filters(server: &Server) -> Vec<Value> {
    let listens = server.heard_of("subscriptions/listen");
    listens.iter().map(|heard| heard.message["params"]["notifications"].clone()).collect()
}

fn newest(server: &Server) -> Value {
    server.heard_of("subscriptions/listen").pop().unwrap().message["id"].clone()
}

fn event(stream: &Value, method: &str, mut params: Value) -> Value {
    params["_meta"][SUBSCRIPTION] = stream.clone();
    json!({ "jsonrpc": "2.0", "method": method, "params": params })
}

fn updated(stream: &Value, uri: &str) -> Value {
    event(stream, "notifications/resources/updated", json!({ "uri": uri }))
}

async fn subscribe(client: &mut Client, uri: &str) -> Value {
    client.call("resources/subscribe", json!({ "uri": uri })).await
}

#[tokio::test(start_paused = true)]
async fn lists_that_a_server_tells_of_are_listened_to_from_the_start() {
    let server = Server::always(modern_server());
    let mut client = Client::legacy(&server).await;
    assert_eq!(filters(&server), [json!({ "toolsListChanged": true })]);
    server.say(event(&newest(&server), "notifications/tools/list_changed", json!({})));
    assert_eq!(client.line().await, r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#);
}

#[tokio::test(start_paused = true)]
async fn a_changed_set_opens_the_new_stream_before_it_ends_the_old_one() {
    let server = Server::always(modern_server());
    let mut client = Client::legacy(&server).await;
    let first = newest(&server);
    assert_eq!(subscribe(&mut client, "a://1").await["result"], json!({}));
    let second = newest(&server);
    let told = server.told(server.starts().len());
    let end = told.len() - 2;
    assert_eq!(told[end..], ["subscriptions/listen", "notifications/cancelled"]);
    assert_eq!(server.heard().pop().unwrap().message["params"]["requestId"], first);
    assert_eq!(filters(&server)[1], json!({ "toolsListChanged": true, "resourceSubscriptions": ["a://1"] }));

    server.say(updated(&first, "a://1"));
    server.say(updated(&second, "a://1"));
    assert_eq!(client.next().await["params"], json!({ "uri": "a://1" }));
    client.hears_nothing(secs(1)).await;

    assert_eq!(client.call("resources/unsubscribe", json!({ "uri": "a://1" })).await["result"], json!({}));
    settle().await;
    assert_eq!(filters(&server)[2], json!({ "toolsListChanged": true }));
}

#[tokio::test(start_paused = true)]
async fn many_subscriptions_at_once_make_two_streams_and_not_many() {
    let slow = |message: &Value| vec![Act::Wait(secs(1)), Act::Say(acknowledged(message))];
    let server = Server::always(modern_server().on("subscriptions/listen", slow));
    let mut client = Client::legacy(&server).await;
    sleep(secs(2)).await;
    for id in 0..50 {
        let params = json!({ "uri": format!("a://{id:02}") });
        client.send(json!({ "id": id, "method": "resources/subscribe", "params": params })).await;
    }
    for id in 0..50 {
        assert_eq!(client.next().await["id"], id);
    }
    let filters = filters(&server);
    assert_eq!(filters.len(), 3);
    assert_eq!(filters[2]["resourceSubscriptions"].as_array().unwrap().len(), 50);
    // Again, and nothing new is asked for.
    assert_eq!(subscribe(&mut client, "a://07").await["result"], json!({}));
    assert_eq!(server.heard_of("subscriptions/listen").len(), 3);
}

#[tokio::test(start_paused = true)]
async fn what_a_server_does_not_honour_is_refused_and_not_asked_for_again() {
    let server = Server::always(modern_server().on("subscriptions/listen", |message| {
        let mut listen = message.clone();
        if let Some(uris) = listen["params"]["notifications"]["resourceSubscriptions"].as_array_mut() {
            uris.retain(|uri| uri != "b://");
        }
        vec![Act::Say(acknowledged(&listen))]
    }));
    let mut client = Client::legacy(&server).await;
    let refused = subscribe(&mut client, "b://").await;
    assert_eq!(
        (&refused["error"]["code"], &fault(&refused)["gap"]),
        (&json!(-31009), &json!("subscription"))
    );
    settle().await;
    assert_eq!(filters(&server).len(), 2);
    assert_eq!(subscribe(&mut client, "a://").await["result"], json!({}));
    assert_eq!(filters(&server)[2]["resourceSubscriptions"], json!(["a://"]));
}

#[tokio::test(start_paused = true)]
async fn a_server_without_streams_says_so_itself() {
    let server = Server::always(modern_server().on("subscriptions/listen", |message| {
        vec![Act::Say(refusal(&message["id"], -32601, "Method not found"))]
    }));
    let mut client = Client::legacy(&server).await;
    assert_eq!(subscribe(&mut client, "a://").await["error"]["code"], -32601);
    sleep(secs(60)).await;
    assert_eq!(filters(&server).len(), 2, "nobody asks on and on");
}

#[tokio::test(start_paused = true)]
async fn a_stream_is_restored_once_after_a_death_and_the_client_sees_nothing_of_it() {
    let server = Server::always(modern_server());
    let mut client = Client::legacy(&server).await;
    subscribe(&mut client, "a://1").await;
    client.call("tools/list", json!({})).await;
    server.die(Fault::Killed { signal: 9 });
    sleep(secs(5)).await;
    let again: Vec<_> = server
        .heard_of("subscriptions/listen")
        .into_iter()
        .filter(|heard| heard.start == server.starts().len())
        .collect();
    assert_eq!(again.len(), 1);
    client.hears_nothing(secs(1)).await;
    server.say(updated(&newest(&server), "a://1"));
    assert_eq!(client.next().await["params"], json!({ "uri": "a://1" }));
    // And the next change finds the stream that is open now.
    assert_eq!(subscribe(&mut client, "a://2").await["result"], json!({}));
    server.say(updated(&newest(&server), "a://2"));
    assert_eq!(client.next().await["params"], json!({ "uri": "a://2" }));
}

#[tokio::test(start_paused = true)]
async fn changed_tools_after_a_death_are_told_once() {
    let server = Server::new(|start| match start {
        1 | 2 => modern_server(), // The first is only greeted in the other era.
        _ => Plan { tools: vec!["other"], ..modern_server() },
    });
    let mut client = Client::legacy(&server).await;
    client.call("tools/list", json!({})).await;
    server.die(Fault::Killed { signal: 9 });
    assert_eq!(client.line().await, r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#);
    client.hears_nothing(secs(10)).await;
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_the_server_ends_is_opened_again_after_a_while() {
    let server = Server::always(modern_server());
    let mut client = Client::legacy(&server).await;
    server.say(answer(&newest(&server), json!({ "resultType": "complete" })));
    settle().await;
    assert_eq!(filters(&server).len(), 1);
    sleep(secs(6)).await;
    assert_eq!(filters(&server).len(), 2);
    client.hears_nothing(secs(1)).await;
}

#[tokio::test(start_paused = true)]
async fn a_subscription_that_is_never_acknowledged_ends_in_time_or_is_cancelled() {
    let server = Server::always(modern_server().on("subscriptions/listen", |_| vec![]));
    let mut client = Client::legacy(&server).await;
    // The first stream is not acknowledged either, so this waits for its turn.
    client.send(json!({ "id": 1, "method": "resources/subscribe", "params": { "uri": "a://" } })).await;
    client.send(json!({ "id": 2, "method": "resources/subscribe", "params": { "uri": "b://" } })).await;
    client.cancel(json!(2)).await;
    let late = client.next().await;
    assert_eq!((&late["id"], &fault(&late)["kind"]), (&json!(1), &json!("timeout")));
    client.hears_nothing(secs(100)).await;
}

#[tokio::test(start_paused = true)]
async fn a_stream_is_opened_again_when_a_server_that_could_not_be_started_can() {
    let server = Server::new(|start| match start {
        3 | 4 => Plan { cannot_start: Some(Fault::NotFound { program: "x".into() }), ..modern_server() },
        _ => modern_server(),
    });
    let mut client = Client::legacy(&server).await;
    server.die(Fault::Killed { signal: 9 });
    sleep(secs(60)).await;
    assert_eq!(server.starts().len(), 3, "a stream wakes nobody");
    assert_eq!(fault(&client.call("tools/list", json!({})).await)["kind"], "unavailable");
    sleep(secs(60)).await;
    client.call("tools/list", json!({})).await;
    settle().await;
    assert_eq!(server.told(5), ["server/discover", "subscriptions/listen", "tools/list"]);
    server.say(event(&newest(&server), "notifications/tools/list_changed", json!({})));
    assert_eq!(client.next().await["method"], "notifications/tools/list_changed");
}
