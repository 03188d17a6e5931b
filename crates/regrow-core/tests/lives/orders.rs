//! Lives with an operator: who lets a connection rest, parks it, wakes it, and resets its budget.

use super::{count, gaps};
use crate::world::owner::{Fate, Owner};
use crate::world::{Happening, World, at, check, exact, exited, killed, secs};
use regrow_core::{Delivery, Event, Fault, Manner, Nature, Notice, Requester};

fn parked() -> Fate {
    Fate::Failed(Delivery::NotSent, Fault::Parked)
}

// Rest.

#[test]
fn a_connection_that_rests_starts_again_with_the_next_call_and_nothing_is_charged() {
    let world = World::new(5000.0).call(0.0).gone_in(0.5).then(600.0, Happening::Rest).call(4000.0);
    let life = check(
        &exact(),
        world,
        "
        0.0s idle -> connecting
        1.0s connecting -> ready
        1.1s call 1: answered
        600.0s ready -> closing: planned
        600.5s closing -> idle: resting
        4000.0s idle -> connecting
        4001.0s connecting -> ready
        4001.1s call 2: answered
        ",
    );
    assert_eq!((life.charges(), life.budget_left), (0, 5));
    let asleep = at(600.0)..at(4000.0);
    assert!(!life.probes.iter().any(|probe| asleep.contains(probe)), "nobody asks what does not run");
}

#[test]
fn a_call_that_comes_while_the_session_ends_waits_for_the_next_one() {
    let world = World::new(20.0).call(0.0).gone_in(0.5).then(10.0, Happening::Rest).call(10.2);
    check(
        &exact(),
        world,
        "
        0.0s idle -> connecting
        1.0s connecting -> ready
        1.1s call 1: answered
        10.0s ready -> closing: planned
        10.5s closing -> idle: resting
        10.5s idle -> connecting
        11.5s connecting -> ready
        11.6s call 2: answered
        ",
    );
}

#[test]
fn a_connection_with_a_call_in_flight_does_not_rest() {
    let world = World::new(20.0).answers_in(5.0).call(0.0).then(3.0, Happening::Rest);
    check(
        &exact(),
        world,
        "
        0.0s idle -> connecting
        1.0s connecting -> ready
        6.0s call 1: answered
        ",
    );
}

#[test]
fn a_connection_with_an_open_stream_does_not_rest_for_its_client_would_be_deaf() {
    let stream = Happening::Call(Nature::Stream, None);
    let world = World::new(2000.0).answers_in(9999.0).start(0.0).then(2.0, stream);
    let life = world.then(900.0, Happening::Rest).live(&exact());
    assert_eq!(life.state, "ready", "{}", life.log);
}

#[test]
fn only_what_is_ready_can_rest() {
    let missing = Fault::NotFound { program: "x".into() };
    let worlds = [
        ("idle", World::new(60.0)),
        ("connecting", World::new(60.0).start(4.5).starts_in(30.0)),
        ("backoff", World::new(60.0).start(0.5).broken_until(99.0, exited(1), 0.9)),
        ("parked", World::new(60.0).start(0.0).broken_until(99.0, missing, 0.0)),
    ];
    for (state, world) in worlds {
        let life = world.then(5.0, Happening::Rest).until(5.0).live(&exact());
        assert_eq!((life.state, count(&life, |n| *n == Notice::Resting)), (state, 0));
    }
}

#[test]
fn whoever_lets_it_rest_as_soon_as_it_is_ready_cannot_break_the_floor_between_attempts() {
    let mut world = World::new(2.0).starts_in(0.001).answers_in(0.0);
    for n in 0..200 {
        world = world.call(f64::from(n) * 0.01).then(f64::from(n) * 0.01 + 0.005, Happening::Rest);
    }
    let life = world.live(&exact());
    assert!(gaps(&life).iter().all(|&gap| gap >= 1.0), "as paced as demand: {:?}", gaps(&life));
    assert_eq!(life.charges(), 0);
}

