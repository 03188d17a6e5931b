//! Both eras of the protocol: how a session begins (24), streams that outlive sessions, progress, and clients that do
//! not read (25).

use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::client::{Client, PATIENCE, Setup, envelope};
use crate::evidence::{bytes_written, peak_kib, slack};

const STREAM: &str = "io.modelcontextprotocol/subscriptionId";

fn text_of(answer: &Value) -> &str {
    answer["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{answer}"))
}

#[test]
fn scenario_24_a_start_of_fifteen_seconds_is_waited_for_in_both_eras() {
    let legacy = thread::spawn(|| {
        let mut client = Setup::plan("slow-start=15s").start();
        let params = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {} });
        let id = client.ask("initialize", params);
        let answer = client.answer_within(id, Duration::from_secs(40));
        assert_eq!(answer["result"]["protocolVersion"], "2025-11-25");
        client.send(json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
        assert_eq!(client.call("echo", json!({ "text": "late" })), "late");
        assert_eq!(client.journal.starts(), 1);
        assert_eq!(client.logged("warning"), 0, "{:#?}", client.log());
    });
    let modern = thread::spawn(|| {
        let mut client = Setup::plan("slow-start=15s").start();
        let discover = client.ask_modern("server/discover", json!({}));
        let list = client.ask_modern("tools/list", json!({}));
        let answer = client.answer_within(discover, Duration::from_secs(40));
        assert_eq!(answer["result"]["resultType"], "complete");
        assert!(client.answer(list)["result"]["tools"].is_array());
        assert_eq!(client.journal.starts(), 1);
        assert_eq!(client.logged("warning"), 0, "{:#?}", client.log());
    });
    legacy.join().unwrap();
    modern.join().unwrap();
}

#[test]
fn scenario_24_a_server_that_dies_of_a_discover_is_found_legacy_on_a_fresh_process() {
    let mut client = Setup::plan("die-on-discover").options(&["--budget", "0/180"]).start();
    let answer = client.request_modern("server/discover", json!({}));
    assert_eq!(answer["error"]["code"], -32601, "{answer}");
    client.shake_hands();
    assert_eq!(client.call("echo", json!({ "text": "legacy" })), "legacy");
    assert_eq!(client.journal.starts(), 2);
    assert_eq!(client.journal.requests("server/discover"), 1);
    assert_eq!(client.journal.requests("initialize"), 1);
    assert_eq!(client.logged("parked"), 0, "that is no fault: {:#?}", client.log());

    // From now on it is greeted as the client did in the end.
    let from = client.log().len();
    client.restart();
    assert_eq!(client.call("echo", json!({ "text": "again" })), "again");
    assert_eq!(client.journal.requests("server/discover"), 1);
    assert_eq!(client.journal.requests("initialize"), 2);
    assert!(client.log()[from..].iter().all(|line| !line.contains("warning")), "{:#?}", client.log());
}

#[test]
fn scenario_24_a_client_that_gives_up_on_its_discover_may_shake_hands_on_the_same_process() {
    let mut client = Setup::plan("silent-discover").start();
    let discover = client.ask_modern("server/discover", json!({}));
    assert!(client.journal.wait(PATIENCE, |journal| journal.requests("server/discover") == 1));
    client.shake_hands();
    assert_eq!(client.call("echo", json!({ "text": "legacy" })), "legacy");
    assert_eq!(client.journal.starts(), 1);

    // A restart shakes hands again, and does not ask what was never answered.
    client.replace_server();
    assert_eq!(client.call("echo", json!({ "text": "again" })), "again");
    assert_eq!(client.journal.requests("initialize"), 2);
    assert_eq!(client.journal.requests("server/discover"), 1, "{:?}", client.journal.lines());
    let answered = client.seen().into_iter().filter(|message| message["id"] == discover).count();
    assert!(answered <= 1);
}

#[test]
fn scenario_24_a_refused_discover_and_a_handshake_on_the_same_pipe() {
    let mut client = Setup::plan("refuse-discover").start();
    let answer = client.request_modern("server/discover", json!({}));
    assert_eq!(answer["error"]["code"], -32601);
    client.shake_hands();
    client.replace_server();
    assert_eq!(client.call("echo", json!({ "text": "again" })), "again");
    assert_eq!(client.journal.requests("server/discover"), 1);
    assert_eq!(client.journal.requests("initialize"), 2);
}

#[test]
fn a_modern_client_that_never_discovers_survives_a_death_too() {
    let mut client = Setup::plan("modern-only").start();
    assert!(client.request_modern("tools/list", json!({}))["result"]["tools"].is_array());
    client.replace_server();
    assert_eq!(text_of(&client.call_modern("echo", json!({ "text": "again" }))), "again");
    assert_eq!(client.journal.starts(), 2);
    assert_eq!(client.journal.requests("initialize"), 0, "the modern era has no handshake");
    // Our own question carries what the modern era demands.
    let asked: Value = serde_json::from_str(&client.journal.params("server/discover")[0]).unwrap();
    assert_eq!(asked["_meta"]["io.modelcontextprotocol/protocolVersion"], "2026-07-28");
    assert!(asked["_meta"]["io.modelcontextprotocol/clientCapabilities"].is_object());
}

