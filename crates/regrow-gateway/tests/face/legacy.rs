//! Legacy sessions: how they begin and end, whose they are, and where each message goes.

use std::collections::HashSet;
use std::time::Duration;

use regrow::core::Epoch;
use regrow_gateway::config::Secret;
use regrow_protocol::frame::RawId;
use serde_json::json;
use tokio::time::Instant;

use crate::house::Seen;
use crate::world::{World, call, initialize, notification, value};

fn with(session: &str) -> [(&str, &str); 1] {
    [("Mcp-Session-Id", session)]
}

#[tokio::test]
async fn a_session_begins_with_initialize_under_an_id_that_nobody_guesses() {
    let world = World::new().await;
    let mut ids = HashSet::new();
    for _ in 0..100 {
        let id = world.session().await;
        assert!(id.len() >= 32, "192 bits in Base64: {id}");
        assert!(id.bytes().all(|byte| byte.is_ascii_graphic()), "{id}");
        assert!(ids.insert(id));
    }
    assert_eq!(world.house.admitted(), 100, "one guest for each");
    assert_eq!(world.face_stats.counts().sessions, 100);
}

#[tokio::test]
async fn a_request_without_a_session_is_a_mistake_and_of_an_unknown_one_not_found() {
    let world = World::new().await;
    let (head, body) = world.wire().await.ask("POST", "/mcp", &[], &call(5, "echo")).await;
    assert_eq!((head.status, value(&body)["id"].as_u64()), (400, Some(5)));
    for id in ["unknown", "", "\u{e9}"] {
        let (head, body) = world.wire().await.ask("POST", "/mcp", &with(id), &call(5, "echo")).await;
        assert_eq!((head.status, value(&body)["id"].as_u64()), (404, Some(5)), "{id}");
        for method in ["GET", "DELETE"] {
            assert_eq!(world.wire().await.ask(method, "/mcp", &with(id), "").await.0.status, 404);
        }
    }
    assert_eq!(world.house.admitted(), 0);
}

#[tokio::test]
async fn a_long_response_arrives_whole_as_json_as_an_event_and_in_a_batch() {
    let result = json!({ "text": "prose\n and \"code\" ".repeat(50_000) });
    for hold in [Duration::from_secs(60), Duration::ZERO] {
        let world = World::with(|options| options.limits.hold = hold).await;
        let session = world.session().await;
        for (id, batch) in [(json!(7), false), (json!("a\"b"), false), (json!(-1.5), true)] {
            let mut wire = world.wire().await;
            let call = call(id.clone(), "slow");
            let body = if batch { format!("[{call}]") } else { call };
            wire.send("POST", "/mcp", &with(&session), &body).await;
            while world.house.request().await["method"] != "tools/call" {}
            let guest = world.house.guest(0);
            guest.answer(&RawId::parse(id.to_string().as_bytes()).unwrap(), &result);
            let response = json!({ "jsonrpc": "2.0", "id": id, "result": result });
            let expected = if batch { json!([response]) } else { response };
            assert!(wire.answer().await == expected, "{id} {hold:?}");
        }
    }
}

#[tokio::test]
async fn the_session_of_another_principal_or_endpoint_is_as_unknown_as_any() {
    let world = World::with(|options| options.tokens = vec![Secret::new("one"), Secret::new("two")]).await;
    let (one, two) = (("Authorization", "Bearer one"), ("Authorization", "Bearer two"));
    let session = world.session_of("/mcp", &[one]).await;
    let mine = ("Mcp-Session-Id", session.as_str());
    let unknown =
        world.wire().await.ask("POST", "/mcp", &[one, ("Mcp-Session-Id", "x")], &call(1, "echo")).await;
    for (method, path, who) in [
        ("POST", "/mcp", two),
        ("GET", "/mcp", two),
        ("DELETE", "/mcp", two),
        ("POST", "/servers/files/mcp", one),
        ("GET", "/servers/files/mcp", one),
        ("DELETE", "/servers/files/mcp", one),
    ] {
        let body = if method == "POST" { call(1, "echo") } else { String::new() };
        let (head, body) = world.wire().await.ask(method, path, &[who, mine], &body).await;
        assert_eq!(head.status, 404, "{method} {path}");
        if method == "POST" {
            assert_eq!(body, unknown.1, "nothing else is revealed");
        }
    }
    let (head, _) = world.wire().await.ask("POST", "/mcp", &[one, mine], &call(1, "echo")).await;
    assert_eq!(head.status, 200, "and its owner notices nothing");
}

