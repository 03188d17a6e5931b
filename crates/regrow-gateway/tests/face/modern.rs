//! The modern era: headers and bodies that agree, requests that stand for themselves, and streams whose closing cancels.

use std::time::Duration;

use regrow_protocol::frame::RawId;
use serde_json::{Value, json};

use crate::house::Seen;
use crate::world::{World, call, headers, modern, modern_call, notification, value};

const LISTEN: &str = "subscriptions/listen";

fn subscribed(id: u64, method: &str) -> Value {
    notification(method, json!({ "_meta": { "io.modelcontextprotocol/subscriptionId": id } }))
}

#[tokio::test]
async fn requests_need_no_session_and_share_one_guest() {
    let world = World::new().await;
    for id in [json!(1), json!("1"), json!(-7)] {
        let (head, body) = world
            .wire()
            .await
            .ask("POST", "/mcp", &headers("tools/call", "echo"), &modern_call(id.clone(), "echo"))
            .await;
        assert_eq!((head.status, head.header("mcp-session-id")), (200, None));
        assert_eq!((&value(&body)["id"], &value(&body)["result"]["place"]), (&id, &json!("All LocalUser")));
    }
    assert_eq!(world.house.admitted(), 1);
    let path = "/servers/files/mcp";
    let (_, body) =
        world.wire().await.ask("POST", path, &headers("tools/call", "echo"), &modern_call(1, "echo")).await;
    assert_eq!(value(&body)["result"]["place"], "One(\"files\") LocalUser");
    assert_eq!(world.house.admitted(), 2);
}

#[tokio::test]
async fn headers_and_body_that_disagree_are_refused_and_nothing_is_forwarded() {
    let world = World::new().await;
    let body = modern(1, "tools/call", json!({ "name": "echo", "arguments": { "region": "eu" } }));
    let version = ("MCP-Protocol-Version", "2026-07-28");
    let (method, name) = (("Mcp-Method", "tools/call"), ("Mcp-Name", "echo"));
    for wrong in [
        vec![method, name],
        vec![version, name],
        vec![version, method],
        vec![("MCP-Protocol-Version", "2025-11-25"), method, name],
        vec![version, ("Mcp-Method", "tools/list"), name],
        vec![version, ("Mcp-Method", "TOOLS/CALL"), name],
        vec![version, method, ("Mcp-Name", "other")],
        vec![version, method, ("Mcp-Name", "=?base64?b3RoZXI=?=")],
        vec![version, method, ("Mcp-Name", "=?base64?!?=")],
        vec![version, method, name, name],
        vec![version, method, name, ("Mcp-Param-Region", "us")],
        vec![version, method, name, ("Mcp-Param-Region", "=?base64?ZX?=")],
        vec![version, method, name, ("Mcp-Param-Region", "=?base64?ZXUNCg==?=")],
    ] {
        let (head, answer) = world.wire().await.ask("POST", "/mcp", &wrong, &body).await;
        assert_eq!((head.status, &value(&answer)["error"]["code"]), (400, &json!(-32020)), "{wrong:?}");
        assert_eq!(value(&answer)["id"], 1, "{wrong:?}");
    }
    assert_eq!(world.house.admitted(), 0);
    let right = [version, method, ("Mcp-Name", "=?base64?ZWNobw==?="), ("Mcp-Param-Region", "eu")];
    assert_eq!(world.wire().await.ask("POST", "/mcp", &right, &body).await.0.status, 200);
}

