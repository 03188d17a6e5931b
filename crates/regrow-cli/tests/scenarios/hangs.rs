//! Scenarios 9 and 10: the server does not answer.

use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::client::{Client, PATIENCE, Setup, fault, is_failure, text};
use crate::evidence::{is_running, kill, slack, stop, wait_until};

/// A server that is silent for so long after a call got no answer is replaced.
const DOUBT: Duration = Duration::from_secs(5);

#[test]
fn scenario_09_a_stopped_server_is_found_out_and_replaced() {
    let mut client = Setup::plan("").options(&["--call-timeout", "3s"]).connect();
    let stopped = client.server_pid();
    let began = Instant::now();
    let (text, fault) = client.failing_call("stop", json!({ "key": "a" }));
    let took = began.elapsed();
    assert!((Duration::from_millis(2950)..Duration::from_secs(4) + slack()).contains(&took), "{took:?}");
    assert_eq!(
        text,
        "chaos: timed out after 3 s: no response from the server to this call (stop). \
         It may have run or may still be running; check before repeating it."
    );
    assert_eq!(
        fault,
        json!({ "kind": "timeout", "server": "chaos", "delivery": "unknown", "tool": "stop", "epoch": 1 })
    );
    client.wait_for_log(0, "a call timed out; probing the server");
    let doubted = Instant::now();

    client.wait_for_log(0, "the server did not respond for");
    assert!(doubted.elapsed() < DOUBT + Duration::from_secs(2) + slack(), "{:?}", doubted.elapsed());
    assert_eq!(client.call("echo", json!({ "text": "usable" })), "usable");
    assert!(doubted.elapsed() < Duration::from_secs(10) + slack(), "{:?}", doubted.elapsed());
    assert!(!is_running(stopped));
    assert_eq!((client.journal.runs("stop"), client.journal.starts()), (1, 2));
    client.leave_cleanly();
}

#[test]
fn scenario_09_calls_that_come_while_a_server_is_doubted_end_in_time_and_spare_it_no_longer_than_that() {
    let mut client = Setup::plan("").options(&["--call-timeout", "1s"]).connect();
    stop(client.server_pid());
    let began = Instant::now();
    let mut failed = 0;
    // A client that calls on and on, as agents do.
    let restored = loop {
        let called = Instant::now();
        let id = client.begin_call("echo", json!({ "text": "?" }));
        let answer = client.answer(id);
        assert!(called.elapsed() < Duration::from_secs(3) + slack(), "{:?}", called.elapsed());
        if !is_failure(&answer) {
            break began.elapsed();
        }
        failed += 1;
        assert!(
            began.elapsed() < Duration::from_secs(15) + slack(),
            "still not replaced after {failed} calls: {answer}"
        );
    };
    assert!(restored < Duration::from_secs(11) + slack(), "{restored:?}, {failed} calls failed");
    assert_eq!(client.journal.starts(), 2);
    client.leave_cleanly();
}

#[test]
fn scenario_09_calls_that_fill_the_pipe_of_a_stopped_server_all_end_and_none_runs_twice() {
    // It ignores SIGTERM, so it goes on for a moment when it is continued to be ended.
    let mut client = Setup::plan("ignore-term@1").options(&["--call-timeout", "3s"]).connect();
    stop(client.server_pid());
    let (keys, ids) = begin_large_calls(&mut client);
    let began = Instant::now();
    let mut not_sent = 0;
    for (key, id) in keys.iter().zip(&ids) {
        let answer = client.answer_within(*id, Duration::from_secs(5) + slack());
        let (text, fault) = (text(&answer), fault(&answer));
        assert_eq!(fault["kind"], "timeout", "{answer}");
        let unsent = fault["delivery"] == "not-sent";
        assert_eq!(text.contains("It did not run."), unsent, "{text}");
        assert_eq!(text.contains("It may have run or may still be running"), !unsent, "{text}");
        if unsent {
            not_sent += 1;
            assert_eq!(client.journal.runs_with("count", key), 0, "{key} ran, and we said it did not");
        }
    }
    assert!(began.elapsed() < Duration::from_secs(4) + slack(), "{:?}", began.elapsed());
    assert!(
        not_sent > keys.len() / 2,
        "a pipe holds 64 KiB; of {} calls {not_sent} were not sent",
        keys.len()
    );

    client.wait_for_session(2);
    assert!(began.elapsed() < Duration::from_secs(10) + slack(), "{:?}", began.elapsed());
    assert_eq!(client.call("count", json!({ "key": "last" })), "1");
    for key in &keys {
        assert!(client.journal.runs_with("count", key) <= 1, "{key} ran twice");
    }
    assert_eq!(client.journal.starts(), 2);
    client.leave_cleanly();
}