#[tokio::test]
async fn a_version_that_is_not_spoken_is_refused() {
    let world = World::new().await;
    let session = world.session().await;
    for (version, status) in [
        ("2025-06-18", 200),
        ("2025-03-26", 200),
        ("2024-11-05", 200),
        ("1900-01-01", 400),
        ("x", 400),
        ("", 400),
    ] {
        let headers = [("Mcp-Session-Id", session.as_str()), ("MCP-Protocol-Version", version)];
        let (head, _) = world.wire().await.ask("POST", "/mcp", &headers, &call(1, "echo")).await;
        assert_eq!(head.status, status, "{version}");
    }
}

#[tokio::test]
async fn an_answer_that_comes_first_is_json_and_keeps_its_id() {
    let world = World::new().await;
    let session = world.session_of("/servers/files/mcp", &[]).await;
    let mut wire = world.wire().await;
    for id in [json!(1), json!("1"), json!(1.5), json!("\u{fc}\"")] {
        let (head, body) =
            wire.ask("POST", "/servers/files/mcp", &with(&session), &call(id.clone(), "echo")).await;
        assert_eq!((head.status, head.header("content-type")), (200, Some("application/json")));
        assert_eq!(value(&body)["id"], id);
        assert_eq!(value(&body)["result"]["echo"]["id"], id);
        assert_eq!(value(&body)["result"]["place"], "One(\"files\") LocalUser");
    }
}

#[tokio::test]
async fn what_precedes_an_answer_makes_it_a_stream() {
    let world = World::new().await;
    let session = world.session().await;
    let mut wire = world.wire().await;
    wire.send("POST", "/mcp", &with(&session), &call(1, "report")).await;
    let head = wire.head().await;
    assert!(head.is_stream());
    assert_eq!(head.header("x-accel-buffering"), Some("no"));
    assert_eq!(wire.any_event().await.unwrap().retry, "1000");
    assert_eq!(wire.message().await["params"]["progressToken"], "t");
    assert_eq!(wire.message().await["result"]["told"], true);
    assert_eq!(wire.event().await, None, "the answer ends the stream");
}

#[tokio::test]
async fn a_long_call_gets_its_headers_before_its_answer() {
    let world = World::new().await;
    let session = world.session().await;
    let mut wire = world.wire().await;
    wire.send("POST", "/mcp", &with(&session), &call(1, "slow")).await;
    assert!(wire.head().await.is_stream());
    world.house.guest(0).answer(&RawId::from(1), &json!({ "late": true }));
    assert_eq!(wire.message().await["result"]["late"], true);
}

#[tokio::test(start_paused = true)]
async fn a_silent_stream_shows_signs_of_life() {
    let world = World::new().await;
    let session = world.session().await;
    let mut wire = world.wire().await;
    wire.send("GET", "/mcp", &with(&session), "").await;
    assert!(wire.head().await.is_stream());
    let began = Instant::now();
    assert_eq!(wire.any_event().await.unwrap().retry, "1000");
    for _ in 0..3 {
        assert!(wire.any_event().await.unwrap().is_comment);
    }
    assert_eq!(began.elapsed().as_secs(), 60);
}

#[tokio::test]
async fn notifications_and_answers_are_accepted_and_handed_on() {
    let world = World::new().await;
    let session = world.session().await;
    world.house.request().await;
    let mut wire = world.wire().await;
    let initialized = notification("notifications/initialized", json!({})).to_string();
    let (head, body) = wire.ask("POST", "/mcp", &with(&session), &initialized).await;
    assert_eq!((head.status, body.as_str()), (202, ""));
    assert!(
        matches!(world.house.next().await, Seen::Forwarded(method) if method == "notifications/initialized")
    );

    let cancelled = notification("notifications/cancelled", json!({ "requestId": 77 })).to_string();
    assert_eq!(wire.ask("POST", "/mcp", &with(&session), &cancelled).await.0.status, 202);
    assert_eq!(world.house.cancelled().await, "77");

    let answer = json!({ "jsonrpc": "2.0", "id": 12, "result": {} }).to_string();
    assert_eq!(wire.ask("POST", "/mcp", &with(&session), &answer).await.0.status, 202);
    assert_eq!(world.face_stats.counts().strays, 1, "nobody had asked: dropped and counted");
}

#[tokio::test]
async fn a_cancelled_call_gets_no_answer_and_its_stream_ends() {
    let world = World::new().await;
    let session = world.session().await;
    let mut wire = world.wire().await;
    wire.send("POST", "/mcp", &with(&session), &call(1, "slow")).await;
    assert!(wire.head().await.is_stream());
    let cancelled = notification("notifications/cancelled", json!({ "requestId": 1 })).to_string();
    world.wire().await.ask("POST", "/mcp", &with(&session), &cancelled).await;
    assert_eq!(wire.event().await, None);
    assert_eq!(world.face_stats.counts().calls, 0);
}

