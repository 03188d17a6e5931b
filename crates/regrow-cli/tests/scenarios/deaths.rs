//! Scenarios 1 to 5, 11 and 12: the server dies, or its client gives up.

use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::client::{Client, PATIENCE, Setup, fault, is_failure, text};
use crate::evidence::{kill, open_files, slack, stop, wait_until, zombies_of};
use crate::relaying::all_was_read;

/// On a machine that has other work to do; 100 to 200 ms on one that has not.
const SOON: Duration = Duration::from_secs(1);

#[test]
fn scenario_01_a_kill_while_idle_is_noticed_without_a_call() {
    let mut client = Setup::plan("").connect();
    client.wait_for_session(1);
    let files = open_files(client.pid());

    let killed = client.kill_server();
    let noticed = client.wait_for_log(0, "the server process was killed by SIGKILL");
    assert!(noticed - killed < SOON + slack(), "{:?}", noticed - killed);
    client.wait_for_session(2);
    assert_eq!(client.journal.requests("tools/call"), 0, "nobody had to call for it");
    assert_eq!(client.journal.starts(), 2);

    assert_eq!(client.call("count", json!({ "key": "a" })), "1");
    assert_eq!(client.journal.runs("count"), 1);
    wait_until("files are closed", PATIENCE, || open_files(client.pid()) == files);
    client.leave_cleanly();
}

#[test]
fn scenario_02_an_exit_with_code_0_while_idle_is_noticed_without_a_call() {
    let mut client = Setup::plan("").connect();
    assert_eq!(client.call("die", json!({ "key": "a", "when": "after", "how": "exit0" })), "1");
    let answered = Instant::now();
    let noticed = client
        .wait_for_log(0, "the server process exited with code 0; not counted against the restart budget");
    assert!(noticed.saturating_duration_since(answered) < SOON + slack());
    client.wait_for_session(2);
    assert_eq!(client.journal.requests("tools/call"), 1, "nobody had to call for it");
    assert_eq!(client.call("count", json!({ "key": "b" })), "1");
    assert_eq!((client.journal.runs("count"), client.journal.starts()), (1, 2));
    client.leave_cleanly();
}

#[test]
fn scenario_02_an_exit_with_code_0_before_any_answer_is_noticed_too() {
    let mut client = Setup::plan("").command(&["sh", "-c", "{server} chaos-server; exit 0"]).connect();
    client.wait_for_session(1);
    client.kill_server();
    client.wait_for_log(0, "warning: the server process exited with code 0");
    client.wait_for_session(2);
    assert_eq!(client.journal.requests("tools/call"), 0);
    assert_eq!(client.call("count", json!({ "key": "b" })), "1");
    assert_eq!((client.journal.runs("count"), client.journal.starts()), (1, 2));
    client.leave_cleanly();
}

#[test]
fn scenario_03_a_writing_tool_that_dies_runs_once_and_its_caller_is_told_all() {
    let deaths = [
        ("exit1", "exited with code 1", json!({ "cause": "exited", "exitCode": 1 })),
        ("exit0", "exited with code 0", json!({ "cause": "exited", "exitCode": 0 })),
        ("kill", "was killed by SIGKILL", json!({ "cause": "killed", "signal": "SIGKILL" })),
        ("segv", "was killed by SIGSEGV", json!({ "cause": "killed", "signal": "SIGSEGV" })),
        ("abort", "was killed by SIGABRT", json!({ "cause": "killed", "signal": "SIGABRT" })),
    ];
    for (how, said, expected) in deaths {
        let mut client = Setup::plan("").connect();
        let began = Instant::now();
        let (text, fault) = client.failing_call("die", json!({ "key": "a", "how": how }));
        assert!(began.elapsed() < SOON + slack(), "{how}: {:?}", began.elapsed());
        assert_eq!(
            text,
            format!(
                "chaos: the server process {said} while this call was running (die). It may have run; \
                 check before repeating it. The connection is already restarting."
            )
        );
        let common = json!({
            "kind": "interrupted", "server": "chaos", "delivery": "unknown", "tool": "die", "epoch": 1,
        });
        assert_eq!(fault, joined(common, expected));
        assert_eq!(client.call("echo", json!({ "text": "usable" })), "usable");
        assert_eq!((client.journal.runs("die"), client.journal.starts()), (1, 2));
        client.leave_cleanly();
    }
}

