//! What an operator orders on the command line, and what becomes of it.

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::client::PATIENCE;
use crate::evidence::{assert_gone, kill};
use crate::guest::{Era, Guest};
use crate::house::{House, Place, chaos, done};

fn order(place: &Place, house: &House, words: &[&str]) -> (i32, String) {
    let (code, said, log) = done(place.command(words).env("REGROW_URL", house.url()));
    (code, said + &log)
}

#[test]
fn orders_are_followed_cost_nothing_and_touch_no_other_server() {
    for plan in ["refuse-discover", "modern-only"] {
        let place = Place::new([("one", chaos(plan)), ("other", chaos(plan))]);
        let house = place.start();
        house.wait_for_tools("one");
        house.wait_for_tools("other");
        let mut guest = Guest::of(&house, Era::Legacy);
        let mut pid = place.pid("one");

        assert_eq!(order(&place, &house, &["reconnect", "one"]).0, 0);
        house.wait_where("one", "back", |server| {
            server["epoch"].as_u64() >= Some(2) && server["state"] == "ready"
        });
        assert_ne!(place.pid("one"), pid);
        pid = place.pid("one");

        for stop in ["park", "drain"] {
            assert_eq!(order(&place, &house, &[stop, "one"]).0, 0);
            let stopped = house.wait_for_state("one", "parked");
            assert_eq!(stopped["stopped"], true, "{stop}: {stopped}");
            assert_gone(&[pid], PATIENCE);
            assert_eq!(house.page("/readyz", &[]).0, 200, "{stop}: it was stopped on purpose");
            assert_eq!(order(&place, &house, &["status"]).0, 0, "{stop}: nothing is broken");
            assert_eq!(order(&place, &house, &["wake", "one"]).0, 0);
            house.wait_for_state("one", "ready");
            assert_eq!(guest.call("one__echo", json!({ "text": "up" })), "up", "{stop}");
            pid = place.pid("one");
        }
        assert_eq!(
            house.server("one")["budgetLeft"],
            house.server("other")["budgetLeft"],
            "nothing is charged"
        );
        assert_eq!(place.journal("other").starts(), 1);
        let (code, said) = order(&place, &house, &["park", "nobody"]);
        assert!(code == 1 && said.contains("nobody"), "{code} {said}");
    }
}

#[test]
fn a_drain_lets_calls_finish() {
    let place = Place::new([("one", chaos("refuse-discover"))]);
    let house = place.start();
    house.wait_for_tools("one");
    let mut guest = Guest::of(&house, Era::Modern);
    let mut call = guest.begin_call("slow", json!({ "ms": 2000 }));
    assert!(place.journal("one").wait(PATIENCE, |journal| journal.runs("slow") == 1));
    assert_eq!(order(&place, &house, &["drain", "one"]).0, 0);
    assert_eq!(crate::client::text(&call.answer()), "slow");
    house.wait_for_state("one", "parked");
}

#[test]
fn a_server_that_was_parked_by_order_stays_so_until_it_is_woken_and_calls_are_told() {
    let place = Place::new([("one", chaos("refuse-discover"))]);
    let house = place.start();
    house.wait_for_tools("one");
    assert_eq!(order(&place, &house, &["park", "one"]).0, 0);
    house.wait_for_state("one", "parked");
    let mut guest = Guest::of(&house, Era::Legacy);
    let (said, fault) = guest.failing_call("echo", json!({ "text": "x" }));
    assert!(said.contains("parked by an operator"), "{said}");
    assert_eq!((&fault["delivery"], &fault["cause"]), (&json!("not-sent"), &json!("parked")));
    assert_eq!(order(&place, &house, &["wake", "one"]).0, 0);
    house.wait_for_state("one", "ready");
    assert_eq!(guest.call("echo", json!({ "text": "up" })), "up");
}