#[test]
fn scenario_09_calls_that_a_stopped_server_never_read_move_to_the_next_when_it_is_killed() {
    let mut client = Setup::plan("").connect();
    let stopped = client.server_pid();
    stop(stopped);
    let (keys, ids) = begin_large_calls(&mut client);
    kill(stopped, Signal::KILL);
    for (key, id) in keys.iter().zip(&ids) {
        let answer = client.answer(*id);
        assert_eq!((is_failure(&answer), text(&answer)), (false, "1".to_owned()), "{key}: {answer}");
        assert_eq!(client.journal.runs_with("count", key), 1);
    }
    assert_eq!((client.journal.requests("tools/call"), client.journal.starts()), (keys.len(), 2));
    client.leave_cleanly();
}

/// The probe takes 5 s of a call's time; the rest is for the next server to start, on a machine that may be busy.
const DOUBTED: [&str; 2] = ["--call-timeout", "15s"];

/// Stops the server and makes a call that times out of that. While the doubt lasts, later calls are made in vain.
fn stop_until_doubted(client: &mut Client) {
    stop(client.server_pid());
    let (_, fault) = client.failing_call("echo", json!({ "text": "?" }));
    assert_eq!((&fault["kind"], &fault["delivery"]), (&json!("timeout"), &json!("unknown")));
    client.wait_for_log(0, "a call timed out; probing the server");
}

#[test]
fn scenario_09_calls_that_a_stopped_server_never_read_move_to_the_next_when_it_is_found_out() {
    let mut client = Setup::plan("").options(&DOUBTED).connect();
    stop_until_doubted(&mut client);
    let keys: Vec<String> = (0..20).map(|number| format!("key-{number}")).collect();
    let ids: Vec<u64> = keys.iter().map(|key| client.begin_call("count", json!({ "key": key }))).collect();
    for (key, id) in keys.iter().zip(&ids) {
        let answer = client.answer(*id);
        assert_eq!((is_failure(&answer), text(&answer)), (false, "1".to_owned()), "{key}: {answer}");
        assert_eq!(client.journal.runs_with("count", key), 1);
    }
    assert_eq!(client.logged("the server did not respond for"), 1);
    // SIGTERM ended it before it read anything: no call ran there.
    assert_eq!((client.journal.requests("tools/call"), client.journal.starts()), (keys.len(), 2));
    client.leave_cleanly();
}

#[test]
fn scenario_09_what_a_stopped_server_reads_while_it_is_ended_is_told_truly() {
    // It ignores SIGTERM, so it goes on for 0.1 s when it is continued to be ended.
    let mut client = Setup::plan("ignore-term@1").options(&DOUBTED).connect();
    stop_until_doubted(&mut client);
    let (keys, ids) = begin_large_calls(&mut client);
    let mut answered = 0;
    for (key, id) in keys.iter().zip(&ids) {
        let answer = client.answer(*id);
        let runs = client.journal.runs_with("count", key);
        if is_failure(&answer) {
            assert_eq!(fault(&answer)["delivery"], "unknown", "{key}: {answer}");
            assert!(runs <= 1, "{key} ran {runs} times");
        } else {
            answered += 1;
            assert_eq!((text(&answer), runs), ("1".to_owned(), 1), "{key}");
        }
    }
    // What no longer fitted into its pipe went to the next session, and a server that goes on answers some of the rest.
    assert!(answered > keys.len() / 2, "{answered} of {}", keys.len());
    assert_eq!(client.journal.starts(), 2);
    client.leave_cleanly();
}

