//! Who shares a session with a server: everybody of one principal, nobody, or those who need none of their own.

use std::time::Duration;

use serde_json::{Value, json};

use crate::client::{PATIENCE, is_failure, text};
use crate::evidence::{assert_gone, is_running, wait_until};
use crate::guest::{ERAS, Era, Guest};
use crate::house::{Place, chaos};

fn pid(guest: &mut Guest) -> u32 {
    guest.call("pid", json!({})).parse().unwrap()
}

#[test]
fn a_shared_session_is_one_process_for_all() {
    let place = Place::new([("one", chaos("refuse-discover"))]);
    let house = place.start();
    house.wait_for_tools("one");
    let pids: Vec<u32> = ERAS.iter().chain(&ERAS).map(|era| pid(&mut Guest::of(&house, *era))).collect();
    assert_eq!(pids, [place.pid("one"); 4]);
    assert_eq!(place.journal("one").starts(), 1);
    // It can ask none of them, so it is told that it cannot.
    let said: Value = serde_json::from_str(&place.journal("one").params("initialize")[0]).unwrap();
    assert_eq!(said["capabilities"], json!({}));
}

#[test]
fn clients_with_different_tokens_share_nothing() {
    let place = Place::new([("one", chaos("refuse-discover"))])
        .variable("TOKEN_A", "alpha-token")
        .variable("TOKEN_B", "beta-token")
        .options(&["--token-env", "TOKEN_A", "--token-env", "TOKEN_B"]);
    let house = place.start();
    let mut guests: Vec<Guest> = ["alpha-token", "alpha-token", "beta-token", "beta-token"]
        .iter()
        .map(|token| Guest::new(&house, Era::Legacy).token(token))
        .collect();
    guests.iter_mut().for_each(|guest| drop(guest.greet()));
    let pids: Vec<u32> = guests.iter_mut().map(pid).collect();
    assert_eq!((pids[0], pids[2]), (pids[1], pids[3]));
    assert_ne!(pids[0], pids[2]);
    // A modern client of the second is in its place, too.
    assert_eq!(pid(&mut Guest::new(&house, Era::Modern).token("beta-token")), pids[2]);
    house.end();
}

#[test]
fn a_private_session_is_a_process_for_each_client_and_ends_with_it() {
    let place = Place::new([(
        "one",
        chaos("refuse-discover").option("sessions", "private").option("maxSessions", 2),
    )]);
    let house = place.start();
    house.wait_for_tools("one");
    let [mut first, mut second, mut third] = [0; 3].map(|_| Guest::of(&house, Era::Legacy));
    let (one, two) = (pid(&mut first), pid(&mut second));
    assert_ne!(one, two);
    assert_eq!(pid(&mut first), one, "it is the client's for as long as it stays");
    assert_eq!(house.server("one")["privateSessions"], 2);
    let (said, fault) = third.failing_call("pid", json!({}));
    assert_eq!(fault["delivery"], "not-sent", "{said}: {fault}");
    assert_eq!(fault["kind"], "too-many-sessions", "{said}: {fault}");
    assert!(said.contains("raise maxSessions"), "{said}");

    assert_eq!(first.leave(), 200);
    assert_gone(&[one], PATIENCE);
    let mut answer = Value::Null;
    wait_until("there is room for another", PATIENCE, || {
        answer = third.request("tools/call", json!({ "name": "pid", "arguments": {} }));
        !is_failure(&answer)
    });
    assert_ne!(text(&answer), two.to_string());
    assert!(is_running(two), "the others stay");
    house.end();
}

#[test]
fn by_default_a_client_that_can_be_asked_has_its_own_process_from_its_first_call_on() {
    let place = Place::new([("one", chaos("refuse-discover"))]);
    let house = place.start();
    house.wait_for_tools("one");
    let mut able = Guest::new(&house, Era::Legacy).able_to(json!({ "elicitation": {} }));
    able.greet();
    let tools = able.tools();
    for _ in 0..20 {
        assert_eq!(able.tools(), tools);
    }
    assert_eq!(place.journal("one").starts(), 1, "lists start no process");
    let home = place.pid("one");
    let own = pid(&mut able);
    let shared = ERAS.map(|era| pid(&mut Guest::of(&house, era)));
    assert_eq!(shared, [home; 2]);
    assert_ne!(own, shared[0]);
    assert_eq!(house.server("one")["privateSessions"], 1);

    let mut call = able.begin_call("ask", json!({ "kind": "elicitation" }));
    assert_eq!(call.head().status, 200);
    let question = call.next();
    assert_eq!(question["method"], "elicitation/create", "{question}");
    able.reply(&question["id"], json!({ "action": "accept", "content": { "words": "mine" } }));
    let answer = call.next();
    assert!(text(&answer).contains("mine"), "{answer}");
    house.end();
}

