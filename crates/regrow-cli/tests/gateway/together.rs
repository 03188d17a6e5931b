//! Scenarios 40 and 41: clients at the same servers, who never hear each other and do not miss each other.

use std::thread;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::client::{PATIENCE, is_failure, text};
use crate::evidence::{kill, wait_until};
use crate::guest::{ERAS, Era, Guest};
use crate::house::{House, Place, chaos};

const ROUNDS: u64 = 200;

/// Asks under the same ids as everybody else, and hears its own words only.
fn talk(mut guest: Guest, name: &str) {
    for round in 1..=ROUNDS {
        let text = format!("{name} {round}");
        let server = if round % 2 == 0 { "shared" } else { "private" };
        if round % 20 == 0 {
            let params = json!({
                "name": format!("{server}__notify"),
                "arguments": { "n": 3 },
                "_meta": { "progressToken": round },
            });
            let mut begun = guest.begin("tools/call", params);
            let answer = begun.answer();
            assert!(!is_failure(&answer), "{answer}");
            let progress = |message: &&Value| message["method"] == "notifications/progress";
            let tokens: Vec<_> = begun
                .heard
                .iter()
                .filter(progress)
                .map(|message| &message["params"]["progressToken"])
                .collect();
            assert_eq!(tokens, [round, round, round], "{name}: {:?}", begun.heard);
            continue;
        }
        assert_eq!(guest.call(&format!("{server}__echo"), json!({ "text": text })), text);
    }
}

fn talk_together(house: &House, eras: [Era; 2]) {
    let guests = eras.map(|era| Guest::of(house, era));
    thread::scope(|scope| {
        for (number, guest) in guests.into_iter().enumerate() {
            scope.spawn(move || talk(guest, &format!("client {number}")));
        }
    });
}

#[test]
fn scenario_40_two_clients_with_the_same_ids_hear_their_own_answers_only() {
    let place = Place::new([
        ("shared", chaos("refuse-discover")),
        ("private", chaos("refuse-discover").option("sessions", "private")),
    ]);
    let house = place.start();
    house.wait_for_tools("shared");
    house.wait_for_tools("private");
    for eras in [[Era::Legacy; 2], [Era::Modern; 2], [Era::Legacy, Era::Modern]] {
        talk_together(&house, eras);
    }
    assert_eq!(house.server("shared")["oddities"]["stray"], 0);
    assert_eq!(place.journal("shared").starts(), 1);
}

#[test]
fn scenario_52_calls_of_all_clients_wait_for_a_healthy_server_that_is_away() {
    let place = Place::new([
        ("shared", chaos("refuse-discover").option("patience", "120s")),
        ("private", chaos("refuse-discover").option("patience", "120s").option("sessions", "private")),
    ]);
    let house = place.start();
    for server in ["shared", "private"] {
        house.wait_for_tools(server);
        let mut guests = [Era::Legacy, Era::Modern].map(|era| Guest::of(&house, era));
        let journal = place.journal(server);
        for guest in &mut guests {
            guest.call(&format!("{server}__echo"), json!({ "text": "well" }));
        }
        let from = house.log().len();
        journal.set_control("exit-at-start=1").unwrap();
        let killed = journal.alive();
        killed.iter().for_each(|pid| kill(*pid, Signal::KILL));
        // A call that is written to a dying server may have run.
        wait_until("the deaths are noticed", PATIENCE, || {
            let noticed =
                house.log()[from..].iter().filter(|line| line.contains("killed by SIGKILL")).count();
            noticed >= killed.len()
        });
        let tool = format!("{server}__count");
        let begun: Vec<_> =
            guests.iter_mut().map(|guest| guest.begin_call(&tool, json!({ "key": "a" }))).collect();
        wait_until("several attempts have failed", PATIENCE, || {
            house.log()[from..].iter().filter(|line| line.contains("exited with code 1")).count() >= 4
        });
        journal.set_control("").unwrap();
        for mut call in begun {
            let answer = call.answer();
            assert!(!is_failure(&answer), "{server}: {answer}");
        }
        assert_eq!(journal.runs("count"), 2);
    }
}

#[test]
fn scenario_40_the_same_at_servers_of_the_modern_era() {
    let place = Place::new([
        ("shared", chaos("modern-only")),
        ("private", chaos("modern-only").option("sessions", "private")),
    ]);
    let house = place.start();
    house.wait_for_tools("shared");
    house.wait_for_tools("private");
    for eras in [[Era::Modern; 2], [Era::Legacy, Era::Modern]] {
        talk_together(&house, eras);
    }
    assert_eq!(place.journal("private").starts(), 1, "a server without sessions is shared by all");
}