#[test]
fn a_death_just_before_a_rest_is_charged_and_healed_as_any_other() {
    let mut owner = Owner::new(&exact(), 7);
    owner.event(at(0.0), Event::Start);
    let epoch = owner.epoch();
    owner.event(at(1.0), Event::Connected(epoch));
    owner.event(at(2.0), Event::Rest);
    owner.event(at(2.0), Event::Lost(epoch, killed()));
    owner.event(at(2.1), Event::Gone(epoch, None));
    assert_eq!(owner.lifecycle().state().name(), "connecting");
    assert_eq!(owner.lifecycle().budget_left(at(2.1)), 4);
}

// Park.

#[test]
fn parked_by_an_operator_it_lets_calls_finish_and_fails_new_ones_at_once() {
    let world = World::new(9000.0)
        .start(0.0)
        .answers_in(10.0)
        .call(2.0)
        .then(3.0, Happening::Park)
        .call(4.0)
        .call(5000.0)
        .then(6000.0, Happening::Start)
        .then(6000.0, Happening::Reconnect(Requester::Program))
        .then(6000.0, Happening::Mends);
    let life = check(
        &exact(),
        world,
        "
        0.0s idle -> connecting
        1.0s connecting -> ready
        3.0s ready -> draining
        4.0s call 2: failed, not-sent: the server was parked by an operator
        12.0s call 1: answered
        12.0s draining -> closing: planned
        12.0s closing -> parked: the server was parked by an operator
        5000.0s call 3: failed, not-sent: the server was parked by an operator
        ",
    );
    assert_eq!((life.charges(), life.budget_left), (0, 5));
}

#[test]
fn parking_is_bounded_as_a_drain_is_and_what_still_runs_may_have_run() {
    let world = World::new(99.0).start(0.0).answers_in(300.0).call(2.0).then(3.0, Happening::Park);
    check(
        &exact(),
        world,
        "
        0.0s idle -> connecting
        1.0s connecting -> ready
        3.0s ready -> draining
        33.0s call 1: failed, unknown: the server was parked by an operator
        33.0s draining -> closing: planned
        33.0s closing -> parked: the server was parked by an operator
        ",
    );
}

#[test]
fn every_state_can_be_parked_and_no_call_waits_in_it() {
    let missing = Fault::NotFound { program: "x".into() };
    let worlds = [
        ("idle", World::new(60.0)),
        ("connecting", World::new(60.0).call(4.5).starts_in(30.0)),
        ("ready", World::new(60.0).start(0.0)),
        (
            "draining",
            World::new(60.0)
                .start(0.0)
                .answers_in(9.0)
                .call(2.0)
                .then(4.0, Happening::Reconnect(Requester::Person))
                .call(4.5),
        ),
        (
            "closing",
            World::new(60.0)
                .start(0.0)
                .gone_in(3.0)
                .then(4.0, Happening::Reconnect(Requester::Person))
                .call(4.5),
        ),
        ("backoff", World::new(60.0).start(0.5).broken_until(99.0, exited(1), 0.9)),
        ("parked", World::new(60.0).start(0.0).broken_until(99.0, missing, 0.0)),
    ];
    for (state, world) in worlds {
        assert_eq!(world.clone().until(5.0).live(&exact()).state, state);
        let starts = world.clone().until(5.0).live(&exact()).starts.len();
        let life = world.then(5.0, Happening::Park).call(5.1).call(50.0).live(&exact());
        assert_eq!((life.state, life.starts.len()), ("parked", starts), "{state}:\n{}", life.log);
        let last = *life.fates.keys().last().expect("the last call has ended");
        assert_eq!(life.fate(last), (50.0, &parked()), "{state}");
        assert!((1..=last).all(|call| life.fates.contains_key(&call)), "{state}: a call is pending");
    }
}

#[test]
fn a_clients_first_handshake_fails_at_once_but_a_stream_waits_for_the_wake() {
    let world = World::new(100.0)
        .answers_in(1000.0)
        .then(0.0, Happening::Park)
        .then(1.0, Happening::Call(Nature::Greeting, Some(secs(60.0))))
        .then(2.0, Happening::Call(Nature::Stream, None))
        .then(50.0, Happening::Wake);
    let life = world.live(&exact());
    assert_eq!(life.fate(1), (1.0, &parked()));
    assert!(!life.fates.contains_key(&2), "{}", life.log);
    assert_eq!(life.sends[&2], 1, "it is open again");
}

