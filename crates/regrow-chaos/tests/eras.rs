//! Both eras of the protocol, as far as the server speaks them.
#![cfg(unix)]

mod common;

use common::world;
use serde_json::{Value, json};

const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";

fn modern(mut params: Value) -> Value {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    params
}

#[test]
fn legacy_echoes_known_versions_and_wants_a_handshake() {
    let world = world("");
    for (asked, given) in
        [("2024-11-05", "2024-11-05"), ("2025-11-25", "2025-11-25"), ("1999-01-01", "2025-11-25")]
    {
        let mut life = world.start();
        assert_eq!(life.ask("tools/list", json!({}))["error"]["code"], -32600);
        let answer = life.ask("initialize", json!({"protocolVersion": asked}));
        assert_eq!(answer["result"]["protocolVersion"], given);
        assert_eq!(answer["result"]["capabilities"]["resources"]["subscribe"], true);
        assert!(answer["result"].get("resultType").is_none());
        assert!(life.ask("tools/list", json!({}))["result"]["tools"].is_array());
    }
}

#[test]
fn legacy_methods_are_answered() {
    let world = world("");
    let mut life = world.ready();
    for (method, params) in [
        ("ping", json!({})),
        ("logging/setLevel", json!({"level": "debug"})),
        ("resources/list", json!({})),
        ("resources/templates/list", json!({})),
        ("resources/read", json!({"uri": "chaos://life"})),
        ("resources/subscribe", json!({"uri": "chaos://life"})),
        ("prompts/list", json!({})),
        ("prompts/get", json!({"name": "greet", "arguments": {"name": "you"}})),
        ("completion/complete", json!({})),
    ] {
        assert!(life.ask(method, params)["result"].is_object(), "{method}");
    }
    assert_eq!(life.ask("no/such", json!({}))["error"]["code"], -32601);
    assert_eq!(world.journal.params("logging/setLevel"), [r#"{"level":"debug"}"#]);

    let id = life.call("touch", json!({}));
    assert_eq!(life.next()["params"]["uri"], "chaos://life");
    life.answer(id);
    life.ask("resources/unsubscribe", json!({"uri": "chaos://life"}));
    assert_eq!(life.text("touch", json!({})), "0");
}

#[test]
fn annotations_are_honest() {
    let mut life = world("").ready();
    let tools = life.ask("tools/list", json!({}))["result"]["tools"].clone();
    let hint = |name: &str, hint: &str| {
        let tool = tools.as_array().unwrap().iter().find(|tool| tool["name"] == name).unwrap();
        tool["annotations"][hint].as_bool().unwrap()
    };
    assert!(hint("echo", "readOnlyHint") && hint("lookup", "readOnlyHint"));
    assert!(!hint("count", "readOnlyHint") && !hint("count", "idempotentHint"));
    assert!(hint("set", "idempotentHint") && !hint("set", "readOnlyHint"));
}

#[test]
fn tools_come_in_pages_when_planned() {
    let mut life = world("page=20").ready();
    let first = life.ask("tools/list", json!({}))["result"].clone();
    assert_eq!(first["tools"].as_array().unwrap().len(), 20);
    let second = life.ask("tools/list", json!({"cursor": first["nextCursor"]}))["result"].clone();
    assert!(second.get("nextCursor").is_none() && !second["tools"].as_array().unwrap().is_empty());
}

#[test]
fn modern_needs_no_handshake_and_marks_its_results() {
    let mut life = world("").start();
    let found = life.ask("server/discover", modern(json!({})))["result"].clone();
    assert!(found["supportedVersions"].as_array().unwrap().contains(&json!("2026-07-28")));
    assert_eq!(
        (&found["resultType"], &found["cacheScope"], &found["ttlMs"]),
        (&json!("complete"), &json!("private"), &json!(0))
    );
    assert_eq!(found["_meta"]["io.modelcontextprotocol/serverInfo"]["name"], "regrow-chaos");
    let answer = life.ask("tools/call", modern(json!({"name": "echo", "arguments": {"text": "hi"}})));
    assert_eq!(
        (&answer["result"]["resultType"], &answer["result"]["content"][0]["text"]),
        (&json!("complete"), &json!("hi"))
    );
    assert_eq!(life.ask("ping", modern(json!({})))["error"]["code"], -32601);
    let mut future = modern(json!({}));
    future["_meta"]["io.modelcontextprotocol/protocolVersion"] = "2099-01-01".into();
    assert_eq!(life.ask("tools/list", future)["error"]["code"], -32022);
}

#[test]
fn modern_asks_by_its_result() {
    let mut life = world("").start();
    let call = json!({"name": "ask", "arguments": {"kind": "elicitation"}});
    let asked = life.ask("tools/call", modern(call.clone()))["result"].clone();
    assert_eq!(asked["resultType"], "input_required");
    assert_eq!(asked["inputRequests"]["question"]["method"], "elicitation/create");
    let mut again = modern(call);
    again["requestState"] = asked["requestState"].clone();
    again["inputResponses"] = json!({"question": {"action": "accept"}});
    let text = life.ask("tools/call", again)["result"]["content"][0]["text"].clone();
    assert_eq!(text, r#"{"question":{"action":"accept"}}"#);
}

#[test]
fn a_listen_stream_is_acknowledged_tagged_and_ended() {
    let world = world("");
    let mut life = world.start();
    let wanted = json!({"toolsListChanged": true, "resourceSubscriptions": ["chaos://life"]});
    let stream = life.request("subscriptions/listen", modern(json!({"notifications": wanted})));
    let first = life.next();
    assert_eq!(first["method"], "notifications/subscriptions/acknowledged");
    assert_eq!(
        (&first["params"]["_meta"][SUBSCRIPTION], &first["params"]["notifications"]),
        (&json!(stream), &wanted)
    );

    for (tool, method) in
        [("change", "notifications/tools/list_changed"), ("touch", "notifications/resources/updated")]
    {
        let id = life.request("tools/call", modern(json!({"name": tool, "arguments": {}})));
        let news = life.next();
        assert_eq!(
            (&news["method"], &news["params"]["_meta"][SUBSCRIPTION]),
            (&json!(method), &json!(stream))
        );
        life.answer(id);
    }
    let id = life.request("tools/call", modern(json!({"name": "unlisten", "arguments": {}})));
    let end = life.answer(stream);
    assert_eq!(
        (&end["result"]["resultType"], &end["result"]["_meta"][SUBSCRIPTION]),
        (&json!("complete"), &json!(stream))
    );
    assert_eq!(life.answer(id)["result"]["content"][0]["text"], "1");

    let stream = life.request("subscriptions/listen", modern(json!({"notifications": wanted})));
    life.next();
    life.notify("notifications/cancelled", json!({"requestId": stream}));
    assert!(world.journal.wait(common::LIMIT, |journal| journal.cancelled() == [stream.to_string()]));
    let id = life.request("tools/call", modern(json!({"name": "touch", "arguments": {}})));
    assert_eq!(life.answer(id)["result"]["content"][0]["text"], "0");
}

#[test]
fn what_is_no_message_is_said_to_be_none() {
    let world = world("");
    let mut life = world.ready();
    life.send(&json!("hello"));
    assert_eq!(life.next()["error"]["code"], -32700);
    assert!(world.journal.lines().contains(&"unreadable 8".to_owned()));
    life.send(&json!([{"jsonrpc": "2.0", "id": "a", "method": "ping"}, {"jsonrpc": "2.0", "id": 1.5, "method": "ping"}]));
    assert_eq!((life.next()["id"].clone(), life.next()["id"].clone()), (json!("a"), json!(1.5)));
    assert_eq!(world.journal.request_ids("ping"), ["\"a\"", "1.5"]);
}
