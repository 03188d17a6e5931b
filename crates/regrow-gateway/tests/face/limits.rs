//! Clients that send too much, too slowly, or are too many.

use std::time::Duration;

use regrow_protocol::frame::RawId;
use serde_json::json;
use tokio::time::Instant;

use crate::world::{World, call, headers, initialize, modern_call, value};

#[tokio::test]
async fn a_body_over_the_cap_is_refused_before_it_is_read() {
    let world = World::with(|options| options.limits.body = 1 << 20).await;
    let mut wire = world.wire().await;
    wire.send("POST", "/mcp", &[("Content-Length", "1048577")], "").await;
    let head = wire.head().await;
    assert_eq!(head.status, 413);
    assert_eq!(value(&wire.body(&head).await)["error"]["code"], -31005);
    assert_eq!(world.house.admitted(), 0);
}

#[tokio::test]
async fn a_body_that_hides_its_length_is_refused_when_it_is_over_and_the_client_is_told() {
    let world = World::with(|options| options.limits.body = 1 << 20).await;
    let mut wire = world.wire().await;
    let host = world.address;
    wire.raw(format!(
        "POST /mcp HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
    ))
    .await;
    // All of it is sent before anything is read, as simple clients do.
    for _ in 0..80 {
        wire.raw(format!("10000\r\n{}\r\n", " ".repeat(0x10000))).await;
    }
    wire.raw("0\r\n\r\n").await;
    assert_eq!(wire.head().await.status, 413);
}

#[tokio::test]
async fn headers_over_the_caps_are_refused() {
    let world = World::new().await;
    let mut wire = world.wire().await;
    let host = world.address;
    let many: String = (0..100).map(|number| format!("X-{number}: y\r\n")).collect();
    wire.raw(format!("GET /livez HTTP/1.1\r\nHost: {host}\r\n{many}\r\n")).await;
    assert_eq!(wire.head().await.status, 431);
    for kib in [64, 70, 200] {
        let mut wire = world.wire().await;
        let value = "y".repeat(kib << 10);
        wire.raw(format!("GET /livez HTTP/1.1\r\nHost: {host}\r\nX: {value}\r\n\r\n")).await;
        assert!(wire.rest().await.starts_with("HTTP/1.1 431"), "{kib} KiB");
    }
}

