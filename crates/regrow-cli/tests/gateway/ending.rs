//! How a gateway ends: in order, in time, and with nothing left behind.

use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::json;

use crate::client::{PATIENCE, fault, text};
use crate::evidence::{children_of, command_line, slack, wait_until};
use crate::guest::{Begun, ERAS, Era, Guest};
use crate::house::{House, Place, chaos, remote};
use crate::wire::Wire;

fn position(house: &House, part: &str) -> usize {
    let log = house.log();
    log.iter().position(|line| line.contains(part)).unwrap_or_else(|| panic!("no {part:?} in {log:#?}"))
}

/// The call has ended because its connection was closed.
fn assert_closed(call: &mut Begun, delivery: &str) {
    let head = call.head();
    let messages = call.wire.messages(&head);
    assert_eq!(messages.len(), 1, "{messages:?}");
    let fault = fault(&messages[0]);
    assert_eq!((&fault["kind"], &fault["delivery"]), (&json!("closed"), &json!(delivery)), "{fault}");
}

#[test]
fn told_to_end_it_lets_calls_finish_then_ends_its_servers_and_says_so() {
    for era in ERAS {
        let place = Place::new([("one", chaos("refuse-discover")), ("two", chaos("modern-only"))]);
        let mut house = place.start();
        house.wait_for_tools("one");
        house.wait_for_tools("two");
        let mut guest = Guest::of(&house, era);
        let mut calls = ["one__slow", "two__slow"].map(|tool| guest.begin_call(tool, json!({ "ms": 1500 })));
        for server in ["one", "two"] {
            assert!(place.journal(server).wait(PATIENCE, |journal| journal.runs("slow") == 1));
        }
        house.signal(Signal::TERM);
        house.wait_for_log("shutting down");
        for call in &mut calls {
            let answer = call.answer();
            assert_eq!(text(&answer), "slow", "{answer}");
        }
        let answered = Instant::now();
        let (code, _) = house.wait_for_exit();
        let took = answered.elapsed();
        assert_eq!(code, Some(0), "{}", house.log().join("\n"));
        house.marked.assert_none_left(Duration::from_secs(5));
        wait_until("the log is read", PATIENCE, || house.log().iter().any(|line| line.contains("0 left")));
        assert!(position(&house, "shutting down") < position(&house, "1 left"));
        assert!(position(&house, "1 left") < position(&house, "0 left"));
        for server in ["one", "two"] {
            let lines = place.journal(server).lines();
            let ends = lines.iter().filter(|line| line.starts_with("eof ")).count();
            // Its input ends; only a server that has not ended five seconds later gets a signal.
            assert!(ends == 1 || (ends == 0 && took >= Duration::from_secs(5)), "{took:?}: {lines:?}");
        }
    }
}

#[test]
fn scenario_57_told_to_end_it_takes_nobody_in_any_more() {
    let place = Place::new([("one", chaos(""))]);
    let mut house = place.start();
    house.wait_for_tools("one");
    let mut guest = Guest::of(&house, Era::Modern);
    let mut existing = Guest::of(&house, Era::Legacy);
    let mut call = guest.begin_call("hang", json!({}));
    assert!(place.journal("one").wait(PATIENCE, |journal| journal.runs("hang") == 1));
    let mut early = Wire::connect(house.address);
    assert_eq!(early.ask("GET", "/readyz", &[], "").0.status, 200);
    house.signal(Signal::TERM);
    house.wait_for_log("shutting down");
    // Who comes is told why, for as long as calls are in flight.
    let (head, body) = Wire::connect(house.address).ask("GET", "/readyz", &[], "");
    assert_eq!(head.status, 503, "{body}");
    let (said, fault) = existing.failing_call("echo", json!({ "text": "late" }));
    assert!(said.contains("Regrow is shutting down"), "{said}");
    assert_eq!((&fault["kind"], &fault["delivery"]), (&json!("closed"), &json!("not-sent")), "{fault}");
    let new = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {} }).to_string();
    let types = [("Content-Type", "application/json"), ("Accept", "application/json, text/event-stream")];
    let (head, body) = Wire::connect(house.address).ask("POST", "/mcp", &types, &new);
    assert_eq!((head.status, head.header("retry-after")), (503, Some("5")), "{body}");
    // Told once more, it does not wait for the call.
    house.signal(Signal::TERM);
    assert_closed(&mut call, "unknown");
    let (code, took) = house.wait_for_exit();
    assert_eq!(code, Some(0), "{}", house.log().join("\n"));
    assert!(took < Duration::from_secs(8) + slack(), "{took:?}");
    house.marked.assert_none_left(Duration::from_secs(5));
}

