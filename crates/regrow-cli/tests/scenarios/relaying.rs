//! What a relay must keep apart, in order, and in mind: ids of both sides, questions of the server, batches,
//! cancellations, and what a new session is told again.

use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::client::{Client, PATIENCE, Setup};
use crate::evidence::{kill, stop};

fn text_of(answer: &Value) -> String {
    answer["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned()
}

#[test]
fn a_question_of_the_server_reaches_the_client_and_its_answer_the_server() {
    let mut client = Setup::plan("").connect();
    let kinds = [
        ("elicitation", "elicitation/create"),
        ("sampling", "sampling/createMessage"),
        ("roots", "roots/list"),
    ];
    for (kind, method) in kinds {
        let id = client.begin_call("ask", json!({ "kind": kind }));
        let question = client.wait_for(method);
        client.send(json!({ "jsonrpc": "2.0", "id": question["id"], "result": { "said": kind } }));
        let echoed: Value = serde_json::from_str(&text_of(&client.answer(id))).unwrap();
        assert_eq!(echoed["result"]["said"], kind);
    }
    let id = client.begin_call("ask", json!({}));
    let question = client.wait_for("elicitation/create");
    client.send(json!({ "jsonrpc": "2.0", "id": question["id"], "error": { "code": -1, "message": "no" } }));
    assert!(text_of(&client.answer(id)).contains("\"no\""));
}

#[test]
fn an_answer_to_a_dead_server_never_reaches_the_next() {
    let mut client = Setup::plan("").connect();
    let first = client.begin_call("ask", json!({ "key": "first" }));
    let old = client.wait_for("elicitation/create");
    client.replace_server();
    // The question is taken back, and the call that asked it has failed.
    let taken_back = client.wait_for("notifications/cancelled");
    assert_eq!(taken_back["params"]["requestId"], old["id"]);
    assert_eq!(client.failure(first).1["delivery"], "unknown");

    // The next life counts its questions from the same number; the client sees another.
    let second = client.begin_call("ask", json!({ "key": "second" }));
    let new = client.wait_for("elicitation/create");
    assert_ne!(old["id"], new["id"]);
    client.send(json!({ "jsonrpc": "2.0", "id": old["id"], "result": { "action": "accept", "to": "old" } }));
    client.send(json!({ "jsonrpc": "2.0", "id": new["id"], "result": { "action": "decline", "to": "new" } }));
    client
        .send(json!({ "jsonrpc": "2.0", "id": new["id"], "result": { "action": "accept", "to": "twice" } }));
    let answer = text_of(&client.answer(second));
    assert!(answer.contains("decline"), "{answer}");
    client.call("echo", json!({ "text": "in order" }));
    assert!(client.journal.lines().iter().all(|line| !line.starts_with("stray-response")));
}

#[test]
fn several_questions_at_once_are_kept_apart() {
    let mut client = Setup::plan("").connect();
    let calls: Vec<u64> = (0..5).map(|_| client.begin_call("ask", json!({}))).collect();
    let questions: Vec<Value> = calls.iter().map(|_| client.wait_for("elicitation/create")).collect();
    for (number, question) in questions.iter().enumerate().rev() {
        client.send(json!({ "jsonrpc": "2.0", "id": question["id"], "result": { "number": number } }));
    }
    let mut numbers: Vec<u64> = calls
        .iter()
        .map(|id| {
            let echoed: Value = serde_json::from_str(&text_of(&client.answer(*id))).unwrap();
            echoed["result"]["number"].as_u64().unwrap()
        })
        .collect();
    numbers.sort_unstable();
    assert_eq!(numbers, [0, 1, 2, 3, 4]);
}

#[test]
fn the_time_that_a_person_takes_is_not_the_servers() {
    let mut client = Setup::plan("").options(&["--call-timeout", "3s"]).connect();
    let id = client.begin_call("ask", json!({}));
    let question = client.wait_for("elicitation/create");
    std::thread::sleep(Duration::from_secs(6)); // A person thinks.
    client.send(json!({ "jsonrpc": "2.0", "id": question["id"], "result": { "action": "accept" } }));
    assert!(text_of(&client.answer(id)).contains("accept"));
    assert_eq!(client.journal.starts(), 1);
    // And afterwards time counts again.
    let (_, fault) = client.failing_call("hang", json!({}));
    assert_eq!(fault["kind"], "timeout");
}

#[test]
fn a_question_that_the_server_takes_back_is_taken_back_under_the_id_the_client_knows() {
    let mut client = Setup::plan("").connect();
    client.replace_server();
    client.begin_call("ask", json!({}));
    client.wait_for("elicitation/create");
    let call = client.begin_call("ask", json!({}));
    let question = client.wait_for("elicitation/create");
    client.notify("notifications/cancelled", json!({ "requestId": call, "reason": "the user left" }));
    let taken_back = client.wait_for("notifications/cancelled");
    assert_eq!(taken_back["params"]["requestId"], question["id"]);
}

#[test]
fn notifications_come_before_the_answer_that_followed_them() {
    let mut client = Setup::plan("").connect();
    for _ in 0..20 {
        let id = client.begin_call("notify", json!({ "n": 100 }));
        client.answer(id);
        let numbers: Vec<u64> =
            client.seen().iter().map(|message| message["params"]["data"].as_u64().unwrap()).collect();
        assert_eq!(numbers, (1..=100).collect::<Vec<u64>>());
    }
}

#[test]
fn what_a_server_wrote_before_it_died_arrives_before_the_failure() {
    let mut client = Setup::plan("").connect();
    let notify = client.begin_call("notify", json!({ "n": 2000 }));
    let die = client.begin_call("die", json!({ "when": "after", "how": "kill" }));
    assert!(!client.answer(die)["result"]["content"].is_null());
    let answer = client.answer(notify); // Cut off by the death, or whole.
    let numbers: Vec<u64> =
        client.seen().iter().filter_map(|message| message["params"]["data"].as_u64()).collect();
    assert!(numbers.iter().copied().eq(1..=numbers.len() as u64), "no gap");
    assert_eq!(numbers.len() == 2000, answer["result"]["isError"] != true, "{} then {answer}", numbers.len());
}

#[test]
fn a_progress_token_stays_as_the_client_wrote_it() {
    let mut client = Setup::plan("").connect();
    for token in [json!("a b"), json!(1), json!("1"), json!(0)] {
        let params =
            json!({ "name": "notify", "arguments": { "n": 1 }, "_meta": { "progressToken": token } });
        let id = client.ask("tools/call", params);
        client.answer(id);
        let progress = client.wait_for("notifications/progress");
        assert_eq!(progress["params"]["progressToken"], token);
        client.seen();
    }
}

#[test]
fn an_id_comes_back_as_it_was_sent() {
    let mut client = Setup::plan("").connect();
    for id in
        ["1", "\"1\"", "1.0", "\"\"", "-7", "123456789012345678901234567890", "\"a\\u0062\\n\"", "\"\u{e9}\""]
    {
        client.send_line(&format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#));
        let line = client.next_line(PATIENCE).expect("an answer");
        assert!(line.contains(&format!("\"id\":{id}")), "{line} to {id}");
    }
}

#[test]
fn two_requests_in_flight_with_the_same_or_a_similar_id_are_both_answered() {
    let mut client = Setup::plan("").connect();
    let call = |id: Value, key: &str, ms: u64| {
        let params = json!({ "name": "count", "arguments": { "key": key, "delay_ms": ms } });
        json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params })
    };
    client.send(call(json!(5), "a", 300));
    client.send(call(json!("5"), "b", 200));
    client.send(call(json!(5), "c", 100));
    let mut ids: Vec<Value> =
        (0..3).map(|_| client.next_message(PATIENCE).expect("an answer")["id"].clone()).collect();
    ids.sort_by_key(Value::to_string);
    assert_eq!(ids, [json!("5"), json!(5), json!(5)]);
    assert_eq!(client.journal.runs("count"), 3);

    // On the wire every request has an id of its own.
    let mut wire = client.journal.request_ids("tools/call");
    wire.sort();
    wire.dedup();
    assert_eq!(wire.len(), 3);

    // A cancellation means the newest.
    client.send(call(json!(6), "older", 700));
    client.send(call(json!(6), "newer", 60_000));
    assert!(client.journal.wait(PATIENCE, |journal| journal.runs("count") == 5));
    client.notify("notifications/cancelled", json!({ "requestId": 6 }));
    let answer = client.next_message(PATIENCE).expect("the older is answered");
    assert_eq!(answer["id"], 6);
    assert_eq!(client.journal.cancelled().len(), 1);
    client.call("echo", json!({ "text": "on" }));
    assert_eq!(client.seen(), Vec::<Value>::new());
}

