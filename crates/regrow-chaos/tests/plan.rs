//! The plan items, seen from outside.
#![cfg(unix)]

mod common;

use std::time::{Duration, Instant};

use common::{LIMIT, kill_pid, world};
use serde_json::json;

#[test]
fn exits_at_start_in_the_first_lives_only() {
    let world = world("exit-at-start:2");
    assert_eq!(world.start().end(), "exit 1");
    assert_eq!(world.start().end(), "exit 1");
    assert_eq!(world.ready().text("echo", json!({"text": "hi"})), "hi");
    assert_eq!(world.journal.starts(), 3);
    assert_eq!(world.journal.pids().len(), 3);
}

#[test]
fn a_mistake_in_the_plan_is_refused() {
    let world = world("no-pong");
    let mut life = world.start();
    assert_eq!(life.end(), "exit 64");
    assert!(String::from_utf8_lossy(&life.errors()).contains("`no-pong`"));
}

#[test]
fn never_answers_the_handshake_in_the_lives_it_is_told() {
    let world = world("never-answer@1");
    let mut first = world.start();
    first.request("initialize", json!({"protocolVersion": "2025-06-18"}));
    assert!(first.is_quiet());
    assert_eq!(world.ready().text("pid", json!({})), world.journal.pids()[1].to_string());
    assert_eq!(world.journal.requests("initialize"), 2);
}

#[test]
fn starts_slowly() {
    let world = world("slow-start=300ms");
    let begin = Instant::now();
    world.ready();
    assert!(begin.elapsed() >= Duration::from_millis(300));
}

#[test]
fn discover_is_refused_ignored_or_deadly() {
    let refusing = world("refuse-discover");
    assert_eq!(refusing.start().ask("server/discover", json!({}))["error"]["code"], -32601);
    let silent = world("silent-discover");
    let mut life = silent.start();
    life.request("server/discover", json!({}));
    assert!(life.is_quiet());
    let deadly = world("die-on-discover");
    let mut life = deadly.start();
    life.request("server/discover", json!({}));
    assert_eq!(life.end(), "exit 1");
    assert_eq!(deadly.ready().text("echo", json!({"text": "legacy"})), "legacy");
}

#[test]
fn a_modern_server_refuses_initialize() {
    let error = world("modern-only").start().handshake();
    assert_eq!(error["error"]["code"], -32022);
    assert_eq!(error["error"]["data"]["supported"], json!(["2026-07-28"]));
    let world = world("lock-era");
    assert!(world.start().handshake()["result"].is_object());
    let mut life = world.start();
    life.ask("server/discover", json!({}));
    assert_eq!(life.handshake()["error"]["code"], -32022);
}

#[test]
fn crashes_or_drops_after_the_handshake() {
    let crashing = world("crash-after-handshake");
    assert_eq!(crashing.ready().end(), "exit 1");
    let mut modern = crashing.start();
    assert!(modern.ask("server/discover", json!({}))["result"].is_object());
    assert_eq!(modern.end(), "exit 1");
    let dropping = world("drop-after=200ms");
    let mut life = dropping.ready();
    assert_eq!(life.text("echo", json!({"text": "still here"})), "still here");
    assert_eq!(life.end(), "exit 1");
    assert!(dropping.journal.ends()[0].ends_with(" drop-after"));
}

#[test]
fn hangs_after_some_requests_and_still_dies_of_age() {
    let world = world("hang-after=2");
    let mut life = world.start_with(&[("CHAOS_LIFE", "4s")]);
    life.handshake();
    assert_eq!(life.text("echo", json!({"text": "last"})), "last");
    life.request("ping", json!({}));
    assert!(life.is_quiet());
    life.close_stdin();
    assert_eq!(life.end(), "signal 9");
    assert!(world.journal.ends()[0].ends_with(" life-time"));
    assert_eq!(world.journal.requests("ping"), 0);
}

#[test]
fn exits_by_itself_after_some_calls() {
    let world = world("exit-after-calls=2");
    let mut life = world.ready();
    assert_eq!(life.text("count", json!({"key": "a"})), "1");
    assert_eq!(life.text("count", json!({"key": "a"})), "2");
    assert_eq!(life.end(), "exit 0");
    assert_eq!(world.ready().text("count", json!({"key": "a"})), "3");
    assert_eq!(world.journal.runs_with("count", "a"), 3);
}

#[test]
fn ends_at_eof_unless_told_otherwise() {
    let mut life = world("").ready();
    life.close_stdin();
    assert_eq!(life.end(), "exit 0");

    let stubborn = world("ignore-eof ignore-term");
    let mut life = stubborn.ready();
    life.close_stdin();
    life.terminate();
    assert!(
        stubborn.journal.wait(LIMIT, |journal| journal.lines().iter().any(|line| line.starts_with("eof")))
    );
    life.terminate();
    assert!(life.is_quiet() && life.runs());
    assert_eq!(stubborn.journal.starts(), 1);
    assert_eq!(stubborn.journal.pids(), [life.pid()]);
    life.kill();
    assert_eq!(life.end(), "signal 9");

    let mut life = world("finish-on-eof").ready();
    let id = life.call("slow", json!({"ms": 100}));
    life.close_stdin();
    life.answer(id);
    assert_eq!(life.end(), "exit 0");
}

