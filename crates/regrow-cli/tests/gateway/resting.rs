//! Servers that start when they are needed and rest when they are not, and what is known of them meanwhile.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::client::PATIENCE;
use crate::evidence::{assert_gone, slack};
use crate::guest::{ERAS, Era, Guest};
use crate::house::{Place, chaos};

#[test]
fn a_lazy_server_whose_offer_is_known_is_started_by_a_call_and_not_by_a_list() {
    for plan in ["refuse-discover", "modern-only"] {
        let place = Place::new([("lazy", chaos(plan).option("start", "lazy")), ("eager", chaos(plan))]);
        let house = place.start();
        let tools = Guest::of(&house, Era::Legacy).tools();
        assert!(tools.contains(&"lazy__echo".to_owned()), "nobody knew what it offers: {tools:?}");
        house.end();
        let lives = place.journal("lazy").starts();

        let house = place.start();
        house.wait_for_tools("eager");
        for era in ERAS {
            assert_eq!(Guest::of(&house, era).tools(), tools);
        }
        assert_eq!(house.server("lazy")["state"], "idle");
        assert_eq!(house.page("/readyz", &[]).0, 200, "it is not wanted yet");
        assert_eq!(place.journal("lazy").starts(), lives, "no process for a list");
        assert_eq!(Guest::of(&house, Era::Modern).call("lazy__echo", json!({ "text": "up" })), "up");
        assert!(place.journal("lazy").starts() > lives);
        house.end();
    }
}

#[test]
fn a_server_that_nobody_calls_rests_and_the_next_call_starts_it() {
    for plan in ["refuse-discover", "modern-only"] {
        let place = Place::new([("one", chaos(plan).option("idleStop", "1s")), ("two", chaos(plan))]);
        let house = place.start();
        house.wait_for_tools("two");
        let mut guest = Guest::of(&house, Era::Legacy);
        let tools = guest.tools();
        let resting = house.wait_where("one", "resting", |server| server["stopped"] == true);
        assert_eq!(resting["catalog"]["tools"]["count"], house.server("two")["catalog"]["tools"]["count"]);
        let before = place.pid("one");
        assert_gone(&[before], PATIENCE);
        assert_eq!(guest.tools(), tools, "it keeps its catalog");
        assert_eq!(house.page("/readyz", &[]).0, 200, "it was stopped on purpose");
        assert_eq!(guest.call("one__echo", json!({ "text": "up" })), "up");
        assert_ne!(place.pid("one"), before);
        assert_eq!(
            house.server("one")["budgetLeft"],
            house.server("two")["budgetLeft"],
            "resting costs nothing"
        );
        // A call that lasts keeps it awake.
        let mut call = guest.begin_call("one__slow", json!({ "ms": 2500 }));
        assert_eq!(crate::client::text(&call.answer()), "slow");
    }
}

#[test]
fn a_warm_catalog_answers_while_a_server_takes_its_time_to_start() {
    let place = Place::new([("slow", chaos("refuse-discover slow-start=15s@2-")), ("fast", chaos(""))]);
    let house = place.start();
    house.wait_for_tools("slow");
    let tools = Guest::of(&house, Era::Legacy).tools();
    house.end();

    let house = place.start();
    for era in ERAS {
        let mut guest = Guest::of(&house, era);
        let began = Instant::now();
        assert_eq!(guest.tools(), tools);
        assert!(began.elapsed() < Duration::from_secs(3) + slack(), "{:?}", began.elapsed());
        assert_eq!(guest.call("fast__echo", json!({ "text": "on" })), "on");
    }
    assert_eq!(house.server("slow")["state"], "connecting");
    let (status, why) = house.page("/readyz", &[]);
    assert!(status == 503 && why.contains("it is starting"), "{status} {why}");
    // The list says that it may not be what the server has now.
    let list = Guest::of(&house, Era::Legacy).request("tools/list", json!({}));
    assert!(list["result"]["_meta"]["dev.regrow/freshness"]["slow"]["reason"].is_string());
}

#[test]
fn without_a_cache_nothing_is_kept() {
    let place = Place::new([("one", chaos(""))]).options(&["--no-cache"]);
    let house = place.start();
    house.wait_for_tools("one");
    house.end();
    assert!(!place.path("cache").exists());
}

#[test]
fn a_server_that_is_described_differently_is_not_offered_from_what_another_told() {
    let place = Place::new([("one", chaos("tools=echo|pid")), ("two", chaos(""))]);
    let house = place.start();
    house.wait_for_tools("one");
    house.end();
    place.configure([("one", chaos("tools=count never-answer")), ("two", chaos(""))]);
    let place = place.options(&["--list-wait", "100ms"]);
    let house = place.start();
    house.wait_for_tools("two");
    let tools = Guest::of(&house, Era::Legacy).tools();
    assert!(!tools.iter().any(|tool| tool.starts_with("one__")), "{tools:?}");
}