#[test]
fn by_default_a_client_that_set_a_log_level_before_its_first_call_hears_the_log() {
    let place = Place::new([("one", chaos("refuse-discover"))]);
    let house = place.start();
    house.wait_for_tools("one");
    let [mut listener, mut other] = [0; 2].map(|_| Guest::of(&house, Era::Legacy));
    let done = listener.request("logging/setLevel", json!({ "level": "info" }));
    assert!(done.get("result").is_some(), "{done}");
    let logged = |guest: &mut Guest| {
        let mut call = guest.begin_call("notify", json!({ "n": 3 }));
        call.answer();
        call.heard.retain(|heard| heard["method"] == "notifications/message");
        call.heard.len()
    };
    assert_eq!((logged(&mut other), logged(&mut listener)), (0, 3));
    house.end();
}

#[test]
fn a_private_session_that_nobody_uses_ends_and_the_next_call_opens_another() {
    let place = Place::new([(
        "one",
        chaos("refuse-discover").option("sessions", "private").option("sessionIdle", "1s"),
    )]);
    let house = place.start();
    house.wait_for_tools("one");
    let mut guest = Guest::of(&house, Era::Legacy);
    let before = pid(&mut guest);
    assert_gone(&[before], PATIENCE);
    assert_ne!(pid(&mut guest), before);
}

#[test]
fn on_a_private_session_a_server_asks_its_client_and_nobody_else() {
    let place = Place::new([("one", chaos("refuse-discover").option("sessions", "private"))]);
    let house = place.start();
    house.wait_for_tools("one");
    let mut guests = [0, 1].map(|_| {
        let mut guest = Guest::new(&house, Era::Legacy).able_to(json!({ "elicitation": {}, "sampling": {} }));
        guest.greet();
        guest
    });
    // Both are asked under the same id of their servers, and each answers for itself.
    let mut calls = guests.each_mut().map(|guest| guest.begin_call("ask", json!({ "kind": "elicitation" })));
    let questions = calls.each_mut().map(|call| {
        assert_eq!(call.head().status, 200);
        call.next()
    });
    for (number, (guest, question)) in guests.iter_mut().zip(&questions).enumerate() {
        assert_eq!(question["method"], "elicitation/create", "{question}");
        let words = format!("words of {number}");
        guest.reply(&question["id"], json!({ "action": "accept", "content": { "words": words } }));
    }
    for (number, mut call) in calls.into_iter().enumerate() {
        let answer = call.next();
        assert!(text(&answer).contains(&format!("words of {number}")), "{answer}");
    }
}

const CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";

/// A modern client that can be asked has the server ask it.
fn begin_ask(guest: &mut Guest, more: Value) -> Value {
    let mut params = json!({
        "name": "ask", "arguments": { "kind": "elicitation" }, "_meta": { CAPABILITIES: { "elicitation": {} } },
    });
    for (name, value) in more.as_object().into_iter().flatten() {
        params[name] = value.clone();
    }
    guest.request("tools/call", params)
}