#[tokio::test]
async fn the_answers_to_a_batch_are_one_array() {
    let world = World::new().await;
    let session = world.session().await;
    let news = notification("notifications/initialized", json!({}));
    let batch = format!("[{},{news},5,{}]", call(1, "echo"), call(2, "echo"));
    let (head, body) = world.wire().await.ask("POST", "/mcp", &with(&session), &batch).await;
    assert_eq!(head.status, 200);
    let ids: Vec<_> = value(&body).as_array().unwrap().iter().map(|answer| answer["id"].clone()).collect();
    assert_eq!(ids, [json!(1), json!(null), json!(2)]);
    let (head, _) = world.wire().await.ask("POST", "/mcp", &with(&session), &format!("[{news}]")).await;
    assert_eq!(head.status, 202);
    let (head, _) = world.wire().await.ask("POST", "/mcp", &[], &format!("[{}]", initialize())).await;
    assert_eq!(head.status, 400, "no session begins in a batch");
}

#[tokio::test]
async fn a_question_goes_to_the_stream_of_its_call_and_the_answer_to_the_server() {
    let world = World::new().await;
    let session = world.session().await;
    let mut listening = world.wire().await;
    listening.send("GET", "/mcp", &with(&session), "").await;
    assert!(listening.head().await.is_stream());
    let mut wire = world.wire().await;
    wire.send("POST", "/mcp", &with(&session), &call(1, "ask")).await;
    assert!(wire.head().await.is_stream());
    let question = wire.message().await;
    assert_eq!(question["method"], "sampling/createMessage");
    assert_ne!(question["id"], "theirs", "each question has a number of ours");
    let answer = json!({ "jsonrpc": "2.0", "id": question["id"], "result": { "text": "yes" } }).to_string();
    for expected in [0, 1] {
        assert_eq!(world.wire().await.ask("POST", "/mcp", &with(&session), &answer).await.0.status, 202);
        assert_eq!(world.face_stats.counts().strays, expected, "a second answer is dropped");
    }
    let seen = loop {
        if let Seen::Answer(seen) = world.house.next().await {
            break seen;
        }
    };
    assert!(seen.starts_with("7 \"theirs\" ") && seen.contains("\"id\":\"theirs\""), "{seen}");
}

#[tokio::test]
async fn what_belongs_to_no_call_goes_to_who_listens_else_to_the_newest_call_else_it_waits() {
    let world = World::new().await;
    let session = world.session().await;
    let guest = world.house.guest(0);
    let say = |what: &str| guest.say(None, &notification("notifications/message", json!({ "data": what })));
    assert!(say("waits"));
    let (mut older, mut newer) = (world.wire().await, world.wire().await);
    for (id, wire) in [(1, &mut older), (2, &mut newer)] {
        wire.send("POST", "/mcp", &with(&session), &call(id, "slow")).await;
        assert!(wire.head().await.is_stream());
    }
    assert!(say("newest call"));
    assert_eq!(newer.message().await["params"]["data"], "newest call");
    let mut listening = world.wire().await;
    listening.send("GET", "/mcp", &with(&session), "").await;
    assert!(listening.head().await.is_stream());
    assert_eq!(listening.message().await["params"]["data"], "waits");
    assert!(say("listener"));
    assert_eq!(listening.message().await["params"]["data"], "listener");

    let of_call = notification("notifications/message", json!({ "data": "of 1" }));
    assert!(guest.say(Some(&RawId::from(1)), &of_call));
    assert_eq!(older.message().await["params"]["data"], "of 1");
    let nobodys =
        notification("notifications/progress", json!({ "progressToken": "nobody's", "progress": 1 }));
    assert!(!guest.say(None, &nobodys));
    assert_eq!(world.face_stats.counts().strays, 1);
}

#[tokio::test]
async fn of_what_waits_for_a_listener_the_newest_win_and_questions_stay() {
    let world = World::with(|options| options.limits.kept_messages = 3).await;
    let session = world.session().await;
    let guest = world.house.guest(0);
    assert!(guest.say(None, &json!({ "jsonrpc": "2.0", "id": 1, "method": "roots/list" })));
    for number in 0..10 {
        assert!(guest.say(None, &notification("notifications/message", json!({ "data": number }))));
    }
    for id in 2..=3 {
        assert_eq!(guest.inbox().auto_reply("roots/list"), None);
        assert!(guest.say(None, &json!({ "jsonrpc": "2.0", "id": id, "method": "roots/list" })));
    }
    assert!(guest.inbox().auto_reply("roots/list").is_some(), "no more questions than can be kept");
    assert!(guest.inbox().has_room(), "who does not listen holds up no server");
    let mut wire = world.wire().await;
    wire.send("GET", "/mcp", &with(&session), "").await;
    assert!(wire.head().await.is_stream());
    for _ in 0..3 {
        assert_eq!(wire.message().await["method"], "roots/list");
    }
}

