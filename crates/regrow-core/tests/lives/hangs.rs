//! Servers that hang during a call, and servers that are only busy, with a hang timeout of 5 s.

use regrow_core::{Delivery, Fault, Policy};

use crate::world::owner::Fate;
use crate::world::{Happening, Ping, World, at, check, exact, secs};

fn hang_timeout() -> Policy {
    Policy { hang_timeout: Some(secs(5.0)), ..exact() }
}

/// A server whose calls take 8 s. The first of them is made at 0 s, another at 25 s, and the server hangs at 26 s.
fn hangs() -> World {
    World::new(400.0).answers_in(8.0).call(0.0).call(25.0).then(26.0, Happening::Hangs)
}

fn silent(after: f64) -> Fate {
    Fate::Failed(Delivery::Unknown, Fault::Silent { after: secs(after) })
}

#[test]
fn a_hung_server_that_answered_a_probe_during_an_earlier_call_is_replaced() {
    let life = check(
        &hang_timeout(),
        hangs().until(40.0),
        "
        0.0s idle -> connecting
        1.0s connecting -> ready
        9.0s call 1: answered
        35.0s ready -> closing: the server did not respond for 26 s
        35.0s call 2: failed, unknown: the server did not respond for 26 s
        35.0s closing -> connecting
        36.0s connecting -> ready
        ",
    );
    assert_eq!(life.probes, [at(6.0), at(30.0)], "beside each call, after 5 s of silence");
}

#[test]
fn a_server_that_never_answered_a_probe_during_a_call_is_left_alone() {
    let life = hangs().one_at_a_time().live(&hang_timeout());
    assert_eq!(life.fate(1), (9.0, &Fate::Answered));
    assert_eq!(life.fate(2), (325.0, &Fate::TimedOut(Delivery::Unknown)));
    assert_eq!(life.probes[..2], [at(6.0), at(30.0)]);
    assert!(life.probes[2] >= at(325.0), "it is asked once: {:?}", life.probes);
    let refuses = hangs().pings(Ping::Refuses).live(&hang_timeout());
    assert_eq!(refuses.fate(2), (325.0, &Fate::TimedOut(Delivery::Unknown)), "nor one that refuses probes");
}

#[test]
fn a_busy_server_is_never_taken_for_hung() {
    for world in [World::new(200.0), World::new(200.0).one_at_a_time()] {
        let life = world.answers_in(90.0).call(0.0).call(5.0).call(100.0).live(&hang_timeout());
        assert_eq!((life.answered(), life.charges()), (3, 0), "{}", life.log);
    }
}

#[test]
fn what_a_server_proved_in_an_earlier_session_counts() {
    let world = World::new(100.0).answers_in(8.0).call(0.0).kill(15.0);
    let life = world.call(25.0).then(26.0, Happening::Hangs).live(&hang_timeout());
    assert_eq!(life.fate(2), (35.0, &silent(19.0)), "{}", life.log);
}

#[test]
fn without_a_hang_timeout_nothing_is_asked_beside_a_call() {
    let life = hangs().live(&exact());
    assert_eq!(life.fate(2), (325.0, &Fate::TimedOut(Delivery::Unknown)));
    assert!(life.probes.iter().all(|&probe| probe >= at(325.0)), "{:?}", life.probes);
}

#[test]
fn a_call_that_its_client_gives_up_does_not_make_the_server_hung() {
    let life = hangs().then(31.0, Happening::Cancel(2)).until(60.0).live(&hang_timeout());
    assert_eq!(life.charges(), 1, "but it stays silent, and that was asked: {}", life.log);
    let lives = World::new(60.0).answers_in(8.0).call(0.0).call(25.0).then(31.0, Happening::Cancel(2));
    assert_eq!(lives.live(&hang_timeout()).charges(), 0);
}

#[test]
fn over_http_a_hung_server_is_replaced_too() {
    let policy = Policy { probe_while_busy: true, ..hang_timeout() };
    let life = hangs().over_http().until(60.0).live(&policy);
    assert_eq!(*life.fate(2).1, silent(26.0), "{}", life.log);
    assert!(life.fate(2).0 <= 36.0, "{}", life.log);
}
