//! A server that changes after it was approved: told, or held until a person approves it.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use rustix::process::Signal;
use serde_json::json;

use crate::audit::{is, wait_for, with_log};
use crate::client::PATIENCE;
use crate::evidence::{kill, wait_until};
use crate::guest::{Era, Guest};
use crate::house::{House, Place, REGROW, chaos, done};
use crate::terminal::Terminal;

/// The tools `echo` and `pid`; from its second life on, `echo` says something else of itself.
const CHANGING: &str = "tools=echo|pid change-tool=echo@2-";

/// Waits until its pins are kept, then restarts the server, and waits until the gateway has noticed the change.
fn restart(place: &Place, house: &House, name: &str) {
    house.wait_for_tools(name);
    pin_file(place);
    kill(place.pid(name), Signal::KILL);
    noticed(place, house, name);
}

fn noticed(place: &Place, house: &House, name: &str) {
    house.wait_where(name, "noticed", |server| server["unapproved"] == json!(["tool echo"]));
    let file = pin_file(place);
    wait_until("the change is kept", PATIENCE * 2, || {
        fs::read_to_string(&file).is_ok_and(|text| text.contains("It has changed."))
    });
}

/// The file with the pins, once the tools are in it.
fn pin_file(place: &Place) -> PathBuf {
    let folder = place.path("cache/regrow/pins");
    let files = || -> Vec<PathBuf> {
        let entries = fs::read_dir(&folder).into_iter().flatten().flatten();
        entries
            .map(|entry| entry.path())
            .filter(|path| path.extension().is_some_and(|end| end == "json"))
            .collect()
    };
    let is_kept = |file: &PathBuf| fs::read_to_string(file).is_ok_and(|text| text.contains("\"echo\""));
    wait_until("pins are kept", PATIENCE * 2, || files().iter().any(is_kept));
    let [file] = &files()[..] else { panic!("{:?}", files()) };
    file.clone()
}

/// What the gateway tells clients of this tool.
fn description(guest: &mut Guest, tool: &str) -> String {
    let answer = guest.request("tools/list", json!({}));
    let tools = answer["result"]["tools"].as_array().unwrap();
    let tool = tools.iter().find(|found| found["name"] == tool).unwrap_or_else(|| panic!("{tools:?}"));
    tool["description"].as_str().unwrap().to_owned()
}

#[test]
fn security_09_a_changed_tool_is_offered_as_it_was_approved_and_refused_until_it_is_approved() {
    let place = Place::new([("git", chaos(CHANGING))]).options(&["--pin", "hold"]);
    let house = place.start();
    house.wait_for_tools("git");
    let mut guest = Guest::of(&house, Era::Legacy);
    let approved = description(&mut guest, "echo");
    assert_eq!(guest.call("echo", json!({ "text": "one" })), "one");

    restart(&place, &house, "git");
    assert_eq!(description(&mut guest, "echo"), approved, "clients see what was approved");
    let (said, fault) = guest.failing_call("echo", json!({ "text": "two" }));
    assert!(said.contains("has changed since it was approved") && said.contains("It did not run."), "{said}");
    assert_eq!((&fault["kind"], &fault["delivery"]), (&json!("not-approved"), &json!("not-sent")));
    guest.call("pid", json!({})); // The others work.
    let line = house.wait_for_log("has changed since it was approved");
    assert!(line.contains("regrow approve git"), "{line}");
    let (_, metrics) = house.page("/metrics", &[]);
    assert!(metrics.contains("regrow_unapproved{server=\"git\"} 1"), "{metrics}");
    let (_, table, _) = done(&mut place.command(&["status"]));
    assert!(table.contains("regrow approve git"), "{table}");

    // Nobody is there to agree.
    let (code, shown, said) = done(&mut place.command(&["approve", "git"]));
    assert_eq!(code, 1, "{said}");
    assert!(
        shown.contains("The tool echo has changed:") && shown.contains("\n+  \"description\": "),
        "{shown}"
    );
    assert!(shown.contains("\n-  \"description\": ") && !shown.contains('\u{1b}'), "{shown}");
    guest.failing_call("echo", json!({ "text": "three" }));

    let (code, _, said) = done(&mut place.command(&["approve", "git", "echo", "--yes"]));
    assert_eq!(code, 0, "{said}");
    house.wait_where("git", "approved", |server| server["unapproved"].is_null());
    assert_ne!(description(&mut guest, "echo"), approved);
    assert_eq!(guest.call("echo", json!({ "text": "four" })), "four");
    let (code, _, said) = done(&mut place.command(&["approve", "git"]));
    assert!(code == 0 && said.contains("nothing has changed"), "{code} {said}");
    house.end();
}

