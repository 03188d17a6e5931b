//! Each kind of bad client fails, and in the right group.

use crate::{Findings, chaos, fakes};

fn play(kind: &str, scenarios: &[&str]) -> Findings {
    let command = fakes::command(kind);
    let words: Vec<&str> = command.iter().map(String::as_str).collect();
    Findings::of("client", "stdio", "1", scenarios, &words)
}

#[test]
fn a_client_that_never_notices_fails_to_notice() {
    let findings = play("never-notices", &["killed-idle"]);
    assert_eq!(findings.failed(), [("killed-idle", "Notices"), ("killed-idle", "Recovers")]);
    assert!(findings.seen("killed-idle", "Notices").contains("still `ready`"));
}

#[test]
fn a_client_that_notices_and_does_nothing_only_fails_to_recover() {
    assert_eq!(play("plain", &["killed-idle"]).failed(), [("killed-idle", "Recovers")]);
}

#[test]
fn a_client_that_never_ends_is_killed_and_that_is_its_verdict() {
    let findings = play("never-ends", &["input-ends"]);
    assert!(findings.failed().contains(&("input-ends", "Leaves nothing")), "{:?}", findings.failed());
    assert!(findings.seen("input-ends", "Leaves nothing").contains("was killed"));
}

#[test]
fn a_client_that_repeats_what_may_have_run_runs_it_twice() {
    let findings = play("runs-twice", &["dies-in-call"]);
    assert_eq!(findings.failed(), [("dies-in-call", "Never twice")]);
    assert_eq!(findings.seen("dies-in-call", "Never twice"), "it ran 2 times");
}

#[test]
fn a_client_that_leaves_its_server_leaves_something() {
    let findings = play("leaves-orphans", &["stubborn"]);
    assert_eq!(findings.failed(), [("stubborn", "Leaves nothing")]);
    assert!(findings.seen("stubborn", "Leaves nothing").contains("regrow chaos-server"));
}

#[test]
fn a_client_whose_errors_are_empty_does_not_tell_the_truth() {
    let findings = play("says-nothing", &["dies-in-call"]);
    let truths = findings.failed().iter().filter(|(_, group)| *group == "Tells the truth").count();
    assert_eq!(truths, 2, "{:?}", findings.failed());
    assert!(findings.seen("dies-in-call", "Tells the truth").contains("an empty text"));
}

#[test]
fn a_client_that_is_not_there_is_tried_once_and_the_rest_is_not_applicable() {
    let findings = Findings::of("client", "stdio", "1", &["killed-idle"], &["/no-such-client"]);
    assert_eq!(findings.failed(), [("healthy", "Answers")]);
    assert!(findings.seen("healthy", "Answers").contains("/no-such-client"));
    let killed = findings.0.iter().find(|finding| finding["scenario"] == "killed-idle").unwrap();
    assert_eq!(killed["verdict"], "not applicable");
}

#[test]
fn a_scenario_that_nobody_knows_is_refused() {
    let output = chaos(&["client", "--scenario", "no-such", "--", "true"]);
    assert_eq!(output.status.code(), Some(64));
    assert!(String::from_utf8_lossy(&output.stderr).contains("no-such"));
}