#[test]
fn scenario_09_a_server_that_reads_nothing_is_no_reason_to_stay_when_the_client_leaves() {
    let mut client = Setup::plan("").connect();
    stop(client.server_pid());
    begin_large_calls(&mut client);
    let (code, took) = client.leave_as_hosts_do();
    assert_eq!(code, Some(1), "calls were not answered");
    assert!(took < Duration::from_secs(6) + slack(), "{took:?}");
    client.marked.assert_none_left(Duration::from_secs(5));
}

#[test]
fn scenario_10_a_tool_that_is_slower_than_its_deadline_is_cancelled_and_disturbs_nobody() {
    let mut client = Setup::plan("").options(&["--call-timeout", "3s"]).connect();
    let began = Instant::now();
    let slow = client.begin_call("slow", json!({ "key": "a", "ms": 60_000 }));
    assert!(client.journal.wait(PATIENCE, |journal| journal.runs("slow") == 1));
    let wire = client.journal.request_ids("tools/call");
    assert_eq!(client.call("count", json!({ "key": "meanwhile" })), "1");

    let (text, fault) = client.failure(slow);
    let took = began.elapsed();
    assert!((Duration::from_millis(2950)..Duration::from_secs(4) + slack()).contains(&took), "{took:?}");
    assert!(
        text.starts_with("chaos: timed out after 3 s: no response from the server to this call (slow)."),
        "{text}"
    );
    assert!(text.contains("It may have run or may still be running; check before repeating it."), "{text}");
    assert_eq!((&fault["kind"], &fault["delivery"]), (&json!("timeout"), &json!("unknown")));
    assert!(
        client.journal.wait(PATIENCE, |journal| journal.cancelled() == wire),
        "{:?}",
        client.journal.lines()
    );

    assert_eq!(client.call("count", json!({ "key": "after" })), "1");
    wait_until("the doubt was cleared by a ping", PATIENCE, || client.journal.requests("ping") == 1);
    // As long as a doubt lasts, and nothing happens.
    std::thread::sleep(DOUBT + Duration::from_millis(500));
    assert_eq!(client.call("echo", json!({ "text": "ready" })), "ready");
    assert_eq!((client.journal.runs("slow"), client.journal.starts()), (1, 1));
    let notices = client.notices();
    assert!(!notices.iter().any(|notice| notice.starts_with("warning")), "{notices:?}");
    client.leave_cleanly();
}

#[test]
fn scenario_10_an_answer_that_comes_after_the_deadline_reaches_nobody() {
    let mut client = Setup::plan("").options(&["--call-timeout", "3s"]).connect();
    stop(client.server_pid());
    let (_, fault) = client.failing_call("echo", json!({ "text": "late" }));
    assert_eq!(fault["kind"], "timeout");
    kill(client.server_pid(), Signal::CONT);
    assert!(client.journal.wait(PATIENCE, |journal| journal.runs("echo") == 1));
    assert_eq!(client.call("echo", json!({ "text": "in time" })), "in time");
    assert_eq!(client.journal.starts(), 1);
    client.leave_cleanly(); // And no answer was unclaimed.
}

