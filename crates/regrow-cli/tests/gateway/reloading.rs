//! Another configuration while clients are served: only what changed is touched, and a bad file changes nothing.

use rustix::process::Signal;
use serde_json::json;

use crate::client::PATIENCE;
use crate::client::text;
use crate::evidence::{assert_gone, is_running};
use crate::guest::{Era, Guest};
use crate::house::{Place, chaos, done};

#[test]
fn a_file_that_changes_is_read_again_and_only_what_changed_is_touched() {
    let place = Place::new([("kept", chaos("")), ("changed", chaos("")), ("gone", chaos(""))]);
    let house = place.start();
    let before = ["kept", "changed", "gone"].map(|name| {
        house.wait_for_tools(name);
        place.pid(name)
    });
    let mut guest = Guest::of(&house, Era::Legacy);
    let mut stream = guest.listen();
    assert_eq!(guest.tools().iter().filter(|tool| tool.ends_with("__echo")).count(), 3);
    let mut call = guest.begin_call("kept__slow", json!({ "ms": 3000 }));
    // Where a server stands in the file is no part of what it is.
    place.configure([("new", chaos("")), ("changed", chaos("extra-tool=more")), ("kept", chaos(""))]);
    let line = house.wait_for_log("reloaded");
    assert!(line.contains("new: new; gone: gone; changed: changed; 1 unchanged"), "{line}");
    house.wait_for_tools("new");
    house.wait_for_tools("changed");
    assert_gone(&before[1..], PATIENCE);
    assert!(is_running(before[0]));
    assert_eq!(text(&call.answer()), "slow");
    assert_eq!(place.pid("kept"), before[0]);
    assert_eq!(stream.message().unwrap()["method"], "notifications/tools/list_changed");
    let tools = guest.tools();
    assert!(
        tools.contains(&"changed__more".to_owned()) && tools.contains(&"new__echo".to_owned()),
        "{tools:?}"
    );
    assert!(!tools.iter().any(|tool| tool.starts_with("gone__")), "{tools:?}");
    assert_eq!(guest.call("changed__more", json!({ "text": "on" })), "on");
    let (said, _) = guest.failing_call("gone__echo", json!({ "text": "x" }));
    assert!(said.contains("gone__echo"), "{said}");
}

#[test]
fn a_bad_file_changes_nothing_and_is_said() {
    let place = Place::new([("one", chaos(""))]);
    let house = place.start();
    house.wait_for_tools("one");
    let pid = place.pid("one");
    let mut guest = Guest::of(&house, Era::Legacy);
    let bad = [
        "{ \"mcpServers\": { ",
        r#"{ "mcpServers": { "one": { "command": "x" } }, "regrow": { "callTimeout": "soon" } }"#,
        r#"{ "mcpServers": { "one": { "command": "x" } }, "sessions": "private" }"#,
        "",
    ];
    for text in bad {
        let from = house.log().len();
        place.write_config(text);
        house.wait_for_log_after(from, "keeping the previous one");
        let said = house.log()[from..].join("\n");
        assert!(said.contains("servers.json"), "the file is named: {said}");
        assert_eq!(guest.call("echo", json!({ "text": "on" })), "on");
    }
    assert_eq!(place.pid("one"), pid);
    // Then it is mended.
    let from = house.log().len();
    place.configure([("one", chaos(""))]);
    house.wait_for_log_after(from, "nothing changed");
    assert_eq!(place.pid("one"), pid);
}

#[test]
fn scenario_56_a_server_with_a_broken_entry_is_shown_and_the_others_are_served() {
    let unset = || chaos("").variable("TOKEN", "${NOT_SET_ANYWHERE}");
    let place = Place::new([("one", chaos("")), ("broken", unset()), ("two", chaos(""))]);
    let house = place.start();
    let line = house.wait_for_log("broken: not served: ");
    assert!(line.contains("servers.json:1:") && line.contains("field \"env.TOKEN\""), "{line}");
    let pids = ["one", "two"].map(|name| {
        house.wait_for_tools(name);
        place.pid(name)
    });
    let shown = house.server("broken");
    let why = "the variable NOT_SET_ANYWHERE is not set; set it";
    assert!(shown["state"] == "broken" && shown["problems"][0].as_str().unwrap().contains(why), "{shown}");
    for era in [Era::Legacy, Era::Modern] {
        let mut guest = Guest::of(&house, era);
        assert_eq!(guest.call("two__echo", json!({ "text": "on" })), "on");
        let (said, fault) = guest.failing_call("broken__echo", json!({ "text": "x" }));
        assert!(
            said.contains(why) && said.contains("line 1, field") && said.contains("It did not run"),
            "{said}"
        );
        assert!(!said.contains("servers.json"), "a client learns nothing of our files: {said}");
        assert_eq!((&fault["cause"], &fault["delivery"]), (&json!("misconfigured"), &json!("not-sent")));
    }
    let (code, table, _) = done(&mut place.command(&["status"]));
    assert!(code == 1 && table.contains("\nbroken  broken") && table.contains(why), "{code} {table}");
    let (code, _, said) = done(&mut place.command(&["wake", "broken"]));
    assert!(code == 1 && said.contains(why), "{code} {said}");

    // It is fixed, and another is broken: an option of ours that would not hold where it stands.
    let misplaced = chaos("").member("sessions", "private");
    place.configure([("one", misplaced), ("broken", chaos("")), ("two", chaos(""))]);
    house.wait_for_tools("broken");
    let shown = house.wait_for_state("one", "broken");
    assert!(shown["problems"][0].as_str().unwrap().contains("move it into \"regrow\""), "{shown}");
    assert_gone(&pids[..1], PATIENCE);
    assert_eq!(place.pid("two"), pids[1], "what did not change is not touched");
    place.configure([("one", chaos("")), ("broken", chaos("")), ("two", chaos(""))]);
    house.wait_for_tools("one");
    house.end();
}

#[test]
fn a_hangup_signal_has_the_file_read_again() {
    let place = Place::new([("one", chaos(""))]);
    let house = place.start();
    house.wait_for_tools("one");
    let pid = place.pid("one");
    for _ in 0..2 {
        let from = house.log().len();
        house.signal(Signal::HUP);
        house.wait_for_log_after(from, "nothing changed");
    }
    assert_eq!(place.pid("one"), pid);
    assert!(is_running(pid));
}

#[test]
fn a_parked_server_whose_description_is_mended_is_up_at_once() {
    let place = Place::new([("one", chaos("exit-at-start").option("budget", "1/60")), ("two", chaos(""))]);
    let house = place.start();
    house.wait_for_state("one", "parked");
    place.configure([("one", chaos("")), ("two", chaos(""))]);
    house.wait_for_tools("one");
    let mut guest = Guest::of(&house, Era::Modern);
    assert_eq!(guest.call("one__echo", json!({ "text": "up" })), "up");
}
