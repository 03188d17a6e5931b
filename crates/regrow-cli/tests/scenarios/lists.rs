//! What a client is told about lists after a restart (22), and in bursts (23).

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::client::{Client, Setup};
use crate::evidence::kill;

const CHANGED: &str = "notifications/tools/list_changed";

/// Kills the server and waits for the next to serve.
fn tools(answer: &Value) -> Vec<String> {
    let tools = answer["result"]["tools"].as_array().unwrap();
    tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
}

/// How often the client was told, once the comparison after a restart is surely over: `lists` have been asked of the server.
fn told(client: &mut Client, lists: usize) -> usize {
    assert!(client.journal.wait(crate::client::PATIENCE, |journal| journal.requests("tools/list") >= lists));
    client.call("echo", json!({ "text": "the answer to the list was read before this" }));
    client.seen().iter().filter(|message| message["method"] == CHANGED).count()
}

#[test]
fn scenario_22_a_restarted_server_with_other_tools_is_told_of_exactly_once() {
    let mut client = Setup::plan("extra-tool@2- drop-tool=pid@2-").connect();
    let before = tools(&client.request("tools/list", json!({})));
    assert!(before.contains(&"pid".into()) && !before.contains(&"extra".into()));
    client.replace_server();
    client.wait_for(CHANGED);
    let after = tools(&client.request("tools/list", json!({})));
    assert!(!after.contains(&"pid".into()) && after.contains(&"extra".into()));
    assert_eq!(told(&mut client, 3), 0, "it was told once before, and no more");

    // A tool that is gone fails by name.
    let gone = client.request("tools/call", json!({ "name": "pid", "arguments": {} }));
    assert!(gone["error"]["message"].as_str().unwrap().contains("pid"), "{gone}");
    assert_eq!(client.call("extra", json!({ "text": "new" })), "new");

    // The next restart changes nothing more, so nothing more is told.
    client.replace_server();
    assert_eq!(told(&mut client, 4), 0);
}

#[test]
fn scenario_22_unchanged_lists_are_not_told_of() {
    let mut client = Setup::plan("").connect();
    for list in ["tools/list", "prompts/list", "resources/list", "resources/templates/list"] {
        client.request(list, json!({}));
    }
    for restarts in 1..=3 {
        client.replace_server();
        let all = 1 + restarts;
        assert!(client.journal.wait(crate::client::PATIENCE, |journal| {
            journal.requests("resources/templates/list") >= all && journal.requests("prompts/list") >= all
        }));
        assert_eq!(told(&mut client, all), 0);
    }
    assert!(client.seen().is_empty());
}

#[test]
fn scenario_22_pages_are_compared_too() {
    let mut client = Setup::plan("page=10 extra-tool@3-").connect();
    let mut cursor = json!({});
    let mut pages = 0;
    loop {
        let answer = client.request("tools/list", cursor);
        pages += 1;
        match answer["result"]["nextCursor"].as_str() {
            Some(next) => cursor = json!({ "cursor": next }),
            None => break,
        }
    }
    assert!(pages > 2);
    client.replace_server();
    assert_eq!(told(&mut client, 2 * pages), 0);
    client.replace_server();
    client.wait_for(CHANGED); // The new tool is on the last page.
}

#[test]
fn scenario_22_a_client_that_never_listed_is_told_nothing() {
    let mut client = Setup::plan("extra-tool@2-").connect();
    client.call("echo", json!({ "text": "x" }));
    client.replace_server();
    client.call("echo", json!({ "text": "y" }));
    assert_eq!(client.journal.requests("tools/list"), 0, "nobody asked");
    assert_eq!(client.seen(), Vec::<Value>::new());
}

#[test]
fn scenario_22_a_server_that_announces_changes_at_each_start_does_not_disturb() {
    for plan in ["announce", "announce=5ms", "announce=100ms"] {
        let mut client = Setup::plan(plan).connect();
        client.wait_for(CHANGED); // In the first life it is forwarded as it is.
        client.request("tools/list", json!({}));
        for restarts in 1..=2 {
            client.replace_server();
            // One list for the comparison, and one more for the announcement.
            assert_eq!(told(&mut client, 1 + 2 * restarts), 0, "{plan}");
        }
    }
}