#[test]
fn a_cancelled_call_gets_no_answer_and_the_server_is_told_under_its_own_id() {
    let mut client = Setup::plan("").connect();
    client.call("echo", json!({ "text": "so that ids differ" }));
    let id = client.begin_call("slow", json!({ "ms": 60_000, "key": "k" }));
    assert!(client.journal.wait(PATIENCE, |journal| journal.runs("slow") == 1));
    let wire = client.journal.request_ids("tools/call").pop().unwrap();
    client.notify("notifications/cancelled", json!({ "requestId": id, "reason": "enough" }));
    assert!(client.journal.wait(PATIENCE, |journal| journal.cancelled() == [wire.clone()]));
    client.call("echo", json!({ "text": "on" }));
    assert_eq!(client.seen(), Vec::<Value>::new());

    // `"1"` is not `1`: what runs under another id goes on.
    let id = client.begin_call("count", json!({ "key": "kept", "delay_ms": 300 }));
    client.notify("notifications/cancelled", json!({ "requestId": id.to_string() }));
    client.notify("notifications/cancelled", json!({ "requestId": 987_654 }));
    client.notify("notifications/cancelled", json!({}));
    assert_eq!(text_of(&client.answer(id)), "1");
    assert_eq!(client.journal.cancelled().len(), 1);
}

