//! A modern server asks for input, and a legacy client is asked in requests.

use regrow::core::Fault;
use regrow_testkit::script::{Act, Plan, answer};
use regrow_testkit::server::Server;
use regrow_testkit::world::*;
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::client::*;

fn elicitation(message: &str) -> Value {
    let schema = json!({ "type": "object", "properties": {} });
    json!({ "method": "elicitation/create", "params": { "mode": "form", "message": message, "requestedSchema": schema } })
}

/// Asks for these in turn, and then says what it was told.
fn asking(rounds: Vec<Value>) -> Plan {
    modern_server().on("tools/call", move |message| {
        let params = &message["params"];
        let round = params["requestState"].as_str().map_or(0, |state| state[1..].parse::<usize>().unwrap());
        let result = match rounds.get(round) {
            Some(inputs) => {
                let state = format!("s{}", round + 1);
                json!({ "resultType": "input_required", "inputRequests": inputs, "requestState": state })
            }
            None => json!({ "resultType": "complete", "content": [], "told": params["inputResponses"] }),
        };
        vec![Act::Say(answer(&message["id"], result))]
    })
}

async fn reply(client: &mut Client, question: &Value, result: Value) {
    client.send(json!({ "jsonrpc": "2.0", "id": question["id"], "result": result })).await;
}

fn call(id: u64) -> Value {
    json!({ "id": id, "method": "tools/call", "params": { "name": "work", "arguments": { "a": 1 } } })
}