#[test]
fn scenario_22_a_change_is_told_once_though_the_server_announces_it_too() {
    for plan in ["announce extra-tool@2-", "announce=50ms extra-tool@2-"] {
        let mut client = Setup::plan(plan).connect();
        client.wait_for(CHANGED);
        client.request("tools/list", json!({}));
        client.replace_server();
        client.wait_for(CHANGED);
        assert_eq!(told(&mut client, 3), 0, "{plan}: told a second time");
    }
}

#[test]
fn scenario_22_what_the_client_used_and_the_server_lost_is_said_and_not_hidden() {
    let mut client = Setup::plan("lose-capability=resources@2").connect();
    client.request("resources/list", json!({}));
    kill(client.server_pid(), Signal::KILL);
    client.wait_for_log(0, "parked");
    let (text, fault) = client.failing_call("echo", json!({ "text": "x" }));
    assert!(text.contains("no longer offers resources; restart this server in your host"), "{text}");
    assert_eq!(fault["cause"], "capability-lost");
    assert_eq!(fault["delivery"], "not-sent");
}

#[test]
fn scenario_22_another_protocol_version_is_said_and_not_hidden() {
    let mut client = Setup::plan("version=2025-06-18@2").connect();
    kill(client.server_pid(), Signal::KILL);
    client.wait_for_log(0, "parked");
    let (text, fault) = client.failing_call("echo", json!({ "text": "x" }));
    assert!(text.contains("2025-06-18 instead of 2025-11-25"), "{text}");
    assert_eq!(fault["cause"], "version-changed");
}

#[test]
fn scenario_23_a_burst_of_changes_is_handed_on_and_costs_no_lists_of_ours() {
    let mut client = Setup::plan("").connect();
    client.request("tools/list", json!({}));
    client.call("burst", json!({ "n": 100 }));
    let told = client.seen().iter().filter(|message| message["method"] == CHANGED).count();
    assert_eq!(told, 100, "a relay neither adds nor drops");
    assert_eq!(client.journal.requests("tools/list"), 1);
    assert_eq!(client.journal.starts(), 1);
}

#[test]
fn scenario_23_a_change_during_a_list_leaves_the_right_list() {
    let mut client = Setup::plan("").connect();
    // Both are on their way at once, in this order.
    let list = client.ask("tools/list", json!({}));
    let change = client.begin_call("change", json!({}));
    let again = client.ask("tools/list", json!({}));
    assert!(!tools(&client.answer(list)).contains(&"added-1".into()));
    client.wait_for(CHANGED);
    client.answer(change);
    assert!(tools(&client.answer(again)).contains(&"added-1".into()));

    // The client saw the longer list; the next life offers the shorter one, and that is told.
    client.replace_server();
    client.wait_for(CHANGED);
    assert!(!tools(&client.request("tools/list", json!({}))).contains(&"added-1".into()));
}

#[test]
fn scenario_23_a_burst_during_the_comparison_after_a_restart_tells_at_most_once_per_change() {
    let mut client = Setup::plan("").connect();
    client.request("tools/list", json!({}));
    kill(client.server_pid(), Signal::KILL);
    client.wait_for_log(0, "killed by SIGKILL");
    // These wait for the next session and run while the lists are compared.
    let burst = client.begin_call("burst", json!({ "n": 100 }));
    let change = client.begin_call("change", json!({}));
    client.answer(burst);
    client.answer(change);
    client.wait_for(CHANGED);
    assert!(tools(&client.request("tools/list", json!({}))).contains(&"added-1".into()));
    // Two of the client, one to compare, and at most two more however many changes are told.
    assert!(client.journal.requests("tools/list") <= 5, "{:?}", client.journal.lines());
}