#[test]
fn a_call_that_pauses_because_the_server_asked_for_it_is_told_when_that_is_parked() {
    let later = || Happening::Cuts(Fault::Deferred { code: 429, after: secs(30.0) });
    let world = || World::new(99.0).over_http().answers_in(9.0).start(0.0).call(2.0);
    check(
        &exact(),
        world().then(3.0, later()).then(4.0, Happening::Park),
        "
        0.0s idle -> connecting
        1.0s connecting -> ready
        4.0s call 1: failed, not-sent: the server was parked by an operator
        4.0s ready -> draining
        4.0s draining -> closing: planned
        4.0s closing -> parked: the server was parked by an operator
        ",
    );
    check(
        &exact(),
        world().then(3.0, Happening::Park).then(4.0, later()),
        "
        0.0s idle -> connecting
        1.0s connecting -> ready
        3.0s ready -> draining
        4.0s draining -> closing: planned
        4.0s call 1: failed, not-sent: the server was parked by an operator
        4.0s closing -> parked: the server was parked by an operator
        ",
    );
}

#[test]
fn a_server_that_dies_while_it_is_being_parked_is_charged_and_stays_parked() {
    let world = World::new(500.0).start(0.0).answers_in(9.0).call(2.0).then(3.0, Happening::Park).kill(4.0);
    let life = check(
        &exact(),
        world,
        "
        0.0s idle -> connecting
        1.0s connecting -> ready
        3.0s ready -> draining
        4.0s call 1: failed, unknown: killed by SIGKILL
        4.0s draining -> closing: killed by SIGKILL
        4.0s closing -> parked: the server was parked by an operator
        ",
    );
    assert_eq!(life.charges(), 1);
}

#[test]
fn a_connection_that_ends_is_neither_parked_nor_woken_instead() {
    for order in [Happening::Park, Happening::Wake] {
        for end in [Happening::Drain, Happening::Close(Manner::Planned)] {
            let world = World::new(60.0).start(0.0).answers_in(5.0).gone_in(1.0).call(2.0);
            let life = world.then(3.0, end).then(3.5, order.clone()).live(&exact());
            assert_eq!(
                (life.state, life.starts.len(), life.parked().len()),
                ("closed", 1, 0),
                "{}",
                life.log
            );
        }
    }
}

// Wake.

#[test]
fn what_an_operator_parked_wakes_at_their_word() {
    let world = World::new(300.0)
        .start(0.0)
        .then(10.0, Happening::Park)
        .then(100.0, Happening::Wake)
        .call(100.5)
        .then(200.0, Happening::Park)
        .then(250.0, Happening::Reconnect(Requester::Person));
    check(
        &exact(),
        world,
        "
        0.0s idle -> connecting
        1.0s connecting -> ready
        10.0s ready -> draining
        10.0s draining -> closing: planned
        10.0s closing -> parked: the server was parked by an operator
        100.0s parked -> connecting
        101.0s connecting -> ready
        101.1s call 1: answered
        200.0s ready -> draining
        200.0s draining -> closing: planned
        200.0s closing -> parked: the server was parked by an operator
        250.0s parked -> connecting
        251.0s connecting -> ready
        ",
    );
}

#[test]
fn a_wake_is_one_attempt_and_where_one_runs_or_has_succeeded_none() {
    let wake = || Happening::Wake;
    let world = World::new(60.0).then(0.0, wake()).then(0.5, wake()).then(2.0, wake());
    check(&exact(), world, "0.0s idle -> connecting \n 1.0s connecting -> ready");

    let broken = World::new(4000.0).start(0.0).broken_until(9999.0, exited(1), 0.0);
    let life = broken.clone().then(10.0, wake()).then(10.005, wake()).live(&exact());
    let near: Vec<f64> = life.starts.iter().map(|t| t.as_millis() as f64 / 1000.0).collect();
    let woken: Vec<f64> = near.into_iter().filter(|t| (10.0..20.0).contains(t)).collect();
    assert_eq!(woken, [10.0, 10.02], "each is one attempt, with the floor between them");
}