#[tokio::test]
async fn a_call_without_the_header_of_a_mirrored_argument_is_refused_and_nothing_is_forwarded() {
    let world = World::new().await;
    let call =
        |arguments: Value| modern(1, "tools/call", json!({ "name": "deploy", "arguments": arguments }));
    let with =
        |region: &[(&'static str, &'static str)]| [&headers("tools/call", "deploy")[..], region].concat();
    let eu = call(json!({ "region": "eu", "zone": "us" }));
    for wrong in [vec![], vec![("Mcp-Param-Region", "us")], vec![("Mcp-Param-Region", "eu"); 2]] {
        let (head, answer) = world.wire().await.ask("POST", "/mcp", &with(&wrong), &eu).await;
        assert_eq!((head.status, &value(&answer)["error"]["code"]), (400, &json!(-32020)), "{wrong:?}");
        assert_eq!(value(&answer)["id"], 1, "{wrong:?}");
    }
    assert_eq!(world.house.admitted(), 0);
    for (right, body) in [
        (vec![("Mcp-Param-Region", "eu")], &eu),
        (vec![("Mcp-Param-Region", "=?base64?ZXU=?=")], &eu),
        (vec![("Mcp-Param-Region", "eu"), ("Mcp-Param-Unknown", "anything")], &eu),
        (vec![], &call(json!({ "region": null }))),
        (vec![], &call(json!({}))),
    ] {
        let (head, answer) = world.wire().await.ask("POST", "/mcp", &with(&right), body).await;
        assert_eq!(head.status, 200, "{right:?}: {answer:?}");
    }
}

#[tokio::test]
async fn a_line_break_in_a_header_is_no_request_at_all() {
    let world = World::new().await;
    let body = modern_call(1, "echo");
    let mut wire = world.wire().await;
    let mut sent = headers("tools/call", "echo");
    sent.push(("Mcp-Param-Region", "eu\u{0}"));
    wire.send("POST", "/mcp", &sent, &body).await;
    assert_eq!(wire.head().await.status, 400);
    assert_eq!(world.house.admitted(), 0);
}

#[tokio::test]
async fn a_version_that_is_not_spoken_is_told_which_are() {
    let world = World::new().await;
    let body = modern_call(1, "echo").replace("2026-07-28", "2030-01-01");
    let sent = [("MCP-Protocol-Version", "2030-01-01"), ("Mcp-Method", "tools/call"), ("Mcp-Name", "echo")];
    let (head, answer) = world.wire().await.ask("POST", "/mcp", &sent, &body).await;
    let error = &value(&answer)["error"];
    assert_eq!(
        (head.status, &error["code"], &error["data"]["requested"]),
        (400, &json!(-32022), &json!("2030-01-01"))
    );
    assert_eq!(error["data"]["supported"], json!(["2026-07-28"]), "as a discover says it");
    assert_eq!(world.house.admitted(), 0);
}

#[tokio::test]
async fn a_request_without_what_it_must_carry_is_refused() {
    let world = World::new().await;
    for body in [
        json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list" }).to_string(),
        modern(1, "tools/list", json!({})).replace("clientCapabilities", "other"),
    ] {
        let (head, answer) = world.wire().await.ask("POST", "/mcp", &headers("tools/list", ""), &body).await;
        assert_eq!((head.status, &value(&answer)["error"]["code"]), (400, &json!(-32602)), "{body}");
    }
    for body in
        [format!("[{}]", modern(1, "tools/list", json!({}))), json!({ "id": 1, "result": {} }).to_string()]
    {
        let (head, _) = world.wire().await.ask("POST", "/mcp", &headers("tools/list", ""), &body).await;
        assert_eq!(head.status, 400, "{body}");
    }
    assert_eq!(world.house.admitted(), 0);
}

#[tokio::test]
async fn an_unknown_method_is_not_found() {
    let world = World::new().await;
    let (head, answer) = world
        .wire()
        .await
        .ask("POST", "/mcp", &headers("no/such", ""), &modern(1, "no/such", json!({})))
        .await;
    assert_eq!((head.status, &value(&answer)["error"]["code"]), (404, &json!(-32601)));
}

#[tokio::test]
async fn an_error_that_comes_late_still_has_its_status() {
    let world = World::with(|options| {
        options.limits.hold = Duration::ZERO;
        options.limits.modern_hold = Duration::from_secs(3600);
    })
    .await;
    let mut wire = world.wire().await;
    wire.send("POST", "/mcp", &headers("tools/call", "slow"), &modern_call(1, "slow")).await;
    let id = world.house.request().await["id"].as_u64().unwrap();
    world.house.guest(0).refuse(&RawId::from(id));
    assert_eq!(wire.head().await.status, 404);
}