#[test]
fn scenario_03_a_writing_tool_whose_server_is_killed_runs_once() {
    let mut client = Setup::plan("").connect();
    let id = client.begin_call("count", json!({ "key": "a", "delay_ms": 60_000 }));
    assert!(client.journal.wait(PATIENCE, |journal| journal.runs("count") == 1));
    let killed = client.kill_server();
    let (text, fault) = client.failure(id);
    assert!(killed.elapsed() < SOON + slack(), "{:?}", killed.elapsed());
    assert!(text.starts_with("chaos: the server process was killed by SIGKILL"), "{text}");
    assert!(text.contains("(count). It may have run"), "{text}");
    assert_eq!(fault["delivery"], "unknown");
    assert_eq!(client.call("count", json!({ "key": "b" })), "1");
    assert_eq!(client.journal.runs_with("count", "a"), 1);
    client.leave_cleanly();
}

#[test]
fn scenario_03_with_errors_as_protocol_errors_the_same_is_said() {
    let mut client = Setup::plan("").options(&["--errors", "protocol"]).connect();
    let id = client.begin_call("die", json!({ "key": "a" }));
    let answer = client.answer(id);
    assert_eq!(answer["error"]["code"], -31001, "{answer}");
    assert!(text(&answer).contains("exited with code 1 while this call was running (die). It may have run"));
    assert_eq!(fault(&answer)["delivery"], "unknown");
    client.leave_cleanly();
}

#[test]
fn scenario_03_an_answer_that_left_before_the_death_arrives() {
    let mut client = Setup::plan("").connect();
    assert_eq!(client.call("die", json!({ "key": "a", "when": "after", "how": "kill" })), "1");
    client.wait_for_log(0, "killed by SIGKILL");
    assert_eq!(client.call("echo", json!({ "text": "usable" })), "usable");
    assert_eq!(client.journal.runs("die"), 1);
    client.leave_cleanly();
}

#[test]
fn scenario_04_a_tool_declared_safe_is_called_again_and_its_caller_sees_only_the_answer() {
    let mut client = Setup::plan("").options(&["--safe-tool", "look*"]).connect();
    assert_eq!(client.call("lookup", json!({ "key": "a", "die_times": 1 })), "2");
    assert_eq!((client.journal.runs("lookup"), client.journal.starts()), (2, 2));
    let ids = client.journal.request_ids("tools/call");
    assert_eq!(ids.len(), 2);
    assert_ne!(ids[0], ids[1], "a late answer to the first must not be taken for one to the second");
    client.leave_cleanly();
}

#[test]
fn scenario_04_a_safe_tool_is_sent_three_times_at_most() {
    let mut client = Setup::plan("").options(&["--safe-tool", "lookup"]).connect();
    let (text, fault) = client.failing_call("lookup", json!({ "key": "a", "die_times": 100 }));
    assert!(
        text.contains("killed by SIGKILL while this call was running (lookup). It may have run"),
        "{text}"
    );
    assert_eq!((&fault["delivery"], &fault["epoch"]), (&json!("unknown"), &json!(3)));
    assert_eq!((client.journal.runs("lookup"), client.journal.requests("tools/call")), (3, 3));
    assert_eq!(client.call("echo", json!({ "text": "usable" })), "usable");
    client.leave_cleanly();
}

