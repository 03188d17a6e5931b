//! Ends that cost nothing: restarts that somebody asked for, servers that leave in good order (19), and errors that
//! are answers (20).

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::client::{PATIENCE, Setup};
use crate::evidence::kill;

/// One fault more would park.
const TIGHT: [&str; 2] = ["--budget", "2/180"];

#[test]
fn scenario_19_twenty_planned_restarts_with_noisy_teardown_cost_nothing() {
    let mut client = Setup::plan("noisy-teardown").options(&TIGHT).connect();
    for round in 1..=20 {
        assert_eq!(client.call("count", json!({ "key": "rounds" })), round.to_string());
        client.restart();
    }
    assert_eq!(client.call("count", json!({ "key": "rounds" })), "21");
    assert_eq!(client.journal.starts(), 21);
    assert_eq!(client.journal.runs_with("count", "rounds"), 21);
    assert_eq!(client.logged("warning"), client.logged("not a message"), "{:#?}", client.log());
    assert_eq!(
        client.logged("when it was stopped; not counted against the restart budget"),
        20,
        "{:#?}",
        client.log()
    );
    assert_eq!(client.logged("parked"), 0);
}

#[test]
fn scenario_19_a_real_fault_among_the_noise_is_charged_once() {
    let mut client = Setup::plan("noisy-teardown").options(&["--budget", "1/180"]).connect();
    for _ in 0..3 {
        client.call("echo", json!({ "text": "x" }));
        client.restart();
    }
    client.call("echo", json!({ "text": "x" }));
    let from = client.log().len();
    kill(client.server_pid(), Signal::KILL);
    client.wait_for_log(from, "ready (session 5)");
    assert_eq!(client.logged("killed by SIGKILL"), 1);
    for _ in 0..3 {
        client.call("echo", json!({ "text": "x" }));
        client.restart();
    }
    assert_eq!(client.logged("parked"), 0, "one fault is within the budget of one");
    client.call("echo", json!({ "text": "x" }));
    let from = client.log().len();
    kill(client.server_pid(), Signal::KILL);
    client.wait_for_log(from, "parked"); // The second is not: the first was charged, and once.
    assert_eq!(client.call("echo", json!({ "text": "a call wakes it" })), "a call wakes it");
}

#[test]
fn scenario_19_calls_in_flight_finish_before_a_planned_restart_and_new_ones_wait_for_it() {
    let mut client = Setup::plan("").connect();
    let early = client.begin_call("slow", json!({ "ms": 600, "key": "early" }));
    assert!(client.journal.wait(PATIENCE, |journal| journal.runs_with("slow", "early") == 1));
    kill(client.pid(), Signal::HUP);
    let late: Vec<u64> =
        (0..10).map(|n| client.begin_call("count", json!({ "key": format!("late-{n}") }))).collect();
    assert_eq!(client.answer(early)["result"]["content"][0]["text"], "slow");
    for id in late {
        assert_eq!(client.answer(id)["result"]["content"][0]["text"], "1");
    }
    assert_eq!(client.journal.runs_with("slow", "early"), 1);
    assert_eq!(client.journal.runs("count"), 10);
    // Whether the late ones came before or after the signal was seen, none was lost or run twice.
    client.wait_for_log(0, "ready (session 2)");
    assert_eq!(client.journal.starts(), 2);
}

#[test]
fn scenario_19_no_call_is_lost_while_restarts_go_on() {
    let mut client = Setup::plan("noisy-teardown").options(&TIGHT).connect();
    for round in 0..20 {
        let ids: Vec<u64> =
            (0..5).map(|n| client.begin_call("count", json!({ "key": format!("{round}-{n}") }))).collect();
        kill(client.pid(), Signal::HUP);
        for id in ids {
            let answer = client.answer(id);
            assert_eq!(answer["result"]["content"][0]["text"], "1", "round {round}: {answer}");
        }
    }
    assert_eq!(client.journal.runs("count"), 100);
    assert_eq!(client.logged("parked"), 0);
}

#[test]
fn scenario_19_a_server_that_leaves_after_every_two_calls_loses_none() {
    let mut client = Setup::plan("exit-after-calls=2").options(&TIGHT).connect();
    for number in 1..=40 {
        assert_eq!(client.call("count", json!({ "key": "n" })), number.to_string());
    }
    assert_eq!(client.journal.runs_with("count", "n"), 40);
    assert_eq!(client.logged("parked"), 0, "{:#?}", client.log());
    assert!((20..=21).contains(&client.journal.starts()), "{}", client.journal.starts());
}