#[tokio::test(start_paused = true)]
async fn what_a_server_asks_twice_in_a_row_is_asked_and_told() {
    let first = json!({ "who": elicitation("who?"), "whose": { "method": "roots/list" } });
    let second = json!({ "sum": { "method": "sampling/createMessage", "params": { "maxTokens": 5 } } });
    let server = Server::always(asking(vec![first, second]));
    let mut client = Client::legacy(&server).await;
    client.send(call(1)).await;
    let (who, roots) = (client.next().await, client.next().await);
    assert_eq!((&who["method"], &who["params"]["message"]), (&json!("elicitation/create"), &json!("who?")));
    assert_eq!(roots["method"], "roots/list");
    reply(&mut client, &roots, json!({ "roots": [] })).await;
    reply(&mut client, &who, json!({ "action": "accept", "content": { "name": "Ann" } })).await;
    let sampling = client.next().await;
    assert_eq!(
        (&sampling["method"], &sampling["params"]["maxTokens"]),
        (&json!("sampling/createMessage"), &json!(5))
    );
    reply(&mut client, &sampling, json!({ "role": "assistant" })).await;
    let end = client.next().await;
    assert_eq!((&end["id"], &end["result"]["told"]), (&json!(1), &json!({ "sum": { "role": "assistant" } })));

    let heard = server.heard_of("tools/call");
    assert_eq!(heard.len(), 3);
    let told = &heard[1].message["params"];
    assert_eq!(told["inputResponses"]["who"], json!({ "action": "accept", "content": { "name": "Ann" } }));
    assert_eq!(told["inputResponses"]["whose"], json!({ "roots": [] }));
    assert_eq!((&told["requestState"], &told["arguments"]), (&json!("s1"), &json!({ "a": 1 })));
    assert_ne!(heard[0].message["id"], heard[1].message["id"]);
    assert_eq!(told["_meta"][VERSION], "2026-07-28");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_asks_for_nothing_is_called_again_after_a_moment_and_not_for_ever() {
    let server = Server::always(asking(vec![json!({}); 2]));
    let mut client = Client::legacy(&server).await;
    client.send(call(1)).await;
    assert_eq!(client.next().await["result"]["resultType"], "complete");
    assert_eq!(server.heard_of("tools/call").len(), 3);

    let server = Server::always(asking(vec![json!({}); 50]));
    let mut client = Client::legacy(&server).await;
    client.send(call(1)).await;
    let end = client.next().await;
    assert_eq!((&end["result"]["isError"], &fault(&end)["gap"]), (&json!(true), &json!("endless-questions")));
    assert_eq!(fault(&end)["delivery"], "unknown");
    assert_eq!(server.heard_of("tools/call").len(), 11);
}

#[tokio::test(start_paused = true)]
async fn what_a_client_cannot_do_it_is_not_asked() {
    let server = Server::always(asking(vec![json!({ "who": elicitation("who?") })]));
    let mut client = Client::of(&server);
    let mut hello = initialize(0, "2025-11-25");
    hello["params"]["capabilities"] = json!({ "sampling": {} });
    client.ask(hello).await;
    client.send(call(1)).await;
    let end = client.next().await;
    assert_eq!((&end["id"], &fault(&end)["gap"]), (&json!(1), &json!("question")));
}

#[tokio::test(start_paused = true)]
async fn an_input_that_the_client_refuses_ends_the_call_and_the_other_questions() {
    let server = Server::always(asking(vec![json!({ "a": elicitation("a?"), "b": elicitation("b?") })]));
    let mut client = Client::legacy(&server).await;
    client.send(call(1)).await;
    let (a, b) = (client.next().await, client.next().await);
    client.send(json!({ "jsonrpc": "2.0", "id": a["id"], "error": { "code": -1, "message": "no" } })).await;
    let cancelled = client.next().await;
    assert_eq!(cancelled["method"], "notifications/cancelled");
    assert_eq!(cancelled["params"]["requestId"], b["id"]);
    assert_eq!(fault(&client.next().await)["gap"], "refused-answer");
    reply(&mut client, &b, json!({})).await;
    client.hears_nothing(secs(1)).await;
    assert_eq!(server.heard_of("tools/call").len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_cancelled_between_two_rounds_is_over_and_so_is_its_question() {
    let server = Server::always(asking(vec![json!({ "a": elicitation("a?") })]));
    let mut client = Client::legacy(&server).await;
    client.send(call(1)).await;
    let question = client.next().await;
    client.cancel(json!(1)).await;
    assert_eq!(client.next().await["params"]["requestId"], question["id"]);
    reply(&mut client, &question, json!({ "action": "accept" })).await;
    client.hears_nothing(secs(7200)).await;
    assert_eq!(server.heard_of("tools/call").len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_question_that_nobody_answers_ends_within_an_hour() {
    let server = Server::always(asking(vec![json!({ "a": elicitation("a?") })]));
    let mut client = Client::legacy(&server).await;
    client.send(call(1)).await;
    client.next().await;
    client.hears_nothing(secs(3599)).await;
    assert_eq!(client.next().await["method"], "notifications/cancelled");
    assert_eq!(fault(&client.next().await)["gap"], "refused-answer");
}

#[tokio::test(start_paused = true)]
async fn a_question_outlives_the_server_and_its_answer_goes_to_the_next_one() {
    let server = Server::always(asking(vec![json!({ "a": elicitation("a?") })]));
    let mut client = Client::legacy(&server).await;
    client.send(call(1)).await;
    let question = client.next().await;
    server.die(Fault::Killed { signal: 9 });
    sleep(secs(2)).await;
    reply(&mut client, &question, json!({ "action": "accept" })).await;
    let end = client.next().await;
    assert_eq!((&end["id"], &end["result"]["told"]["a"]["action"]), (&json!(1), &json!("accept")));
}

#[tokio::test(start_paused = true)]
async fn prompts_and_resources_may_ask_as_well() {
    for method in ["prompts/get", "resources/read"] {
        let server = Server::always(modern_server().on(method, |message| {
            let asks = json!({ "resultType": "input_required", "inputRequests": { "r": { "method": "roots/list" } } });
            let told = message["params"]["inputResponses"].clone();
            let result = if told.is_null() { asks } else { json!({ "resultType": "complete", "told": told }) };
            vec![Act::Say(answer(&message["id"], result))]
        }));
        let mut client = Client::legacy(&server).await;
        client.send(json!({ "id": 1, "method": method, "params": { "name": "p", "uri": "u" } })).await;
        let question = client.next().await;
        reply(&mut client, &question, json!({ "roots": [] })).await;
        assert_eq!(client.next().await["result"]["told"], json!({ "r": { "roots": [] } }));
        assert!(server.heard_of(method)[1].message["params"]["requestState"].is_null(), "there was none");
    }
}

#[tokio::test(start_paused = true)]
async fn calls_that_wait_for_answers_are_bounded() {
    let server = Server::always(asking(vec![json!({ "a": elicitation("a?") })]));
    let mut client = Client::legacy(&server).await;
    let mut questions = vec![];
    for id in 0..256 {
        client.send(call(id)).await;
        questions.push(client.next().await);
    }
    client.send(call(256)).await;
    let refused = client.next().await;
    assert_eq!((&refused["id"], &fault(&refused)["kind"]), (&json!(256), &json!("overloaded")));
    for (id, question) in questions.iter().enumerate() {
        reply(&mut client, question, json!({ "action": "accept" })).await;
        assert_eq!(client.next().await["id"], id);
    }
}
