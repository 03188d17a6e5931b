//! Both sides speak the same era: nothing changes but ids.

use regrow_testkit::script::Act;
use regrow_testkit::server::Server;
use serde_json::json;

use crate::client::*;

/// Odd on purpose: order, spaces, escapes and numbers must all survive.
const PARAMS: &str =
    r#"{ "name" : "work","arguments":{"n": 1.50,"big":12345678901234567890123,"s":"\u00e9"}}"#;

fn echo(server: regrow_testkit::script::Plan) -> Server {
    Server::always(server.on("tools/call", |message| {
        let line =
            format!(r#"{{"id":{},  "result":{{"x": 1.0, "content":[ ]}},"jsonrpc":"2.0"}}"#, message["id"]);
        vec![Act::Write(format!("{line}\n"))]
    }))
}

#[tokio::test(start_paused = true)]
async fn legacy_frames_pass_as_they_are() {
    let server = echo(legacy_server());
    let mut client = Client::of(&server);
    let welcome = client.initialize("2025-11-25").await;
    assert_eq!(welcome["result"]["serverInfo"], json!({ "name": "fake", "version": "1" }));
    assert_eq!(welcome["result"]["capabilities"]["tasks"], json!({}), "all of it");
    client.write(&format!(r#"{{"method":"tools/call","id":"a", "params":{PARAMS}}}"#)).await;
    assert_eq!(client.line().await, r#"{"id":"a",  "result":{"x": 1.0, "content":[ ]},"jsonrpc":"2.0"}"#);
    let heard = server.raw_of("tools/call");
    let wire = server.heard_of("tools/call")[0].message["id"].clone();
    assert_eq!(heard, [format!(r#"{{"method":"tools/call","id":{wire}, "params":{PARAMS}}}"#)]);
    assert_eq!(server.told(1), ["initialize", "notifications/initialized", "tools/call"]);
}

#[tokio::test(start_paused = true)]
async fn modern_frames_pass_as_they_are() {
    let server = echo(modern_server());
    let mut client = Client::modern(&server).await;
    let meta = r#"{"io.modelcontextprotocol/protocolVersion":"2026-07-28", "x":1.0}"#;
    client
        .write(&format!(r#"{{"method":"tools/call","id":7, "params":{{"name":"work","_meta":{meta}}}}}"#))
        .await;
    assert_eq!(client.line().await, r#"{"id":7,  "result":{"x": 1.0, "content":[ ]},"jsonrpc":"2.0"}"#);
    let wire = server.heard_of("tools/call")[0].message["id"].clone();
    let expected =
        format!(r#"{{"method":"tools/call","id":{wire}, "params":{{"name":"work","_meta":{meta}}}}}"#);
    assert_eq!(server.raw_of("tools/call"), [expected]);
}

#[tokio::test(start_paused = true)]
async fn a_legacy_client_hears_a_legacy_server_and_answers_it() {
    let server = Server::always(legacy_server());
    let mut client = Client::legacy(&server).await;
    server.say(json!({ "jsonrpc": "2.0", "method": "notifications/tools/list_changed" }));
    assert_eq!(client.next().await["method"], "notifications/tools/list_changed");
    server.say(
        json!({ "jsonrpc": "2.0", "id": "s", "method": "elicitation/create", "params": { "message": "?" } }),
    );
    let question = client.next().await;
    assert_eq!(question["method"], "elicitation/create");
    client.send(json!({ "jsonrpc": "2.0", "id": question["id"], "result": { "action": "accept" } })).await;
    regrow_testkit::world::settle().await;
    let answer = server.heard().pop().unwrap().message;
    assert_eq!((&answer["id"], &answer["result"]["action"]), (&json!("s"), &json!("accept")));
}

#[tokio::test(start_paused = true)]
async fn input_required_passes_between_modern_sides() {
    let server = Server::always(modern_server().on("tools/call", |message| {
        let result = json!({ "resultType": "input_required", "requestState": "s" });
        vec![Act::Say(regrow_testkit::script::answer(&message["id"], result))]
    }));
    let mut client = Client::modern(&server).await;
    let answer = client.modern_call("tools/call", json!({ "name": "work" })).await;
    assert_eq!(answer["result"], json!({ "resultType": "input_required", "requestState": "s" }));
}
