//! How everything ends: whatever ends us, nothing is left behind (17), gently first and surely at last (18), and
//! whatever else happens at that moment (21).

use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::json;

use crate::client::{Client, Setup};
use crate::evidence::{assert_gone, children_of, command_line, kill, slack};

/// Every kind of server that an end must cope with.
const SERVERS: [&str; 5] =
    ["", "ignore-eof ignore-term", "helper", "helper-setsid", "ignore-eof ignore-term helper helper-setsid"];
/// Nothing lives longer than this after us.
const LEFT: Duration = Duration::from_secs(35);
/// Hosts kill us when we take longer.
fn ours() -> Duration {
    Duration::from_secs(2) + slack()
}

/// A client that has made a call, and the guard of its `regrow`.
fn connected(plan: &str) -> (Client, Vec<u32>) {
    let mut client = Setup::plan(plan).connect();
    client.call("echo", json!({ "text": "hello" }));
    let guards: Vec<u32> = children_of(client.pid())
        .into_iter()
        .filter(|pid| command_line(*pid).trim().ends_with(" guard"))
        .collect();
    assert_eq!(guards.len(), 1, "one guard");
    (client, guards)
}

fn assert_nothing_left(client: &Client, guards: &[u32], plan: &str) {
    client.marked.assert_none_left(LEFT);
    assert_gone(guards, LEFT);
    assert_eq!(client.journal.alive(), [0; 0], "{plan:?}");
    assert_eq!(client.logged("panicked"), 0, "{plan:?}: {:?}", client.log());
}

#[test]
fn scenario_17_nothing_is_left_after_the_client_has_left() {
    for plan in SERVERS {
        let (mut client, guards) = connected(plan);
        let (code, took) = client.leave();
        assert_eq!(code, Some(0), "{plan:?}");
        assert!(took < ours(), "{plan:?}: {took:?}");
        assert_nothing_left(&client, &guards, plan);
    }
}

#[test]
fn scenario_17_nothing_is_left_after_sigterm() {
    for plan in SERVERS {
        nothing_is_left_after(plan, Signal::TERM);
    }
}

#[test]
fn scenario_17_nothing_is_left_after_sigint() {
    for plan in SERVERS {
        nothing_is_left_after(plan, Signal::INT);
    }
}

fn nothing_is_left_after(plan: &str, signal: Signal) {
    let (mut client, guards) = connected(plan);
    kill(client.pid(), signal);
    let (code, took) = client.wait_for_exit();
    assert_eq!(code, Some(0), "{plan:?}");
    assert!(took < ours(), "{plan:?}: {took:?}");
    assert_nothing_left(&client, &guards, plan);
}

#[test]
fn scenario_17_nothing_is_left_after_regrow_is_killed() {
    for plan in SERVERS {
        let (mut client, guards) = connected(plan);
        kill(client.pid(), Signal::KILL);
        client.wait_for_exit();
        assert_nothing_left(&client, &guards, plan);
    }
}

#[test]
fn scenario_17_nothing_is_left_when_we_end_before_the_handshake() {
    for plan in ["", "never-answer", "slow-start=60s", "exit-at-start"] {
        for signal in [Signal::TERM, Signal::KILL] {
            let mut client = Setup::plan(plan).start();
            assert!(client.journal.wait(LEFT, |journal| journal.starts() > 0));
            kill(client.pid(), signal);
            let (_, took) = client.wait_for_exit();
            assert!(took < ours(), "{plan:?}: {took:?}");
            client.marked.assert_none_left(LEFT);
        }
    }
}

#[test]
fn scenario_17_a_call_in_flight_is_answered_though_the_client_has_closed_its_side() {
    let mut client = Setup::plan("finish-on-eof").connect();
    let id = client.begin_call("slow", json!({ "ms": 300, "key": "last" }));
    assert!(client.journal.wait(LEFT, |journal| journal.runs_with("slow", "last") == 1));
    let (code, took) = client.leave();
    assert_eq!(code, Some(0));
    assert!(took < ours(), "{took:?}");
    let answer = client.answer(id);
    assert_eq!(answer["result"]["content"][0]["text"], "slow", "{answer}");
}

