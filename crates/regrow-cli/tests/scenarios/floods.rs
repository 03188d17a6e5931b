//! Servers that write far too much: on stderr (15) and in one line (16).

use std::time::Duration;

use serde_json::json;

use crate::client::Setup;
use crate::evidence::{peak_kib, slack};

/// What a relay of small messages may take, in a debug build.
const SMALL_KIB: u64 = 30 << 10;

/// A debug build on a busy machine takes a while for a hundred megabytes.
const LONG: Duration = Duration::from_secs(55);

#[test]
fn scenario_15_a_flood_on_stderr_at_start_holds_nothing_up() {
    let mut client = Setup::plan("flood-stderr=100MB").start();
    let params = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {} });
    let id = client.ask("initialize", params);
    client.answer_within(id, LONG);
    client.notify("notifications/initialized", json!({}));
    assert_eq!(client.call("echo", json!({ "text": "after the flood" })), "after the flood");
    assert_eq!(client.journal.starts(), 1);
    let peak = peak_kib(client.pid());
    assert!(peak < SMALL_KIB, "{peak} KiB");
}

#[test]
fn scenario_15_a_flood_on_stderr_during_calls_holds_nothing_up() {
    let mut client = Setup::plan("").options(&["--stderr", "keep", "--stderr-in-errors"]).connect();
    let flood = client.begin_call("stderr", json!({ "bytes": "100MB" }));
    assert_eq!(client.call("echo", json!({ "text": "beside" })), "beside");
    let answer = client.answer_within(flood, LONG);
    assert_eq!(answer["result"]["content"][0]["text"], "stderr");
    assert_eq!(client.journal.starts(), 1);
    let peak = peak_kib(client.pid());
    assert!(peak < SMALL_KIB, "{peak} KiB");

    // The last lines are kept, and no more than those.
    let (text, fault) = client.failing_call("die", json!({ "how": "kill" }));
    assert!(text.trim_end().ends_with("flood: last line"), "{text:.300}");
    assert!(text.len() < 10_000, "{}", text.len());
    assert_eq!(fault["stderr"].as_array().unwrap().last().unwrap(), "flood: last line");
}

#[test]
fn scenario_15_a_host_that_does_not_read_stderr_holds_nothing_up() {
    let mut client = Setup::plan("").deaf_to_stderr().start();
    client.shake_hands();
    for _ in 0..3 {
        let flood = client.begin_call("stderr", json!({ "bytes": "20MB" }));
        client.answer_within(flood, LONG);
    }
    assert_eq!(client.call("echo", json!({ "text": "still here" })), "still here");
    let (code, took) = client.leave();
    assert_eq!(code, Some(0));
    assert!(took < Duration::from_secs(2) + slack(), "{took:?}");
    client.marked.assert_none_left(Duration::from_secs(5));
}

#[test]
fn scenario_16_a_line_over_the_limit_is_told_to_its_caller_wherever_its_id_stands() {
    let mut client = Setup::plan("").options(&["--max-line", "1MiB"]).connect();
    for place in ["first", "last"] {
        let id = client.begin_call("huge", json!({ "bytes": "50MB", "id": place }));
        let beside = client.begin_call("echo", json!({ "text": place }));
        let (text, fault) = client.failure(id);
        assert!(text.contains("over the limit"), "{text}");
        assert!(text.contains("It ran"), "{text}");
        assert_eq!(fault["kind"], "too-large");
        assert_eq!(fault["delivery"], "answered");
        assert_eq!(fault["tool"], "huge");
        assert!(fault["bytes"].as_u64().unwrap() > 50_000_000, "{fault}");
        assert_eq!(client.answer(beside)["result"]["content"][0]["text"], place);
    }
    let peak = peak_kib(client.pid());
    assert!(peak < SMALL_KIB, "{peak} KiB");
    assert_eq!(client.journal.starts(), 1, "one long line is no reason to restart");
    // What is just under the limit is handed on.
    assert_eq!(client.call("huge", json!({ "bytes": 1_000_000 })).len(), 1_000_000);
}

#[test]
fn scenario_16_the_default_limit_holds_too() {
    let mut client = Setup::plan("").connect();
    let id = client.begin_call("huge", json!({ "bytes": "1GB", "id": "last" }));
    let answer = client.answer_within(id, LONG);
    assert_eq!(answer["result"]["_meta"]["dev.regrow/fault"]["kind"], "too-large", "{answer}");
    let peak = peak_kib(client.pid());
    assert!(peak < 160 << 10, "{peak} KiB");
    assert_eq!(client.call("echo", json!({ "text": "on" })), "on");
    assert_eq!(client.journal.starts(), 1);
}
