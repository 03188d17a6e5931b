//! Scenario 39: a few servers among many are broken, hang or flood, and the others do not notice.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::client::PATIENCE;
use crate::evidence::slack;
use crate::guest::{ERAS, Era, Guest};
use crate::house::{Entry, Place, chaos};

/// Bad ones, and so many good ones.
fn among(good: usize, bad: &[(&str, &str)]) -> (Vec<String>, Vec<(String, Entry)>) {
    let names: Vec<String> = (1..=good).map(|number| format!("good{number}")).collect();
    let bad = bad.iter().map(|(name, plan)| (name.to_string(), chaos(plan)));
    let mut servers: Vec<_> = names.iter().map(|name| (name.clone(), chaos("refuse-discover"))).collect();
    servers.extend(bad);
    (names, servers)
}

fn place(servers: &[(String, Entry)]) -> Place {
    Place::new(servers.iter().map(|(name, entry)| (&**name, entry.clone())))
}

#[test]
fn scenario_39_one_broken_one_hung_and_one_flooding_server_change_nothing_for_seventeen_others() {
    let bad = [
        ("broken", "exit-at-start=3"),
        ("hung", "never-answer"),
        ("flooding", "refuse-discover flood-stderr=20MB"),
    ];
    let (good, servers) = among(17, &bad);
    let place = place(&servers);
    let house = place.start();
    for name in &good {
        house.wait_for_tools(name);
    }
    assert_ne!(house.server("hung")["state"], "ready");
    assert_ne!(house.server("broken")["state"], "ready");

    // A list waits for those that have told nothing yet, no longer than it may; afterwards calls go through as ever.
    let mut guest = Guest::of(&house, Era::Legacy);
    let began = Instant::now();
    let tools = guest.tools();
    assert!(began.elapsed() < Duration::from_secs(10) + slack(), "{:?}", began.elapsed());
    for name in &good {
        assert!(tools.contains(&format!("{name}__echo")), "{name}");
    }
    assert!(!tools.iter().any(|tool| tool.starts_with("hung__")));

    // One hangs inside a call, one floods while it serves: the others answer.
    house.wait_for_tools("flooding");
    let flood = guest.begin_call("flooding__stderr", json!({ "bytes": "20MB" }));
    let hung = guest.begin_call("good1__hang", json!({ "whole": true }));
    assert!(place.journal("good1").wait(PATIENCE, |journal| journal.runs("hang") == 1));
    let mut slowest = Duration::ZERO;
    for round in 0..5 {
        for name in &good[1..] {
            let began = Instant::now();
            let text = format!("{name} {round}");
            assert_eq!(guest.call(&format!("{name}__echo"), json!({ "text": text })), text);
            slowest = slowest.max(began.elapsed());
        }
    }
    assert!(slowest < Duration::from_secs(5) + slack(), "{slowest:?}");
    drop((flood, hung));
    for name in &good[1..] {
        assert_eq!(place.journal(name).starts(), 1, "{name} was left alone");
    }
}

#[test]
fn a_server_that_sends_without_end_keeps_nobody_waiting() {
    let place = Place::new([("good", chaos("refuse-discover")), ("talkative", chaos("refuse-discover"))]);
    let house = place.start();
    let mut guest = Guest::of(&house, Era::Legacy);
    for name in ["good", "talkative"] {
        house.wait_for_tools(name);
        assert_eq!(guest.call(&format!("{name}__echo"), json!({ "text": name })), name);
    }
    let _talk = guest.begin_call("talkative__notify", json!({ "n": 100_000_000 }));
    assert!(place.journal("talkative").wait(PATIENCE, |journal| journal.runs("notify") == 1));
    let mut slowest = Duration::ZERO;
    for round in 0..1000 {
        let (began, text) = (Instant::now(), round.to_string());
        assert_eq!(guest.call("good__echo", json!({ "text": text })), text);
        slowest = slowest.max(began.elapsed());
    }
    assert!(slowest < Duration::from_secs(5) + slack(), "{slowest:?}");
}

#[test]
fn a_list_waits_for_several_silent_servers_at_the_same_time_and_not_for_one_after_the_other() {
    let bad = [
        ("hung1", "never-answer"),
        ("hung2", "never-answer"),
        ("hung3", "never-answer"),
        ("hung4", "never-answer"),
    ];
    for era in ERAS {
        let (good, servers) = among(2, &bad);
        let place = place(&servers).options(&["--list-wait", "3s"]);
        let house = place.start();
        good.iter().for_each(|name| drop(house.wait_for_tools(name)));
        let mut guest = Guest::of(&house, era);
        let began = Instant::now();
        let tools = guest.tools();
        let took = began.elapsed();
        assert!(tools.contains(&"good1__echo".to_owned()), "{tools:?}");
        assert!(took < Duration::from_secs(8) + slack(), "{took:?}");
    }
}

#[test]
fn a_server_that_comes_up_late_appears_with_one_list_changed() {
    let place = Place::new([("early", chaos("")), ("late", chaos("slow-start=4s"))])
        .options(&["--list-wait", "100ms"]);
    let house = place.start();
    house.wait_for_tools("early");
    let mut guest = Guest::of(&house, Era::Legacy);
    let mut stream = guest.listen();
    let before = guest.tools();
    assert!(before.contains(&"early__echo".to_owned()), "{before:?}");
    assert!(!before.contains(&"late__echo".to_owned()), "{before:?}");
    assert_eq!(stream.message().unwrap()["method"], "notifications/tools/list_changed");
    assert!(guest.tools().contains(&"late__echo".to_owned()));
}

#[test]
fn a_crash_loop_parks_its_server_and_the_page_of_readiness_says_so_and_no_other_is_touched() {
    let place = Place::new([
        ("looping", chaos("crash-after-handshake").option("budget", "2/60")),
        ("steady", chaos("")),
    ]);
    let house = place.start();
    house.wait_for_tools("steady");
    house.wait_for_state("looping", "parked");
    let (status, why) = house.page("/readyz", &[]);
    assert_eq!(status, 503, "{why}");
    assert!(why.contains("looping") && why.contains("parked") && !why.contains("steady"), "{why}");
    assert_eq!(house.page("/readyz?server=steady", &[]).0, 200);
    assert_eq!(house.page("/livez", &[]).0, 200);
    let mut guest = Guest::of(&house, Era::Modern);
    assert_eq!(guest.call("steady__echo", json!({ "text": "on" })), "on");
    assert_eq!(place.journal("steady").starts(), 1);
}
