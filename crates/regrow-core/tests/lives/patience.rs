//! Calls that wait through failing attempts because the server was healthy shortly before.

use regrow_core::{Delivery, Fault, Nature, Policy};

use crate::world::owner::Fate;
use crate::world::{Happening, World, at, check, exact, exited, secs};

/// A server that was healthy, dies at 9 s, and cannot start again before `until`.
fn down_until(until: f64) -> World {
    World::new(60.0).start(0.0).starts_in(0.1).call(1.0).kill(9.0).broken_from(9.0, until, exited(1), 0.1)
}

fn not_sent(fault: Fault) -> Fate {
    Fate::Failed(Delivery::NotSent, fault)
}

#[test]
fn a_call_made_while_a_healthy_server_is_down_for_3_s_is_answered() {
    for made in [9.0, 9.5, 10.3, 11.9] {
        let life = down_until(12.0).call(made).live(&exact());
        let (ended, fate) = life.fate(2);
        assert_eq!(*fate, Fate::Answered, "made at {made} s:\n{}", life.log);
        assert!(ended <= 13.3, "made at {made} s:\n{}", life.log);
        assert_eq!(life.sends[&2], 1);
    }
}

#[test]
fn attempts_for_a_patient_call_follow_the_pauses_and_then_come_once_a_second() {
    let world = down_until(14.0).call(9.0);
    check(
        &exact(),
        world,
        "
        0.0s idle -> connecting
        0.1s connecting -> ready
        1.1s call 1: answered
        9.0s ready -> closing: killed by SIGKILL
        9.0s closing -> connecting
        9.1s connecting -> closing: exited with code 1
        9.1s closing -> backoff: 0.25s
        9.35s backoff -> connecting
        9.45s connecting -> closing: exited with code 1
        9.45s closing -> backoff: 0.5s
        9.95s backoff -> connecting
        10.05s connecting -> closing: exited with code 1
        10.05s closing -> backoff: 0.9s
        10.95s backoff -> connecting
        11.05s connecting -> closing: exited with code 1
        11.05s closing -> backoff: 0.9s
        11.95s backoff -> connecting
        12.05s connecting -> closing: exited with code 1
        12.05s closing -> parked: exited with code 1
        12.95s parked -> connecting
        13.05s connecting -> closing: exited with code 1
        13.05s closing -> parked: exited with code 1
        13.95s parked -> connecting
        14.05s connecting -> closing: exited with code 1
        14.05s closing -> parked: exited with code 1
        14.95s parked -> connecting
        15.05s connecting -> ready
        15.15s call 2: answered
        ",
    );
}

#[test]
fn a_call_to_a_server_that_stays_down_fails_when_its_patience_is_over() {
    let life = down_until(60.0).call(10.0).live(&exact());
    let (ended, fate) = life.fate(2);
    assert_eq!(*fate, not_sent(exited(1)));
    assert!((20.0..=21.2).contains(&ended), "ended at {ended} s:\n{}", life.log);
    assert_eq!(life.attempts[&2], life.failed_between(10.0, ended), "all that failed meanwhile are counted");
}

#[test]
fn patience_can_be_changed_and_turned_off() {
    let ended = |patience| {
        let policy = Policy { patience, ..exact() };
        let life = down_until(60.0).call(9.2).live(&policy);
        let (ended, fate) = life.fate(2);
        assert_eq!(*fate, not_sent(exited(1)));
        ended
    };
    assert_eq!(ended(None), 9.45, "with the first attempt that fails");
    assert_eq!(ended(Some(secs(0.0))), 9.45);
    assert!((12.2..=13.4).contains(&ended(Some(secs(3.0)))));
}

#[test]
fn patience_does_not_outlast_the_deadline_of_the_call() {
    let life = down_until(60.0).call_within(9.5, 2.0).live(&exact());
    assert_eq!(life.fate(2), (11.5, &Fate::TimedOut(Delivery::NotSent)));
}

#[test]
fn an_attempt_under_way_when_patience_ends_is_still_awaited() {
    // It starts at 9.0 s and fails at 10.5 s; the next one takes a second and succeeds.
    let world =
        World::new(60.0).start(0.0).call(1.5).kill(9.0).broken_from(9.0, 10.4, exited(1), 1.5).call(9.0);
    let life = world.live(&Policy { patience: Some(secs(2.0)), ..exact() });
    assert_eq!(*life.fate(2).1, Fate::Answered, "{}", life.log);
}

#[test]
fn a_server_that_was_never_healthy_or_not_within_the_last_minute_gets_no_patience() {
    let never = World::new(60.0).broken_until(60.0, exited(1), 0.1).call(0.0).live(&exact());
    assert_eq!(never.fate(1), (0.1, &not_sent(exited(1))));
    let world = World::new(200.0).start(0.0).call(1.5).then(9.0, Happening::Rest);
    let rested = |call: f64| world.clone().broken_from(9.0, 200.0, exited(1), 0.1).call(call).live(&exact());
    assert_eq!(rested(70.0).fate(2), (70.1, &not_sent(exited(1))));
    assert!(rested(60.0).fate(2).0 >= 69.0, "the last session ended within the last minute");
}

#[test]
fn a_permanent_fault_ends_all_patience() {
    let missing = Fault::NotFound { program: "server".into() };
    let world = World::new(60.0).start(0.0).call(1.5).kill(9.0).broken_from(9.0, 60.0, missing.clone(), 0.0);
    assert_eq!(world.call(9.0).live(&exact()).fate(2), (9.0, &not_sent(missing)));
}

#[test]
fn calls_to_a_parked_server_fail_fast_though_earlier_ones_are_patient() {
    let life = down_until(60.0).call(9.0).call(13.5).live(&exact());
    assert_eq!(life.parked().first(), Some(&at(12.05)));
    assert_eq!(life.fate(3), (14.05, &not_sent(exited(1))));
    assert!(life.fate(2).0 >= 19.0);
}

#[test]
fn a_call_that_may_have_run_has_no_patience() {
    let read = Happening::Call(Nature::Read, Some(secs(300.0)));
    let broken = World::new(60.0).start(0.0).answers_in(2.0).broken_from(5.0, 8.0, exited(1), 0.1);
    let life = broken.then(4.0, read).kill(5.0).live(&exact());
    assert_eq!(life.fate(1), (5.1, &Fate::Failed(Delivery::Unknown, exited(1))));
}

#[test]
fn a_call_over_http_outlasts_a_closed_port() {
    let refused = Fault::Unreachable { address: "127.0.0.1:1".into(), reason: "refused".into() };
    let world = World::new(60.0).over_http().start(0.0).call(1.5).down(9.0, 12.0, refused);
    for made in [9.0, 9.7, 11.0] {
        let life = world.clone().call(made).live(&exact());
        let (ended, fate) = life.fate(2);
        assert_eq!(*fate, Fate::Answered, "made at {made} s:\n{}", life.log);
        assert!(ended <= 14.3, "made at {made} s:\n{}", life.log);
    }
}

#[test]
fn every_attempt_that_a_patient_call_waits_through_is_charged() {
    let life = down_until(12.0).call(9.5).live(&exact());
    assert_eq!(life.charges() as u32, life.failed_between(9.0, 60.0));
    assert_eq!(life.charges(), life.starts.len() - 1, "all but the last, and the session that died");
}