#[test]
fn a_wake_while_it_is_being_parked_wins_and_the_calls_that_run_may_still_finish() {
    for wake in [Happening::Wake, Happening::Reconnect(Requester::Person)] {
        let world = World::new(60.0)
            .start(0.0)
            .answers_in(6.0)
            .call(2.0)
            .then(3.0, Happening::Park)
            .then(4.0, wake)
            .call(5.0);
        check(
            &exact(),
            world,
            "
            0.0s idle -> connecting
            1.0s connecting -> ready
            3.0s ready -> draining
            8.0s call 1: answered
            8.0s draining -> closing: planned
            8.0s closing -> connecting
            9.0s connecting -> ready
            15.0s call 2: answered
            ",
        );
    }
}

#[test]
fn a_wake_while_the_last_of_a_parked_session_ends_wins_too() {
    let world =
        World::new(60.0).start(0.0).gone_in(3.0).then(4.0, Happening::Park).then(5.0, Happening::Wake);
    check(
        &exact(),
        world,
        "
        0.0s idle -> connecting
        1.0s connecting -> ready
        4.0s ready -> draining
        4.0s draining -> closing: planned
        7.0s closing -> connecting
        8.0s connecting -> ready
        ",
    );
}

#[test]
fn calls_that_wait_are_news_only_where_something_follows_from_them() {
    let mut owner = Owner::new(&exact(), 7);
    let heeds = |owner: &Owner| owner.lifecycle().heeds_demand();
    assert!(heeds(&owner));
    owner.event(at(0.0), Event::Start);
    assert!(!heeds(&owner), "an attempt is under way");
    let epoch = owner.epoch();
    owner.event(at(1.0), Event::Connected(epoch));
    assert!(!heeds(&owner), "they are sent");
    owner.event(at(2.0), Event::Park);
    assert!(heeds(&owner), "they fail");
}

#[test]
fn a_wake_of_a_server_that_still_fails_parks_it_by_its_faults_again() {
    let world = World::new(900.0)
        .start(0.0)
        .broken_until(9999.0, exited(1), 0.0)
        .then(100.0, Happening::Park)
        .then(500.0, Happening::Wake);
    let life = world.live(&exact());
    let why: Vec<Fault> = life
        .notices
        .iter()
        .filter_map(|(time, notice)| match notice {
            Notice::Parked(fault) if *time >= at(100.0) => Some(fault.clone()),
            _ => None,
        })
        .collect();
    assert_eq!(why[..2], [Fault::Parked, exited(1)]);
    assert!(life.starts.iter().filter(|&&t| t > at(500.0)).count() > 1, "slow probes go on");
}

// The budget.

#[test]
fn a_reset_budget_is_whole_and_pauses_start_over() {
    let world = World::new(30.0).start(0.0).starts_in(0.1).kill(1.0).kill(2.0).kill(3.0);
    let life = world.then(4.0, Happening::ResetBudget).kill(5.0).kill(6.0).live(&exact());
    assert_eq!(life.budget_left, 3, "only what came after is charged");
    let pauses: Vec<f64> = life.starts[4..].iter().map(|t| (t.as_millis() % 1000) as f64 / 1000.0).collect();
    assert_eq!(pauses, [0.0, 0.25], "{}", life.log);
}

#[test]
fn what_is_parked_for_its_budget_is_tried_at_once_when_that_is_reset_and_at_pace_again() {
    let world = World::new(900.0).start(0.0).broken_until(105.0, exited(1), 0.0);
    let life = world.then(100.0, Happening::ResetBudget).live(&exact());
    let after: Vec<f64> =
        life.starts.iter().map(|t| t.as_millis() as f64 / 1000.0).filter(|&t| t >= 100.0).collect();
    assert_eq!(after[..4], [100.0, 100.02, 100.27, 100.77], "{}", life.log);
    assert_eq!(life.state, "ready");
}

#[test]
fn a_reset_budget_wakes_neither_what_an_operator_parked_nor_what_trying_cannot_mend() {
    let missing = Fault::NotFound { program: "x".into() };
    let by_order = World::new(900.0).then(0.0, Happening::Park);
    let for_good = World::new(900.0).start(0.0).broken_until(9999.0, missing, 0.0);
    for (world, starts) in [(by_order, 0), (for_good, 1)] {
        let life = world.then(100.0, Happening::ResetBudget).live(&exact());
        assert_eq!((life.state, life.starts.len()), ("parked", starts), "{}", life.log);
    }
}