#[test]
fn a_failed_call_of_the_modern_era_is_a_complete_result() {
    let mut client = Setup::plan("").start();
    client.request_modern("server/discover", json!({}));
    let answer = client.call_modern("die", json!({ "how": "kill", "key": "once" }));
    assert_eq!(answer["result"]["resultType"], "complete", "{answer}");
    assert_eq!(answer["result"]["isError"], true);
    assert!(answer["result"].get("structuredContent").is_none());
    let fault = &answer["result"]["_meta"]["dev.regrow/fault"];
    assert_eq!((&fault["signal"], &fault["delivery"]), (&json!("SIGKILL"), &json!("unknown")));
    assert_eq!(client.journal.runs_with("die", "once"), 1);
    assert_eq!(text_of(&client.call_modern("echo", json!({ "text": "on" }))), "on");
    // What is no tool call fails as an error.
    let id = client.ask_modern("tools/call", json!({ "name": "die", "arguments": {}, "task": {} }));
    assert_eq!(client.answer(id)["error"]["code"], -31001);
}

#[test]
fn input_that_a_modern_server_asks_for_is_relayed_as_it_is() {
    let mut client = Setup::plan("").start();
    let answer = client.call_modern("ask", json!({}));
    assert_eq!(answer["result"]["resultType"], "input_required");
    let params = json!({
        "name": "ask",
        "arguments": {},
        "requestState": answer["result"]["requestState"],
        "inputResponses": { "question": { "action": "accept", "content": { "yes": true } } },
    });
    let answer = client.request_modern("tools/call", params);
    assert!(text_of(&answer).contains("accept"), "{answer}");
}

/// Opens a stream under this id and waits for its acknowledgement.
fn listen(client: &mut Client, id: Value, wanted: Value) {
    let params = json!({ "notifications": wanted, "_meta": envelope() });
    client.send(json!({ "jsonrpc": "2.0", "id": id, "method": "subscriptions/listen", "params": params }));
    client.wait_where("the acknowledgement", |message| {
        message["method"] == "notifications/subscriptions/acknowledged"
            && message["params"]["_meta"][STREAM] == id
    });
}

#[test]
fn scenario_25_a_listen_stream_stays_open_through_deaths_and_keeps_its_id() {
    let mut client = Setup::plan("extra-tool@4-").start();
    client.request_modern("server/discover", json!({}));
    client.request_modern("tools/list", json!({}));
    listen(&mut client, json!("listen-1"), json!({ "toolsListChanged": true }));
    listen(&mut client, json!(77), json!({ "resourceSubscriptions": ["chaos://life"] }));
    for lives in 2..=4 {
        client.replace_server();
        assert!(client.journal.wait(PATIENCE, |j| j.requests("subscriptions/listen") == 2 * lives));
        let answer = client.call_modern("touch", json!({}));
        assert_eq!(text_of(&answer), "1", "it listens again, once");
        let update = client.wait_for("notifications/resources/updated");
        assert_eq!(update["params"]["_meta"][STREAM], 77, "a number stays a number");
    }
    // Only the fourth life offers another list.
    let change = client.wait_for("notifications/tools/list_changed");
    assert_eq!(change["params"]["_meta"][STREAM], "listen-1");
    // What the server itself says is stamped with the client's id too.
    client.call_modern("change", json!({}));
    let change = client.wait_for("notifications/tools/list_changed");
    assert_eq!(change["params"]["_meta"][STREAM], "listen-1");

    let rest = client.seen();
    let acknowledged =
        rest.iter().filter(|m| m["method"] == "notifications/subscriptions/acknowledged").count();
    assert_eq!(acknowledged, 0, "one acknowledgement each, at the beginning");
    assert!(rest.iter().all(|m| m["id"] != "listen-1" && m["id"] != 77), "no stream has ended: {rest:?}");
    assert!(rest.iter().all(|m| m["method"] != "notifications/tools/list_changed"), "{rest:?}");

    // It ends when the server says so, under the client's id.
    assert_eq!(text_of(&client.call_modern("unlisten", json!({}))), "2");
    let end = client.wait_where("the end of the stream", |message| message["id"] == "listen-1");
    assert_eq!(end["result"]["_meta"][STREAM], "listen-1");
}

#[test]
fn scenario_25_planned_restarts_do_not_wait_for_a_stream_nor_end_it() {
    let mut client = Setup::plan("").start();
    client.request_modern("tools/list", json!({}));
    listen(&mut client, json!("s"), json!({ "toolsListChanged": true }));
    let began = Instant::now();
    for _ in 0..3 {
        client.restart();
    }
    assert!(began.elapsed() < Duration::from_secs(10) + slack(), "{:?}", began.elapsed());
    assert!(client.journal.wait(PATIENCE, |journal| journal.requests("subscriptions/listen") == 4));
    client.call_modern("change", json!({}));
    let change = client.wait_for("notifications/tools/list_changed");
    assert_eq!(change["params"]["_meta"][STREAM], "s");
    assert!(client.seen().iter().all(|message| message["id"] != "s"));

    // A stream that the client ends is not opened again.
    client.notify("notifications/cancelled", json!({ "requestId": "s" }));
    assert!(client.journal.wait(PATIENCE, |journal| journal.cancelled().len() == 1));
    client.restart();
    client.call_modern("change", json!({}));
    assert_eq!(client.journal.requests("subscriptions/listen"), 4);
    assert_eq!(client.seen(), Vec::<Value>::new());
}

