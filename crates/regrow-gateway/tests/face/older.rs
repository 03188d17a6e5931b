//! The older HTTP+SSE: one stream that carries everything.

use serde_json::json;

use crate::wire::Wire;
use crate::world::{World, call, initialize, notification};

async fn open(world: &World, path: &str) -> (Wire, String) {
    let mut wire = world.wire().await;
    wire.send("GET", path, &[("Accept", "text/event-stream")], "").await;
    assert!(wire.head().await.is_stream());
    let endpoint = wire.event().await.expect("an endpoint");
    assert_eq!(endpoint.kind, "endpoint");
    (wire, endpoint.data)
}

#[tokio::test]
async fn messages_are_posted_to_the_endpoint_and_answered_on_the_stream() {
    let world = World::with(|options| options.sse = true).await;
    for (path, posts, place) in [
        ("/sse", "/messages?session=", "All LocalUser"),
        ("/servers/files/sse", "/servers/files/messages?session=", "One(\"files\") LocalUser"),
    ] {
        let (mut wire, endpoint) = open(&world, path).await;
        assert!(endpoint.starts_with(posts), "{endpoint}");
        let mut posting = world.wire().await;
        for (body, id) in [(initialize(), 0), (call(1, "echo"), 1), (call(2, "report"), 2)] {
            assert_eq!(posting.ask("POST", &endpoint, &[("Accept", "*/*")], &body).await.0.status, 202);
            let message = wire.message().await;
            match id {
                1 => assert_eq!(message["result"]["place"], place),
                2 => {
                    assert_eq!(message["method"], "notifications/progress");
                    assert_eq!(wire.message().await["id"], 2);
                }
                _ => assert_eq!(message["id"], id),
            }
        }
        let guest = world.house.guest(world.house.admitted() - 1);
        guest.say(None, &notification("notifications/message", json!({ "data": "news" })));
        assert_eq!(wire.message().await["params"]["data"], "news");
    }
}

#[tokio::test]
async fn the_session_ends_with_its_stream_and_is_no_session_of_the_other_transport() {
    let world = World::with(|options| options.sse = true).await;
    let (wire, endpoint) = open(&world, "/sse").await;
    let id = endpoint.split_once('=').unwrap().1.to_owned();
    let (head, _) =
        world.wire().await.ask("POST", "/mcp", &[("Mcp-Session-Id", &id)], &call(1, "echo")).await;
    assert_eq!(head.status, 404);
    let other = world.session().await;
    let (head, _) =
        world.wire().await.ask("POST", &format!("/messages?session={other}"), &[], &call(1, "echo")).await;
    assert_eq!(head.status, 404);
    let (head, _) =
        world.wire().await.ask("POST", &format!("/servers/files{endpoint}"), &[], &call(1, "echo")).await;
    assert_eq!(head.status, 404, "another endpoint");
    drop(wire);
    world.house.left().await;
    let (head, _) = world.wire().await.ask("POST", &endpoint, &[], &call(1, "echo")).await;
    assert_eq!(head.status, 404);
}