#[test]
fn tears_down_noisily_in_two_ways() {
    let world = world("noisy-teardown");
    for end in ["exit 1", "signal 6", "exit 1"] {
        let mut life = world.ready();
        life.close_stdin();
        assert!(serde_json::from_slice::<serde_json::Value>(&life.line()).is_err());
        assert_eq!(life.end(), end);
        assert!(!life.errors().is_empty());
    }
}

#[test]
fn writes_garbage_and_half_lines() {
    let noisy = world("garbage-on-start");
    let life = noisy.start();
    assert_eq!(life.line(), b"Server starting ...\n");
    assert!((0..3).any(|_| String::from_utf8(life.line()).is_err()));
    let mut life = world("half-line-and-die").ready();
    life.request("ping", json!({}));
    assert_eq!(life.line(), br#"{"jsonrpc":"2.0","id":2,"resu"#);
    assert!(life.stdout_ends());
    assert_eq!(life.end(), "exit 1");
}

#[test]
fn closes_its_pipes_and_lives_on() {
    let mut life = world("close-stdout-after=1").ready();
    assert!(life.stdout_ends());
    assert!(life.runs());
    let mut life = world("close-stdin-after=2").ready();
    assert_eq!(life.ask("ping", json!({}))["result"], json!({}));
    let deadline = Instant::now() + LIMIT;
    while life.try_send(&json!({})).is_ok() {
        assert!(Instant::now() < deadline, "stdin is still open");
    }
    assert!(life.is_quiet() && life.runs());
}

#[test]
fn floods_stderr_before_it_serves() {
    let world = world("flood-stderr=10MB");
    let mut life = world.ready();
    life.close_stdin();
    assert_eq!(life.end(), "exit 0");
    let errors = life.errors();
    assert!(errors.len() > 10_000_000);
    assert!(errors.ends_with(b"\nflood: last line\n"));
    assert!(errors.contains(&0) && errors.contains(&0xff));
    assert!(errors[..1_000_000].iter().all(|byte| *byte != b'\n'));
}

#[test]
fn leaves_helpers_that_hold_its_pipes_or_do_not() {
    for (plan, holds, own_session) in [
        ("helper", true, false),
        ("helper=free", false, false),
        ("helper-setsid", true, true),
        ("helper-setsid=free", false, true),
    ] {
        let world = world(plan);
        let mut life = world.ready();
        let [helper] = world.journal.helpers()[..] else { panic!("{plan}: one helper") };
        // Read from /proc: `getsid` answers 0, for which rustix panics, where a session began outside our container.
        let stat = std::fs::read_to_string(format!("/proc/{helper}/stat")).unwrap();
        let session = stat.rsplit_once(") ").and_then(|(_, rest)| rest.split(' ').nth(3));
        assert_eq!(session == Some(helper.to_string().as_str()), own_session, "{plan}");
        life.kill();
        assert_eq!(life.end(), "signal 9");
        assert_eq!(life.is_quiet(), holds, "{plan}");
        assert_eq!(world.journal.alive(), [helper], "{plan}");
        kill_pid(helper);
        assert!(world.journal.wait(LIMIT, |journal| journal.alive().is_empty()), "{plan}");
        assert!(life.stdout_ends(), "{plan}");
    }
}

#[test]
fn ping_is_refused_or_ignored() {
    assert_eq!(world("no-ping").ready().ask("ping", json!({}))["error"]["code"], -32601);
    let mut life = world("silent-ping").ready();
    life.request("ping", json!({}));
    assert!(life.is_quiet());
    assert_eq!(life.text("echo", json!({"text": "alive"})), "alive");
}

#[test]
fn later_lives_offer_something_else() {
    let world = world("extra-tool@2- drop-tool=count@2- version=2024-11-05@2- lose-capability=prompts@2-");
    let look = || {
        let mut life = world.start();
        let hello = life.handshake()["result"].clone();
        let tools = life.ask("tools/list", json!({}))["result"]["tools"].clone();
        let names: Vec<String> =
            tools.as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect();
        let prompts = life.ask("prompts/list", json!({}))["error"]["code"].clone();
        let gone = {
            let id = life.call("count", json!({}));
            life.answer(id)["error"]["message"].clone()
        };
        let has = |name: &str| names.iter().any(|known| known == name);
        (hello["protocolVersion"].clone(), has("extra"), has("count"), prompts, gone)
    };
    assert_eq!(look(), (json!("2025-06-18"), false, true, json!(null), json!(null)));
    assert_eq!(look(), (json!("2024-11-05"), true, false, json!(-32601), json!("Unknown tool: count")));
}

#[test]
fn the_control_file_changes_a_running_server() {
    let world = world("no-ping");
    let mut life = world.ready();
    world.journal.set_control("!no-ping").unwrap();
    assert_eq!(life.ask("ping", json!({}))["result"], json!({}));
    world.journal.set_control("exit-after-calls=1").unwrap();
    life.text("echo", json!({"text": "x"}));
    assert_eq!(life.end(), "exit 0");
    world.journal.set_control("exit-at-start=7").unwrap();
    assert_eq!(world.start().end(), "exit 7");
}

#[test]
fn a_secret_goes_to_stderr_when_planned() {
    let world = world("log-secret=TOKEN");
    let mut life = world.start_with(&[("TOKEN", "s3cr3t")]);
    life.handshake();
    life.close_stdin();
    assert!(String::from_utf8_lossy(&life.errors()).contains("s3cr3t"));
}
