//! What comes on the exchange of a call belongs to that call, and so does progress under its token.

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use regrow::{Bridge, Era, Inbox, Incoming, Outcome, Request, Upstream};
use regrow_protocol::frame::{Frame, RawId};
use regrow_testkit::remote::Remote;
use regrow_testkit::script::{Act, answer};
use regrow_testkit::world::*;
use serde_json::{Value, json};
use tokio::sync::oneshot;

/// Keeps what it is told, and of which call.
#[derive(Default)]
struct Client(Mutex<Vec<(Option<String>, Value)>>);

impl Inbox for Client {
    fn take(&self, incoming: Incoming) -> bool {
        let message = serde_json::from_slice(incoming.frame.bytes()).unwrap();
        self.0.lock().unwrap().push((incoming.call.map(|call| call.to_string()), message));
        true
    }
}

fn id(raw: &str) -> RawId {
    RawId::parse(raw.as_bytes()).expect("an id")
}

fn ask(far: &impl Upstream, raw_id: &str, method: &str, params: Value) -> oneshot::Receiver<Outcome> {
    let (reply, end) = oneshot::channel();
    let request = format!(r#"{{"jsonrpc":"2.0","id":{raw_id},"method":"{method}","params":{params}}}"#);
    let frame = Frame::parse(Bytes::from(request)).expect("a request");
    far.submit(Request::new(frame, id(raw_id), Box::new(reply)));
    end
}

fn modern(name: &str, mut params: Value) -> Value {
    params["name"] = name.into();
    params["_meta"]["io.modelcontextprotocol/protocolVersion"] = "2026-07-28".into();
    params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = json!({ "elicitation": {} });
    params
}

fn result(outcome: Outcome) -> Value {
    let Outcome::Answered(frame) = outcome else { panic!("{outcome:?}") };
    serde_json::from_slice(frame.result().expect("a result")).expect("JSON")
}

/// A server whose tools ask who calls before they answer.
fn curious() -> Remote {
    Remote::legacy().on("tools/call", |call| {
        let name = call["params"]["name"].as_str().unwrap();
        let params = json!({ "message": name, "requestedSchema": {} });
        let question =
            json!({ "jsonrpc": "2.0", "id": name, "method": "elicitation/create", "params": params });
        Some(vec![Act::Say(question), Act::Stay])
    })
}

#[tokio::test(start_paused = true)]
async fn questions_of_two_calls_at_once_reach_each_its_own() {
    let server = curious();
    let (bridge, connection) = Bridge::build(to(&server).era(Era::Auto), Arc::new(Client::default()));
    let mut required = vec![];
    let calls = [("1", "one"), (r#""1""#, "two")]
        .map(|(id, name)| (name, ask(&*bridge, id, "tools/call", modern(name, json!({})))));
    for (name, end) in calls {
        let asked = result(end.await.unwrap());
        let inputs = asked["inputRequests"].as_object().unwrap().clone();
        let questions: Vec<_> = inputs.values().map(|input| input["params"]["message"].clone()).collect();
        assert_eq!(questions, [name], "it is asked what its own call asks, and nothing else");
        required.push((name, inputs.keys().next().unwrap().clone(), asked["requestState"].clone()));
    }
    assert_ne!(required[0].2, required[1].2);
    for (name, key, state) in required.iter().rev() {
        let back = json!({ "requestState": state, "inputResponses": { key.as_str(): { "said": name } } });
        drop(ask(&*bridge, "7", "tools/call", modern(name, back)));
    }
    settle().await;
    let answers: Vec<_> = server.responses().into_iter().map(|heard| heard.message).collect();
    assert_eq!(answers, ["two", "one"].map(|name| answer(&json!(name), json!({ "said": name }))));
    drop(connection);
}

#[tokio::test(start_paused = true)]
async fn each_state_is_another_and_none_can_be_guessed_from_it() {
    let server = curious();
    let (bridge, _connection) = Bridge::build(to(&server).era(Era::Auto), Arc::new(Client::default()));
    let mut states = std::collections::BTreeSet::new();
    for n in 0..20 {
        let end = ask(&*bridge, &n.to_string(), "tools/call", modern(&format!("tool{n}"), json!({})));
        let state = result(end.await.unwrap())["requestState"].as_str().unwrap().to_owned();
        let digits = state.strip_prefix("r1-").unwrap();
        assert_eq!(digits.len(), 48, "192 bits: {state}");
        assert!(digits.bytes().all(|digit| digit.is_ascii_hexdigit()), "{state}");
        states.insert(digits[..8].to_owned());
    }
    assert_eq!(states.len(), 20, "no part of them is the same: {states:?}");
}

#[tokio::test(start_paused = true)]
async fn a_message_names_the_call_on_whose_exchange_it_came_and_progress_the_call_of_its_token() {
    let log = |n: u64| json!({ "jsonrpc": "2.0", "method": "notifications/message", "params": { "n": n } });
    let progress = |token: Value| {
        let params = json!({ "progressToken": token, "progress": 1 });
        json!({ "jsonrpc": "2.0", "method": "notifications/progress", "params": params })
    };
    let server = Remote::legacy().on("tools/call", |_| Some(vec![Act::Stay]));
    let client = Arc::new(Client::default());
    let connection = to(&server).bridge_to(client.clone()).build();
    let first = json!({ "name": "a", "_meta": { "progressToken": 5 } });
    let _first = ask(&connection, r#""x""#, "tools/call", first);
    let _second = ask(&connection, "2", "tools/call", json!({ "name": "b" }));
    settle().await;
    let wire: Vec<_> =
        server.heard_of("tools/call").iter().map(|heard| heard.message["id"].clone()).collect();
    server.order(&wire[0], Act::Say(log(1)));
    settle().await;
    server.order(&wire[1], Act::Say(log(2)));
    settle().await;
    server.say(log(3));
    settle().await;
    let token = server.heard_of("tools/call")[0].message["params"]["_meta"]["progressToken"].clone();
    assert_eq!(token, wire[0], "the wire id of its call");
    server.order(&wire[1], Act::Say(progress(token.clone())));
    settle().await;
    server.say(progress(token));
    settle().await;
    server.order(&wire[1], Act::Say(progress(json!("5"))));
    settle().await;
    let told = client.0.lock().unwrap().clone();
    let expected = [
        (Some(r#""x""#), log(1)),
        (Some("2"), log(2)),
        (None, log(3)),
        (Some(r#""x""#), progress(json!(5))),
        (Some(r#""x""#), progress(json!(5))),
    ];
    assert_eq!(told, expected.map(|(call, message)| (call.map(str::to_owned), message)));
}
