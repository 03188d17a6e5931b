//! The tools, seen from outside.
#![cfg(unix)]

mod common;

use std::time::Duration;

use common::{LIMIT, world};
use serde_json::{Value, json};

#[test]
fn counts_effects_over_lives() {
    let world = world("");
    for total in ["1", "2", "3"] {
        assert_eq!(world.ready().text("count", json!({"key": "k"})), total);
    }
    assert_eq!(world.ready().text("count", json!({"key": "other"})), "1");
    assert_eq!((world.journal.starts(), world.journal.runs("count")), (4, 4));
    assert_eq!(world.journal.request_ids("tools/call"), ["2", "2", "2", "2"]);
}

#[test]
fn a_slow_tool_blocks_nobody_and_can_be_cancelled() {
    let world = world("");
    let mut life = world.ready();
    let slow = life.call("slow", json!({"ms": 20_000, "key": "a"}));
    assert_eq!(life.ask("ping", json!({}))["result"], json!({}));
    life.notify("notifications/cancelled", json!({"requestId": slow}));
    life.notify("notifications/cancelled", json!({"requestId": 99}));
    assert!(world.journal.wait(LIMIT, |journal| journal.notifications("notifications/cancelled") == 2));
    assert!(life.is_quiet());
    assert_eq!(world.journal.cancelled(), [slow.to_string()]);
    assert_eq!(world.journal.runs_with("slow", "a"), 1);
}

#[test]
fn slow_and_notify_report_progress_before_they_answer() {
    let mut life = world("").ready();
    let params = |tool, arguments: Value| json!({"name": tool, "arguments": arguments, "_meta": {"progressToken": "t"}});
    let id = life.request("tools/call", params("slow", json!({"ms": 120, "progress_ms": 30})));
    let progress = life.next();
    assert_eq!(
        (&progress["method"], &progress["params"]["progressToken"]),
        (&json!("notifications/progress"), &json!("t"))
    );
    while life.next()["id"] != id {}
    let id = life.request("tools/call", params("notify", json!({"n": 3})));
    for number in 1..=3 {
        assert_eq!(life.next()["params"]["data"], number);
        assert_eq!(life.next()["params"]["progress"], number);
    }
    life.answer(id);
}

#[test]
fn dies_before_during_and_after_its_effect() {
    let world = world("");
    for (when, how, end, runs) in [
        ("before", "exit0", "exit 0", 0),
        ("during", "exit1", "exit 1", 1),
        ("during", "kill", "signal 9", 2),
        ("during", "segv", "signal 11", 3),
        ("after", "abort", "signal 6", 4),
    ] {
        let mut life = world.ready();
        let id = life.call("die", json!({"when": when, "how": how, "key": "k"}));
        if when == "after" {
            life.answer(id);
        }
        assert_eq!(life.end(), end);
        assert!(life.stdout_ends());
        assert_eq!(world.journal.runs_with("die", "k"), runs);
    }
    assert_eq!(world.ready().text("die", json!({"key": "k", "times": 4})), "5");
}

#[test]
fn a_read_only_tool_dies_the_first_times() {
    let world = world("");
    let mut life = world.ready();
    life.call("lookup", json!({"key": "k", "die_times": 1}));
    assert_eq!(life.end(), "signal 9");
    assert_eq!(world.ready().text("lookup", json!({"key": "k", "die_times": 1})), "2");
}

#[test]
fn hangs_alone_or_as_a_whole() {
    let mut life = world("").ready();
    life.call("hang", json!({"key": "k"}));
    assert_eq!(life.ask("ping", json!({}))["result"], json!({}));
    life.call("hang", json!({"whole": true}));
    life.request("ping", json!({}));
    assert!(life.is_quiet() && life.runs());
}

#[test]
fn a_stopped_server_is_stopped_and_does_not_live_for_ever() {
    let world = world("");
    let mut life = world.start_with(&[("CHAOS_LIFE", "800ms")]);
    life.handshake();
    let id = life.call("stop", json!({"answer": true}));
    life.answer(id);
    life.request("ping", json!({}));
    assert!(life.is_quiet() && life.runs());
    assert_eq!(life.end(), "signal 9");
}