#[test]
fn security_27_a_change_has_one_line_and_so_has_its_approval() {
    let place = with_log(Place::new([("git", chaos(CHANGING))])).options(&["--pin", "hold"]);
    let house = place.start();
    restart(&place, &house, "git");
    let lines = |count: usize| wait_for(&place, count, "pin decisions", |line| line["event"] == "pin");
    let held = json!({ "server": "git", "tool": "echo", "outcome": "held" });
    assert!(is(&lines(1)[0], &held));
    // Later sessions and later gateways see the same change.
    house.end();
    let house = place.start();
    noticed(&place, &house, "git");
    let mut guest = Guest::of(&house, Era::Legacy);
    guest.failing_call("echo", json!({ "text": "x" }));
    let refused = json!({ "event": "call", "server": "git", "tool": "echo", "outcome": "not-approved" });
    wait_for(&place, 1, "refused calls", |line| is(line, &refused));
    lines(1);

    let (code, _, said) = done(&mut place.command(&["approve", "git", "--yes"]));
    assert_eq!(code, 0, "{said}");
    let approved = json!({ "server": "git", "tool": "echo", "outcome": "approved" });
    assert!(is(&lines(2)[1], &approved));
    let command =
        json!({ "event": "command", "principal": "operator", "server": "git", "command": "approve" });
    wait_for(&place, 1, "commands", |line| is(line, &command));
    assert_eq!(guest.call("echo", json!({ "text": "x" })), "x");
    house.end();
    lines(2);
}

#[test]
fn security_09_a_call_that_waits_for_a_restart_does_not_reach_a_changed_tool() {
    let plan = format!("{CHANGING} slow-start=2s@2-");
    let place = Place::new([("git", chaos(&plan))]).options(&["--pin", "hold"]);
    let house = place.start();
    house.wait_for_tools("git");
    let mut guest = Guest::of(&house, Era::Legacy);
    assert_eq!(guest.call("echo", json!({ "text": "one" })), "one");
    pin_file(&place);

    kill(place.pid("git"), Signal::KILL);
    house.wait_for_log("killed by SIGKILL"); // A call before that is on its way to the dead one.
    let (said, fault) = guest.failing_call("echo", json!({ "text": "two" }));
    assert_eq!((&fault["kind"], &fault["delivery"]), (&json!("not-approved"), &json!("not-sent")), "{said}");
    guest.call("pid", json!({})); // The others wait, and work.
    assert_eq!(place.journal("git").runs("echo"), 1, "the changed tool was not called");
    noticed(&place, &house, "git");
    let (_, metrics) = house.page("/metrics", &[]);
    assert!(metrics.contains("outcome=\"not-approved\""), "{metrics}");
    house.end();
}

#[test]
fn security_09_the_change_is_noticed_by_a_later_gateway_too_and_a_person_at_a_terminal_is_asked() {
    let place = Place::new([("git", chaos(CHANGING).option("pin", "hold"))]);
    let house = place.start();
    house.wait_for_tools("git");
    pin_file(&place);
    house.end();
    let house = place.start(); // The second life of its server.
    noticed(&place, &house, "git");
    let mut guest = Guest::of(&house, Era::Modern);
    guest.failing_call("echo", json!({ "text": "x" }));

    let asked = |answer: &str| {
        let (mut terminal, mut child) =
            Terminal::start(place.command(&["approve", "git"]).env("NO_COLOR", "1"), true);
        terminal.read_until("Approve? [y/N] ");
        terminal.write(answer);
        let code = child.wait().unwrap().code();
        (code, terminal.seen)
    };
    assert_eq!(asked("\n").0, Some(1));
    guest.failing_call("echo", json!({ "text": "x" }));
    let (code, seen) = asked("y\n");
    assert_eq!(code, Some(0), "{seen}");
    assert!(seen.contains("The tool echo has changed:") && !seen.contains("\u{1b}[31m"), "{seen}");
    assert_eq!(guest.call("echo", json!({ "text": "x" })), "x");
    house.end();
}