#[test]
fn scenario_04_hints_are_trusted_only_when_told_and_only_once_seen() {
    let hinted = [("lookup", "readOnlyHint"), ("set", "idempotentHint")];
    for (tool, hint) in hinted {
        let mut client = Setup::plan("").options(&["--replay", "hints"]).connect();
        client.request("tools/list", json!({}));
        assert_eq!(client.call(tool, json!({ "key": "a", "die_times": 1 })), "2", "{hint}");
        assert_eq!(client.journal.runs(tool), 2);
        let (_, fault) = client.failing_call("die", json!({ "key": "a" }));
        assert_eq!(
            (&fault["delivery"], client.journal.runs("die")),
            (&json!("unknown"), 1),
            "no hint, no replay"
        );
        client.leave_cleanly();
    }

    let mut client = Setup::plan("").options(&["--replay", "hints"]).connect();
    client.failing_call("lookup", json!({ "key": "a", "die_times": 1 }));
    assert_eq!(client.journal.runs("lookup"), 1, "the client never listed the tools, so no hint was seen");
    client.leave_cleanly();

    let mut client = Setup::plan("").connect();
    client.request("tools/list", json!({}));
    client.failing_call("lookup", json!({ "key": "a", "die_times": 1 }));
    assert_eq!(
        client.journal.runs("lookup"),
        1,
        "hints are a server's own words, and not trusted unless told"
    );
    client.leave_cleanly();
}

#[test]
fn scenario_04_never_means_never() {
    let mut client = Setup::plan("").options(&["--replay", "never", "--safe-tool", "*"]).connect();
    client.request("tools/list", json!({}));
    let (text, fault) = client.failing_call("lookup", json!({ "key": "a", "die_times": 1 }));
    assert!(text.contains("It may have run; check before repeating it."), "{text}");
    assert_eq!((&fault["delivery"], client.journal.runs("lookup")), (&json!("unknown"), 1));
    client.leave_cleanly();

    let mut client = Setup::plan("half-line-and-die=1@1").options(&["--replay", "never"]).connect();
    let answer = client.request("tools/list", json!({}));
    assert_eq!((&answer["error"]["code"], client.journal.requests("tools/list")), (&json!(-31001), 1));
    client.leave_cleanly();
}

#[test]
fn scenario_04_a_protocol_read_is_asked_again() {
    let mut client = Setup::plan("half-line-and-die=1@1").connect();
    let answer = client.request("tools/list", json!({}));
    assert!(answer["result"]["tools"].is_array(), "{answer}");
    assert_eq!((client.journal.requests("tools/list"), client.journal.starts()), (2, 2));
    client.leave_cleanly();
}

#[test]
fn scenario_05_a_call_to_a_server_just_killed_succeeds_with_one_request() {
    for _ in 0..5 {
        let mut client = Setup::plan("").connect();
        client.kill_server(); // It is dead now, whether that was noticed or not.
        assert_eq!(client.call("count", json!({ "key": "a" })), "1");
        assert_eq!((client.journal.requests("tools/call"), client.journal.starts()), (1, 2));
        client.leave_cleanly();
    }
}

#[test]
fn scenario_05_a_call_that_a_dead_server_never_read_is_sent_once() {
    let mut client = Setup::plan("").connect();
    let server = client.server_pid();
    stop(server);
    let id = client.begin_call("count", json!({ "key": "a" }));
    // Nothing tells from outside that the call lies in the pipe, and the test is as true if it does not yet.
    thread::sleep(Duration::from_millis(100));
    kill(server, Signal::KILL);
    let answer = client.answer(id);
    assert_eq!((is_failure(&answer), text(&answer)), (false, "1".to_owned()));
    assert_eq!((client.journal.requests("tools/call"), client.journal.starts()), (1, 2));
    client.leave_cleanly();
}

#[test]
fn scenario_05_a_call_during_a_pause_starts_the_server_and_is_sent_once() {
    let mut client = Setup::plan("").connect();
    for session in 1..=3 {
        client.wait_for_session(session);
        client.kill_server();
    }
    client.wait_for_session(4);
    let from = client.log().len();
    client.kill_server();
    client.wait_for_log(from, "next attempt in"); // A second, a little more or less.
    let began = Instant::now();
    assert_eq!(client.call("count", json!({ "key": "a" })), "1");
    assert!(began.elapsed() < 3 * SOON + slack(), "{:?}", began.elapsed());
    assert_eq!((client.journal.requests("tools/call"), client.journal.starts()), (1, 5));
    client.leave_cleanly();
}

