//! Scenario 52: a healthy server is away for a while, and calls wait for it.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::client::{PATIENCE, Setup};
use crate::evidence::wait_until;

#[test]
fn scenario_52_a_call_made_while_a_healthy_server_cannot_start_runs_when_it_can() {
    let mut client = Setup::plan("").options(&["--patience", "120s"]).connect();
    assert_eq!(client.call("count", json!({ "key": "a" })), "1");
    client.journal.set_control("exit-at-start=1").unwrap();
    client.kill_server();
    let call = client.begin_call("count", json!({ "key": "b" }));
    wait_until("several attempts have failed", PATIENCE, || client.logged("exited with code 1") >= 4);
    client.journal.set_control("").unwrap();
    let answer = client.answer(call);
    assert!(answer["result"]["isError"] != true, "{answer}");
    assert_eq!(client.journal.runs_with("count", "b"), 1);
    client.leave_cleanly();
}

#[test]
fn scenario_52_a_call_to_a_server_that_stays_away_fails_and_counts_the_attempts() {
    let patience = Duration::from_secs(2);
    let mut client = Setup::plan("").variable("REGROW_PATIENCE", "2s").connect();
    assert_eq!(client.call("count", json!({ "key": "a" })), "1");
    client.journal.set_control("exit-at-start=1").unwrap();
    client.kill_server();
    let began = Instant::now();
    let (text, fault) = client.failing_call("count", json!({ "key": "b" }));
    assert!(began.elapsed() >= patience, "{:?}", began.elapsed());
    assert_eq!((&fault["kind"], &fault["delivery"]), (&json!("unavailable"), &json!("not-sent")), "{fault}");
    assert_eq!((&fault["cause"], &fault["exitCode"]), (&json!("exited"), &json!(1)), "{fault}");
    let attempts = fault["attempts"].as_u64().unwrap();
    assert!(attempts >= 2 && text.contains(&format!("{attempts} attempts to connect failed")), "{text}");
    client.wait_for_log(0, "parked: too many faults");
    let (_, fault) = client.failing_call("count", json!({ "key": "c" }));
    assert_eq!(fault["attempts"], 1, "a call to a parked server fails with the one attempt that it causes");
    assert_eq!(client.journal.runs("count"), 1);
    client.leave_cleanly();
}
