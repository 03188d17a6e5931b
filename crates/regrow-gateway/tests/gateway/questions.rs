//! What servers ask and tell by themselves: it reaches the client that it is for, and the answer the server that asked.

use regrow_gateway::Clients::{Many, One};
use regrow_gateway::config::Sessions;
use serde_json::json;

use crate::fake::Fake;
use crate::guest::*;
use crate::house::House;

#[tokio::test(start_paused = true)]
async fn two_servers_that_ask_with_equal_ids_each_get_their_own_answer() {
    for clients in [One, Many] {
        let (a, b) = (Fake::legacy("a"), Fake::legacy("b"));
        let house = House::with(clients, &[&a, &b], |options| options.sessions = Sessions::Private);
        let guest = Guest::legacy(&house.gateway).await;
        guest.tools().await;
        let first = guest.begin(1, "a__ask", json!({ "text": "question of a" }));
        let second = guest.begin(2, "b__ask", json!({ "text": "question of b" }));
        settle().await;
        let mut asked = guest.incoming();
        asked.retain(|incoming| incoming.frame.method() == Some("sampling/createMessage"));
        assert_eq!(asked.len(), 2, "{clients:?}");
        assert_ne!(asked[0].epoch, asked[1].epoch, "no two sessions have the same number");
        for question in asked.iter().rev() {
            let text = read(question.frame.bytes())["params"]["question"].as_str().unwrap().to_owned();
            let call = question.call.as_ref().map(ToString::to_string);
            assert_eq!(call.as_deref(), Some(if text.ends_with('a') { "1" } else { "2" }));
            assert!(guest.answer(question, &json!({ "text": format!("re: {text}") })));
        }
        assert_eq!(said(&first.end().await), "a: re: question of a");
        assert_eq!(said(&second.end().await), "b: re: question of b");
    }
}

#[tokio::test(start_paused = true)]
async fn a_question_of_a_dead_server_is_taken_back_and_a_late_answer_goes_nowhere() {
    let (a, b) = (Fake::legacy("a"), Fake::legacy("b"));
    let house = House::new(One, &[&a, &b]);
    let guest = Guest::legacy(&house.gateway).await;
    guest.tools().await;
    let call = guest.begin(1, "a__ask", json!({ "text": "q" }));
    settle().await;
    let asked = guest.incoming();
    a.die();
    let ended = call.end().await;
    assert_eq!(ended["failed"], "Interrupted", "{ended}");
    settle().await;
    let again = guest.begin(2, "a__ask", json!({ "text": "another" }));
    settle().await;
    assert!(!guest.answer(&asked[0], &json!({ "text": "late" })));
    let asked = guest.incoming();
    assert!(guest.answer(asked.last().expect("it asks"), &json!({ "text": "right" })));
    assert_eq!(said(&again.end().await), "a: right");
}

#[tokio::test(start_paused = true)]
async fn a_shared_session_asks_nobody_anything() {
    let (a, b) = (Fake::legacy("a"), Fake::legacy("b"));
    let house = House::new(Many, &[&a, &b]);
    let guest = Guest::legacy(&house.gateway).await;
    guest.tools().await;
    assert_eq!(a.heard_of("initialize")[0]["params"]["capabilities"], json!({}));
    assert!(guest.call("a__ask", "q").await.starts_with("a: no answer"));
    assert_eq!(guest.methods(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn progress_and_logs_reach_the_client_whose_call_they_belong_to() {
    for (clients, sessions) in [(One, Sessions::Shared), (Many, Sessions::Shared), (Many, Sessions::Private)]
    {
        for modern in [false, true] {
            let (a, b) = (Fake::new("a", modern), Fake::legacy("b"));
            let house = House::with(clients, &[&a, &b], |options| options.sessions = sessions);
            let guest = Guest::legacy(&house.gateway).await;
            let other = (clients == Many).then(|| Guest::modern(&house.gateway));
            guest.tools().await;
            let params = json!({
                "name": "a__progress", "arguments": { "text": "x" }, "_meta": { "progressToken": "mine" },
            });
            let call = guest.send(&json!(7), "tools/call", params);
            assert_eq!(said(&call.end().await), "a: x");
            let told = guest.incoming();
            let tokens: Vec<_> =
                told.iter().map(|told| read(told.frame.bytes())["params"]["progressToken"].clone()).collect();
            assert_eq!(tokens, ["mine", "mine"], "{clients:?} {sessions:?} modern {modern}");
            assert!(told.iter().all(|told| told.call.as_ref().is_some_and(|call| call.as_bytes() == b"7")));
            settle().await;
            assert!(other.is_none_or(|other| other.methods().is_empty()));
            assert_eq!(guest.methods(), [""; 0]);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn logs_of_a_session_of_its_own_reach_the_client() {
    for clients in [One, Many] {
        let (a, b) = (Fake::legacy("a"), Fake::legacy("b"));
        let house = House::with(clients, &[&a, &b], |options| options.sessions = Sessions::Private);
        let guest = Guest::legacy(&house.gateway).await;
        guest.tools().await;
        guest.call("a__log", "hello").await;
        let heard = guest.heard();
        assert_eq!(heard.len(), 1, "{heard:?}");
        assert_eq!(heard[0]["params"]["data"], "hello");
    }
}

#[tokio::test(start_paused = true)]
async fn a_cancellation_reaches_only_the_server_that_has_the_call() {
    for (clients, sessions) in [(One, Sessions::Shared), (Many, Sessions::Shared), (Many, Sessions::Private)]
    {
        let (a, b) = (Fake::legacy("a"), Fake::modern("b"));
        let house = House::with(clients, &[&a, &b], |options| options.sessions = sessions);
        let guest = Guest::legacy(&house.gateway).await;
        guest.tools().await;
        let mut calls = [guest.begin(1, "a__hang", json!({})), guest.begin(2, "b__hang", json!({}))];
        settle().await;
        assert!(guest.cancel(2));
        settle().await;
        assert_eq!((a.count("notifications/cancelled"), b.count("notifications/cancelled")), (0, 1));
        let cancelled = &b.heard_of("notifications/cancelled")[0]["params"]["requestId"];
        assert_eq!(*cancelled, b.heard_of("tools/call")[0]["id"]);
        assert!(!guest.cancel(2), "it is gone");
        assert!(!guest.cancel(3), "it never was");
        assert_eq!((calls[0].now(), calls[1].now()), (None, Some(json!(null))), "{clients:?}");
        assert_eq!(house.report("b").in_flight, 0);
    }
}