#[tokio::test(start_paused = true)]
async fn headers_that_drip_are_not_waited_for() {
    let world = World::new().await;
    for sent in ["", "P", "POST /mcp HTTP/1.1\r\nHost: x\r\nX: "] {
        let mut wire = world.wire().await;
        wire.raw(sent).await;
        let began = Instant::now();
        wire.rest().await;
        assert!((9..=11).contains(&began.elapsed().as_secs()), "{sent:?}: {:?}", began.elapsed());
    }
    assert_eq!(world.house.admitted(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_body_that_drips_is_not_waited_for() {
    let world = World::new().await;
    let mut wire = world.wire().await;
    wire.send("POST", "/mcp", &[("Content-Length", "100")], "{").await;
    let began = Instant::now();
    for _ in 0..50 {
        tokio::time::advance(Duration::from_secs(1)).await;
        wire.raw(" ").await;
    }
    assert_eq!(wire.head().await.status, 408);
    // The head may be looked at only after the first second.
    assert!((60..=61).contains(&began.elapsed().as_secs()), "drops gain no time: {:?}", began.elapsed());
    assert_eq!(world.house.admitted(), 0);
}

#[tokio::test]
async fn connections_over_the_cap_are_turned_away_and_served_again_when_others_leave() {
    let world = World::with(|options| options.limits.connections = 5).await;
    let mut idle = vec![];
    for _ in 0..5 {
        let mut wire = world.wire().await;
        assert_eq!(wire.ask("GET", "/livez", &[], "").await.0.status, 200);
        idle.push(wire);
    }
    for _ in 0..50 {
        let mut wire = world.wire().await;
        let head = wire.head().await;
        assert_eq!((head.status, head.header("retry-after")), (503, Some("5")));
    }
    assert_eq!(idle[0].ask("GET", "/livez", &[], "").await.0.status, 200, "who is there is served");
    drop(idle);
    while world.face_stats.counts().connections > 0 {
        tokio::task::yield_now().await;
    }
    assert_eq!(world.wire().await.ask("GET", "/livez", &[], "").await.0.status, 200);
}

#[tokio::test]
async fn sessions_over_the_cap_are_refused_politely() {
    let world = World::with(|options| options.limits.sessions = 3).await;
    let mut sessions = vec![];
    for _ in 0..3 {
        sessions.push(world.session().await);
    }
    let (head, body) = world.wire().await.ask("POST", "/mcp", &[], &initialize()).await;
    assert_eq!((head.status, head.header("retry-after")), (503, Some("5")));
    assert_eq!(value(&body)["error"]["code"], -31004);
    assert_eq!(world.house.admitted(), 3);
    world.wire().await.ask("DELETE", "/mcp", &[("Mcp-Session-Id", &sessions[0])], "").await;
    world.session().await;
}

#[tokio::test]
async fn ten_thousand_pending_calls_are_refused_politely() {
    let world = World::new().await;
    let session = world.session().await;
    let batch: Vec<_> = (0..10_000).map(|id| call(id, "slow")).collect();
    let mut wire = world.wire().await;
    wire.send("POST", "/mcp", &[("Mcp-Session-Id", &session)], &format!("[{}]", batch.join(","))).await;
    assert!(wire.head().await.is_stream());
    assert_eq!(world.face_stats.counts().calls, 1024);
    assert_eq!(world.face_stats.counts().refused, 10_000 - 1024);
    let (_, body) =
        world.wire().await.ask("POST", "/mcp", &[("Mcp-Session-Id", &session)], &call("more", "slow")).await;
    let answer = value(&body);
    assert_eq!((&answer["id"], &answer["result"]["isError"]), (&json!("more"), &json!(true)));
    assert_eq!(answer["result"]["_meta"]["dev.regrow/fault"]["kind"], "overloaded");
    let ping = json!({ "jsonrpc": "2.0", "id": 1, "method": "ping" }).to_string();
    let (_, body) = world.wire().await.ask("POST", "/mcp", &[("Mcp-Session-Id", &session)], &ping).await;
    assert_eq!(value(&body)["error"]["code"], -31004);
    let other = world.session().await;
    let (_, body) = world.wire().await.ask("POST", "/mcp", &[("Mcp-Session-Id", &other)], &ping).await;
    assert!(value(&body)["result"].is_object(), "others are served");
}

#[tokio::test]
async fn modern_calls_over_the_cap_are_refused_politely() {
    let world = World::with(|options| options.limits.calls_per_session = 2).await;
    let mut waiting = vec![];
    for id in 0..2 {
        let mut wire = world.wire().await;
        wire.send("POST", "/mcp", &headers("tools/call", "slow"), &modern_call(id, "slow")).await;
        wire.head().await;
        waiting.push(wire);
    }
    let post = async || {
        let sent = headers("tools/call", "slow");
        value(&world.wire().await.ask("POST", "/mcp", &sent, &modern_call(9, "slow")).await.1)
    };
    let refused = post().await;
    assert_eq!((&refused["id"], &refused["result"]["resultType"]), (&json!(9), &json!("complete")));
    assert_eq!(refused["result"]["_meta"]["dev.regrow/fault"]["delivery"], "not-sent");
}

#[tokio::test]
async fn a_legacy_client_that_does_not_read_holds_up_its_own_servers_only() {
    let world = World::with(|options| options.limits.unread = 1 << 20).await;
    let session = world.session().await;
    world.session().await;
    let mut wire = world.wire().await;
    wire.send("POST", "/mcp", &[("Mcp-Session-Id", &session)], &call(1, "slow")).await;
    assert!(wire.head().await.is_stream());
    let (guest, other) = (world.house.guest(0), world.house.guest(1));
    let filler = json!({ "jsonrpc": "2.0", "method": "notifications/message", "params": { "data": "x".repeat(64 << 10) } });
    let mut sent = 0;
    while guest.inbox().has_room() {
        assert!(guest.say(Some(&RawId::from(1)), &filler));
        sent += 1;
        tokio::task::yield_now().await;
    }
    assert!(other.inbox().has_room());
    while guest.say(Some(&RawId::from(1)), &filler) {
        sent += 1; // A server that is read all the same: at some point its notifications are refused.
        assert!(sent < 1000);
    }
    for _ in 0..sent {
        wire.message().await;
    }
    guest.inbox().clone().room().await;
    assert!(guest.inbox().has_room());
}