#[test]
fn scenario_05_a_call_while_parked_starts_the_server_and_is_sent_once() {
    let mut client = Setup::plan("").options(&["--budget", "0/180"]).connect();
    client.wait_for_session(1);
    client.kill_server();
    client.wait_for_log(0, "parked: too many faults");
    assert_eq!(client.journal.starts(), 1);
    let began = Instant::now();
    assert_eq!(client.call("count", json!({ "key": "a" })), "1");
    assert!(began.elapsed() < 3 * SOON + slack(), "{:?}", began.elapsed());
    assert_eq!((client.journal.requests("tools/call"), client.journal.starts()), (1, 2));
    client.leave_cleanly();
}

#[test]
fn scenario_11_of_many_calls_that_run_when_the_server_dies_each_ends_once_and_one_restart_follows() {
    for calls in [10, 1000] {
        let mut client = Setup::plan("").connect();
        let ids: Vec<u64> = (0..calls).map(|_| client.begin_call("hang", json!({}))).collect();
        assert!(client.journal.wait(PATIENCE, |journal| journal.runs("hang") == calls));
        let killed = client.kill_server();
        let answers = answers(&mut client, &ids);
        assert!(killed.elapsed() < 3 * SOON + slack(), "{calls} calls: {:?}", killed.elapsed());
        for answer in answers.values() {
            assert!(
                text(answer)
                    .contains("killed by SIGKILL while this call was running (hang). It may have run")
            );
            assert_eq!(fault(answer)["delivery"], "unknown");
        }
        client.wait_for_log(0, &format!("killed by SIGKILL, with {calls} calls in flight"));
        assert_eq!(client.call("echo", json!({ "text": "usable" })), "usable");
        assert_eq!((client.journal.runs("hang"), client.journal.starts()), (calls, 2));
        assert_eq!(zombies_of(client.pid()), [0; 0]);
        client.leave_cleanly();
    }
}

#[test]
fn scenario_11_of_many_calls_on_their_way_when_the_server_dies_none_runs_twice() {
    let mut client = Setup::plan("").connect();
    let keys: Vec<String> = (0..1000).map(|number| format!("key-{number}")).collect();
    let mut ids = vec![];
    for (sent, key) in keys.iter().enumerate() {
        ids.push(client.begin_call("count", json!({ "key": key, "delay_ms": 100 })));
        if sent == 500 {
            client.kill_server();
        }
    }
    let answers = answers(&mut client, &ids);
    for (key, id) in keys.iter().zip(&ids) {
        let runs = client.journal.runs_with("count", key);
        let answer = &answers[id];
        if is_failure(answer) {
            assert_eq!(
                fault(answer)["delivery"],
                "unknown",
                "what was not sent moves on by itself: {answer}"
            );
            assert!(runs <= 1, "{key} ran {runs} times");
        } else {
            assert_eq!((text(answer), runs), ("1".to_owned(), 1), "{key}");
        }
    }
    let last = &answers[ids.last().unwrap()];
    assert!(!is_failure(last), "what was sent after the death waits for the restart: {last}");
    assert_eq!(client.journal.starts(), 2);
    client.leave_cleanly();
}

