//! When the connection is over, nobody is left waiting.

use regrow::core::Fault;
use regrow_testkit::script::{Act, Plan, answer};
use regrow_testkit::server::Server;
use regrow_testkit::world::*;
use serde_json::json;
use tokio::time::sleep;

use crate::client::*;

#[tokio::test(start_paused = true)]
async fn a_close_ends_streams_of_a_modern_client() {
    let server = Server::always(legacy_server());
    let mut client = Client::modern(&server).await;
    client
        .send(modern("s", "subscriptions/listen", json!({ "notifications": { "toolsListChanged": true } })))
        .await;
    client.next().await;
    client.connection.close().await;
    let end = client.next().await;
    assert_eq!((&end["id"], &fault(&end)["kind"]), (&json!("s"), &json!("closed")));
    let late = client.modern_call("tools/list", json!({})).await;
    assert_eq!(fault(&late)["kind"], "closed");
}

#[tokio::test(start_paused = true)]
async fn a_close_ends_questions_and_subscriptions_of_a_legacy_client() {
    let server =
        Server::always(modern_server().on("subscriptions/listen", |_| vec![]).on("tools/call", |message| {
            let inputs = json!({ "r": { "method": "roots/list" } });
            vec![Act::Say(answer(
                &message["id"],
                json!({ "resultType": "input_required", "inputRequests": inputs }),
            ))]
        }));
    let mut client = Client::legacy(&server).await;
    client.send(json!({ "id": 1, "method": "tools/call", "params": { "name": "work" } })).await;
    let question = client.next().await;
    client.send(json!({ "id": 2, "method": "resources/subscribe", "params": { "uri": "u://" } })).await;
    settle().await;
    client.connection.close().await;
    let mut ends = vec![];
    for _ in 0..3 {
        let message = client.next().await;
        match message["method"] == "notifications/cancelled" {
            true => assert_eq!(message["params"]["requestId"], question["id"]),
            false => ends.push((message["id"].clone(), fault(&message)["kind"].clone())),
        }
    }
    ends.sort_by_key(|(id, _)| id.as_u64());
    assert_eq!(ends, [(json!(1), json!("closed")), (json!(2), json!("closed"))]);
    client.hears_nothing(secs(7200)).await;
}

#[tokio::test(start_paused = true)]
async fn a_close_while_the_era_is_being_found_ends_all_that_waits() {
    let server = Server::always(Plan { start_delay: secs(30), ..legacy_server() });
    let mut client = Client::of(&server);
    client.send(modern(1, "tools/list", json!({}))).await;
    client.send(modern(2, "server/discover", json!({}))).await;
    settle().await;
    client.connection.close().await;
    for id in [1, 2] {
        let end = client.next().await;
        assert_eq!((&end["id"], &fault(&end)["kind"]), (&json!(id), &json!("closed")));
        assert_eq!(fault(&end)["delivery"], "not-sent");
    }
}

#[tokio::test(start_paused = true)]
async fn a_read_that_is_sent_again_after_a_death_asks_again_and_old_answers_go_nowhere() {
    let server = Server::always(legacy_server().on("resources/read", |_| {
        vec![Act::Say(json!({ "jsonrpc": "2.0", "id": "r", "method": "roots/list" }))]
    }));
    let mut client = Client::modern(&server).await;
    let required = client.modern_call("resources/read", json!({ "uri": "u://" })).await["result"].clone();
    server.die(Fault::Killed { signal: 9 });
    sleep(secs(5)).await;
    let answered = |required: &serde_json::Value| {
        let keys = required["inputRequests"].as_object().unwrap().keys();
        let answers: serde_json::Map<_, _> = keys.map(|key| (key.clone(), json!({ "roots": [] }))).collect();
        json!({ "uri": "u://", "requestState": required["requestState"], "inputResponses": answers })
    };
    let again = client.modern_call("resources/read", answered(&required)).await["result"].clone();
    assert_eq!(again["resultType"], "input_required", "the next server asks for itself");
    assert_ne!(again["inputRequests"], required["inputRequests"], "under another key");
    client.send(modern(9, "resources/read", answered(&again))).await;
    settle().await;
    let answers: Vec<_> =
        server.heard().into_iter().filter(|heard| heard.message["method"].is_null()).collect();
    assert_eq!(answers.len(), 1);
    assert_eq!((answers[0].start, &answers[0].message["id"]), (server.starts().len(), &json!("r")));
    server.say(answer(&server.heard_of("resources/read")[1].message["id"], json!({ "contents": [] })));
    let end = client.next().await;
    assert_eq!(end["result"]["contents"], json!([]), "{end}");
}
