//! A legacy client on a modern server: every request in its envelope, and what the modern era lacks.

use regrow_testkit::script::{Act, answer};
use regrow_testkit::server::Server;
use regrow_testkit::world::*;
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::client::*;

#[tokio::test(start_paused = true)]
async fn requests_get_the_envelope_and_keep_what_they_carry() {
    let server = Server::always(modern_server());
    let mut client = Client::legacy(&server).await;
    let params =
        json!({ "name": "work", "arguments": { "say": "hi" }, "_meta": { "progressToken": "p", "x": 1 } });
    let answer = client.call("tools/call", params).await;
    assert_eq!(answer["result"]["got"], "hi");
    let heard = server.heard_of("tools/call")[0].message["params"].clone();
    assert_eq!(heard["arguments"]["say"], "hi");
    let expected = json!({
        "progressToken": server.heard_of("tools/call")[0].message["id"],
        "x": 1,
        VERSION: "2026-07-28",
        CAPABILITIES: can(),
        INFO: { "name": "old", "version": "1" },
    });
    assert_eq!(heard["_meta"], expected);
    client.call("tools/list", json!({})).await;
    client.ask(json!({ "id": "bare", "method": "prompts/list" })).await;
    for heard in server.heard().iter().filter(|heard| heard.start == 2) {
        assert_eq!(heard.message["params"]["_meta"][VERSION], "2026-07-28", "{heard:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn values_are_not_rewritten() {
    let server = Server::always(modern_server());
    let mut client = Client::legacy(&server).await;
    client
        .write(r#"{"id":1,"method":"tools/call","params":{"name":"work","arguments":{"n":1.50,"big":12345678901234567890123}}}"#)
        .await;
    client.next().await;
    assert!(
        server.raw_of("tools/call")[0].contains(r#""arguments":{"n":1.50,"big":12345678901234567890123}"#)
    );
}

#[tokio::test(start_paused = true)]
async fn ping_and_the_log_level_never_reach_the_server_but_the_level_does() {
    let server = Server::always(modern_server());
    let mut client = Client::legacy(&server).await;
    assert_eq!(client.call("ping", json!({})).await["result"], json!({}));
    assert_eq!(client.call("logging/setLevel", json!({ "level": "debug" })).await["result"], json!({}));
    assert_eq!(client.call("logging/setLevel", json!({ "level": "loud" })).await["error"]["code"], -32602);
    client.call("tools/list", json!({})).await;
    assert!(server.heard_of("ping").is_empty() && server.heard_of("logging/setLevel").is_empty());
    let meta = &server.heard_of("tools/list")[0].message["params"]["_meta"];
    assert_eq!(meta["io.modelcontextprotocol/logLevel"], "debug");
    server.say(json!({ "jsonrpc": "2.0", "method": "notifications/message", "params": { "level": "debug", "data": 1 } }));
    assert_eq!(client.next().await["params"]["data"], 1);
}

#[tokio::test(start_paused = true)]
async fn tasks_are_refused_with_what_to_do_instead() {
    let server = Server::always(modern_server());
    let mut client = Client::legacy(&server).await;
    let answer = client.call("tasks/get", json!({ "taskId": "t" })).await;
    assert_eq!(answer["error"]["code"], -31009);
    assert_eq!(fault(&answer)["gap"], "tasks");
    assert!(answer["error"]["message"].as_str().unwrap().contains("call without a task"), "{answer}");
    let answer = client.call("tools/call", json!({ "name": "work", "task": {} })).await;
    assert_eq!(answer["error"]["code"], -31009);
    assert!(server.heard_of("tools/call").is_empty());
}

#[tokio::test(start_paused = true)]
async fn progress_and_cancellation_go_their_way() {
    let server = Server::always(modern_server().on("tools/call", |message| {
        let token = message["params"]["_meta"]["progressToken"].clone();
        let progress = json!({ "progressToken": token, "progress": 1 });
        vec![
            Act::Say(json!({ "jsonrpc": "2.0", "method": "notifications/progress", "params": progress })),
            Act::Wait(secs(5)),
            Act::Say(answer(&message["id"], json!({ "content": [] }))),
        ]
    }));
    let mut client = Client::legacy(&server).await;
    let params = json!({ "name": "work", "_meta": { "progressToken": 5 } });
    client.send(json!({ "id": "c", "method": "tools/call", "params": params })).await;
    assert_eq!(client.next().await["params"]["progressToken"], 5);
    client.cancel(json!("c")).await;
    client.hears_nothing(secs(10)).await;
    let wire = server.heard_of("tools/call")[0].message["id"].clone();
    assert_eq!(server.heard_of("notifications/cancelled")[0].message["params"]["requestId"], wire);
}

#[tokio::test(start_paused = true)]
async fn changed_roots_are_not_told_since_a_modern_server_asks_when_it_needs_them() {
    let server = Server::always(modern_server());
    let mut client = Client::legacy(&server).await;
    client.send(json!({ "jsonrpc": "2.0", "method": "notifications/roots/list_changed" })).await;
    client.call("tools/list", json!({})).await;
    assert!(server.heard_of("notifications/roots/list_changed").is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_call_that_the_server_dies_of_is_told_as_ever() {
    let server = Server::always(modern_server());
    let mut client = Client::legacy(&server).await;
    let answer = client.call("tools/call", json!({ "name": "work", "arguments": { "dies": true } })).await;
    assert_eq!(answer["result"]["isError"], true);
    assert!(answer["result"]["resultType"].is_null());
    assert_eq!(
        (&fault(&answer)["cause"], &fault(&answer)["delivery"]),
        (&json!("killed"), &json!("unknown"))
    );
    sleep(secs(1)).await;
    let answer: Value = client.call("tools/call", json!({ "name": "work", "arguments": { "say": 2 } })).await;
    assert_eq!(answer["result"]["got"], 2);
}

#[tokio::test(start_paused = true)]
async fn a_batch_is_answered_as_one_also_where_a_member_needs_input() {
    let server = Server::always(modern_server().on("tools/call", |message| {
        let inputs = json!({ "r": { "method": "roots/list" } });
        let result = match message["params"]["inputResponses"].is_null() {
            true => json!({ "resultType": "input_required", "inputRequests": inputs }),
            false => json!({ "content": [], "got": 1 }),
        };
        vec![Act::Say(answer(&message["id"], result))]
    }));
    let mut client = Client::legacy(&server).await;
    let call = json!({ "id": 1, "method": "tools/call", "params": { "name": "work" } });
    client.send(json!([call, { "id": "two", "method": "ping" }])).await;
    let question = client.next().await;
    client.send(json!({ "jsonrpc": "2.0", "id": question["id"], "result": { "roots": [] } })).await;
    let answers = client.next().await;
    assert_eq!((&answers[0]["id"], &answers[1]["result"]["got"]), (&json!("two"), &json!(1)));
}