#[test]
fn scenario_25_progress_never_comes_after_its_response() {
    let mut client = Setup::plan("").options(&["--call-timeout", "3s"]).connect();
    for round in 0..20 {
        let params =
            json!({ "name": "notify", "arguments": { "n": 50 }, "_meta": { "progressToken": round } });
        let id = client.ask("tools/call", params);
        client.answer(id);
        let progress: Vec<u64> = of_token(&client.seen(), round);
        assert_eq!(progress, (1..=50).collect::<Vec<u64>>(), "all of it, in order, before the answer");
    }
    // A call that reports no progress for three seconds times out; what it reports later is nobody's.
    let arguments = json!({ "ms": 7800, "progress_ms": 3900, "key": "late" });
    let params = json!({ "name": "slow", "arguments": arguments, "_meta": { "progressToken": "late" } });
    let id = client.ask("tools/call", params);
    let (_, fault) = client.failure(id);
    assert_eq!(fault["kind"], "timeout");
    thread::sleep(Duration::from_millis(4500)); // Long enough for its late words.
    client.call("echo", json!({ "text": "after" }));
    let late = client.seen();
    assert!(late.iter().all(|message| message["method"] != "notifications/progress"), "{late:?}");
    assert_eq!(client.journal.starts(), 1);
}

#[test]
fn scenario_25_progress_gives_a_call_more_time() {
    let mut client = Setup::plan("").options(&["--call-timeout", "3s"]).connect();
    let arguments = json!({ "ms": 7000, "progress_ms": 300 });
    let params = json!({ "name": "slow", "arguments": arguments, "_meta": { "progressToken": 1 } });
    let id = client.ask("tools/call", params);
    assert_eq!(text_of(&client.answer(id)), "slow");
}

fn of_token(messages: &[Value], token: u64) -> Vec<u64> {
    let progress = messages.iter().filter(|message| message["method"] == "notifications/progress");
    progress
        .filter(|message| message["params"]["progressToken"] == token)
        .map(|message| message["params"]["progress"].as_u64().unwrap())
        .collect()
}

/// At some point nothing more is taken from the server for a client that does not read.
fn until_full(server: u32) {
    let begun = Instant::now();
    let (mut written, mut since) = (0, begun);
    while written < 4 << 20 || since.elapsed() < Duration::from_millis(500) {
        let now = bytes_written(server);
        if now != written {
            (written, since) = (now, Instant::now());
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "{written} bytes were written");
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn scenario_25_a_client_that_stops_reading_blocks_only_itself() {
    const COUNT: u64 = 6_000;
    let options = ["--call-timeout", "6s", "--idle-probe", "3s"];
    let mut client = Setup::plan("").options(&options).connect();
    client.call("echo", json!({ "text": "x" }));
    client.stop_reading();
    // Its progress gives it time for as long as that is read.
    let arguments = json!({ "n": COUNT, "bytes": 1_700 });
    let params = json!({ "name": "notify", "arguments": arguments, "_meta": { "progressToken": 1 } });
    let id = client.ask("tools/call", params);
    until_full(client.server_pid()); // The server writes 11 MB and more.
    // Far more than the call's time, and than the server's time to show life.
    thread::sleep(Duration::from_secs(14));
    let peak = peak_kib(client.pid());
    assert!(peak < 40 << 10, "{peak} KiB");

    client.read_again();
    let answer = client.answer_within(id, Duration::from_secs(60));
    assert_eq!(text_of(&answer), COUNT.to_string());
    let numbers: Vec<u64> =
        client.seen().iter().filter_map(|message| message["params"]["data"].as_u64()).collect();
    assert!(numbers.into_iter().eq(1..=COUNT), "every one, in order");
    assert_eq!(client.journal.starts(), 1);
    assert_eq!(client.logged("warning"), 0, "{:#?}", client.log());
    assert_eq!(client.call("echo", json!({ "text": "on" })), "on");
}

#[test]
fn scenario_25_we_end_in_time_though_the_client_does_not_read() {
    let mut client = Setup::plan("").connect();
    client.stop_reading();
    client.begin_call("notify", json!({ "n": 15_000, "bytes": 1_000 }));
    assert!(client.journal.wait(PATIENCE, |journal| journal.runs("notify") == 1));
    until_full(client.server_pid());
    let (code, took) = client.leave_as_hosts_do();
    assert_eq!(code, Some(1), "a call was not answered");
    assert!(took < Duration::from_millis(4300) + slack(), "{took:?}");
    client.marked.assert_none_left(Duration::from_secs(5));
}