#[test]
fn scenario_12_a_call_that_its_client_cancels_is_cancelled_at_the_server_and_never_answered() {
    let mut client = Setup::plan("").connect();
    client.send(json!({
        "jsonrpc": "2.0", "id": "mine", "method": "tools/call",
        "params": { "name": "slow", "arguments": { "ms": 60_000 } },
    }));
    assert!(client.journal.wait(PATIENCE, |journal| journal.runs("slow") == 1));
    let began = Instant::now();
    client.cancel("mine");
    let wire = client.journal.request_ids("tools/call");
    assert!(
        client.journal.wait(PATIENCE, |journal| journal.cancelled() == wire),
        "under the id that the server knows"
    );
    assert!(began.elapsed() < SOON + slack(), "{:?}", began.elapsed());

    // Nothing is left of it: the same id serves again, and a death finds no call in flight.
    client.send(json!({
        "jsonrpc": "2.0", "id": "mine", "method": "tools/call",
        "params": { "name": "echo", "arguments": { "text": "again" } },
    }));
    let again = client.next_message(PATIENCE).unwrap();
    assert_eq!((&again["id"], text(&again)), (&json!("mine"), "again".to_owned()));
    client.kill_server();
    client.wait_for_session(2);
    let notices = client.notices();
    assert!(notices.contains(&"warning: the server process was killed by SIGKILL".to_owned()), "{notices:?}");
    assert_eq!(client.journal.runs("slow"), 1);
    client.leave_cleanly();
}

#[test]
fn scenario_12_an_answer_to_a_cancelled_call_reaches_nobody() {
    let mut client = Setup::plan("").connect();
    let server = client.server_pid();
    stop(server);
    let id = client.begin_call("echo", json!({ "text": "unwanted" }));
    all_was_read(&mut client); // Read together with its cancellation, it would never leave.
    client.cancel(id);
    let next = client.begin_call("echo", json!({ "text": "wanted" }));
    kill(server, Signal::CONT);
    assert_eq!(text(&client.answer(next)), "wanted");
    assert_eq!((client.journal.runs("echo"), client.journal.starts()), (2, 1));
    client.leave_cleanly(); // And no answer was unclaimed.
}

#[test]
fn scenario_12_a_call_that_is_cancelled_while_it_waits_is_never_sent() {
    let mut client = Setup::plan("slow-start=2s@2-").connect();
    client.kill_server();
    assert!(client.journal.wait(PATIENCE, |journal| journal.starts() == 2));
    let unwanted = client.begin_call("count", json!({ "key": "unwanted" }));
    let wanted = client.begin_call("count", json!({ "key": "wanted" }));
    client.cancel(unwanted);
    assert_eq!(text(&client.answer(wanted)), "1");
    assert_eq!(client.journal.requests("tools/call"), 1);
    assert_eq!((client.journal.runs_with("count", "unwanted"), client.journal.cancelled().len()), (0, 0));
    client.leave_cleanly();
}

#[test]
fn demand_calls_succeed_although_the_server_is_killed_before_each() {
    let mut client = Setup::plan("").connect();
    let began = Instant::now();
    let at = |round: u32| began + round * Duration::from_millis(1500);
    // More deaths than the budget bears: from the seventh on, only the call starts the server.
    for round in 1..=20 {
        thread::sleep((at(round) - Duration::from_millis(500)).saturating_duration_since(Instant::now()));
        client.kill_server();
        thread::sleep(at(round).saturating_duration_since(Instant::now()));
        let called = Instant::now();
        assert_eq!(client.call("count", json!({ "key": "a" })), round.to_string());
        assert!(called.elapsed() < 2 * SOON + slack(), "call {round} took {:?}", called.elapsed());
    }
    assert_eq!((client.journal.runs("count"), client.journal.requests("tools/call")), (20, 20));
    assert_eq!(client.journal.starts(), 21);
    client.leave_cleanly();
}

/// The answers to these requests, one each.
fn answers(client: &mut Client, ids: &[u64]) -> BTreeMap<u64, Value> {
    let mut answers = BTreeMap::new();
    while answers.len() < ids.len() {
        let message = client.next_message(PATIENCE).expect("every call ends");
        let id = message["id"].as_u64().expect("nothing but answers comes");
        assert!(ids.contains(&id), "{message}");
        assert!(answers.insert(id, message).is_none(), "{id} was answered twice");
    }
    answers
}

fn joined(mut one: Value, other: Value) -> Value {
    one.as_object_mut().unwrap().extend(other.as_object().unwrap().clone());
    one
}
