//! Calls of clients that use equal ids and equal tokens.

use regrow::Era;
use regrow_testkit::script::answer;
use serde_json::{Value, json};

use super::client::*;
use super::server::{killed, legacy};

fn progress(token: &Value, text: &str) -> Value {
    let params = json!({ "progressToken": token, "progress": 1, "message": text });
    json!({ "jsonrpc": "2.0", "method": "notifications/progress", "params": params })
}

#[tokio::test(start_paused = true)]
async fn equal_ids_of_two_clients_and_of_two_types_are_four_calls() {
    let server = legacy();
    let (session, _) = shared(&server, Era::Legacy);
    let clients = [TestClient::of(&session), TestClient::of(&session)];
    for (client, name) in clients.iter().zip(["a", "b"]) {
        client.call("1", &json!({ "of": name }));
        client.call(r#""1""#, &json!({ "of": name, "text": true }));
    }
    settle().await;
    for (client, name) in clients.iter().zip(["a", "b"]) {
        let heard = client.heard();
        assert_eq!(heard.len(), 2);
        assert_eq!(heard[0], answer(&json!(1), json!({ "content": [], "got": { "of": name } })));
        assert_eq!(heard[1]["id"], json!("1"));
        assert_eq!(heard[1]["result"]["got"], json!({ "of": name, "text": true }));
    }
    assert_eq!((server.starts().len(), server.heard_of("tools/call").len()), (1, 4));
}

#[tokio::test(start_paused = true)]
async fn progress_goes_to_the_client_whose_token_it_is_and_under_that_token_to_the_byte() {
    let server = legacy();
    let (session, _) = shared(&server, Era::Legacy);
    let clients = [TestClient::of(&session), TestClient::of(&session)];
    let tokens = ["1", r#""1""#, r#""\u0031/é""#];
    for client in &clients {
        for (n, token) in tokens.iter().enumerate() {
            let meta: Value = serde_json::from_str(&format!(r#"{{"n":{n}}}"#)).unwrap();
            let params = format!(
                r#"{{"name":"work","arguments":{{"silent":true}},"_meta":{{"progressToken":{token},"kept":{meta}}}}}"#
            );
            let line = format!(r#"{{"jsonrpc":"2.0","id":{n},"method":"tools/call","params":{params}}}"#);
            client.send(line, (n as u64).into());
        }
    }
    settle().await;
    let calls = server.heard_of("tools/call");
    let wire: Vec<Value> =
        calls.iter().map(|call| call["params"]["_meta"]["progressToken"].clone()).collect();
    let different: std::collections::BTreeSet<String> = wire.iter().map(Value::to_string).collect();
    assert_eq!(different.len(), 6, "no two are equal on the wire: {wire:?}");
    assert_eq!(calls[4]["params"]["_meta"]["kept"], json!({ "n": 1 }));
    wire.iter().for_each(|token| server.say(progress(token, "half")));
    server.say(progress(&json!("nobody"), "nobody's"));
    server.say(progress(&json!(99), "of one who never was"));
    settle().await;
    for client in &clients {
        let lines = client.lines();
        assert_eq!(lines.len(), 3, "{lines:?}");
        for (line, token) in lines.iter().zip(tokens) {
            assert!(line.contains(&format!(r#""progressToken":{token}"#)), "{line}");
        }
        let calls = client.told.calls.lock().unwrap().clone();
        assert_eq!(calls[..2], ["0", "1"].map(|id| Some(raw(id))));
    }
}

#[tokio::test(start_paused = true)]
async fn a_cancellation_means_a_call_of_this_client_only() {
    let server = legacy();
    let (session, _) = shared(&server, Era::Legacy);
    let [one, two] = [TestClient::of(&session), TestClient::of(&session)];
    one.call("1", &json!({ "silent": true, "of": "one" }));
    two.call("1", &json!({ "silent": true, "of": "two" }));
    settle().await;
    assert!(!one.cancel("2") && !one.cancel(r#""1""#));
    assert!(two.cancel("1"));
    assert!(!two.cancel("1"), "it was cancelled");
    settle().await;
    let cancelled = server.heard_of("notifications/cancelled");
    let calls = server.heard_of("tools/call");
    let meant = calls.iter().find(|call| call["id"] == cancelled[0]["params"]["requestId"]).unwrap();
    assert_eq!((cancelled.len(), &meant["params"]["arguments"]["of"]), (1, &json!("two")));
    assert_eq!(cancelled[0]["params"]["reason"], "enough");
    calls
        .iter()
        .for_each(|call| server.say(answer(&call["id"], json!({ "of": call["params"]["arguments"]["of"] }))));
    settle().await;
    assert_eq!(one.heard(), [answer(&json!(1), json!({ "of": "one" }))]);
    assert!(two.heard().is_empty());
    assert_eq!(session.connection().status().borrow().pending, 0);
}

#[tokio::test(start_paused = true)]
async fn a_client_that_leaves_takes_its_calls_with_it_and_nobody_else_notices() {
    let server = legacy();
    let (session, _) = shared(&server, Era::Legacy);
    let [one, two] = [TestClient::of(&session), TestClient::of(&session)];
    for id in ["1", "1", r#""x""#] {
        one.call(id, &json!({ "silent": true }));
    }
    two.call("1", &json!({ "silent": true, "of": "two" }));
    settle().await;
    let told = one.told.clone();
    drop(one);
    settle().await;
    let cancelled = server.heard_of("notifications/cancelled");
    let reasons: Vec<_> = cancelled.iter().map(|message| message["params"]["reason"].clone()).collect();
    assert_eq!(reasons, vec![json!("the client left"); 3]);
    assert_eq!((session.shares(), session.connection().status().borrow().pending), (1, 1));
    assert!(told.lines.lock().unwrap().is_empty() && two.heard().is_empty());
    let wire = server.heard_of("tools/call").pop().unwrap();
    server.say(answer(&wire["id"], json!({ "got": 2 })));
    settle().await;
    assert_eq!(two.heard(), [answer(&json!(1), json!({ "got": 2 }))]);
    assert_eq!(server.starts().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn when_the_last_client_and_its_keeper_let_go_the_server_ends() {
    let server = legacy();
    let (session, _) = shared(&server, Era::Legacy);
    let client = TestClient::of(&session);
    client.call("1", &json!({}));
    settle().await;
    let mut status = session.connection().status();
    drop(session);
    client.call("2", &json!({}));
    settle().await;
    assert_eq!(client.heard().len(), 2, "a share holds the connection open");
    drop(client);
    status.wait_for(|status| status.state == regrow::core::State::Closed).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_death_is_told_to_each_and_each_call_ends_once() {
    let server = legacy();
    let (session, _) = shared(&server, Era::Legacy);
    let clients = [TestClient::of(&session), TestClient::of(&session)];
    clients.iter().for_each(|client| client.call("1", &json!({ "silent": true })));
    settle().await;
    server.die(killed());
    settle().await;
    for client in &clients {
        assert!(client.told.lost.lock().unwrap().contains(&regrow::core::Epoch(1)));
        let failed = client.told.failed.lock().unwrap();
        assert_eq!((failed.len(), failed[0].1.delivery), (1, regrow::core::Delivery::Unknown));
    }
    clients.iter().for_each(|client| drop(client.lines()));
    clients.iter().for_each(|client| client.call("1", &json!({})));
    come_back().await;
    assert!(clients.iter().all(|client| client.heard()[0]["result"].is_object()));
    assert_eq!(server.starts().len(), 2);
    session.connection().close().await;
    assert!(clients.iter().all(|client| client.told.is_over.load(std::sync::atomic::Ordering::Relaxed)));
}

#[tokio::test(start_paused = true)]
async fn a_shared_server_can_ask_nobody_and_its_tasks_are_not_shown_to_all() {
    let server = legacy();
    let (session, _) = shared(&server, Era::Legacy);
    let client = TestClient::of(&session);
    client.call("1", &json!({}));
    settle().await;
    client.lines();
    for (id, method) in
        ["ping", "sampling/createMessage", "elicitation/create", "roots/list"].iter().enumerate()
    {
        server.say(json!({ "jsonrpc": "2.0", "id": id, "method": method }));
    }
    server
        .say(json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 1 } }));
    server.say(
        json!({ "jsonrpc": "2.0", "method": "notifications/tasks/status", "params": { "taskId": "t" } }),
    );
    settle().await;
    assert!(client.heard().is_empty());
    let answers = server.responses();
    assert_eq!(answers[0].message, answer(&json!(0), json!({})));
    assert!(answers[1..].iter().all(|answer| answer["error"]["code"] == -32601));
    assert_eq!(answers.len(), 4);
    client.ask("5", "tasks/list", &json!({}));
    assert_eq!(client.heard()[0]["error"]["code"], -32601);
    assert!(server.heard_of("tasks/list").is_empty());
}

/// Scenario 40.
#[tokio::test(start_paused = true)]
async fn in_thousands_of_calls_with_equal_ids_no_answer_crosses() {
    // A hundred thousand calls where there is time for them.
    let rounds: usize = if std::env::var_os("REGROW_LONG").is_some() { 25_000 } else { 2_500 };
    let server = legacy();
    let (session, _) = shared(&server, Era::Legacy);
    let clients: Vec<TestClient> = (0..4).map(|_| TestClient::of(&session)).collect();
    for round in 0..rounds / 50 {
        for id in 0..50u64 {
            for (n, client) in clients.iter().enumerate() {
                let line = format!(
                    r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"work","arguments":"{n}-{round}-{id}"}}}}"#
                );
                client.send(line, id.into());
            }
        }
        settle().await;
        for (n, client) in clients.iter().enumerate() {
            let lines = client.lines();
            assert_eq!(lines.len(), 50);
            for (id, line) in lines.iter().enumerate() {
                let is_own = line.contains(&format!(r#""got":"{n}-{round}-{id}""#));
                assert!(is_own && line.contains(&format!(r#""id":{id},"#)), "client {n}, {id}: {line}");
            }
        }
    }
}