#[test]
fn scenario_17_what_a_client_wrote_before_it_left_at_once_is_answered() {
    let mut client = Setup::plan("").start();
    let params = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {} });
    let hello = client.ask("initialize", params);
    client.notify("notifications/initialized", json!({}));
    let call = client.begin_call("count", json!({ "key": "k" }));
    let (code, took) = client.leave();
    assert_eq!(code, Some(0));
    assert!(took < ours(), "{took:?}");
    assert!(client.answer(hello)["result"]["protocolVersion"].is_string());
    assert_eq!(client.answer(call)["result"]["content"][0]["text"], "1");
    assert_eq!(client.journal.runs_with("count", "k"), 1);
    client.marked.assert_none_left(LEFT);
}

#[test]
fn scenario_17_a_client_that_leaves_while_there_is_no_server_is_told_so_and_not_kept() {
    let options = ["--budget", "50/180", "--connect-timeout", "3s"];
    let mut client = Setup::plan("exit-at-start").options(&options).start();
    client.wait_for_log(0, "next attempt in");
    let params = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {} });
    let hello = client.ask("initialize", params);
    let (code, _) = client.leave();
    assert_eq!(code, Some(1), "the server never served");
    assert!(client.answer(hello)["error"]["message"].is_string());
    client.marked.assert_none_left(LEFT);
}

#[test]
fn scenario_17_a_call_that_hangs_does_not_keep_us_when_the_host_is_done_with_us() {
    let mut client = Setup::plan("").connect();
    client.begin_call("hang", json!({ "key": "last" }));
    assert!(client.journal.wait(LEFT, |journal| journal.runs_with("hang", "last") == 1));
    let (code, took) = client.leave_as_hosts_do();
    assert_eq!(code, Some(1), "a call was not answered");
    assert!(took < Duration::from_secs(2) + ours(), "{took:?}");
    assert_eq!(client.unclaimed_answers().len(), 0, "no answer is made up for one who has left");
    client.marked.assert_none_left(LEFT);
}

#[test]
fn scenario_17_a_call_that_cannot_finish_is_told_so_before_we_end() {
    let mut client = Setup::plan("").connect();
    let id = client.begin_call("hang", json!({ "key": "last" }));
    assert!(client.journal.wait(LEFT, |journal| journal.runs_with("hang", "last") == 1));
    kill(client.pid(), Signal::TERM);
    client.wait_for_exit();
    let (text, fault) = client.failure(id);
    assert!(text.contains("the connection was closed"), "{text}");
    assert_eq!((&fault["kind"], &fault["delivery"]), (&json!("closed"), &json!("unknown")));
}

/// Somebody who shares our process group and has done nothing wrong.
struct Bystander(Child);

impl Bystander {
    fn new() -> Bystander {
        let mut command = Command::new("sleep");
        command.arg("120").stdin(Stdio::null()).stdout(Stdio::null()).process_group(0);
        Bystander(command.spawn().unwrap())
    }

    fn assert_unharmed(&mut self) {
        assert_eq!(self.0.try_wait().unwrap(), None, "a bystander in our group was signalled");
    }
}

impl Drop for Bystander {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn scenario_18_a_stubborn_server_goes_and_a_bystander_in_our_group_stays() {
    let mut bystander = Bystander::new();
    let plan = "ignore-eof ignore-term helper helper-setsid";
    let mut client = Setup::plan(plan).in_group(bystander.0.id()).connect();
    client.call("echo", json!({ "text": "hello" }));

    // A death, whose helpers are left; then a hangup of ours; then our own end.
    let first = client.server_pid();
    kill(first, Signal::KILL);
    client.wait_for_log(0, "ready (session 2)");
    client.call("echo", json!({ "text": "again" }));
    assert_gone(&[first], LEFT);
    bystander.assert_unharmed();

