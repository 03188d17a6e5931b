//! A legacy server asks, and a modern client is told what its call requires.

use regrow::core::{Fault, Policy};
use regrow_testkit::log::Heard;
use regrow_testkit::script::{Plan, answer};
use regrow_testkit::server::Server;
use regrow_testkit::world::*;
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::client::*;

fn elicitation(id: impl Into<Value>) -> Value {
    let params = json!({ "message": "who?", "requestedSchema": {}, "_meta": { "progressToken": 1 } });
    json!({ "jsonrpc": "2.0", "id": id.into(), "method": "elicitation/create", "params": params })
}

fn work(id: impl Into<Value>) -> Value {
    modern(
        id,
        "tools/call",
        json!({ "name": "work", "arguments": { "silent": true }, "_meta": { "progressToken": "one" } }),
    )
}

/// The client comes back with these answers.
fn back(id: u64, required: &Value, answers: Value) -> Value {
    let mut params = work(id)["params"].clone();
    params["requestState"] = required["result"]["requestState"].clone();
    params["inputResponses"] = answers;
    params["_meta"]["progressToken"] = "two".into();
    modern(id, "tools/call", params)
}

fn key(required: &Value) -> String {
    required["result"]["inputRequests"].as_object().unwrap().keys().next().unwrap().clone()
}

fn answers(server: &Server) -> Vec<Value> {
    let is_answer = |heard: &Heard| heard.message["method"].is_null();
    server.heard().into_iter().filter(is_answer).map(|heard| heard.message).collect()
}

/// A client whose call has come to the question.
async fn asked(server: &Server) -> (Client, Value) {
    let mut client = Client::modern(server).await;
    client.send(work(1)).await;
    settle().await;
    server.say(elicitation("e"));
    let required = client.next().await;
    assert_eq!((&required["id"], &required["result"]["resultType"]), (&json!(1), &json!("input_required")));
    (client, required)
}

fn wire(server: &Server) -> Value {
    server.heard_of("tools/call").pop().unwrap().message["id"].clone()
}

#[tokio::test(start_paused = true)]
async fn a_question_is_input_that_the_call_requires_and_the_call_goes_on() {
    let server = Server::always(legacy_server());
    let (mut client, required) = asked(&server).await;
    let question = &required["result"]["inputRequests"][key(&required)];
    let expected =
        json!({ "method": "elicitation/create", "params": { "message": "who?", "requestedSchema": {} } });
    assert_eq!(*question, expected);
    sleep(secs(1000)).await; // A person takes longer than any deadline.
    client.send(back(2, &required, json!({ key(&required): { "action": "accept" } }))).await;
    settle().await;
    assert_eq!(answers(&server), [json!({ "jsonrpc": "2.0", "id": "e", "result": { "action": "accept" } })]);
    let progress = |token: Value| json!({ "jsonrpc": "2.0", "method": "notifications/progress", "params": { "progressToken": token, "progress": 1 } });
    server.say(progress(wire(&server)));
    assert_eq!(client.next().await, progress("two".into()));
    server.say(answer(&wire(&server), json!({ "content": [], "got": "Ann" })));
    let end = client.next().await;
    assert_eq!((&end["id"], &end["result"]["got"]), (&json!(2), &json!("Ann")));
    assert_eq!(end["result"]["resultType"], "complete");
    assert_eq!(server.heard_of("tools/call").len(), 1, "it ran once");
}

#[tokio::test(start_paused = true)]
async fn what_is_asked_while_the_client_is_away_and_what_it_left_out_is_asked_next() {
    let server = Server::always(legacy_server());
    let (mut client, required) = asked(&server).await;
    server.say(json!({ "jsonrpc": "2.0", "id": "r", "method": "roots/list" }));
    settle().await;
    let first = key(&required);
    let again = client.ask(back(2, &required, json!({ "other": {} }))).await;
    let inputs = again["result"]["inputRequests"].as_object().unwrap().clone();
    assert_eq!(inputs.len(), 2);
    assert_eq!(inputs[&first]["method"], "elicitation/create");
    let roots = inputs.keys().find(|key| **key != first).unwrap();
    assert_eq!(inputs[roots], json!({ "method": "roots/list" }));
    assert_ne!(again["result"]["requestState"], required["result"]["requestState"]);
    client
        .send(back(3, &again, json!({ first: { "action": "decline" }, roots.as_str(): { "roots": [] } })))
        .await;
    settle().await;
    assert_eq!(answers(&server).len(), 2);
    server.say(answer(&wire(&server), json!({})));
    assert_eq!(client.next().await["id"], 3);
}