#[test]
fn security_09_by_default_a_change_is_told_and_nothing_is_refused() {
    let free = chaos(CHANGING).option("pin", "off");
    let place = with_log(Place::new([("git", chaos(CHANGING)), ("free", free)]));
    let house = place.start();
    house.wait_for_tools("free");
    restart(&place, &house, "git");
    house.wait_for_log("has changed since it was approved");
    let mut guest = Guest::of(&house, Era::Legacy);
    assert_eq!(guest.call("git__echo", json!({ "text": "x" })), "x");
    assert!(description(&mut guest, "git__echo").contains("changed"));
    kill(place.pid("free"), Signal::KILL);
    assert!(place.journal("free").wait(PATIENCE, |journal| journal.starts() == 2));
    assert!(house.server("free")["unapproved"].is_null());
    let lines = wait_for(&place, 1, "pin decisions", |line| line["event"] == "pin");
    assert!(is(&lines[0], &json!({ "server": "git", "tool": "echo", "outcome": "changed" })), "{lines:?}");
    house.end();
}

#[test]
fn security_09_a_server_whose_command_changed_does_not_run_until_it_is_approved() {
    let script = "exec \"$0\" chaos-server";
    let entry = |argument: &str| {
        chaos("tools=echo|pid")
            .member("command", "sh")
            .member("args", json!(["-c", script, REGROW, argument]))
    };
    let place = with_log(Place::new([("git", entry("one"))])).options(&["--pin", "hold"]);
    let house = place.start();
    house.wait_for_tools("git");
    pin_file(&place);
    let starts = place.journal("git").starts();
    place.configure([("git", entry("two"))]);
    house.wait_for_log("its command, an argument or its URL has changed");
    let is_held = |server: &serde_json::Value| {
        server["unapproved"] == json!(["command"]) && server["state"] == "broken"
    };
    house.wait_where("git", "held", is_held);
    let mut guest = Guest::of(&house, Era::Legacy);
    assert_eq!(guest.tools(), ["echo", "pid"], "what was approved is offered");
    let (said, fault) = guest.failing_call("echo", json!({ "text": "x" }));
    assert_eq!(fault["kind"], "not-approved", "{said}");
    assert_eq!(place.journal("git").starts(), starts, "it was not started");

    let (code, shown, said) = done(&mut place.command(&["approve", "git", "--yes"]));
    assert_eq!(code, 0, "{said}");
    assert!(shown.contains("\"two\"]"), "{shown}");
    house.wait_for_tools("git");
    let lines = wait_for(&place, 2, "pin decisions", |line| line["event"] == "pin");
    for (line, outcome) in lines.iter().zip(["held", "approved"]) {
        assert!(is(line, &json!({ "server": "git", "outcome": outcome, "tool": null })), "{line}");
    }
    assert_eq!(guest.call("echo", json!({ "text": "x" })), "x");
    house.end();
}

#[test]
fn security_09_damaged_pins_hold_everything() {
    let place = with_log(Place::new([("git", chaos("tools=echo|pid"))])).options(&["--pin", "hold"]);
    let house = place.start();
    house.wait_for_tools("git");
    let file = pin_file(&place);
    let mode = |path: &std::path::Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&file), mode(file.parent().unwrap())), (0o600, 0o700));
    house.end();
    let starts = place.journal("git").starts();
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, text.replace("description", "descriptio")).unwrap();

    let house = place.start();
    let line = house.wait_for_log("its pins cannot be read");
    let command = line.split("change: regrow ").nth(1).expect(&line).to_owned();
    let mut guest = Guest::of(&house, Era::Legacy);
    let (_, fault) = guest.failing_call("echo", json!({ "text": "x" }));
    assert_eq!(fault["kind"], "not-approved", "{fault}");
    assert_eq!(place.journal("git").starts(), starts, "it was not started");
    let damaged = json!({ "event": "pin", "server": "git", "outcome": "damaged" });
    wait_for(&place, 1, "damaged pins", |line| is(line, &damaged));

    let mut arguments: Vec<&str> = command.trim().split(' ').collect();
    arguments.push("--yes");
    let (code, _, said) = done(&mut place.command(&arguments));
    assert_eq!(code, 0, "{said}");
    house.wait_for_tools("git");
    assert_eq!(guest.call("echo", json!({ "text": "x" })), "x");
    house.end();
}