    let began = Instant::now();
    client.restart();
    let took = began.elapsed();
    assert!(took > Duration::from_secs(5), "a planned end is gentle first: {took:?}");
    assert!(took < Duration::from_secs(12) + slack(), "and sure at last: {took:?}");
    client.call("echo", json!({ "text": "and again" }));
    bystander.assert_unharmed();

    let (code, took) = client.leave();
    assert_eq!(code, Some(0));
    assert!(took < ours(), "{took:?}");
    client.marked.assert_none_left(LEFT);
    bystander.assert_unharmed();
}

#[test]
fn scenario_18_a_server_that_needs_a_moment_to_exit_gets_it() {
    let mut client = Setup::plan("slow-exit=700ms").connect();
    client.call("echo", json!({ "text": "hello" }));
    let (code, took) = client.leave();
    assert_eq!(code, Some(0));
    assert!(took > Duration::from_millis(600) && took < ours(), "{took:?}");
    // On a busy machine it may need longer than the second that it gets.
    let ended_itself = client.journal.ends().len() == 1;
    assert!(ended_itself || took > Duration::from_secs(1), "{took:?}: {:?}", client.journal.lines());
    client.marked.assert_none_left(LEFT);
}

#[test]
fn scenario_18_a_stopped_server_goes_too() {
    let mut client = Setup::plan("").connect();
    client.call("stop", json!({ "answer": true }));
    let (code, took) = client.leave();
    assert_eq!(code, Some(0));
    assert!(took < ours(), "{took:?}");
    client.marked.assert_none_left(LEFT);
}

#[test]
fn scenario_21_whatever_comes_during_an_end_does_not_disturb_it() {
    let stories: [(&str, &[Signal]); 6] = [
        ("SIGTERM twice", &[Signal::TERM, Signal::TERM]),
        ("a restart, then the end", &[Signal::HUP, Signal::TERM]),
        ("the end, then a restart", &[Signal::TERM, Signal::HUP]),
        ("everything", &[Signal::HUP, Signal::TERM, Signal::INT, Signal::HUP, Signal::TERM]),
        ("restarts only", &[Signal::HUP, Signal::HUP, Signal::HUP]),
        ("SIGINT like an impatient person", &[Signal::INT, Signal::INT, Signal::INT]),
    ];
    for plan in ["", "ignore-eof ignore-term"] {
        for (story, signals) in stories {
            let (mut client, guards) = connected(plan);
            for signal in signals {
                kill(client.pid(), *signal);
            }
            let (code, took) = client.leave();
            assert_eq!(code, Some(0), "{plan:?}, {story}");
            assert!(took < ours(), "{plan:?}, {story}: {took:?}");
            assert_nothing_left(&client, &guards, plan);
        }
    }
}

#[test]
fn scenario_21_an_end_is_hastened_when_we_are_told_so() {
    let (mut client, guards) = connected("ignore-eof ignore-term helper-setsid");
    let from = client.log().len();
    kill(client.pid(), Signal::HUP);
    client.wait_for_log(from, "ending the session as requested"); // That would take seven seconds.
    kill(client.pid(), Signal::TERM);
    let (code, took) = client.wait_for_exit();
    assert_eq!(code, Some(0));
    assert!(took < ours(), "{took:?}");
    assert_nothing_left(&client, &guards, "");
}

#[test]
fn scenario_21_we_end_at_once_where_there_is_no_server() {
    // In a pause, and parked.
    for budget in ["50/180", "0/180"] {
        let mut client = Setup::plan("exit-at-start").options(&["--budget", budget]).start();
        client.wait_for_log(0, if budget == "0/180" { "parked" } else { "next attempt in" });
        let (code, took) = client.leave();
        assert_eq!(code, Some(1), "the server never served");
        assert!(took < Duration::from_secs(1) + slack(), "{took:?}");
        client.marked.assert_none_left(LEFT);
    }
}