#[test]
fn a_huge_line_has_its_id_first_or_last() {
    let mut life = world("").ready();
    for place in ["first", "last"] {
        let id = life.call("huge", json!({"bytes": "3MB", "id": place}));
        let line = life.line();
        assert_eq!(line.starts_with(format!(r#"{{"jsonrpc":"2.0","id":{id},"#).as_bytes()), place == "first");
        let message: Value = serde_json::from_slice(&line).unwrap();
        assert_eq!(message["id"], id);
        assert_eq!(message["result"]["content"][0]["text"].as_str().unwrap().len(), 3_000_000);
    }
}

#[test]
fn ill_formed_answers() {
    let mut life = world("").ready();
    let id = life.call("garbage", json!({}));
    assert!((0..4).all(|_| serde_json::from_slice::<Value>(&life.line()).is_err()));
    life.answer(id);

    let id = life.call("malformed", json!({}));
    let line = life.line();
    assert!(line.starts_with(format!(r#"{{"jsonrpc":"2.0","id":{id},"#).as_bytes()));
    assert!(serde_json::from_slice::<Value>(&line).is_err());

    let id = life.call("dup", json!({}));
    assert_eq!(life.answer(id), life.answer(id));

    let id = life.call("stray", json!({}));
    assert_eq!((life.next()["id"].clone(), life.next()["id"].clone()), (json!(987654321), json!("nobody")));
    life.answer(id);

    let id = life.call("batch", json!({}));
    let batch = life.next();
    assert_eq!((&batch[0]["method"], &batch[1]["id"]), (&json!("notifications/message"), &json!(id)));

    life.call("half", json!({}));
    assert!(!life.line().ends_with(b"\n"));
    assert_eq!(life.end(), "exit 1");
}

#[test]
fn failures_are_answers() {
    let world = world("");
    let mut life = world.start_with(&[("CHAOS_SECRET", "s3cr3t")]);
    life.handshake();
    let id = life.call("fail", json!({}));
    assert_eq!(life.answer(id)["result"]["isError"], true);
    let id = life.call("error", json!({}));
    assert_eq!(life.answer(id)["error"]["code"], -32000);
    let id = life.call("secret", json!({}));
    assert!(life.answer(id)["error"]["message"].as_str().unwrap().contains("s3cr3t"));
    assert_eq!(life.text("env", json!({"name": "CHAOS_SECRET"})), "s3cr3t");
    // Whoever runs the tests may leave descriptors open to us; ours are not among those told.
    let open = life.text("fds", json!({}));
    assert!(!open.contains("journal") && !open.contains("/fd"), "{open}");
    assert_eq!(life.text("pid", json!({})), life.pid().to_string());
}

#[test]
fn asks_with_ids_from_zero_in_every_life() {
    let world = world("");
    for _ in 0..2 {
        let mut life = world.ready();
        for (number, kind, method) in [
            (0, "elicitation", "elicitation/create"),
            (1, "sampling", "sampling/createMessage"),
            (2, "roots", "roots/list"),
        ] {
            let id = life.call("ask", json!({"kind": kind}));
            let question = life.next();
            assert_eq!((&question["id"], &question["method"]), (&json!(number), &json!(method)));
            let answer = json!({"jsonrpc": "2.0", "id": number, "result": {"x": kind}});
            life.send(&answer);
            let text = life.answer(id)["result"]["content"][0]["text"].as_str().unwrap().to_owned();
            assert_eq!(text, answer.to_string());
        }
    }
}

#[test]
fn changes_its_tools_and_says_so() {
    let mut life = world("").ready();
    let id = life.call("change", json!({}));
    assert_eq!(life.next()["method"], "notifications/tools/list_changed");
    life.answer(id);
    assert_eq!(life.text("added-1", json!({"text": "new"})), "new");
    let id = life.call("burst", json!({"n": 5}));
    for _ in 0..5 {
        assert_eq!(life.next()["method"], "notifications/tools/list_changed");
    }
    life.answer(id);
}

#[test]
fn closes_its_pipes() {
    let mut life = world("").ready();
    let id = life.call("closein", json!({}));
    life.answer(id);
    assert!(life.is_quiet() && life.runs());
    let mut life = world("").ready();
    let id = life.call("closeout", json!({"answer": true}));
    life.answer(id);
    assert!(life.stdout_ends() && life.runs());
}

#[test]
fn writes_to_stderr() {
    let mut life = world("").ready();
    assert_eq!(life.text("stderr", json!({"bytes": 3_000_000})), "stderr");
    life.close_stdin();
    assert!(life.errors().len() >= 3_000_000);
}

#[test]
fn a_thousand_calls_at_once_are_all_answered() {
    let world = world("");
    let mut life = world.ready();
    for _ in 0..1000 {
        life.call("count", json!({"key": "k", "delay_ms": 50}));
    }
    let mut totals: Vec<u32> = (0..1000)
        .map(|_| life.next()["result"]["content"][0]["text"].as_str().unwrap().parse().unwrap())
        .collect();
    totals.sort_unstable();
    assert!(totals.iter().copied().eq(1..=1000));
    assert!(world.journal.wait(Duration::ZERO, |journal| journal.runs("count") == 1000));
}