#[test]
fn a_call_that_waits_for_a_session_and_is_cancelled_never_runs() {
    let mut client = Setup::plan("slow-start=1s@2").connect();
    kill(client.server_pid(), Signal::KILL);
    client.wait_for_log(0, "killed by SIGKILL");
    let kept = client.begin_call("count", json!({ "key": "kept" }));
    let dropped = client.begin_call("count", json!({ "key": "dropped" }));
    client.notify("notifications/cancelled", json!({ "requestId": dropped }));
    assert_eq!(text_of(&client.answer(kept)), "1");
    client.call("echo", json!({ "text": "in order" }));
    assert_eq!(client.journal.runs_with("count", "dropped"), 0);
    assert_eq!(client.journal.runs_with("count", "kept"), 1);
    assert_eq!(client.seen(), Vec::<Value>::new());
}

/// What the client has sent so far was read by now.
pub(super) fn all_was_read(client: &mut Client) {
    client.send_line("x");
    client.wait_where("the refusal", |message| message["error"]["code"] == -32700);
}

#[test]
fn a_call_after_one_that_was_cancelled_before_it_fitted_into_the_pipe_is_sent() {
    let mut client = Setup::plan("").connect();
    client.call("echo", json!({ "text": "ready" }));
    let server = client.server_pid();
    stop(server);
    // Sixteen such lines are more than a pipe of sixteen pages takes; the next one waits with us.
    let long = "x".repeat(4200);
    let call =
        |client: &mut Client, key: &str| client.begin_call("count", json!({ "key": key, "padding": long }));
    let taken: Vec<u64> = (0..16).map(|n| call(&mut client, &format!("taken-{n}"))).collect();
    let cancelled = call(&mut client, "cancelled");
    all_was_read(&mut client);
    client.notify("notifications/cancelled", json!({ "requestId": cancelled }));
    let last = call(&mut client, "last");
    all_was_read(&mut client);
    kill(server, Signal::CONT);
    for id in taken.into_iter().chain([last]) {
        assert_eq!(text_of(&client.answer(id)), "1");
    }
    assert_eq!(client.journal.runs_with("count", "cancelled"), 0);
    assert_eq!(client.journal.starts(), 1);
}

#[test]
fn a_batch_is_answered_with_one_array() {
    let mut client = Setup::plan("").connect();
    let call = |id: u64, tool: &str, arguments: Value| {
        let params = json!({ "name": tool, "arguments": arguments });
        json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params })
    };
    client.send(json!([
        call(31, "slow", json!({ "ms": 200 })),
        { "jsonrpc": "2.0", "method": "notifications/roots/list_changed" },
        call(32, "echo", json!({ "text": "quick" })),
        7,
        { "jsonrpc": "2.0", "id": 33, "method": "no/such" },
    ]));
    let answers = client.next_message(PATIENCE).expect("an array");
    let mut codes: Vec<(Value, Value)> = answers
        .as_array()
        .expect("an array")
        .iter()
        .map(|a| (a["id"].clone(), a["error"]["code"].clone()))
        .collect();
    codes.sort_by_key(|(id, _)| id.as_u64());
    let none = Value::Null;
    assert_eq!(
        codes,
        [
            (none.clone(), json!(-32600)),
            (json!(31), none.clone()),
            (json!(32), none.clone()),
            (json!(33), json!(-32601)),
        ]
    );
    assert!(
        client
            .journal
            .wait(PATIENCE, |journal| journal.notifications("notifications/roots/list_changed") == 1)
    );

    // Notifications alone get no answer at all; a cancelled member gets none inside the array.
    client.send(json!([{ "jsonrpc": "2.0", "method": "notifications/roots/list_changed" }]));
    client.send(json!([
        call(34, "slow", json!({ "ms": 60_000 })),
        call(35, "echo", json!({ "text": "kept" }))
    ]));
    assert!(client.journal.wait(PATIENCE, |journal| journal.runs("slow") == 2));
    client.notify("notifications/cancelled", json!({ "requestId": 34 }));
    let answers = client.next_message(PATIENCE).expect("an array");
    assert_eq!(answers.as_array().expect("an array").len(), 1, "{answers}");
    assert_eq!(answers[0]["id"], 35);
}