#[test]
fn scenario_41_the_calls_of_a_client_that_disconnects_are_cancelled_and_nobody_else_notices() {
    for plan in ["refuse-discover", "modern-only"] {
        let place = Place::new([("one", chaos(plan)), ("two", chaos(plan))]);
        let house = place.start();
        house.wait_for_tools("one");
        house.wait_for_tools("two");
        for (lost, era) in (1..).zip(ERAS) {
            let mut stays = Guest::of(&house, era);
            let mut leaves = Guest::of(&house, era);
            let key = format!("{era:?}");
            let kept = stays.begin_call("one__slow", json!({ "ms": 2000, "key": "kept" }));
            let calls = ["one__hang", "two__hang"].map(|tool| leaves.begin_call(tool, json!({ "key": key })));
            for server in ["one", "two"] {
                assert!(place.journal(server).wait(PATIENCE, |journal| journal.runs_with("hang", &key) == 1));
            }
            drop(calls);
            if era == Era::Legacy {
                // A stream that was cut may be resumed: only the end of the session is the client's.
                assert_eq!(leaves.leave(), 200);
            }
            for server in ["one", "two"] {
                // Streams that were opened for the client end, too; only calls are counted.
                let is_cancelled = || {
                    let journal = place.journal(server);
                    let (calls, cancelled) = (journal.request_ids("tools/call"), journal.cancelled());
                    calls.iter().filter(|id| cancelled.contains(id)).count() == lost
                };
                wait_until(
                    &format!("a call of {era:?} is cancelled at {server}, {plan}"),
                    PATIENCE,
                    is_cancelled,
                );
            }
            let mut kept = kept;
            let answer = kept.answer();
            assert_eq!(text(&answer), "slow", "{answer}");
            assert_eq!(stays.call("two__echo", json!({ "text": "on" })), "on");
        }
        assert_eq!(place.journal("one").starts(), 1);
        wait_until("nothing is in flight", PATIENCE, || house.server("one")["inFlight"] == 0);
    }
}

#[test]
fn a_legacy_client_that_never_comes_back_is_forgotten_once_its_calls_have_run_out_of_time() {
    let place = Place::new([("one", chaos("refuse-discover").option("callTimeout", "2s"))])
        .options(&["--session-idle", "1s"]);
    let house = place.start();
    house.wait_for_tools("one");
    let mut guest = Guest::of(&house, Era::Legacy);
    let call = guest.begin_call("hang", json!({}));
    assert!(place.journal("one").wait(PATIENCE, |journal| journal.runs("hang") == 1));
    drop(call);
    wait_until("the call is cancelled", PATIENCE, || place.journal("one").cancelled().len() == 1);
    wait_until("the client is forgotten", PATIENCE, || house.status()["gateway"]["clients"] == 0);
    assert_eq!(guest.leave(), 404, "its session is over");
}

#[test]
fn a_client_that_does_not_read_blocks_only_itself() {
    let place = Place::new([("one", chaos("refuse-discover"))]);
    let house = place.start();
    house.wait_for_tools("one");
    let mut deaf = Guest::of(&house, Era::Legacy);
    let mut hears = Guest::of(&house, Era::Modern);
    let unread: Vec<_> = (0..4).map(|_| deaf.begin_call("huge", json!({ "bytes": "20MB" }))).collect();
    assert!(place.journal("one").wait(PATIENCE, |journal| journal.runs("huge") == 4));
    for _ in 0..5 {
        assert_eq!(hears.call("echo", json!({ "text": "on" })), "on");
    }
    drop(unread);
    assert_eq!(deaf.leave(), 200);
    assert_eq!(place.journal("one").starts(), 1, "no server is blamed");
    house.end();
}

#[test]
fn a_call_that_its_client_cancels_in_words_is_cancelled_and_not_answered() {
    let place = Place::new([("one", chaos("refuse-discover")), ("two", chaos("modern-only"))]);
    let house = place.start();
    let mut guest = Guest::of(&house, Era::Legacy);
    for server in ["one", "two"] {
        house.wait_for_tools(server);
        let mut call = guest.begin_call(&format!("{server}__hang"), json!({}));
        assert!(place.journal(server).wait(PATIENCE, |journal| journal.runs("hang") == 1));
        guest.notify("notifications/cancelled", json!({ "requestId": guest.next_id }));
        assert!(place.journal(server).wait(PATIENCE, |journal| journal.cancelled().len() == 1));
        let head = call.head();
        let said = call.wire.messages(&head);
        assert!(said.iter().all(|message| message.get("result").is_none()), "{said:?}");
    }
    assert_eq!(guest.call("one__echo", json!({ "text": "on" })), "on");
    wait_until("nothing is in flight", Duration::from_secs(10), || house.server("two")["inFlight"] == 0);
}