#[test]
fn a_call_that_waits_for_its_turn_is_failed_as_well() {
    let place = Place::new([("one", chaos("refuse-discover").option("concurrency", 1))])
        .options(&["--drain-timeout", "1s"]);
    let mut house = place.start();
    house.wait_for_tools("one");
    let mut guest = Guest::of(&house, Era::Legacy);
    let [mut runs, mut waits] = [(); 2].map(|()| guest.begin_call("hang", json!({})));
    house.wait_where("one", "a call waits", |status| status["queue"] == 1);
    house.signal(Signal::TERM);
    assert_closed(&mut runs, "unknown");
    assert_closed(&mut waits, "not-sent");
    house.wait_for_exit();
}

#[test]
fn told_twice_to_end_it_still_says_what_became_of_calls() {
    let (far, near) = (Place::new([("plain", chaos(""))]), Place::new([]));
    let far_house = far.start();
    far_house.wait_for_tools("plain");
    near.configure([("far", remote(&format!("{}/mcp", far_house.url())))]);
    for era in ERAS {
        let mut house = near.start();
        house.wait_for_tools("far");
        let mut guest = Guest::of(&house, era);
        let mut call = guest.begin_call("hang", json!({}));
        house.wait_where("far", "a call in flight", |status| status["inFlight"] == 1);
        house.signal(Signal::TERM);
        house.wait_for_log("shutting down");
        house.signal(Signal::TERM);
        assert_closed(&mut call, "unknown");
        assert_eq!(house.wait_for_exit().0, Some(0), "{}", house.log().join("\n"));
    }
}

#[test]
fn calls_that_do_not_end_are_failed_when_the_time_is_over_and_nobody_is_left() {
    for era in ERAS {
        for sessions in ["shared", "private"] {
            let server = chaos("ignore-eof ignore-term refuse-discover helper").option("sessions", sessions);
            let place = Place::new([("one", server)]).options(&["--drain-timeout", "1s"]);
            let mut house = place.start();
            house.wait_for_tools("one");
            let mut guest = Guest::of(&house, era);
            let mut call = guest.begin_call("hang", json!({}));
            assert!(place.journal("one").wait(PATIENCE, |journal| journal.runs("hang") == 1));
            let began = Instant::now();
            house.signal(Signal::TERM);
            assert_closed(&mut call, "unknown");
            let (code, _) = house.wait_for_exit();
            assert_eq!(code, Some(0), "{}", house.log().join("\n"));
            assert!(began.elapsed() < Duration::from_secs(15) + slack(), "{:?}", began.elapsed());
            house.marked.assert_none_left(Duration::from_secs(5));
        }
    }
}

#[test]
fn a_gateway_that_is_killed_leaves_no_server_and_no_helper_behind() {
    let place = Place::new([
        ("plain", chaos("")),
        ("stubborn", chaos("ignore-eof ignore-term helper refuse-discover")),
        ("apart", chaos("ignore-eof helper-setsid refuse-discover")),
        ("private", chaos("refuse-discover ignore-eof").option("sessions", "private")),
    ]);
    let mut house = place.start();
    ["plain", "stubborn", "apart", "private"].iter().for_each(|name| drop(house.wait_for_tools(name)));
    let mut guest = Guest::of(&house, Era::Legacy);
    guest.call("private__echo", json!({ "text": "on" }));
    let mut guards = children_of(house.pid());
    guards.retain(|pid| command_line(*pid).trim().ends_with(" guard"));
    assert_eq!(guards.len(), 1);
    house.signal(Signal::KILL);
    house.wait_for_exit();
    house.marked.assert_none_left(Duration::from_secs(5));
    crate::evidence::assert_gone(&guards, Duration::from_secs(5));
}

#[test]
fn a_gateway_of_remote_servers_has_no_guard_until_it_starts_a_server() {
    let (far, near) = (Place::new([("plain", chaos(""))]), Place::new([]).options(&["--log-level", "debug"]));
    let far_house = far.start();
    far_house.wait_for_tools("plain");
    let url = format!("{}/mcp", far_house.url());
    near.configure([("far", remote(&url))]);
    let house = near.start();
    house.wait_for_tools("far");
    // Nor has it found out how to follow helpers.
    let ways =
        ["each server gets a cgroup of its own", "orphans of servers become children", "are not found:"];
    let found_out = || {
        let log = house.log();
        log.iter().filter(|line| ways.iter().any(|way| line.contains(way))).count()
    };
    assert_eq!((children_of(house.pid()).len(), found_out()), (0, 0), "{:?}", house.log());

    near.configure([("far", remote(&url)), ("one", chaos("")), ("two", chaos(""))]);
    house.signal(Signal::HUP);
    ["one", "two"].iter().for_each(|name| drop(house.wait_for_tools(name)));
    let guards = children_of(house.pid());
    let guards = guards.into_iter().filter(|pid| command_line(*pid).trim().ends_with(" guard"));
    assert_eq!((guards.count(), found_out()), (1, 1), "{:?}", house.log());
    house.end();
    far_house.end();
}