#[test]
fn scenario_10_progress_gives_a_slow_tool_more_time() {
    let mut client = Setup::plan("").options(&["--call-timeout", "3s"]).connect();
    let id = client.ask(
        "tools/call",
        json!({
            "name": "slow", "arguments": { "ms": 7000, "progress_ms": 300 }, "_meta": { "progressToken": "p" },
        }),
    );
    assert_eq!(text(&client.answer(id)), "slow");
    let progress =
        client.seen().iter().filter(|message| message["method"] == "notifications/progress").count();
    assert!(progress >= 5, "{progress}");
    assert_eq!(client.journal.starts(), 1);
    client.leave_cleanly();
}

/// More calls than a pipe holds: 300 KB of them.
fn begin_large_calls(client: &mut Client) -> (Vec<String>, Vec<u64>) {
    let padding = Value::from("x".repeat(2000));
    let keys: Vec<String> = (0..150).map(|number| format!("key-{number}")).collect();
    let ids = keys
        .iter()
        .map(|key| client.begin_call("count", json!({ "key": key, "padding": padding })))
        .collect();
    (keys, ids)
}

#[test]
fn scenario_50_a_response_that_came_while_regrow_was_stopped_is_delivered() {
    let mut client = Setup::plan("").options(&["--call-timeout", "4s"]).connect();
    let id = client.begin_call("slow", json!({ "ms": 2000, "key": "a" }));
    wait_until("the call runs", PATIENCE, || client.journal.runs("slow") == 1);
    stop(client.pid());
    std::thread::sleep(Duration::from_secs(6)); // The deadline must pass while it is stopped.
    kill(client.pid(), Signal::CONT);
    let answer = client.answer(id);
    assert!(!is_failure(&answer), "{answer}");
    assert_eq!(text(&answer), "slow");
    client.leave_cleanly();
}

#[test]
fn scenario_58_a_server_that_answered_a_probe_during_a_call_and_then_hangs_is_replaced() {
    let mut client = Setup::plan("").options(&["--hang-timeout", "4s"]).connect();
    let slow = client.begin_call("slow", json!({ "ms": 60_000, "key": "busy" }));
    wait_until("it is asked beside the call", PATIENCE, || client.journal.requests("ping") >= 2);
    client.cancel(slow);
    // It stops itself, so it has surely read the call.
    let (text, fault) = client.failing_call("stop", json!({ "key": "a" }));
    assert_eq!((&fault["cause"], &fault["kind"]), (&json!("silent"), &json!("interrupted")), "{fault}");
    assert!(text.contains("did not respond for"), "{text}");
    assert_eq!(client.call("echo", json!({ "text": "usable" })), "usable");
    assert_eq!(client.journal.starts(), 2);
    client.leave_cleanly();
}

#[test]
fn scenario_58_a_server_that_never_answered_a_probe_during_a_call_is_left_alone() {
    let mut client = Setup::plan("silent-ping").options(&["--hang-timeout", "200ms"]).connect();
    assert_eq!(client.call("slow", json!({ "ms": 3_000, "key": "busy" })), "slow");
    assert!(client.journal.requests("ping") >= 1, "it was asked");
    assert_eq!(client.journal.starts(), 1);
    client.leave_cleanly();
}

#[test]
fn a_server_that_drips_bytes_into_its_pipe_gains_no_time() {
    let script = r#"
        read -r line; id=$(printf '%s' "$line" | sed 's/.*"id":\([^,}]*\).*/\1/')
        printf '{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"d","version":"1"}}}\n' "$id"
        read -r line; read -r line
        printf '{"jsonrpc":"2.0",'
        while :; do printf ' '; sleep 0.05; done"#;
    let mut client =
        Setup::plan("").options(&["--call-timeout", "2s"]).command(&["sh", "-c", script]).connect();
    let began = Instant::now();
    let (text, fault) = client.failing_call("count", json!({}));
    assert_eq!((&fault["kind"], &fault["delivery"]), (&json!("timeout"), &json!("unknown")), "{text}");
    assert!(began.elapsed() < Duration::from_millis(2700) + slack(), "{:?}", began.elapsed());
}