#[tokio::test]
async fn notifications_are_accepted() {
    let world = World::new().await;
    let body = notification("notifications/other", json!({})).to_string();
    assert_eq!(
        world.wire().await.ask("POST", "/mcp", &headers("notifications/other", ""), &body).await.0.status,
        202
    );
    assert!(matches!(world.house.next().await, Seen::Forwarded(method) if method == "notifications/other"));
    assert_eq!(world.wire().await.ask("POST", "/mcp", &headers("other", ""), &body).await.0.status, 400);
}

#[tokio::test]
async fn two_clients_with_equal_ids_and_tokens_hear_only_their_own() {
    let world = World::new().await;
    let (mut one, mut two) = (world.wire().await, world.wire().await);
    for wire in [&mut one, &mut two] {
        wire.send("POST", "/mcp", &headers("tools/call", "slow"), &modern_call("same", "slow")).await;
        assert!(wire.head().await.is_stream());
    }
    let guest = world.house.guest(0);
    let mut ours = vec![];
    for _ in 0..2 {
        let request = world.house.request().await;
        assert_eq!(request["id"], request["params"]["_meta"]["progressToken"]);
        ours.push(request["id"].as_u64().unwrap());
    }
    assert_ne!(ours[0], ours[1]);
    for (number, word) in [(ours[1], "two"), (ours[0], "one")] {
        let params = json!({ "progressToken": number, "progress": 1, "message": word });
        assert!(guest.say(None, &notification("notifications/progress", params)));
        let of_call = notification("notifications/message", json!({ "data": word }));
        assert!(guest.say(Some(&RawId::from(number)), &of_call));
        guest.answer(&RawId::from(number), &json!({ "word": word }));
    }
    for (wire, word) in [(&mut one, "one"), (&mut two, "two")] {
        let progress = wire.message().await;
        assert_eq!(
            (&progress["params"]["progressToken"], &progress["params"]["message"]),
            (&json!("t"), &json!(word))
        );
        assert_eq!(wire.message().await["params"]["data"], word);
        let answer = wire.message().await;
        assert_eq!((&answer["id"], &answer["result"]["word"]), (&json!("same"), &json!(word)));
        assert_eq!(wire.event().await, None);
    }
}

#[tokio::test]
async fn what_belongs_to_no_request_is_dropped_and_counted() {
    let world = World::new().await;
    world.wire().await.ask("POST", "/mcp", &headers("tools/call", "echo"), &modern_call(1, "echo")).await;
    let guest = world.house.guest(0);
    for stray in [
        notification("notifications/message", json!({ "data": 1 })),
        notification("notifications/progress", json!({ "progressToken": 1, "progress": 1 })),
        notification("notifications/progress", json!({ "progressToken": "x", "progress": 1 })),
        subscribed(1, "notifications/tools/list_changed"),
    ] {
        assert!(!guest.say(None, &stray), "{stray}");
    }
    assert!(!guest.say(None, &notification("notifications/cancelled", json!({ "requestId": 1 }))));
    assert!(!guest.say(Some(&RawId::from(99)), &notification("notifications/message", json!({}))));
    assert_eq!(world.face_stats.counts().strays, 6);
    assert!(guest.inbox().auto_reply("roots/list").is_some(), "no modern client can be asked");
}

#[tokio::test]
async fn closing_the_response_cancels_the_request_and_nothing_else() {
    let world = World::new().await;
    let (mut one, mut two) = (world.wire().await, world.wire().await);
    for wire in [&mut one, &mut two] {
        wire.send("POST", "/mcp", &headers("tools/call", "slow"), &modern_call(1, "slow")).await;
        assert!(wire.head().await.is_stream());
    }
    let first = world.house.request().await["id"].to_string();
    let second: u64 = world.house.request().await["id"].as_u64().unwrap();
    drop(one);
    assert_eq!(world.house.cancelled().await, first);
    world.house.guest(0).answer(&RawId::from(second), &json!({ "fine": true }));
    assert_eq!(two.message().await["result"]["fine"], true);
    assert_eq!(world.face_stats.counts().calls, 0);
}