#[test]
fn security_21_of_two_modern_clients_with_one_token_each_is_asked_what_its_own_call_asks() {
    let place = Place::new([("one", chaos("refuse-discover").option("sessions", "private"))]);
    let house = place.start();
    house.wait_for_tools("one");
    let mut guests = [0, 1].map(|_| Guest::of(&house, Era::Modern));
    let asked = guests.each_mut().map(|guest| begin_ask(guest, json!({})));
    assert_eq!(house.server("one")["privateSessions"], 2, "one for each call that waits for input");
    let states = asked.each_ref().map(|asked| asked["result"]["requestState"].as_str().unwrap());
    assert_ne!(states[0], states[1]);
    // The second is answered first: the answers find their own calls.
    for (number, guest) in guests.iter_mut().enumerate().rev() {
        let questions = asked[number]["result"]["inputRequests"].as_object().unwrap();
        let (key, question) = questions.iter().next().unwrap();
        assert_eq!((questions.len(), &question["method"]), (1, &json!("elicitation/create")));
        let words = json!({ "action": "accept", "content": { "words": format!("words of {number}") } });
        let answer =
            begin_ask(guest, json!({ "requestState": states[number], "inputResponses": { key: words } }));
        assert!(text(&answer).contains(&format!("words of {number}")), "{answer}");
    }
    wait_until("their sessions are gone", PATIENCE, || house.server("one")["privateSessions"] == 0);
    // A client that shows a state again gets nothing of the call that it was for.
    let again = begin_ask(&mut guests[0], json!({ "requestState": states[1], "inputResponses": {} }));
    assert!(is_failure(&again), "{again}");
    house.end();
}

#[test]
fn security_21_a_server_that_modern_clients_share_asks_none_of_them() {
    let place = Place::new([("one", chaos("refuse-discover"))]);
    let house = place.start();
    house.wait_for_tools("one");
    let answer = begin_ask(&mut Guest::of(&house, Era::Modern), json!({}));
    assert!(answer["result"]["requestState"].is_null(), "{answer}");
    assert!(is_failure(&answer) || text(&answer).contains("Method not found"), "{answer}");
    house.end();
}

#[test]
fn security_21_what_a_server_sends_during_a_call_of_one_modern_client_reaches_no_other() {
    for sessions in ["shared", "private"] {
        let place = Place::new([("one", chaos("refuse-discover").option("sessions", sessions))]);
        let house = place.start();
        house.wait_for_tools("one");
        let [mut quiet, mut noisy] = [0; 2].map(|_| Guest::of(&house, Era::Modern));
        let call = |tool: &str, arguments: Value| {
            json!({
                "name": tool, "arguments": arguments,
                "_meta": { "progressToken": "same", "io.modelcontextprotocol/logLevel": "debug",
                    CAPABILITIES: { "elicitation": {}, "sampling": {} } },
            })
        };
        let mut open = quiet.begin("tools/call", call("slow", json!({ "ms": 2000 })));
        assert!(place.journal("one").wait(PATIENCE, |journal| journal.runs("slow") == 1));
        let mut told = noisy.begin("tools/call", call("notify", json!({ "n": 5 })));
        told.answer();
        let progress = |message: &&Value| message["method"] == "notifications/progress";
        assert_eq!(told.heard.iter().filter(progress).count(), 5, "{sessions}: {:?}", told.heard);
        for kind in ["elicitation", "sampling"] {
            noisy.request("tools/call", call("ask", json!({ "kind": kind })));
        }
        assert_eq!(text(&open.answer()), "slow", "{sessions}");
        assert!(open.heard.is_empty(), "{sessions}: {:?}", open.heard);
    }
}

/// Has the resource change. The update, where it came to the client that did it, before the answer.
fn touch(guest: &mut Guest) -> Option<Value> {
    let mut call = guest.begin_call("touch", json!({}));
    assert_eq!(text(&call.answer()), "1");
    call.heard.pop()
}

#[test]
fn updates_of_a_resource_reach_those_who_subscribed_and_nobody_else() {
    let place = Place::new([("one", chaos("refuse-discover"))]);
    let house = place.start();
    house.wait_for_tools("one");
    let [mut reader, mut other] = [0; 2].map(|_| Guest::of(&house, Era::Legacy));
    let (mut to_reader, mut to_other) = (reader.listen(), other.listen());
    reader.tools();
    other.tools();
    let done = reader.request("resources/subscribe", json!({ "uri": "chaos://life" }));
    assert!(done.get("result").is_some(), "{done}");
    assert_eq!(touch(&mut other), None);
    let update = to_reader.message().unwrap();
    assert_eq!(update["method"], "notifications/resources/updated", "{update}");
    assert_eq!(update["params"]["uri"], "chaos://life");
    // The next thing that everybody hears is the first that the other one hears.
    other.call("change", json!({}));
    let changed = to_other.message().unwrap();
    assert_eq!(changed["method"], "notifications/tools/list_changed", "{changed}");

    let done = reader.request("resources/unsubscribe", json!({ "uri": "chaos://life" }));
    assert!(done.get("result").is_some(), "{done}");
    assert_eq!(other.call("touch", json!({})), "0", "nobody wants it any more");
}