#[test]
fn a_batch_that_a_death_interrupts_is_answered_all_the_same() {
    let mut client = Setup::plan("").connect();
    let call = |id: u64, tool: &str, arguments: Value| {
        let params = json!({ "name": tool, "arguments": arguments });
        json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params })
    };
    client.send(json!([
        call(41, "echo", json!({ "text": "before" })),
        call(42, "die", json!({ "how": "kill", "key": "b" })),
        { "jsonrpc": "2.0", "id": 43, "method": "tools/list" },
    ]));
    let answers = client.next_message(PATIENCE).expect("an array");
    let of = |id: u64| {
        answers.as_array().unwrap().iter().find(|a| a["id"] == id).unwrap_or_else(|| panic!("{answers}"))
    };
    assert_eq!(text_of(of(41)), "before");
    assert_eq!(of(42)["result"]["_meta"]["dev.regrow/fault"]["delivery"], "unknown");
    assert!(of(43)["result"]["tools"].is_array(), "a read is sent again");
    assert_eq!(client.journal.runs_with("die", "b"), 1);
}

#[test]
fn a_batch_of_the_server_is_taken_apart() {
    let mut client = Setup::plan("").connect();
    let id = client.begin_call("batch", json!({}));
    assert_eq!(text_of(&client.answer(id)), "batch");
    assert_eq!(client.wait_for("notifications/message")["params"]["data"], "in a batch");
}

#[test]
fn log_level_and_subscriptions_are_restored_once_per_session() {
    let mut client = Setup::plan("").connect();
    client.request("logging/setLevel", json!({ "level": "debug" }));
    client.request("logging/setLevel", json!({ "level": "warning" }));
    for uri in ["chaos://life", "chaos://gone"] {
        client.request("resources/subscribe", json!({ "uri": uri }));
    }
    client.request("resources/unsubscribe", json!({ "uri": "chaos://gone" }));
    let (levels, subscribed) = (2, 2);
    for restarts in 1..=3 {
        if restarts == 2 {
            client.restart()
        } else {
            client.replace_server()
        }
        // It is subscribed before the first call of the client runs.
        assert_eq!(client.call("touch", json!({})), "1");
        assert_eq!(client.wait_for("notifications/resources/updated")["params"]["uri"], "chaos://life");
        assert_eq!(client.journal.requests("logging/setLevel"), levels + restarts);
        assert_eq!(client.journal.requests("resources/subscribe"), subscribed + restarts);
        assert_eq!(client.journal.params("logging/setLevel").last().unwrap(), r#"{"level":"warning"}"#);
    }
    assert_eq!(client.journal.requests("resources/unsubscribe"), 1);
    assert_eq!(client.journal.requests("initialize"), 4);
    assert_eq!(client.journal.notifications("notifications/initialized"), 4);
    assert_eq!(client.seen(), Vec::<Value>::new(), "the client notices nothing");
}

#[test]
fn a_subscription_that_a_death_interrupts_is_made_once_on_the_next_session() {
    let mut client = Setup::plan("hang-after=1@1").start();
    let params = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "s", "version": "1" } });
    client.request("initialize", params);
    client.send(json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
    let subscribe = client.ask("resources/subscribe", json!({ "uri": "chaos://life" }));
    client.replace_server();
    assert_eq!(client.answer(subscribe)["result"], json!({}));
    assert_eq!(client.call("touch", json!({})), "1");
    let lives_two = client.journal.requests("resources/subscribe");
    assert_eq!(lives_two, 1, "the first life read nothing after its handshake");
}