#[test]
fn scenario_20_errors_of_tools_are_answers_and_no_faults() {
    let mut client = Setup::plan("").options(&["--budget", "0/180"]).connect();
    let tools = ["fail", "error", "no-such-tool", "fail"];
    let ids: Vec<(u64, &str)> =
        (0..200).map(|n| tools[n % 4]).map(|tool| (client.begin_call(tool, json!({})), tool)).collect();
    for (id, tool) in ids {
        let answer = client.answer(id);
        let key = "dev.regrow/fault";
        assert_eq!(
            (&answer["result"]["_meta"][key], &answer["error"]["data"][key]),
            (&Value::Null, &Value::Null)
        );
        match tool {
            "fail" => assert_eq!(answer["result"]["content"][0]["text"], "this tool fails, as planned"),
            "error" => assert_eq!(answer["error"]["code"], -32000),
            _ => assert_eq!(answer["error"]["code"], -32602),
        }
    }
    assert_eq!(client.request("no/such/method", json!({}))["error"]["code"], -32601);
    assert_eq!(client.request("resources/read", json!({ "uri": "no://where" }))["error"]["code"], -32602);
    assert_eq!(client.journal.starts(), 1);
    assert_eq!(client.logged("warning"), 0, "{:#?}", client.log());
    assert_eq!(client.call("echo", json!({ "text": "on" })), "on");
}

#[test]
fn a_watched_file_that_changes_restarts_the_server_once_per_burst() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("server.py");
    fs::write(&file, "one").unwrap();
    let mut client = Setup::plan("noisy-teardown")
        .options(&TIGHT)
        .options(&["--watch", folder.path().to_str().unwrap()])
        .connect();
    let mut slowest = Duration::ZERO;
    for round in 0..5 {
        client.call("count", json!({ "key": "n" }));
        let (from, begun) = (client.log().len(), Instant::now());
        for burst in 0..20 {
            fs::write(&file, format!("{round} {burst}")).unwrap();
        }
        slowest = slowest.max(begun.elapsed());
        client.wait_for_log(from, "ready (session");
    }
    assert_eq!(client.call("count", json!({ "key": "n" })), "6");
    assert_eq!(client.logged("parked"), 0);
    // One that took a busy machine longer than changes are waited for may be two bursts.
    if slowest < Duration::from_millis(200) {
        assert_eq!((client.journal.starts(), client.logged("a watched file has changed")), (6, 5));
    }
}

#[test]
fn a_watched_file_that_is_replaced_again_and_again_is_still_watched() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("server.py");
    fs::write(&file, "one").unwrap();
    let mut client =
        Setup::plan("").options(&["--watch", &format!("{}/./server.py", folder.path().display())]).connect();
    for session in 2..=5 {
        let from = client.log().len();
        match session {
            // As editors and compilers do it.
            2 | 4 => {
                fs::write(folder.path().join("draft"), "two").unwrap();
                fs::rename(folder.path().join("draft"), &file).unwrap();
            }
            3 => fs::write(&file, "three").unwrap(),
            _ => {
                fs::remove_file(&file).unwrap();
                fs::write(&file, "five").unwrap();
            }
        }
        client.wait_for_log(from, &format!("ready (session {session})"));
    }
    // What lies beside it does not matter.
    fs::write(folder.path().join("beside"), "x").unwrap();
    thread::sleep(Duration::from_secs(1));
    assert_eq!(client.call("echo", json!({ "text": "on" })), "on");
    assert_eq!(client.journal.starts(), 5);
}

#[test]
fn a_restart_may_be_asked_for_before_the_client_has_shaken_hands() {
    let mut client = Setup::plan("").start();
    client.wait_for_log(0, "starting the server (session 1)");
    assert!(client.journal.wait(PATIENCE, |journal| journal.starts() == 1));
    kill(client.pid(), Signal::HUP);
    client.wait_for_log(0, "starting the server (session 2)");
    client.shake_hands();
    assert_eq!(client.call("echo", json!({ "text": "hello" })), "hello");
    assert_eq!(client.journal.starts(), 2);
    assert_eq!(client.logged("warning"), 0, "{:#?}", client.log());
}
