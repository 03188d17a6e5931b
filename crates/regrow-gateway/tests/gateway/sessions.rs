//! With `"sessions": "auto"`: who gets a session of its own, when that starts, and whom log messages reach.

use regrow_gateway::Clients::Many;
use regrow_gateway::config::{Options, Sessions};
use serde_json::{Value, json};

use crate::fake::Fake;
use crate::guest::*;
use crate::house::House;

fn auto(fakes: &[&Fake]) -> House {
    House::with(Many, fakes, |options| options.sessions = Options::default().sessions)
}

/// The data of the log messages that a client heard.
fn logged(guest: &Guest) -> Vec<Value> {
    let mut heard = guest.heard();
    heard.retain(|heard| heard["method"] == "notifications/message");
    heard.into_iter().map(|heard| heard["params"]["data"].clone()).collect()
}

#[tokio::test(start_paused = true)]
async fn a_legacy_client_that_can_be_asked_has_its_own_session_and_the_others_share_one() {
    for (capability, is_own) in [
        (json!({ "sampling": {} }), true),
        (json!({ "elicitation": { "form": {} } }), true),
        (json!({ "roots": { "listChanged": true } }), true),
        (json!({ "experimental": {} }), false),
        (json!({}), false),
    ] {
        let (a, b) = (Fake::legacy("a"), Fake::modern("b"));
        let house = auto(&[&a, &b]);
        let mut guests = vec![];
        for _ in 0..2 {
            let guest = Guest::able_to(&house.gateway, capability.clone()).await;
            guest.tools().await;
            assert_eq!(guest.call("a__echo", "x").await, "a: x");
            assert_eq!(guest.call("b__echo", "x").await, "b: x");
            guests.push(guest);
        }
        let modern = Guest::modern(&house.gateway);
        assert_eq!(modern.call("a__echo", "x").await, "a: x");
        assert_eq!((a.starts(), b.starts()), (if is_own { 3 } else { 1 }, 1), "{capability}");
        assert_eq!(house.report("a").private_sessions, if is_own { 2 } else { 0 }, "{capability}");
        assert_eq!(a.heard_in(0, "initialize")[0]["params"]["capabilities"], json!({}));
        if is_own {
            assert_eq!(a.heard_in(1, "initialize")[0]["params"]["capabilities"], capability);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_asks_the_client_of_its_session() {
    let (a, b) = (Fake::legacy("a"), Fake::legacy("b"));
    let house = auto(&[&a, &b]);
    let guest = Guest::able_to(&house.gateway, json!({ "sampling": {} })).await;
    let other = Guest::able_to(&house.gateway, json!({})).await;
    guest.tools().await;
    let call = guest.begin(1, "a__ask", json!({ "text": "q" }));
    settle().await;
    let asked = guest.incoming();
    assert!(guest.answer(&asked[0], &json!({ "text": "yes" })));
    assert_eq!(said(&call.end().await), "a: yes");
    assert!(other.call("a__ask", "q").await.starts_with("a: no answer"), "it declared nothing");
    assert_eq!(other.methods(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_client_that_lists_and_never_calls_starts_nothing() {
    for sessions in [Sessions::Auto, Sessions::Private] {
        let (a, b) = (Fake::legacy("a"), Fake::legacy("b"));
        let house = House::with(Many, &[&a, &b], |options| options.sessions = sessions);
        let guest = Guest::legacy(&house.gateway).await;
        guest.ask("logging/setLevel", json!({ "level": "debug" })).await;
        for _ in 0..20 {
            for method in ["tools/list", "prompts/list", "resources/list", "resources/templates/list", "ping"]
            {
                assert!(guest.ask(method, json!({})).await["result"].is_object(), "{method}");
            }
        }
        a.changes_tools(&["echo", "new"]);
        refresh().await;
        assert!(guest.tools().await.contains(&"a__new".to_owned()));
        assert_eq!((a.starts(), b.starts()), (1, 1), "{sessions:?}: only those that keep the lists");
        assert_eq!(guest.call("a__echo", "x").await, "a: x");
        assert_eq!((a.starts(), b.starts()), (2, 1), "{sessions:?}");
        assert_eq!(a.heard_in(1, "logging/setLevel")[0]["params"]["level"], "debug", "{sessions:?}");
        assert_eq!(a.heard_in(1, "tools/list").len(), 0, "{sessions:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_that_sets_a_level_before_its_first_call_hears_the_server_s_log() {
    let (a, b) = (Fake::legacy("a"), Fake::legacy("b"));
    b.world().capabilities = json!({ "tools": {} });
    let house = auto(&[&a, &b]);
    let guest = Guest::able_to(&house.gateway, json!({})).await;
    let other = Guest::able_to(&house.gateway, json!({})).await;
    guest.tools().await;
    guest.ask("logging/setLevel", json!({ "level": "info" })).await;
    guest.call("a__log", "mine").await;
    other.call("a__log", "of the other").await;
    guest.call("b__echo", "x").await;
    settle().await;
    assert_eq!(logged(&guest), ["mine"]);
    assert_eq!(logged(&other), [json!(null); 0]);
    assert_eq!((a.starts(), b.starts()), (2, 1), "a server that has no log level needs no session for it");
}

#[tokio::test(start_paused = true)]
async fn on_a_shared_session_a_client_hears_what_belongs_to_its_calls_down_to_its_own_level() {
    for sessions in [Sessions::Auto, Sessions::Shared] {
        // Each exchange over HTTP says what belongs to it; on a pipe nothing does.
        for (a, is_told) in [(Fake::legacy("a").far(), true), (Fake::legacy("a"), false)] {
            let house = House::with(Many, &[&a], |options| options.sessions = sessions);
            let mut guests = vec![];
            for level in [Some("debug"), Some("error"), None] {
                let guest = Guest::able_to(&house.gateway, json!({})).await;
                guest.call("echo", "x").await; // From now on it shares the session.
                if let Some(level) = level {
                    guest.ask("logging/setLevel", json!({ "level": level })).await;
                }
                guests.push(guest);
            }
            settle().await;
            for (number, guest) in guests.iter().enumerate() {
                guest.call("log", &format!("by {number}")).await;
            }
            settle().await;
            let heard: Vec<_> = guests.iter().map(logged).collect();
            let first = if is_told { vec![json!("by 0")] } else { vec![] };
            assert_eq!(heard, [first, vec![], vec![]], "{sessions:?}, over HTTP: {is_told}");
            use regrow_gateway::operate::Operate;
            let logs = house.gateway.logs("a").expect("it is there");
            for number in 0..3 {
                let line = format!("by {number}");
                assert!(logs.iter().any(|log| log.contains(&line)), "the operator reads all: {logs:?}");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_modern_request_hears_the_log_of_its_own_call_if_it_asked_for_it() {
    let a = Fake::legacy("a").far();
    let house = auto(&[&a]);
    // As all modern clients of one principal do, two of them use one place.
    let guest = Guest::modern(&house.gateway);
    let with = |text: &str, level: Option<&str>| {
        let mut params = json!({ "name": "log", "arguments": { "text": text } });
        if let Some(level) = level {
            params["_meta"] = json!({ "io.modelcontextprotocol/logLevel": level });
        }
        params
    };
    for (text, level) in
        [("first", Some("info")), ("silent", None), ("strict", Some("error")), ("last", Some("debug"))]
    {
        guest.ask("tools/call", with(text, level)).await;
    }
    settle().await;
    assert_eq!(logged(&guest), ["first", "last"]);
}

#[tokio::test(start_paused = true)]
async fn on_a_shared_session_no_client_can_guess_the_id_of_anothers_call() {
    let a = Fake::legacy("a");
    let house = House::new(Many, &[&a]);
    let (one, other) = (Guest::legacy(&house.gateway).await, Guest::legacy(&house.gateway).await);
    for n in 0..5 {
        one.call("echo", &n.to_string()).await;
        other.call("echo", &n.to_string()).await;
    }
    let ids: Vec<u64> =
        a.heard_of("tools/call").iter().map(|call| call["id"].as_u64().expect("a number")).collect();
    assert_eq!(ids.len(), 10);
    assert!(ids.windows(2).all(|pair| pair[0].abs_diff(pair[1]) > 1000), "{ids:?}");
    assert!(ids.iter().all(|&id| id < 1 << 53), "every server can write them back: {ids:?}");
}