#[test]
fn status_and_logs_tell_the_truth_of_a_death() {
    let place = Place::new([("one", chaos("refuse-discover")), ("bad", chaos("exit-at-start=3"))]);
    let house = place.start();
    house.wait_for_tools("one");
    house.wait_where("bad", "broken", |server| server["lastFault"]["exitCode"] == 3);
    kill(place.pid("one"), Signal::KILL);
    house.wait_where("one", "back", |server| {
        server["lastFault"]["signal"] == "SIGKILL" && server["state"] == "ready"
    });
    let restarts = house.server("one")["restarts"].clone();
    assert_eq!(
        restarts.as_object().unwrap().values().filter_map(Value::as_u64).sum::<u64>(),
        1,
        "{restarts}"
    );
    let (_, logs) = order(&place, &house, &["logs", "one"]);
    assert!(logs.contains("SIGKILL") && logs.contains("ready (session 2)"), "{logs}");
    let (_, logs) = order(&place, &house, &["logs", "bad"]);
    assert!(logs.contains("| regrow-chaos: exits at start"), "its last words: {logs}");
    house.wait_for_state("bad", "parked");
    let (code, table) = order(&place, &house, &["status"]);
    assert!(code == 1 && table.contains("exited with code 3"), "{code} {table}");
    let (_, metrics) = house.page("/metrics", &[]);
    assert!(metrics.contains("server=\"one\"") && metrics.contains("server=\"bad\""), "{metrics}");
    let (status, why) = house.page("/readyz?server=bad", &[]);
    assert!(status == 503 && why.contains("code 3"), "{status} {why}");
    assert_eq!(house.page("/readyz?server=nobody", &[]).0, 404);
}

#[test]
fn the_gateway_that_runs_is_found_and_of_several_one_must_be_named() {
    let place = Place::new([("one", chaos("refuse-discover"))]);
    let status = |options: &[&str]| done(&mut place.command(&[&["status"], options].concat()));
    let mut first = place.start();
    first.wait_for_tools("one");
    let (code, table, said) = status(&[]);
    assert_eq!((code, &*said), (0, ""), "{table}");
    assert!(table.contains("\none "), "{table}");
    assert_eq!(done(&mut place.command(&["reconnect", "one"])).0, 0, "orders find it, too");

    let second = place.start();
    let (code, _, said) = status(&[]);
    assert_eq!(code, 64, "{said}");
    for house in [&first, &second] {
        assert!(said.contains(&format!("--url {}  (process {}", house.url(), house.pid())), "{said}");
        second.wait_for_state("one", "ready");
        assert_eq!(status(&["--url", &format!("{}/mcp", house.url())]).0, 0);
        assert_eq!(status(&["--url", &house.address.to_string()]).0, 0);
    }

    // One that was killed leaves its file behind, and misleads nobody.
    first.signal(Signal::KILL);
    first.wait_for_exit();
    let (code, table, said) = status(&["--json"]);
    assert_eq!((code, &*said), (0, ""), "{table}");
    let files = || std::fs::read_dir(place.path("regrow")).unwrap().count();
    assert_eq!(files(), 1, "the stale one is removed");
    second.end();
    assert_eq!(files(), 0, "nothing is left of a gateway that has ended");
}

#[test]
fn a_browser_at_the_address_alone_is_led_to_the_status() {
    let place = Place::new([("one", chaos("refuse-discover"))]);
    let house = place.start();
    let (head, _) =
        crate::wire::Wire::connect(house.address).ask("GET", "/", &[("Accept", "text/html,*/*")], "");
    assert_eq!((head.status, head.header("location")), (303, Some("status")));
    assert_eq!(house.page("/", &[("Accept", "*/*")]).0, 404, "a client is not led astray");
    let foreign = [("Accept", "text/html"), ("Host", "evil.example")];
    assert_eq!(house.page("/", &foreign).0, 403);
    house.end();

    let guarded = Place::new([]).options(&["--token-env", "TOKEN"]).variable("TOKEN", "s3cr3t");
    let house = guarded.start();
    assert_eq!(house.page("/", &[("Accept", "text/html")]).0, 401);
    assert_eq!(
        done(&mut guarded.command(&["status"])).0,
        0,
        "the token is in the file that the gateway wrote"
    );
}
