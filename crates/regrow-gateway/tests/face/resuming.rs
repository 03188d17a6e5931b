//! Streams that break: nothing is cancelled, and who comes back gets the rest.

use std::time::Duration;

use regrow_protocol::frame::RawId;
use serde_json::json;
use tokio::time::advance;

use crate::world::{World, call, notification};

#[tokio::test]
async fn the_rest_of_a_call_and_its_answer_are_there_for_a_client_that_comes_back() {
    let world = World::new().await;
    let session = world.session().await;
    let guest = world.house.guest(0);
    let headers = [("Mcp-Session-Id", session.as_str()), ("MCP-Protocol-Version", "2025-11-25")];
    let mut wire = world.wire().await;
    wire.send("POST", "/mcp", &headers, &call(1, "slow")).await;
    assert!(wire.head().await.is_stream());
    let primed = wire.any_event().await.unwrap();
    assert_eq!((primed.data.as_str(), primed.retry.as_str()), ("", "1000"));
    assert!(!primed.id.is_empty(), "it can come back before anything was said");
    let say = |what: &str| {
        let message = notification("notifications/message", json!({ "data": what }));
        assert!(guest.say(Some(&RawId::from(1)), &message));
    };
    say("heard");
    let last = wire.event().await.unwrap();
    assert_eq!(last.json()["params"]["data"], "heard");
    say("lost on the way");
    drop(wire);
    say("said to nobody");
    guest.answer(&RawId::from(1), &json!({ "done": true }));

    let from = |id: &str| {
        [headers[0], headers[1], ("Last-Event-ID", id)].map(|(name, value)| (name, value.to_owned()))
    };
    for (id, expected) in [
        (last.id, vec!["lost on the way", "said to nobody"]),
        (primed.id, vec!["heard", "lost on the way", "said to nobody"]),
    ] {
        let headers = from(&id);
        let headers: Vec<_> = headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
        // The end of the broken stream may be noticed a moment later.
        let mut wire = loop {
            let mut wire = world.wire().await;
            wire.send("GET", "/mcp", &headers, "").await;
            let head = wire.head().await;
            if head.status != 409 {
                assert!(head.is_stream());
                break wire;
            }
        };
        for expected in expected {
            assert_eq!(wire.message().await["params"]["data"], expected);
        }
        assert_eq!(wire.message().await["result"]["done"], true);
        assert_eq!(wire.event().await, None);
    }
}

#[tokio::test]
async fn a_listener_that_comes_back_hears_what_it_missed() {
    let world = World::new().await;
    let session = world.session().await;
    let guest = world.house.guest(0);
    let say = |what: u64| guest.say(None, &notification("notifications/message", json!({ "data": what })));
    let mut wire = world.wire().await;
    wire.send("GET", "/mcp", &[("Mcp-Session-Id", &session)], "").await;
    assert!(wire.head().await.is_stream());
    (1..=3).for_each(|number| assert!(say(number)));
    let first = wire.event().await.unwrap();
    wire.event().await.unwrap();
    wire.event().await.unwrap();
    drop(wire);
    assert!(say(4));
    let headers = [("Mcp-Session-Id", session.as_str()), ("Last-Event-ID", first.id.as_str())];
    let mut wire = loop {
        let mut wire = world.wire().await;
        wire.send("GET", "/mcp", &headers, "").await;
        if wire.head().await.is_stream() {
            break wire;
        }
    };
    for number in 2..=4 {
        assert_eq!(wire.message().await["params"]["data"], number);
    }
}

#[tokio::test]
async fn a_stream_that_is_not_kept_cannot_be_resumed() {
    let world = World::new().await;
    let (session, other) = (world.session().await, world.session().await);
    let headers = [("Mcp-Session-Id", other.as_str()), ("MCP-Protocol-Version", "2025-11-25")];
    let mut wire = world.wire().await;
    wire.send("GET", "/mcp", &headers, "").await;
    assert!(wire.head().await.is_stream());
    let foreign = wire.any_event().await.unwrap().id;
    assert!(foreign.starts_with("s1-"), "{foreign}");
    for last in ["x", "0-0", "s1-", &session, &foreign, &foreign[..foreign.len() - 1]] {
        let headers = [("Mcp-Session-Id", session.as_str()), ("Last-Event-ID", last)];
        let (head, _) = world.wire().await.ask("GET", "/mcp", &headers, "").await;
        assert_eq!(head.status, 400, "{last}");
    }
}

#[tokio::test(start_paused = true)]
async fn answers_that_nobody_fetches_are_kept_for_some_time_and_not_too_many() {
    let world = World::with(|options| {
        options.limits.kept_streams = 2;
        options.limits.kept_time = Duration::from_secs(60);
    })
    .await;
    let session = world.session().await;
    let guest = world.house.guest(0);
    let mut ids = vec![];
    for id in 1..=4 {
        let mut wire = world.wire().await;
        let headers = [("Mcp-Session-Id", session.as_str()), ("MCP-Protocol-Version", "2025-11-25")];
        wire.send("POST", "/mcp", &headers, &call(id, "slow")).await;
        wire.head().await;
        ids.push(wire.any_event().await.unwrap().id);
        guest.answer(&RawId::from(id), &json!({}));
        wire.message().await;
        assert_eq!(wire.event().await, None);
    }
    let fetch = async |id: &str| {
        let headers = [("Mcp-Session-Id", session.as_str()), ("Last-Event-ID", id)];
        let mut wire = world.wire().await;
        wire.send("GET", "/mcp", &headers, "").await;
        wire.head().await.status
    };
    world.wire().await.ask("POST", "/mcp", &[("Mcp-Session-Id", &session)], &call(9, "echo")).await;
    let mut kept = vec![];
    for id in &ids {
        kept.push(fetch(id).await);
    }
    assert_eq!(kept, [400, 400, 200, 200]);
    advance(Duration::from_secs(80)).await;
    world.wire().await.ask("POST", "/mcp", &[("Mcp-Session-Id", &session)], &call(10, "echo")).await;
    assert_eq!(fetch(&ids[3]).await, 400);
}
