//! A modern client on a legacy server: no envelope there, complete results here.

use regrow_testkit::script::{Act, Plan, answer};
use regrow_testkit::server::Server;
use regrow_testkit::world::*;
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::client::*;

const LEVEL: &str = "io.modelcontextprotocol/logLevel";

#[tokio::test(start_paused = true)]
async fn the_envelope_is_taken_off_and_the_rest_stays() {
    let server = Server::always(legacy_server());
    let mut client = Client::modern(&server).await;
    let params = json!({ "name": "work", "arguments": { "say": 1 }, "_meta": { "progressToken": 3, "traceparent": "t" } });
    client.modern_call("tools/call", params).await;
    let call = server.heard_of("tools/call")[0].message.clone();
    let heard = call["params"].clone();
    let expected = json!({ "name": "work", "arguments": { "say": 1 }, "_meta": { "progressToken": call["id"], "traceparent": "t" } });
    assert_eq!(heard, expected);
    client.modern_call("tools/list", json!({ "cursor": "c" })).await;
    assert_eq!(server.heard_of("tools/list")[0].message["params"], json!({ "cursor": "c" }));
}

#[tokio::test(start_paused = true)]
async fn results_are_complete_and_lists_and_reads_say_how_long_they_hold() {
    let plan = [
        "prompts/list",
        "resources/list",
        "resources/templates/list",
        "resources/read",
        "prompts/get",
        "completion/complete",
    ]
    .into_iter()
    .fold(legacy_server(), |plan, method| {
        plan.on(method, |message| vec![Act::Say(answer(&message["id"], json!({ "x": 1 })))])
    });
    let server = Server::always(plan);
    let mut client = Client::modern(&server).await;
    let server_info = json!({ "io.modelcontextprotocol/serverInfo": { "name": "fake", "version": "1" } });
    for (method, cached) in [
        ("tools/list", true),
        ("prompts/list", true),
        ("resources/list", true),
        ("resources/templates/list", true),
        ("resources/read", true),
        ("prompts/get", false),
        ("completion/complete", false),
        ("tools/call", false),
    ] {
        let result = client.modern_call(method, json!({ "name": "work" })).await["result"].clone();
        assert_eq!(result["resultType"], "complete", "{method}");
        assert_eq!(result["_meta"], server_info, "{method}");
        let caching = (result["ttlMs"].clone(), result["cacheScope"].clone());
        let expected = if cached { (json!(0), json!("private")) } else { (Value::Null, Value::Null) };
        assert_eq!(caching, expected, "{method}");
    }
    let unknown = client.modern_call("no/such", json!({})).await;
    assert_eq!(unknown["error"]["code"], -32601, "errors are the server's own");
}

#[tokio::test(start_paused = true)]
async fn results_are_not_rewritten() {
    let server = Server::always(legacy_server().on("tools/call", |message| {
        let line = format!(
            r#"{{"id":{},"result":{{"content":[],"n":1.50,"big":12345678901234567890123}}}}"#,
            message["id"]
        );
        vec![Act::Write(line + "\n")]
    }));
    let mut client = Client::modern(&server).await;
    client.send(modern(1, "tools/call", json!({ "name": "work" }))).await;
    assert!(client.line().await.contains(r#""n":1.50,"big":12345678901234567890123"#));
}

#[tokio::test(start_paused = true)]
async fn the_log_level_is_told_when_it_changes_and_again_after_a_death() {
    let server = Server::always(legacy_server());
    let mut client = Client::modern(&server).await;
    let message = json!({ "jsonrpc": "2.0", "method": "notifications/message", "params": { "level": "info", "data": 1 } });
    server.say(message.clone());
    client.hears_nothing(secs(1)).await;
    for level in ["info", "info", "debug"] {
        client.modern_call("tools/list", json!({ "_meta": { LEVEL: level } })).await;
    }
    client.modern_call("tools/list", json!({})).await;
    let levels = || -> Vec<Value> {
        server.heard_of("logging/setLevel").iter().map(|heard| heard.message["params"].clone()).collect()
    };
    assert_eq!(levels(), [json!({ "level": "info" }), json!({ "level": "debug" })]);
    server.say(message.clone());
    assert_eq!(client.next().await, message);
    server.die(regrow::core::Fault::Killed { signal: 9 });
    sleep(secs(2)).await;
    assert_eq!(levels().len(), 3);
    assert_eq!(levels()[2], json!({ "level": "debug" }));
}

#[tokio::test(start_paused = true)]
async fn a_server_that_logs_and_lets_nobody_set_the_level_is_heard_by_who_asked_for_one() {
    let server = Server::always(Plan { capabilities: json!({ "tools": {} }), ..legacy_server() });
    let mut client = Client::modern(&server).await;
    let message = json!({ "jsonrpc": "2.0", "method": "notifications/message", "params": { "level": "info", "data": 1 } });
    server.say(message.clone());
    client.hears_nothing(secs(1)).await;
    client.modern_call("tools/list", json!({ "_meta": { LEVEL: "info" } })).await;
    server.say(message.clone());
    assert_eq!(client.next().await, message);
    assert!(server.heard_of("logging/setLevel").is_empty());
}

#[tokio::test(start_paused = true)]
async fn progress_and_cancellation_go_their_way() {
    let server = Server::always(legacy_server());
    let mut client = Client::modern(&server).await;
    let params =
        json!({ "name": "work", "arguments": { "silent": true }, "_meta": { "progressToken": "p" } });
    client.send(modern("c", "tools/call", params)).await;
    settle().await;
    let progress = |token: Value| json!({ "jsonrpc": "2.0", "method": "notifications/progress", "params": { "progressToken": token, "progress": 1 } });
    server
        .say(progress(server.heard_of("tools/call")[0].message["params"]["_meta"]["progressToken"].clone()));
    assert_eq!(client.next().await, progress("p".into()));
    client.cancel(json!("c")).await;
    settle().await;
    let wire = server.heard_of("tools/call")[0].message["id"].clone();
    assert_eq!(server.heard_of("notifications/cancelled")[0].message["params"]["requestId"], wire);
    server.say(answer(&wire, json!({})));
    client.hears_nothing(secs(1)).await;
}

#[tokio::test(start_paused = true)]
async fn tasks_and_versions_that_nobody_knows_are_refused() {
    let server = Server::always(legacy_server());
    let mut client = Client::modern(&server).await;
    let refused = client.modern_call("tasks/get", json!({ "taskId": "t" })).await;
    assert_eq!((&refused["error"]["code"], &fault(&refused)["gap"]), (&json!(-31009), &json!("tasks")));
    let mut request = modern(5, "tools/list", json!({}));
    request["params"]["_meta"][VERSION] = "2099-01-01".into();
    let refused = client.ask(request).await;
    assert_eq!(refused["error"]["code"], -32022);
    assert_eq!(refused["error"]["data"], json!({ "supported": ["2026-07-28"], "requested": "2099-01-01" }));
}

#[tokio::test(start_paused = true)]
async fn a_call_that_the_server_dies_of_is_told_in_the_words_of_its_era() {
    let server = Server::always(legacy_server());
    let mut client = Client::modern(&server).await;
    let end =
        client.modern_call("tools/call", json!({ "name": "work", "arguments": { "dies": true } })).await;
    assert_eq!((&end["result"]["resultType"], &fault(&end)["cause"]), (&json!("complete"), &json!("killed")));
}