#[tokio::test]
async fn questions_of_a_lost_session_are_withdrawn() {
    let world = World::new().await;
    let session = world.session().await;
    let guest = world.house.guest(0);
    let mut wire = world.wire().await;
    wire.send("GET", "/mcp", &with(&session), "").await;
    assert!(wire.head().await.is_stream());
    let question = json!({ "jsonrpc": "2.0", "id": 1, "method": "roots/list" });
    assert!(guest.say_in(Epoch(3), None, &question) && guest.say_in(Epoch(4), None, &question));
    let (lost, kept) = (wire.message().await["id"].clone(), wire.message().await["id"].clone());
    guest.inbox().lost(Epoch(3));
    let withdrawn = wire.message().await;
    assert_eq!(
        (&withdrawn["method"], &withdrawn["params"]["requestId"]),
        (&json!("notifications/cancelled"), &lost)
    );
    assert_ne!(lost, kept);
}

#[tokio::test]
async fn a_second_listener_is_refused_and_the_first_stays() {
    let world = World::new().await;
    let session = world.session().await;
    let mut first = world.wire().await;
    first.send("GET", "/mcp", &with(&session), "").await;
    assert!(first.head().await.is_stream());
    let (head, _) = world.wire().await.ask("GET", "/mcp", &with(&session), "").await;
    assert_eq!(head.status, 409);
    let say = |data| {
        world.house.guest(0).say(None, &notification("notifications/message", json!({ "data": data })))
    };
    say(1);
    let heard = first.event().await.unwrap();
    assert_eq!(heard.json()["params"]["data"], 1);
    let back = [("Mcp-Session-Id", session.as_str()), ("Last-Event-ID", heard.id.as_str())];
    assert_eq!(world.wire().await.ask("GET", "/mcp", &back, "").await.0.status, 409);
    say(2);
    assert_eq!(first.message().await["params"]["data"], 2);
}

#[tokio::test]
async fn deleting_a_session_cancels_its_calls_and_ends_its_streams() {
    let world = World::new().await;
    let session = world.session().await;
    let (mut listening, mut calling) = (world.wire().await, world.wire().await);
    listening.send("GET", "/mcp", &with(&session), "").await;
    calling.send("POST", "/mcp", &with(&session), &call(1, "slow")).await;
    assert!(listening.head().await.is_stream() && calling.head().await.is_stream());
    assert_eq!(world.wire().await.ask("DELETE", "/mcp", &with(&session), "").await.0.status, 200);
    world.house.left().await;
    assert_eq!((listening.event().await, calling.event().await), (None, None));
    for method in ["POST", "GET", "DELETE"] {
        let body = if method == "POST" { call(2, "echo") } else { String::new() };
        assert_eq!(world.wire().await.ask(method, "/mcp", &with(&session), &body).await.0.status, 404);
    }
    let counts = world.face_stats.counts();
    assert_eq!((counts.sessions, counts.calls), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_session_that_nobody_uses_is_forgotten_and_one_with_a_stream_is_not() {
    let world = World::with(|options| options.limits.session_idle = Duration::from_secs(60)).await;
    let (unused, used) = (world.session().await, world.session().await);
    let mut wire = world.wire().await;
    wire.send("GET", "/mcp", &with(&used), "").await;
    assert!(wire.head().await.is_stream());
    let began = Instant::now();
    world.house.left().await;
    assert!((60..75).contains(&began.elapsed().as_secs()), "{:?}", began.elapsed());
    assert_eq!(world.wire().await.ask("POST", "/mcp", &with(&unused), &call(1, "echo")).await.0.status, 404);
    assert_eq!(world.wire().await.ask("POST", "/mcp", &with(&used), &call(1, "echo")).await.0.status, 200);
    drop(wire);
    world.house.left().await;
}

#[tokio::test]
async fn a_session_is_initialized_once() {
    let world = World::new().await;
    let session = world.session().await;
    assert_eq!(world.wire().await.ask("POST", "/mcp", &with(&session), &initialize()).await.0.status, 400);
    assert_eq!(world.wire().await.ask("POST", "/mcp", &with(&session), &call(1, "echo")).await.0.status, 200);
}

#[tokio::test]
async fn a_handshake_that_fails_leaves_no_session() {
    let world = World::new().await;
    let refused = initialize().replace("clientInfo", "refuse");
    let (head, body) = world.wire().await.ask("POST", "/mcp", &[], &refused).await;
    assert_eq!((head.status, head.header("mcp-session-id")), (200, None));
    assert_eq!(value(&body)["error"]["code"], -32602);
    world.house.left().await;
    assert_eq!(world.face_stats.counts().sessions, 0);
}
