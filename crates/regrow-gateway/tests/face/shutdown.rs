//! How it ends: in good order, within its time; and what a panic may not end.

use std::time::Duration;

use regrow::frame::RawId;
use regrow_gateway::face::http::Parting;
use serde_json::json;
use tokio::net::TcpStream;

use crate::world::{World, call, headers, modern, modern_call, value};

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
    assert!(TcpStream::connect(world.address).await.is_err(), "nobody else comes in");
    world.house.guest(0).answer(&RawId::from(1), &json!({ "late": true }));
    assert_eq!(calling.message().await["result"]["late"], true);
    assert_eq!(calling.event().await, None);
    let house = world.house.clone();
    assert_eq!(world.parting().await, Parting { unanswered: 0 });
    house.left().await;
    house.left().await;
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_waits_no_longer_than_its_limit() {
    let mut world = World::with(|options| options.limits.drain = Duration::from_secs(5)).await;
    let mut calling = world.wire().await;
    calling.send("POST", "/mcp", &headers("tools/call", "slow"), &modern_call(1, "slow")).await;
    assert!(calling.head().await.is_stream());
    let began = tokio::time::Instant::now();
    world.shut_down();
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
    assert_eq!(world.census.counts().calls, 0);
}
