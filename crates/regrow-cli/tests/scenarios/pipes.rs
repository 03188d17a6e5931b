//! Scenarios 13 and 14: who else holds the server's pipes, and what goes wrong on them.

use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::json;

use crate::client::{Client, PATIENCE, Setup, text};
use crate::evidence::{children_of, command_line, is_running, kill, slack, wait_until};

const SOON: Duration = Duration::from_secs(1);

/// The server as the child of a shell that waits for it, in ways that real wrappers have.
const WRAPPERS: [&str; 3] = [
    "{server} chaos-server; true",
    "exec 3<&0; {server} chaos-server <&3 & wait",
    "exec 3<&0; {server} chaos-server <&3 & wait $!",
];

#[test]
fn scenario_13_the_death_of_a_wrapper_ends_its_server_and_both_are_replaced() {
    for script in WRAPPERS {
        let mut client = Setup::plan("").command(&["sh", "-c", script]).connect();
        client.wait_for_session(1);
        let server = client.server_pid();
        let shell = wrapper(&client);
        assert_ne!(server, shell, "{script}");

        let killed = Instant::now();
        kill(shell, Signal::KILL);
        let noticed = client.wait_for_log(0, "the server process was killed by SIGKILL");
        assert!(noticed - killed < SOON + slack(), "{:?}", noticed - killed);
        assert_eq!(client.call("count", json!({ "key": "a" })), "1");
        assert!(!is_running(server), "of two servers one would run what is meant for the other");
        assert_eq!((client.journal.starts(), client.journal.requests("tools/call")), (2, 1));
        client.leave_cleanly();
    }
}

#[test]
fn scenario_13_the_death_of_a_wrapped_server_is_noticed_as_soon_as_its_wrapper_goes() {
    for (script, code) in WRAPPERS.into_iter().zip([0, 0, 137]) {
        let mut client = Setup::plan("").command(&["sh", "-c", script]).connect();
        client.wait_for_session(1);
        let killed = client.kill_server();
        let noticed = client.wait_for_log(0, &format!("the server process exited with code {code}"));
        assert!(noticed - killed < SOON + slack(), "{:?}", noticed - killed);
        assert_eq!(client.call("count", json!({ "key": "a" })), "1");
        assert_eq!((client.journal.starts(), client.journal.requests("tools/call")), (2, 1));
        client.leave_cleanly();
    }
}

#[test]
fn scenario_13_a_wrapper_that_outlives_its_server_and_holds_its_pipes_is_found_out_by_a_probe() {
    let script = "exec 3<&0; {server} chaos-server <&3 & wait; exec sleep 100";
    let setup = Setup::plan("").command(&["sh", "-c", script]).options(&["--idle-probe", "1s"]);
    let mut client = setup.connect();
    client.wait_for_session(1);
    let shell = wrapper(&client);
    client.kill_server();
    client.wait_for_log(0, "the server did not respond for");
    assert_eq!(client.call("count", json!({ "key": "a" })), "1");
    assert!(!is_running(shell));
    assert_eq!((client.journal.starts(), client.journal.requests("tools/call")), (2, 1));
    client.leave_cleanly();
}

#[test]
fn scenario_13_a_helper_that_holds_the_pipes_hides_no_death_and_survives_none() {
    for plan in ["helper", "helper=free", "helper-setsid", "helper-setsid=free"] {
        let mut client = Setup::plan(plan).connect();
        client.wait_for_session(1);
        let helper = client.journal.helpers()[0];
        assert!(is_running(helper), "{plan}");
        let killed = client.kill_server();
        let noticed = client.wait_for_log(0, "the server process was killed by SIGKILL");
        assert!(noticed - killed < SOON + slack(), "{plan}: {:?}", noticed - killed);
        assert_eq!(client.call("count", json!({ "key": "a" })), "1", "{plan}");
        wait_until("its helper is gone", PATIENCE, || !is_running(helper));
        assert_eq!((client.journal.starts(), client.journal.requests("tools/call")), (2, 1), "{plan}");
        client.leave_cleanly();
        assert_eq!(client.journal.alive(), [0; 0], "{plan}");
    }
}

#[test]
fn scenario_13_a_call_that_runs_when_its_server_dies_under_a_helper_is_told_at_once() {
    for plan in ["helper", "helper-setsid"] {
        let mut client = Setup::plan(plan).connect();
        let began = Instant::now();
        let (text, fault) = client.failing_call("die", json!({ "key": "a", "how": "kill" }));
        assert!(began.elapsed() < SOON + slack(), "{plan}: {:?}", began.elapsed());
        assert!(
            text.contains("killed by SIGKILL while this call was running (die). It may have run"),
            "{text}"
        );
        assert_eq!((&fault["delivery"], client.journal.runs("die")), (&json!("unknown"), 1));
        client.leave_cleanly();
    }
}

#[test]
fn scenario_13_the_death_of_a_helper_is_none_of_our_business() {
    let mut client = Setup::plan("helper").connect();
    let helper = client.journal.helpers()[0];
    kill(helper, Signal::KILL);
    wait_until("it is gone", PATIENCE, || !is_running(helper));
    assert_eq!(client.call("echo", json!({ "text": "ready" })), "ready");
    assert_eq!(client.journal.starts(), 1);
    client.leave_cleanly();
}