#[tokio::test(start_paused = true)]
async fn leaving_before_the_headers_cancels_too() {
    let world = World::with(|options| options.limits.modern_hold = Duration::from_secs(3600)).await;
    let mut wire = world.wire().await;
    wire.send("POST", "/mcp", &headers("tools/call", "slow"), &modern_call(1, "slow")).await;
    let id = world.house.request().await["id"].to_string();
    drop(wire);
    assert_eq!(world.house.cancelled().await, id);
}

#[tokio::test]
async fn a_subscription_is_a_stream_under_the_clients_own_id() {
    let world = World::new().await;
    let mut wire = world.wire().await;
    wire.send("POST", "/mcp", &headers(LISTEN, ""), &modern("mine", LISTEN, json!({ "notifications": {} })))
        .await;
    assert!(wire.head().await.is_stream());
    let key = "io.modelcontextprotocol/subscriptionId";
    let acknowledged = wire.message().await;
    assert_eq!(acknowledged["params"]["_meta"][key], "mine");
    let guest = world.house.guest(0);
    let ours = world.house.request().await["id"].as_u64().unwrap();
    assert!(guest.say(None, &subscribed(ours, "notifications/tools/list_changed")));
    let changed = wire.message().await;
    assert_eq!(
        (&changed["method"], &changed["params"]["_meta"][key]),
        (&json!("notifications/tools/list_changed"), &json!("mine"))
    );
    guest
        .answer(&RawId::from(ours), &json!({ "resultType": "complete", "_meta": { key: ours, "other": 1 } }));
    let end = wire.message().await;
    assert_eq!((&end["id"], &end["result"]["_meta"][key]), (&json!("mine"), &json!("mine")));
    assert_eq!(end["result"]["_meta"]["other"], 1);
    assert_eq!(wire.event().await, None);
}

#[tokio::test(start_paused = true)]
async fn a_guest_that_nobody_needs_leaves_and_another_comes() {
    let world = World::with(|options| options.limits.modern_idle = Duration::from_secs(60)).await;
    let body = modern_call(1, "echo");
    world.wire().await.ask("POST", "/mcp", &headers("tools/call", "echo"), &body).await;
    world.house.left().await;
    let (head, _) = world.wire().await.ask("POST", "/mcp", &headers("tools/call", "echo"), &body).await;
    assert_eq!((head.status, world.house.admitted()), (200, 2));
}

#[tokio::test]
async fn a_client_that_does_not_read_is_cut_off_and_holds_up_nobody() {
    let world = World::with(|options| options.limits.unread = 1 << 20).await;
    let mut wire = world.wire().await;
    wire.send("POST", "/mcp", &headers("tools/call", "slow"), &modern_call(1, "slow")).await;
    let ours = world.house.request().await["id"].clone();
    let guest = world.house.guest(0);
    let filler = notification("notifications/message", json!({ "data": "x".repeat(64 << 10) }));
    // Nothing is read meanwhile: at some point all buffers below are full.
    let id = RawId::from(ours.as_u64().unwrap());
    while guest.say(Some(&id), &filler) {
        assert!(guest.inbox().has_room());
        tokio::task::yield_now().await;
    }
    assert_eq!(world.house.cancelled().await, ours.to_string());
    let (head, _) =
        world.wire().await.ask("POST", "/mcp", &headers("tools/call", "echo"), &modern_call(1, "echo")).await;
    assert_eq!(head.status, 200);
}

#[tokio::test]
async fn both_eras_are_served_side_by_side() {
    let world = World::new().await;
    let session = world.session().await;
    let mut wire = world.wire().await;
    for _ in 0..3 {
        let (_, body) = wire.ask("POST", "/mcp", &[("Mcp-Session-Id", &session)], &call(1, "echo")).await;
        assert_eq!(value(&body)["id"], 1);
        // A session id means nothing to a modern request.
        let mut sent = headers("tools/call", "echo");
        sent.push(("Mcp-Session-Id", "unknown"));
        let (_, body) = wire.ask("POST", "/mcp", &sent, &modern_call(2, "echo")).await;
        assert_eq!(value(&body)["id"], 2);
    }
    assert_eq!(world.house.admitted(), 2);
}
