//! A client that does not read loses its share, and no other notices.

use std::sync::atomic::Ordering;

use regrow::core::Delivery;
use regrow::{Era, ErrorKind};
use regrow_testkit::script::answer;
use serde_json::json;

use super::client::*;
use super::server::legacy;

#[tokio::test(start_paused = true)]
async fn a_client_that_does_not_read_is_dropped_and_the_others_go_on() {
    let server = legacy();
    let (session, _) = shared(&server, Era::Legacy);
    let [slow, other] = [TestClient::of(&session), TestClient::of(&session)];
    let params = json!({ "name": "work", "arguments": { "silent": true }, "_meta": { "progressToken": 1 } });
    slow.ask("1", "tools/call", &params);
    slow.ask("2", "resources/subscribe", &json!({ "uri": "a" }));
    slow.ask("3", "tools/call", &params);
    other.ask("1", "tools/call", &params);
    settle().await;
    slow.told.is_full.store(true, Ordering::Relaxed);
    let calls = server.heard_of("tools/call");
    let token = &calls[0]["params"]["_meta"]["progressToken"];
    let large = json!({ "jsonrpc": "2.0", "method": "notifications/progress", "params": { "progressToken": token, "progress": 1, "message": "x".repeat(6 << 20) } });
    server.say(large.clone());
    settle().await;
    server.say(large.clone());
    settle().await;
    assert!(!slow.told.is_over.load(Ordering::Relaxed), "it may be reading what is large");
    slow.told.is_full.store(false, Ordering::Relaxed);
    server.say(large.clone());
    settle().await;
    slow.told.is_full.store(true, Ordering::Relaxed);
    for _ in 0..3 {
        server.say(large.clone());
        settle().await;
    }
    assert!(slow.told.is_over.load(Ordering::Relaxed));
    assert_eq!(session.shares(), 1);
    settle().await;
    assert_eq!(server.heard_of("notifications/cancelled").len(), 2, "its calls are stopped");
    assert_eq!(server.heard_of("resources/unsubscribe").len(), 1);
    let failed = slow.told.failed.lock().unwrap().clone();
    let kinds: Vec<_> =
        failed.iter().map(|(id, error)| (id.to_string(), error.kind, error.delivery)).collect();
    let closed = |id: &str, delivery| (id.to_owned(), ErrorKind::Closed, delivery);
    assert_eq!(kinds, [closed("1", Delivery::Unknown), closed("3", Delivery::Unknown)]);

    slow.call("4", &json!({}));
    slow.ask("5", "resources/subscribe", &json!({ "uri": "a" }));
    let failed = slow.told.failed.lock().unwrap().split_off(2);
    assert!(
        failed
            .iter()
            .all(|(_, error)| error.kind == ErrorKind::Closed && error.delivery == Delivery::NotSent)
    );
    assert_eq!(failed.len(), 2);

    other.told.lines.lock().unwrap().clear();
    server.say(answer(&calls[2]["id"], json!({ "got": 1 })));
    settle().await;
    assert_eq!(other.heard(), [answer(&json!(1), json!({ "got": 1 }))]);
    assert!(!other.told.is_over.load(Ordering::Relaxed));
    assert_eq!((server.starts().len(), session.connection().status().borrow().pending), (1, 0));
    drop(slow);
    assert_eq!(session.shares(), 1);
}

#[tokio::test(start_paused = true)]
async fn answers_count_like_all_else_that_it_is_told() {
    let server = legacy();
    let (session, _) = shared(&server, Era::Legacy);
    let slow = TestClient::of(&session);
    slow.told.is_full.store(true, Ordering::Relaxed);
    let text = "x".repeat(5 << 20);
    for id in 0..5 {
        slow.call(&id.to_string(), &json!({ "say": text }));
        settle().await;
    }
    let answered = slow.heard().iter().filter(|line| line["result"].is_object()).count();
    assert_eq!(answered, 4);
    assert_eq!(slow.told.failed.lock().unwrap()[0].1.kind, ErrorKind::Closed);
}
