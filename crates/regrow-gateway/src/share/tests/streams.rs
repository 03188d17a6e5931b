//! Streams of several clients on one modern server: each hears its own, under its own id.

use std::sync::Arc;

use regrow::core::Epoch;
use regrow::{Era, Inbox, Incoming};
use regrow_testkit::log::Heard;
use serde_json::{Value, json};

use super::super::inbox::SharedInbox;
use super::client::*;
use super::server::{SUBSCRIPTION, killed, modern, server};

fn listen(client: &TestClient, id: &str, uri: &str) {
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let params = json!({ "notifications": { "resourceSubscriptions": [uri] }, "_meta": meta });
    client.ask(id, "subscriptions/listen", &params);
}

fn updated(id: &Value, uri: &str) -> Value {
    let params = json!({ "uri": uri, "_meta": { SUBSCRIPTION: id } });
    json!({ "jsonrpc": "2.0", "method": "notifications/resources/updated", "params": params })
}

#[tokio::test(start_paused = true)]
async fn each_stream_is_heard_by_its_own_client_under_its_own_id_through_a_restart_to_its_end() {
    let server = modern();
    let (session, keeper) = shared(&server, Era::Modern);
    let [one, two] = [TestClient::of(&session), TestClient::of(&session)];
    session.connection().start(); // Streams alone wake nobody.
    listen(&one, "1", "one");
    listen(&two, "1", "two");
    listen(&two, r#""\u0031""#, "more");
    settle().await;
    let wire = |uri: &str| {
        let meant =
            |listen: &Heard| listen["params"]["notifications"]["resourceSubscriptions"] == json!([uri]);
        server.heard_of("subscriptions/listen").into_iter().rfind(meant).unwrap()["id"].clone()
    };
    let acknowledged = |lines: &[String], uri: &str, id: &str| {
        let named = format!("\"{SUBSCRIPTION}\":{id}");
        lines.iter().any(|line| line.contains("acknowledged") && line.contains(uri) && line.contains(&named))
    };
    assert!(acknowledged(&one.lines(), "one", "1"));
    let lines = two.lines();
    assert!(acknowledged(&lines, "two", "1") && acknowledged(&lines, "more", r#""\u0031""#), "{lines:?}");

    for restarted in [false, true] {
        if restarted {
            server.die(killed());
            come_back().await;
            drop((one.lines(), two.lines()));
        }
        for uri in ["one", "two", "more"] {
            server.say(updated(&wire(uri), uri));
        }
        settle().await;
        assert_eq!(one.heard(), [updated(&json!(1), "one")], "restarted: {restarted}");
        assert_eq!(two.heard(), [updated(&json!(1), "two"), updated(&json!("1"), "more")]);
    }

    let id = wire("more");
    let end = json!({ "resultType": "complete", "kept": 1.50, "_meta": { SUBSCRIPTION: id, "x": [] } });
    server.say(json!({ "jsonrpc": "2.0", "id": id, "result": end }));
    settle().await;
    let lines = two.lines();
    assert!(lines.len() == 1 && lines[0].contains(&format!("\"{SUBSCRIPTION}\":\"\\u0031\"")), "{lines:?}");
    let end: Value = serde_json::from_str(&lines[0]).unwrap();
    assert_eq!((&end["result"]["resultType"], &end["result"]["kept"]), (&json!("complete"), &json!(1.5)));

    assert!(one.cancel("1"));
    settle().await;
    assert_eq!(server.heard_of("notifications/cancelled").len(), 1);
    server.say(updated(&wire("two"), "two"));
    settle().await;
    assert_eq!((one.heard().len(), two.heard().len()), (0, 1));
    assert!(keeper.logs.lock().unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn what_the_gateway_itself_listens_to_is_told_to_no_client() {
    let server = modern();
    let (session, keeper) = shared(&server, Era::Modern);
    let client = TestClient::of(&session);
    session.connection().start();
    let connection = session.connection().clone();
    let filter = json!({ "notifications": { "toolsListChanged": true } });
    let listening =
        tokio::spawn(async move { connection.request("subscriptions/listen", Some(filter)).await });
    settle().await;
    let id = server.heard_of("subscriptions/listen")[0]["id"].clone();
    let params = json!({ "_meta": { SUBSCRIPTION: id } });
    server.say(json!({ "jsonrpc": "2.0", "method": "notifications/tools/list_changed", "params": params }));
    settle().await;
    assert_eq!(keeper.lists.lock().unwrap().len(), 1);
    assert!(client.heard().is_empty());
    listening.abort();
}

#[tokio::test(start_paused = true)]
async fn what_a_modern_client_may_not_ask_is_left_to_the_server() {
    let server = modern();
    let (session, _) = shared(&server, Era::Modern);
    let client = TestClient::of(&session);
    client.call("1", &json!({}));
    settle().await;
    client.ask("2", "logging/setLevel", &json!({ "level": "debug" }));
    settle().await;
    assert_eq!(server.heard_of("logging/setLevel").len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_log_message_of_a_call_goes_to_its_client_in_the_modern_era_and_to_the_operator_in_the_legacy_one()
{
    for (modern, era) in [(true, Era::Modern), (false, Era::Legacy)] {
        let server = server(modern, |_| None);
        let (session, keeper) = shared(&server, era);
        let [one, two] = [TestClient::of(&session), TestClient::of(&session)];
        let ear = SharedInbox(Arc::downgrade(&session));
        let log = r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":1}}"#;
        // As it comes over HTTP, where the exchange tells whose it is.
        for (client, call) in [(2, Some(raw("1"))), (99, Some(raw("1"))), (0, None)] {
            ear.take(Incoming { call, client, ..Incoming::of_no_call(Epoch(1), message(log.into())) });
        }
        assert!(one.lines().is_empty());
        let expected = if modern { (vec![Some(raw("1"))], 1) } else { (vec![], 3) };
        let told = (two.told.calls.lock().unwrap().clone(), keeper.logs.lock().unwrap().len());
        assert_eq!(told, expected, "modern: {modern}");
    }
}