#[test]
fn scenario_14_a_server_that_closes_its_output_is_replaced() {
    let mut client = Setup::plan("").connect();
    let server = client.server_pid();
    let began = Instant::now();
    let (text, fault) = client.failing_call("closeout", json!({}));
    assert!(began.elapsed() < SOON + slack(), "{:?}", began.elapsed());
    assert_eq!(
        text,
        "chaos: the server closed its output but is still running while this call was running (closeout). \
         It may have run; check before repeating it. The connection is already restarting."
    );
    assert_eq!((&fault["cause"], &fault["delivery"]), (&json!("output-closed"), &json!("unknown")));
    usable_again(&mut client, server);
}

#[test]
fn scenario_14_a_server_that_closes_its_output_while_idle_is_replaced_without_a_call() {
    let mut client = Setup::plan("ignore-eof ignore-term").connect();
    let server = client.server_pid();
    assert_eq!(client.call("closeout", json!({ "answer": true })), "closeout");
    client.wait_for_log(0, "the server closed its output but is still running");
    client.wait_for_session(2);
    usable_again(&mut client, server);
}

#[test]
fn scenario_14_a_server_that_closes_its_input_is_replaced_and_the_next_call_reaches_the_next_server() {
    let mut client = Setup::plan("").connect();
    let server = client.server_pid();
    assert_eq!(client.call("closein", json!({})), "closein");
    usable_again(&mut client, server);
    assert_eq!(client.journal.requests("tools/call"), 2);
    let log = client.log();
    assert!(
        log.iter().any(|line| line.contains("the server closed its input but is still running")),
        "{log:?}"
    );
}

#[test]
fn scenario_14_half_a_line_and_a_death_are_told_as_a_death() {
    let mut client = Setup::plan("").connect();
    let server = client.server_pid();
    let (text, fault) = client.failing_call("half", json!({}));
    assert!(
        text.starts_with("chaos: the server process exited with code 1 while this call was running (half)."),
        "{text}"
    );
    assert_eq!((&fault["exitCode"], &fault["delivery"]), (&json!(1), &json!("unknown")));
    usable_again(&mut client, server);
}

#[test]
fn scenario_14_what_is_not_json_disturbs_nobody() {
    let mut client = Setup::plan("garbage-on-start").connect();
    for _ in 0..3 {
        assert_eq!(client.call("garbage", json!({})), "garbage");
    }
    let said = |client: &Client| {
        client
            .notices()
            .iter()
            .filter(|notice| notice.contains("wrote a line to stdout that is not a message"))
            .count()
    };
    assert_eq!(said(&client), 1, "once, and counted from then on: {:?}", client.notices());
    assert_eq!((client.journal.starts(), client.journal.runs("garbage")), (1, 3));
    client.leave_cleanly();
}

#[test]
fn scenario_14_the_caller_of_a_malformed_answer_is_told() {
    let mut client = Setup::plan("").connect();
    let began = Instant::now();
    let (text, fault) = client.failing_call("malformed", json!({}));
    assert!(began.elapsed() < SOON + slack(), "{:?}", began.elapsed());
    assert_eq!(
        text,
        "chaos: the server sent a malformed response to this call (malformed). \
         It ran; do not repeat it blindly."
    );
    assert_eq!((&fault["kind"], &fault["delivery"]), (&json!("malformed"), &json!("answered")));
    assert_eq!(client.call("echo", json!({ "text": "ready" })), "ready");
    assert_eq!((client.journal.starts(), client.journal.runs("malformed")), (1, 1));
    client.leave_cleanly();
}

#[test]
fn scenario_14_answers_that_nobody_waits_for_reach_nobody() {
    let mut client = Setup::plan("").connect();
    for tool in ["stray", "dup", "stray", "dup"] {
        assert_eq!(client.call(tool, json!({})), tool);
    }
    assert_eq!(client.call("echo", json!({ "text": "ready" })), "ready");
    assert_eq!(client.journal.starts(), 1);
    client.leave_cleanly(); // And no answer was unclaimed.
}

#[test]
fn scenario_14_an_answer_in_a_batch_is_an_answer() {
    let mut client = Setup::plan("").connect();
    let id = client.begin_call("batch", json!({}));
    assert_eq!(text(&client.answer(id)), "batch");
    assert_eq!(client.wait_for("notifications/message")["params"]["data"], "in a batch");
    assert_eq!(client.journal.starts(), 1);
    client.leave_cleanly();
}

#[test]
fn security_16_every_server_gets_our_environment_and_nothing_open_but_its_pipes() {
    let mut client = Setup::plan("").variable("CHAOS_CHOICE", "of the host").connect();
    for life in 1..=2 {
        assert_eq!(client.call("fds", json!({})), "", "life {life}");
        assert_eq!(client.call("env", json!({ "name": "CHAOS_CHOICE" })), "of the host");
        client.kill_server();
    }
    client.wait_for_session(3);
    client.leave_cleanly();
}

fn usable_again(client: &mut Client, earlier: u32) {
    assert_eq!(client.call("count", json!({ "key": "a" })), "1");
    assert!(!is_running(earlier), "the earlier server must be gone before the next starts");
    assert_eq!((client.journal.runs("count"), client.journal.starts()), (1, 2));
    client.leave_cleanly();
}

/// The shell that wraps the server.
fn wrapper(client: &Client) -> u32 {
    let children = children_of(client.pid());
    let shell = children.iter().find(|pid| command_line(**pid).starts_with("sh -c"));
    *shell
        .unwrap_or_else(|| panic!("{:?}", children.iter().map(|pid| command_line(*pid)).collect::<Vec<_>>()))
}