#[test]
fn on_a_private_session_a_subscription_is_its_client_s_own() {
    let place = Place::new([("one", chaos("refuse-discover").option("sessions", "private"))]);
    let house = place.start();
    house.wait_for_tools("one");
    let [mut reader, mut other] = [0; 2].map(|_| Guest::of(&house, Era::Legacy));
    let mut to_reader = reader.listen();
    reader.request("resources/subscribe", json!({ "uri": "chaos://life" }));
    assert_eq!(other.call("touch", json!({})), "0", "its own server has no subscriber");
    let update = touch(&mut reader).unwrap_or_else(|| to_reader.message().unwrap());
    assert_eq!(update["method"], "notifications/resources/updated", "{update}");
}

#[test]
fn subscriptions_of_a_shared_session_outlive_its_server() {
    let place = Place::new([("one", chaos("refuse-discover"))]);
    let house = place.start();
    house.wait_for_tools("one");
    let mut guest = Guest::of(&house, Era::Legacy);
    let mut stream = guest.listen();
    guest.request("resources/subscribe", json!({ "uri": "chaos://life" }));
    guest.failing_call("die", json!({}));
    let epochs = |at_least: u64| {
        move |server: &Value| server["epoch"].as_u64() >= Some(at_least) && server["state"] == "ready"
    };
    house.wait_where("one", "back", epochs(2));
    let update = touch(&mut guest).unwrap_or_else(|| stream.message().unwrap());
    assert_eq!(update["method"], "notifications/resources/updated");
    assert_eq!(place.journal("one").params("resources/subscribe").len(), 2, "told once to each session");
    wait_until("nothing is in flight", Duration::from_secs(10), || house.server("one")["inFlight"] == 0);
}

/// A legacy server with one tool that begins a task. It says how often it was asked for a task.
const WITH_TASKS: &str = r#"
    n=0
    say() { printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$1"; }
    while read -r line; do
        id=$(printf '%s' "$line" | sed 's/.*"id":\([^,}]*\).*/\1/')
        case $line in
            *'"initialize"'*) say '{"protocolVersion":"2025-11-25","capabilities":{"tools":{},"tasks":{"requests":{"tools":{"call":{}}}}},"serverInfo":{"name":"t","version":"1"}}' ;;
            *'"tools/list"'*) say '{"tools":[{"name":"begin","inputSchema":{"type":"object"}}]}' ;;
            *'"tools/call"'*) say '{"task":{"taskId":"task-1","status":"working"}}' ;;
            *'"tasks/'*) n=$((n + 1)); say "{\"asked\":$n}" ;;
            *'"id":'*) say '{}' ;;
        esac
    done"#;

#[test]
fn security_21_a_task_is_shown_to_the_client_that_began_it_and_to_no_other() {
    let server = chaos("refuse-discover").member("command", "sh").member("args", json!(["-c", WITH_TASKS]));
    let place = Place::new([("one", server)]);
    let house = place.start();
    house.wait_for_tools("one");
    let [mut owner, mut other] = [0; 2].map(|_| Guest::of(&house, Era::Legacy));
    let begun =
        owner.request("tools/call", json!({ "name": "begin", "arguments": {}, "task": { "ttl": 60000 } }));
    let task = json!({ "taskId": begun["result"]["task"]["taskId"] });
    assert_eq!(task["taskId"], "task-1", "{begun}");
    for method in ["tasks/get", "tasks/result", "tasks/cancel"] {
        let answer = other.request(method, task.clone());
        assert_eq!(answer["error"]["code"], -32602, "{method}: {answer}");
    }
    let answer = owner.request("tasks/get", task);
    assert_eq!(answer["result"]["asked"], 1, "the server heard of no other: {answer}");
}
