//! How it ends: in good order, within its time; and what a panic may not end.

use std::time::Duration;

use regrow_gateway::face::http::Parting;
use regrow_protocol::frame::RawId;
use serde_json::json;
use tokio::net::TcpStream;

use crate::world::{World, call, headers, initialize, modern, modern_call, value};

#[tokio::test]
async fn a_shutdown_lets_answers_finish_and_ends_streams() {
    let mut world = World::new().await;
    let session = world.session().await;
    let (mut listening, mut calling, mut subscribed) =
        (world.wire().await, world.wire().await, world.wire().await);
    listening.send("GET", "/mcp", &[("Mcp-Session-Id", &session)], "").await;
    assert!(listening.head().await.is_stream());
    calling.send("POST", "/mcp", &[("Mcp-Session-Id", &session)], &call(1, "slow")).await;
    assert!(calling.head().await.is_stream());
    let listen = "subscriptions/listen";
    subscribed.send("POST", "/mcp", &headers(listen, ""), &modern(1, listen, json!({}))).await;
    assert!(subscribed.head().await.is_stream());
    subscribed.message().await;

    world.shut_down();
    assert_eq!(listening.event().await, None);
    assert_eq!(subscribed.event().await, None);
    is_told_of_the_end(&world, &session).await;
    world.house.guest(0).answer(&RawId::from(1), &json!({ "late": true }));
    assert_eq!(calling.message().await["result"]["late"], true);
    assert_eq!(calling.event().await, None);
    let mut late = world.wire().await;
    let (head, body) = late.ask("POST", "/mcp", &[("Mcp-Session-Id", &session)], &call(5, "echo")).await;
    assert_eq!((head.status, &value(&body)["error"]["code"]), (503, &json!(-31007)), "its servers still end");
    assert_eq!(head.header("retry-after"), Some("5"));
    let (house, address) = (world.house.clone(), world.address);
    assert_eq!(world.parting().await, Parting { unanswered: 0 });
    assert!(TcpStream::connect(address).await.is_err(), "nobody is there any more");
    house.left().await;
    house.left().await;
}

/// While calls are in flight, those who are there and those who come are told why nothing new begins.
async fn is_told_of_the_end(world: &World, session: &str) {
    let mut wire = world.wire().await;
    let (head, body) = wire.ask("POST", "/mcp", &[("Mcp-Session-Id", session)], &call(2, "echo")).await;
    let refused = value(&body);
    assert_eq!((head.status, &refused["id"], &refused["result"]["isError"]), (200, &json!(2), &json!(true)));
    let fault = &refused["result"]["_meta"]["dev.regrow/fault"];
    assert_eq!((&fault["kind"], &fault["delivery"]), (&json!("closed"), &json!("not-sent")), "{refused}");
    assert_eq!(fault["retryAfterMs"], 5000);
    let text = refused["result"]["content"][0]["text"].as_str().unwrap_or_default();
    assert!(text.contains("Regrow is shutting down, so this call was refused"), "{text}");
    let mut wire = world.wire().await;
    let note = json!({ "jsonrpc": "2.0", "method": "notifications/progress", "params": {} }).to_string();
    let (head, _) = wire.ask("POST", "/mcp", &[("Mcp-Session-Id", session)], &note).await;
    assert_eq!(head.status, 202, "calls in flight may need it");
    let modern = modern_call(3, "echo");
    for (headers, body) in [(vec![], initialize()), (headers("tools/call", "echo"), modern)] {
        let (head, body) = world.wire().await.ask("POST", "/mcp", &headers, &body).await;
        assert_eq!((head.status, head.header("retry-after")), (503, Some("5")), "{body}");
        assert_eq!(value(&body)["error"]["code"], -31007);
    }
    let (head, _) = world.wire().await.ask("GET", "/mcp", &[("Mcp-Session-Id", session)], "").await;
    assert_eq!(head.status, 503);
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_waits_no_longer_than_its_limit() {
    let mut world = World::with(|options| options.limits.drain = Duration::from_secs(5)).await;
    let mut calling = world.wire().await;
    calling.send("POST", "/mcp", &headers("tools/call", "slow"), &modern_call(1, "slow")).await;
    assert!(calling.head().await.is_stream());
    let began = tokio::time::Instant::now();
    world.shut_down();
    world.servers.take();
    assert_eq!(calling.event().await, None);
    let house = world.house.clone();
    assert_eq!(world.parting().await, Parting { unanswered: 1 });
    assert!(began.elapsed() < Duration::from_secs(7), "{:?}", began.elapsed());
    house.left().await;
}

#[tokio::test]
async fn a_panic_ends_its_own_request_only() {
    let world = World::new().await;
    let session = world.session().await;
    let mut other = world.wire().await;
    other.send("POST", "/mcp", &[("Mcp-Session-Id", &session)], &call(1, "slow")).await;
    assert!(other.head().await.is_stream());
    let mut wire = world.wire().await;
    let (head, body) = wire.ask("POST", "/mcp", &[("Mcp-Session-Id", &session)], &call(2, "panic")).await;
    assert_eq!((head.status, &value(&body)["error"]["code"]), (500, &json!(-32603)));
    let (head, _) = wire.ask("POST", "/mcp", &[("Mcp-Session-Id", &session)], &call(3, "echo")).await;
    assert_eq!(head.status, 200, "not even its connection");
    let modern = modern_call(1, "panic");
    assert_eq!(wire.ask("POST", "/mcp", &headers("tools/call", "panic"), &modern).await.0.status, 500);
    world.house.guest(0).answer(&RawId::from(1), &json!({ "fine": true }));
    assert_eq!(other.message().await["result"]["fine"], true);
    assert_eq!(world.face_stats.counts().calls, 0);
}