#[tokio::test(start_paused = true)]
async fn a_state_that_is_unknown_used_or_of_another_request_is_refused() {
    let server = Server::always(legacy_server());
    let (mut client, required) = asked(&server).await;
    let mut other = back(2, &required, json!({}));
    other["method"] = "prompts/get".into();
    assert_eq!(client.ask(other).await["error"]["code"], -31009);
    client.send(back(3, &required, json!({ key(&required): {} }))).await;
    let refused = client.ask(back(4, &required, json!({}))).await;
    assert_eq!(
        (&refused["result"]["isError"], &fault(&refused)["gap"]),
        (&json!(true), &json!("stale-answer"))
    );
    assert_eq!(fault(&refused)["delivery"], "not-sent");
    let text = refused["result"]["content"][0]["text"].as_str().unwrap();
    assert!(text.contains("call without inputResponses and requestState"), "{text}");
    assert_eq!(server.heard_of("tools/call").len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_dies_meanwhile_is_told_when_the_client_comes_back() {
    let server = Server::always(legacy_server());
    let (mut client, required) = asked(&server).await;
    server.die(Fault::Killed { signal: 9 });
    client.hears_nothing(secs(5)).await;
    let end = client.ask(back(2, &required, json!({ key(&required): { "action": "accept" } }))).await;
    assert_eq!((&fault(&end)["cause"], &fault(&end)["delivery"]), (&json!("killed"), &json!("unknown")));
    assert!(answers(&server).is_empty(), "the next server did not ask");
}

#[tokio::test(start_paused = true)]
async fn a_call_that_ends_meanwhile_waits_for_its_client() {
    let server = Server::always(legacy_server());
    let (mut client, required) = asked(&server).await;
    server.say(answer(&wire(&server), json!({ "got": "anyway" })));
    settle().await;
    let dropped = json!({ "jsonrpc": "2.0", "id": "e", "result": { "action": "cancel" } });
    assert_eq!(answers(&server), [dropped], "nobody will answer that");
    let end = client.ask(back(2, &required, json!({}))).await;
    assert_eq!(end["result"]["got"], "anyway");
}

#[tokio::test(start_paused = true)]
async fn a_client_that_comes_back_can_cancel() {
    let server = Server::always(legacy_server());
    let (mut client, required) = asked(&server).await;
    client.send(back(2, &required, json!({ key(&required): {} }))).await;
    client.cancel(json!(2)).await;
    settle().await;
    assert_eq!(server.heard_of("notifications/cancelled")[0].message["params"]["requestId"], wire(&server));
    client.hears_nothing(secs(1000)).await;
}

#[tokio::test(start_paused = true)]
async fn a_client_that_never_comes_back_does_not_keep_the_server_waiting_for_ever() {
    let server = Server::always(legacy_server());
    let policy = Policy { call_timeout: None, ..policy() };
    let mut client = Client::with(&server, policy);
    client.send(work(1)).await;
    sleep(secs(1)).await;
    server.say(elicitation(7));
    let required = client.next().await;
    sleep(secs(3601)).await;
    assert_eq!(answers(&server), [json!({ "jsonrpc": "2.0", "id": 7, "result": { "action": "cancel" } })]);
    assert_eq!(server.heard_of("notifications/cancelled")[0].message["params"]["requestId"], wire(&server));
    let refused = client.ask(back(2, &required, json!({}))).await;
    assert_eq!(fault(&refused)["gap"], "stale-answer");
}

#[tokio::test(start_paused = true)]
async fn the_deadline_of_the_call_holds_while_its_client_is_away() {
    let server = Server::always(legacy_server());
    let mut client = Client::modern(&server).await;
    client.send(work(1)).await;
    settle().await;
    // A model is no person: the clock runs on.
    server.say(json!({ "jsonrpc": "2.0", "id": "s", "method": "sampling/createMessage", "params": {} }));
    let required = client.next().await;
    sleep(secs(301)).await;
    let end = client.ask(back(2, &required, json!({}))).await;
    assert_eq!(fault(&end)["kind"], "timeout");
}

#[tokio::test(start_paused = true)]
async fn a_question_that_belongs_to_no_call_or_to_which_is_unclear_is_refused() {
    let server = Server::always(legacy_server());
    let mut client = Client::modern(&server).await;
    server.say(elicitation("none"));
    settle().await;
    assert_eq!(
        (&answers(&server)[0]["id"], &answers(&server)[0]["error"]["code"]),
        (&json!("none"), &json!(-31009))
    );
    client.send(work(1)).await;
    client.send(work(2)).await;
    settle().await;
    server.say(elicitation("two"));
    settle().await;
    assert_eq!(answers(&server)[1]["id"], "two");
    assert!(answers(&server)[1]["error"]["message"].as_str().unwrap().contains("several are"));
    client.hears_nothing(secs(1)).await;
    assert_eq!(client.connection.status().borrow().pending, 2);
}

#[tokio::test(start_paused = true)]
async fn the_only_tool_call_is_clear_and_of_two_the_one_with_progress_is_not() {
    let server = Server::always(legacy_server().on("resources/read", |_| vec![]));
    let mut client = Client::modern(&server).await;
    client.send(modern("r", "resources/read", json!({ "uri": "u" }))).await;
    client.send(work("a")).await;
    settle().await;
    server.say(elicitation(1));
    assert_eq!(client.next().await["id"], "a");

    let mut client = Client::modern(&server).await;
    for id in ["a", "b"] {
        let meta = json!({ "progressToken": id });
        client
            .send(modern(
                id,
                "tools/call",
                json!({ "name": "work", "arguments": { "silent": true }, "_meta": meta }),
            ))
            .await;
    }
    settle().await;
    server.say(json!({ "jsonrpc": "2.0", "method": "notifications/progress", "params": { "progressToken": wire(&server), "progress": 1 } }));
    client.next().await;
    server.say(elicitation(1));
    settle().await;
    let refusal = answers(&server).pop().expect("the server is told");
    assert!(refusal["error"]["message"].as_str().unwrap().contains("it is not clear which"), "{refusal}");
    client.hears_nothing(secs(1)).await;
}

#[tokio::test(start_paused = true)]
async fn what_a_client_cannot_do_is_refused_and_what_no_client_can_is_unknown() {
    let server = Server::always(legacy_server());
    let mut client = Client::modern(&server).await;
    let mut call = work(1);
    call["params"]["_meta"][CAPABILITIES] = json!({});
    client.send(call).await;
    settle().await;
    server.say(elicitation(1));
    server.say(json!({ "jsonrpc": "2.0", "id": 2, "method": "tasks/list" }));
    server.say(json!({ "jsonrpc": "2.0", "id": 3, "method": "ping" }));
    settle().await;
    let answers = answers(&server);
    assert_eq!(
        (&answers[0]["error"]["code"], &answers[1]["error"]["code"]),
        (&json!(-32601), &json!(-32601))
    );
    assert_eq!(answers[2]["result"], json!({}));
    client.hears_nothing(secs(1)).await;
}

#[tokio::test(start_paused = true)]
async fn a_server_may_take_its_question_back() {
    let server = Server::always(legacy_server());
    let (mut client, required) = asked(&server).await;
    server.say(
        json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": "e" } }),
    );
    settle().await;
    client.send(back(2, &required, json!({ key(&required): { "action": "accept" } }))).await;
    settle().await;
    assert!(answers(&server).is_empty());
    server.say(answer(&wire(&server), json!({ "got": 1 })));
    assert_eq!(client.next().await["id"], 2);
}

#[tokio::test(start_paused = true)]
async fn questions_are_bounded() {
    let server = Server::always(Plan { ..legacy_server() });
    let (mut client, required) = asked(&server).await;
    for id in 0..64 {
        server.say(elicitation(id));
    }
    settle().await;
    let refused = answers(&server);
    assert_eq!(
        (refused.len(), &refused[0]["id"], &refused[0]["error"]["code"]),
        (1, &json!(63), &json!(-31004))
    );
    let again = client.ask(back(2, &required, json!({ key(&required): {} }))).await;
    assert_eq!(again["result"]["inputRequests"].as_object().unwrap().len(), 63);
}

#[tokio::test(start_paused = true)]
async fn clients_that_are_away_are_bounded_and_ends_that_nobody_fetches_make_room() {
    let server = Server::always(legacy_server());
    let mut client = Client::modern(&server).await;
    let mut first = None;
    for id in 0..257 {
        client.send(work(1000 + id)).await;
        settle().await;
        server.say(elicitation(id));
        let required = client.next().await;
        assert_eq!(
            (&required["id"], &required["result"]["resultType"]),
            (&json!(1000 + id), &json!("input_required"))
        );
        first.get_or_insert(required);
        server.say(answer(&wire(&server), json!({ "got": id })));
        settle().await;
    }
    let forgotten = client.ask(back(2, &first.unwrap(), json!({}))).await;
    assert_eq!(fault(&forgotten)["gap"], "stale-answer");
}

#[tokio::test(start_paused = true)]
async fn a_client_that_was_sent_away_can_cancel_what_it_does_not_want_any_more() {
    let server = Server::always(legacy_server());
    let (mut client, required) = asked(&server).await;
    client.cancel(json!(1)).await;
    settle().await;
    assert_eq!(server.heard_of("notifications/cancelled")[0].message["params"]["requestId"], wire(&server));
    assert_eq!(answers(&server)[0]["result"]["action"], "cancel");
    let refused = client.ask(back(2, &required, json!({}))).await;
    assert_eq!(fault(&refused)["gap"], "stale-answer");
}
