//! Lives of a connection in simulated time, told as logs: what the real lifecycle and ledger do in a scripted world.

#[path = "lives/exchanges.rs"]
mod exchanges;
#[path = "lives/hangs.rs"]
mod hangs;
#[path = "lives/orders.rs"]
mod orders;
#[path = "lives/patience.rs"]
mod patience;
mod world;

use regrow_core::{Delivery, Event, Fault, Manner, Nature, Notice, Policy, Requester, Step, Time};
use std::time::Duration;
use world::owner::{Fate, Owner, Told};
use world::{Happening, Life, Ping, World, at, check, exact, exited, killed, secs};

/// The pauses between starts.
fn gaps(life: &Life) -> Vec<f64> {
    life.starts.windows(2).map(|pair| (pair[1] - pair[0]).as_secs_f64()).collect()
}

fn count(life: &Life, wanted: impl Fn(&Notice) -> bool) -> usize {
    life.notices.iter().filter(|(_, notice)| wanted(notice)).count()
}

// Dying and growing back.

#[test]
fn the_first_death_heals_without_a_pause() {
    let world = World::new(20.0).call(0.0).kill(9.0).call(9.2);
    check(
        &exact(),
        world,
        "
        0.0s idle -> connecting
        1.0s connecting -> ready
        1.1s call 1: answered
        9.0s ready -> closing: killed by SIGKILL
        9.0s closing -> connecting
        10.0s connecting -> ready
        10.1s call 2: answered
        ",
    );
}

#[test]
fn a_call_that_may_have_run_fails_at_once_and_the_connection_heals() {
    let world = World::new(20.0).answers_in(5.0).call(0.0).kill(2.0);
    check(
        &exact(),
        world,
        "
        0.0s idle -> connecting
        1.0s connecting -> ready
        2.0s call 1: failed, unknown: killed by SIGKILL
        2.0s ready -> closing: killed by SIGKILL
        2.0s closing -> connecting
        3.0s connecting -> ready
        ",
    );
}

#[test]
fn a_read_is_sent_again_and_its_caller_sees_only_the_answer() {
    let read = Happening::Call(Nature::Read, Some(secs(300.0)));
    let world = World::new(20.0).answers_in(2.0).then(0.0, read).kill(2.0);
    let life = check(
        &exact(),
        world,
        "
        0.0s idle -> connecting
        1.0s connecting -> ready
        2.0s ready -> closing: killed by SIGKILL
        2.0s closing -> connecting
        3.0s connecting -> ready
        5.0s call 1: answered
        ",
    );
    assert_eq!(life.sends[&1], 2);
}

#[test]
fn a_crash_loop_after_the_handshake_parks_with_growing_pauses() {
    let world = World::new(20.0).start(0.0).starts_in(0.1).dies_after(0.1, exited(1));
    check(
        &exact(),
        world,
        "
        0.0s idle -> connecting
        0.1s connecting -> ready
        0.2s ready -> closing: exited with code 1
        0.2s closing -> connecting
        0.3s connecting -> ready
        0.4s ready -> closing: exited with code 1
        0.4s closing -> backoff: 0.25s
        0.65s backoff -> connecting
        0.75s connecting -> ready
        0.85s ready -> closing: exited with code 1
        0.85s closing -> backoff: 0.5s
        1.35s backoff -> connecting
        1.45s connecting -> ready
        1.55s ready -> closing: exited with code 1
        1.55s closing -> backoff: 1s
        2.55s backoff -> connecting
        2.65s connecting -> ready
        2.75s ready -> closing: exited with code 1
        2.75s closing -> backoff: 2s
        4.75s backoff -> connecting
        4.85s connecting -> ready
        4.95s ready -> closing: exited with code 1
        4.95s closing -> parked: exited with code 1
        ",
    );
}

#[test]
fn a_server_that_drops_every_second_for_an_hour_is_started_at_most_130_times() {
    for seed in 0..20 {
        let world = World::new(3600.0).seed(seed).start(0.0).starts_in(0.1).dies_after(1.0, killed());
        let life = world.live(&Policy::default());
        // Pauses reach their cap of 30 s (24 with jitter), and nothing ever makes them start over.
        assert!(life.starts.len() <= 130, "{} starts", life.starts.len());
        assert!(life.starts.len() >= 12, "slow probes go on: {} starts", life.starts.len());
        assert!(life.readies.len() - life.charges() <= 1, "each death is charged once");
    }
}

#[test]
fn a_hundred_drops_hours_apart_never_park_it() {
    let mut world = World::new(101.0 * 7200.0).start(0.0);
    for n in 1..=100 {
        world = world.call(f64::from(n) * 7200.0 - 3600.0).kill(f64::from(n) * 7200.0);
    }
    let life = world.live(&Policy::default());
    assert_eq!(life.parked(), []);
    assert_eq!(life.charges(), 100);
    assert_eq!(life.answered(), 100);
    assert_eq!(life.readies.len(), 101);
    let healed: Vec<Duration> =
        life.starts[1..].iter().map(|s| Duration::from_millis(s.as_millis() % 7_200_000)).collect();
    assert!(
        healed.iter().all(Duration::is_zero),
        "each heals without a pause, for each session had proven healthy"
    );
}

#[test]
fn a_ready_server_that_never_answered_a_call_has_not_proven_healthy() {
    let mut world = World::new(4000.0).start(0.0).starts_in(0.1);
    for n in 1..=5 {
        world = world.kill(f64::from(n) * 600.0);
    }
    let life = world.live(&exact());
    let pauses: Vec<f64> =
        (1..=5).map(|n| life.starts[n].as_millis() as f64 / 1000.0 - n as f64 * 600.0).collect();
    assert_eq!(pauses, [0.0, 0.25, 0.5, 1.0, 2.0]);
}

// Ends that cost nothing.

#[test]
fn exit_0_after_every_two_calls_twenty_times_costs_nothing_and_loses_no_call() {
    let mut world = World::new(100.0).start(0.0).retires_after(2);
    for n in 0..40 {
        world = world.call(1.0 + f64::from(n) * 2.0);
    }
    let life = world.live(&Policy::default());
    assert_eq!((life.answered(), life.charges()), (40, 0));
    assert_eq!(count(&life, |n| matches!(n, Notice::Retired(..))), 20);
    assert_eq!(life.budget_left, 5);
}

#[test]
fn twenty_planned_reconnects_with_noisy_teardown_cost_nothing() {
    for requester in [Requester::Person, Requester::Program] {
        let mut world = World::new(100.0).start(0.0).gone_in(0.5);
        for n in 0..20 {
            let t = 1.0 + f64::from(n) * 4.0;
            world = world
                .call(t)
                .then(t + 1.0, Happening::Reconnect(requester))
                .then(t + 1.2, Happening::Dies(Fault::Killed { signal: 11 }));
        }
        let life = world.live(&Policy::default());
        assert_eq!((life.answered(), life.charges(), life.starts.len()), (20, 0, 21), "{requester:?}");
        assert_eq!(life.budget_left, 5);
        assert_eq!(count(&life, |notice| matches!(notice, Notice::Untidy(..))), 20, "but it is said");
    }
}

#[test]
fn one_real_fault_among_the_noise_is_charged_once() {
    let mut world = World::new(100.0).start(0.0).gone_in(0.5).kill(42.5);
    for n in 0..20 {
        let t = 1.0 + f64::from(n) * 4.0;
        world = world
            .call(t)
            .then(t + 1.0, Happening::Reconnect(Requester::Program))
            .then(t + 1.2, Happening::Dies(Fault::Broken { reason: "pipe".into() }));
    }
    let life = world.live(&Policy::default());
    assert_eq!((life.answered(), life.charges(), life.starts.len()), (20, 1, 22));
}

#[test]
fn a_program_that_reconnects_without_an_answer_between_is_charged_and_in_the_end_parked() {
    let mut world = World::new(100.0).start(0.0).starts_in(0.1);
    for n in 1..=80 {
        world = world.then(f64::from(n), Happening::Reconnect(Requester::Program));
    }
    let life = world.live(&Policy::default());
    let first: Vec<Time> =
        life.notices.iter().filter(|(_, n)| matches!(n, Notice::Fault(..))).map(|&(t, _)| t).collect();
    assert_eq!(first.first(), Some(&at(4.0)), "the first three are free");
    assert!(!life.parked().is_empty(), "{}", life.log);
}

#[test]
fn an_answer_makes_reconnects_free_again() {
    let mut world = World::new(20.0).start(0.0).starts_in(0.1).call(3.5);
    for n in 1..=8 {
        world = world.then(f64::from(n), Happening::Reconnect(Requester::Program));
    }
    let life = world.live(&exact());
    let charged: Vec<Time> =
        life.notices.iter().filter(|(_, n)| matches!(n, Notice::Fault(..))).map(|&(t, _)| t).collect();
    assert_eq!(charged, [at(8.0)], "three before the answer, the one after it, and three more are free");
}

#[test]
fn a_program_can_hurry_a_broken_server_no_more_than_calls_can() {
    let mut world = World::new(20.0).start(0.0).starts_in(0.1).broken_until(99.0, exited(1), 0.0);
    for n in 1..=200 {
        world = world.then(f64::from(n) * 0.05, Happening::Reconnect(Requester::Program));
    }
    let life = world.live(&exact());
    assert!(life.starts.len() <= 14, "one a second for ten seconds: {}", life.starts.len());
    assert!(count(&life, |n| matches!(n, Notice::Backoff(_))) <= 20, "each pause is told once");
    assert_eq!(life.state, "parked");
}

#[test]
fn a_reconnect_that_counts_as_a_fault_is_charged_once_even_if_the_server_dies_in_the_drain() {
    let mut world = World::new(30.0).start(0.0).starts_in(0.1).answers_in(9.0);
    for n in 1..=4 {
        world = world.then(f64::from(n), Happening::Reconnect(Requester::Program));
    }
    let life = world.call(3.5).kill(5.0).live(&exact());
    assert_eq!((life.charges(), life.budget_left), (1, 4), "{}", life.log);
}

#[test]
fn a_reconnect_that_counts_as_a_fault_parks_even_if_the_server_then_ends_in_good_order() {
    let mut policy = Policy { free_reconnects: 0, ..exact() };
    policy.budget.charges = 0;
    let mut owner = Owner::new(&policy, 7);
    owner.event(at(0.0), Event::Start);
    let epoch = owner.epoch();
    owner.event(at(1.0), Event::Connected(epoch));
    let caller = owner.call(at(2.0), Duration::ZERO, Nature::Effect, None, 1);
    let id = owner.supervisor.ledger.find(|&c| c == caller).expect("it is pending");
    owner.supervisor.ledger.sent(id, 0);
    owner.reconnect(at(3.0), Requester::Program);
    owner.supervisor.ledger.answer(epoch, id, true); // Its owner does not know yet.
    owner.event(at(4.0), Event::Lost(epoch, exited(0)));
    owner.event(at(4.0), Event::Gone(epoch, None));
    assert_eq!(owner.lifecycle().state().name(), "parked");
}

#[test]
fn a_person_may_reconnect_as_often_as_they_like() {
    let mut world = World::new(200.0).start(0.0).starts_in(0.1);
    for n in 1..=80 {
        world = world.then(f64::from(n), Happening::Reconnect(Requester::Person));
    }
    let life = world.live(&Policy::default());
    assert_eq!((life.charges(), life.starts.len()), (0, 81));
}

#[test]
fn health_before_a_planned_reconnect_is_proven_too() {
    let world = World::new(1000.0)
        .call(0.0)
        .kill(5.0)
        .kill(7.0)
        .call(10.0)
        .then(500.0, Happening::Reconnect(Requester::Person))
        .kill(510.0);
    let life = world.live(&exact());
    assert_eq!(life.starts.last(), Some(&at(510.0)), "no pause: {}", life.log);
}

#[test]
fn two_causes_of_one_end_are_one_fault_if_either_is() {
    let mut owner = Owner::new(&exact(), 7);
    owner.event(at(0.0), Event::Start);
    let epoch = owner.epoch();
    owner.event(at(1.0), Event::Connected(epoch));
    let caller = owner.call(at(2.0), Duration::ZERO, Nature::Effect, None, 1);
    let id = owner.supervisor.ledger.find(|&c| c == caller).expect("it is pending");
    owner.answer(at(2.5), epoch, id, true);
    owner.event(at(9.0), Event::Lost(epoch, exited(0)));
    assert_eq!(owner.lifecycle().budget_left(at(9.0)), 5);
    let broken = Fault::Broken { reason: "pipe".into() };
    owner.event(at(9.0), Event::Lost(epoch, broken.clone()));
    owner.event(at(9.0), Event::Lost(epoch, killed()));
    assert_eq!(owner.lifecycle().budget_left(at(9.0)), 4);
    assert!(owner.told.contains(&Told::Notice(Notice::Late(epoch, broken))));
}

// Demand.

#[test]
fn demand_keeps_a_dying_server_alive() {
    let mut world = World::new(60.0).starts_in(0.1).start(0.0);
    for n in 0..20 {
        let t = 1.0 + f64::from(n) * 1.5;
        world = world.kill(t).call(t + 0.5);
    }
    let life = world.live(&Policy::default());
    assert_eq!(life.answered(), 20, "{}", life.log);
}

#[test]
fn a_server_that_cannot_start_for_8_s_is_back_within_2_s_after_it_can_if_calls_come_in() {
    for seed in 0..20 {
        let mut world =
            World::new(30.0).seed(seed).start(0.0).starts_in(0.1).broken_until(8.0, exited(1), 0.1);
        for n in 1..60 {
            world = world.call(f64::from(n) * 0.3);
        }
        let life = world.live(&Policy::default());
        assert!(life.readies[0] <= at(10.0), "{}", life.log);
        assert!(life.starts.len() <= 16, "at most one demanded attempt per second: {}", life.starts.len());
    }
}

#[test]
fn whoever_asks_when_the_next_attempt_may_start_starts_it() {
    for who in ["a call", "a program"] {
        let ask = |owner: &mut Owner, now| match who {
            "a call" => _ = owner.call(now, Duration::ZERO, Nature::Effect, None, 1),
            _ => owner.reconnect(now, Requester::Program),
        };
        for (state, charges, attempts) in [("backoff", 5, &[0.0, 0.02][..]), ("parked", 0, &[0.0])] {
            let mut policy = exact();
            policy.budget.charges = charges;
            policy.backoff.first = secs(60.0);
            let mut owner = Owner::new(&policy, 7);
            owner.event(at(0.0), Event::Start);
            for &attempt in attempts {
                owner.tick(at(attempt));
                let epoch = owner.epoch();
                owner.event(at(attempt), Event::Lost(epoch, exited(1)));
                owner.event(at(attempt), Event::Gone(epoch, None));
            }
            let floor = attempts[attempts.len() - 1] + 1.0;
            ask(&mut owner, at(floor - 0.001));
            assert_ne!(owner.lifecycle().state().name(), "connecting", "{who} comes too soon: {state}");
            ask(&mut owner, at(floor));
            assert_eq!(owner.lifecycle().state().name(), "connecting", "{who}: {state}");
        }
    }
}

#[test]
fn a_permanent_fault_is_tried_once_and_then_once_in_ten_seconds_of_demand() {
    let missing = Fault::NotFound { program: "mcp-github".into() };
    let mut world = World::new(35.0).broken_until(99.0, missing.clone(), 0.0);
    for n in 0..=30 {
        world = world.call(f64::from(n));
    }
    let life = world.live(&Policy::default());
    assert_eq!(life.starts, [at(0.0), at(10.0), at(20.0), at(30.0)]);
    for call in 1..=31 {
        let made = (call - 1) as f64;
        assert_eq!(life.fate(call), (made, &Fate::Failed(Delivery::NotSent, missing.clone())));
    }
}

#[test]
fn a_reconnect_starts_what_is_idle_and_a_persons_starts_an_attempt_over() {
    let reconnect = Happening::Reconnect;
    let world = World::new(60.0)
        .starts_in(30.0)
        .then(1.0, reconnect(Requester::Program))
        .then(5.0, reconnect(Requester::Program))
        .then(9.0, reconnect(Requester::Person));
    check(
        &exact(),
        world,
        "
        1.0s idle -> connecting
        9.0s connecting -> closing: planned
        9.0s closing -> connecting
        39.0s connecting -> ready
        ",
    );
}

#[test]
fn a_permanent_fault_without_demand_is_tried_once_and_mended_by_a_person() {
    let missing = Fault::NotFound { program: "mcp-github".into() };
    let world = World::new(100_000.0)
        .start(0.0)
        .broken_until(50_000.0, missing, 0.0)
        .then(60_000.0, Happening::Reconnect(Requester::Person));
    check(
        &exact(),
        world,
        "
        0.0s idle -> connecting
        0.0s connecting -> closing: the program \"mcp-github\" was not found
        0.0s closing -> parked: the program \"mcp-github\" was not found
        60000.0s parked -> connecting
        60001.0s connecting -> ready
        ",
    );
}

#[test]
fn what_a_person_mends_while_the_failed_attempt_still_ends_is_tried_at_once() {
    let missing = Fault::NotFound { program: "mcp-github".into() };
    let mut owner = Owner::new(&exact(), 7);
    owner.event(at(0.0), Event::Start);
    let epoch = owner.epoch();
    owner.event(at(0.1), Event::Lost(epoch, missing));
    owner.reconnect(at(0.15), Requester::Person);
    owner.event(at(0.2), Event::Gone(epoch, None));
    assert_eq!(owner.lifecycle().state().name(), "connecting");
}

#[test]
fn parked_it_probes_after_30_60_90_seconds_up_to_300_and_never_falls_back_into_its_old_pace() {
    let world = World::new(4000.0).start(0.0).broken_until(9999.0, exited(1), 0.0);
    let life = world.live(&exact());
    let slow: Vec<f64> = gaps(&life)[5..].iter().map(|gap| gap.round()).collect();
    assert_eq!(slow[..12], [30., 60., 90., 120., 150., 180., 210., 240., 270., 300., 300., 300.]);

    for seed in 0..20 {
        let world = World::new(4000.0).seed(seed).start(0.0).broken_until(9999.0, exited(1), 0.0);
        let life = world.live(&Policy::default());
        let slow = gaps(&life);
        for (n, gap) in slow[5..].iter().enumerate() {
            let exact = (30.0 * (n + 1) as f64).min(300.0);
            assert!((0.8 * exact..=1.2 * exact).contains(gap), "probe {n} came after {gap} s");
        }
    }
}

#[test]
fn attempts_that_calls_demanded_do_not_make_the_slow_probes_slower() {
    let mut world = World::new(200.0).start(0.0).broken_until(9999.0, exited(1), 0.1);
    for n in 0..40 {
        world = world.call(10.0 + f64::from(n) * 0.5);
    }
    let life = world.live(&exact());
    let after: Vec<Time> = life.starts.iter().copied().filter(|&t| t > at(31.0)).collect();
    assert!(after[0] <= at(61.5), "the first slow probe comes 30 s after the last call: {:?}", after);
}

#[test]
fn a_slow_probe_that_was_due_anyway_counts_as_one_though_a_call_waits_for_it() {
    let mut policy = Policy { park_probe: exact().demand_floor, ..exact() };
    policy.budget.charges = 0;
    let life = World::new(3.5).start(0.0).broken_until(9999.0, exited(1), 0.0).call(0.5).live(&policy);
    assert_eq!(life.starts, [0.0, 1.0, 3.0].map(at), "{}", life.log);
}

#[test]
fn a_parked_server_that_is_told_to_start_is_tried_but_no_more_often_than_calls_may() {
    let world = World::new(25.0).start(0.0).broken_until(9999.0, exited(1), 0.0);
    let life = world.start(20.0).start(20.5).live(&exact());
    let after: Vec<Time> = life.starts.iter().copied().filter(|&t| t >= at(10.0)).collect();
    assert_eq!(after, [at(20.0), at(21.0)], "{}", life.log);
}

#[test]
fn a_stream_alone_does_not_wake_a_parked_server() {
    let world = World::new(100.0).then(0.0, Happening::Call(Nature::Stream, None)).start(0.0).broken_until(
        9999.0,
        exited(1),
        0.0,
    );
    let life = world.live(&exact());
    let slow: Vec<f64> = gaps(&life)[5..].iter().map(|gap| gap.round()).collect();
    assert_eq!(slow, [30., 60.]);
}

#[test]
fn a_hundred_callers_that_see_one_death_cause_one_reconnect() {
    let mut world = World::new(20.0).start(0.0).answers_in(3.0).kill(2.0);
    for n in 0..100 {
        world = world.call(1.5).call(2.0 + f64::from(n) * 0.005);
    }
    let life = world.live(&Policy::default());
    assert_eq!(life.starts.len(), 2);
    assert_eq!(life.fates.len(), 200);
    assert_eq!(life.answered(), 100);
}

#[test]
fn calls_that_wait_for_an_attempt_fail_with_its_fault() {
    let world = World::new(0.5).starts_in(9.0).broken_until(0.1, exited(3), 0.2).call(0.0).call(0.1);
    let life = world.live(&exact());
    for call in [1, 2] {
        assert_eq!(life.fate(call), (0.2, &Fate::Failed(Delivery::NotSent, exited(3))));
    }
}

// Liveness.

#[test]
fn a_hung_server_is_replaced_within_10_s_after_the_deadline_of_a_call() {
    let world = World::new(60.0).start(0.0).then(10.0, Happening::Hangs).call_within(11.0, 20.0).gone_in(0.1);
    check(
        &exact(),
        world,
        "
        0.0s idle -> connecting
        1.0s connecting -> ready
        31.0s call 1: timed out, unknown
        36.0s ready -> closing: the server did not respond for 35 s
        36.1s closing -> connecting
        37.1s connecting -> ready
        ",
    );
}

#[test]
fn a_hung_server_is_found_by_a_probe_when_nobody_calls() {
    let world = World::new(110.0).start(0.0).then(10.0, Happening::Hangs).gone_in(0.1);
    check(
        &exact(),
        world,
        "
        0.0s idle -> connecting
        1.0s connecting -> ready
        71.0s ready -> closing: the server did not respond for 70 s
        71.1s closing -> connecting
        72.1s connecting -> ready
        ",
    );
}

#[test]
fn a_call_that_times_out_during_a_probe_raises_a_doubt_too() {
    // Probed at 61; a short call times out at 64; a long one is in flight.
    let world = World::new(200.0)
        .start(0.0)
        .then(10.0, Happening::Hangs)
        .call_within(62.0, 2.0)
        .call_within(63.0, 100.0);
    let life = world.live(&exact());
    let replaced = life.starts.get(1).copied();
    assert!(replaced.is_some_and(|t| t <= at(64.0 + 5.0 + 61.0)), "spared for 60 s at most: {}", life.log);
}

#[test]
fn a_server_that_answers_a_probe_in_the_same_instant_lives() {
    let life = World::new(1000.0).start(0.0).live(&exact());
    assert_eq!((life.starts.len(), life.state), (1, "ready"), "{}", life.log);
    assert!(life.probes.len() >= 15);
}

#[test]
fn busy_is_not_dead() {
    let world = World::new(290.0).start(0.0).answers_in(280.0).call(2.0);
    let life = world.live(&exact());
    assert_eq!((life.probes.len(), life.charges(), life.answered()), (0, 0, 1));
}

#[test]
fn a_slow_tool_is_no_reason_to_replace_a_server_that_lives() {
    let world = World::new(60.0).start(0.0).answers_in(30.0).call_within(2.0, 5.0).call_within(3.0, 40.0);
    check(
        &exact(),
        world,
        "
        0.0s idle -> connecting
        1.0s connecting -> ready
        7.0s call 1: timed out, unknown
        33.0s call 2: answered
        ",
    );
}

#[test]
fn a_silent_server_is_spared_for_other_calls_but_not_for_more_than_60_s() {
    let world = World::new(200.0)
        .start(0.0)
        .answers_in(10.0)
        .call_within(3.0, 7.0)
        .call_within(4.0, 190.0)
        .then(5.0, Happening::Hangs);
    let life = check(
        &exact(),
        world.clone(),
        "
        0.0s idle -> connecting
        1.0s connecting -> ready
        10.0s call 1: timed out, unknown
        75.0s ready -> closing: the server did not respond for 74 s
        75.0s call 2: failed, unknown: the server did not respond for 74 s
        75.0s closing -> connecting
        76.0s connecting -> ready
        ",
    );
    assert_eq!(life.charges(), 1);
    let shorter = World::new(200.0)
        .start(0.0)
        .then(2.0, Happening::Hangs)
        .call_within(3.0, 7.0)
        .call_within(4.0, 20.0)
        .live(&exact());
    assert!(shorter.starts[1] <= at(24.0 + 0.25), "replaced as soon as the last call has ended");
}

/// A server that reads one call and then hangs, with two more in its input.
fn hangs_after_one_of_three() -> World {
    World::new(40.0)
        .start(0.0)
        .answers_in(5.0)
        .call_within(2.0, 10.0)
        .call_within(3.0, 100.0)
        .then(4.0, Happening::Hangs)
        .call_within(11.5, 100.0)
        .call_within(12.5, 100.0)
}

#[test]
fn calls_that_a_hung_server_never_read_move_to_the_next_session_once_it_is_gone() {
    let mut policy = exact();
    policy.doubt_patience = Duration::ZERO;
    check(
        &policy,
        hangs_after_one_of_three().gone_in(0.1),
        "
        0.0s idle -> connecting
        1.0s connecting -> ready
        12.0s call 1: timed out, unknown
        17.25s ready -> closing: the server did not respond for 16.25 s
        17.35s call 2: failed, unknown: the server did not respond for 16.25 s
        17.35s closing -> connecting
        18.35s connecting -> ready
        23.35s call 3: answered
        23.35s call 4: answered
        ",
    );
}

#[test]
fn calls_on_a_hung_server_that_cannot_be_killed_end_as_unknown_within_200_ms() {
    let mut policy = exact();
    policy.doubt_patience = Duration::ZERO;
    check(
        &policy,
        hangs_after_one_of_three().never_gone(),
        "
        0.0s idle -> connecting
        1.0s connecting -> ready
        12.0s call 1: timed out, unknown
        17.25s ready -> closing: the server did not respond for 16.25 s
        17.45s call 2: failed, unknown: the server did not respond for 16.25 s
        17.45s call 3: failed, unknown: the server did not respond for 16.25 s
        17.45s call 4: failed, unknown: the server did not respond for 16.25 s
        19.35s closing -> connecting: abandoned
        20.35s connecting -> ready
        ",
    );
}

#[test]
fn a_call_on_a_failed_session_still_ends_by_its_deadline() {
    let mut policy = exact();
    policy.doubt_patience = Duration::ZERO;
    let world = World::new(40.0)
        .start(0.0)
        .then(2.0, Happening::Hangs)
        .call_within(3.0, 10.0)
        .call_within(4.0, 14.3)
        .gone_in(0.1);
    let life = world.live(&policy);
    assert_eq!(life.fate(2), (18.3, &Fate::TimedOut(Delivery::Unknown)), "{}", life.log);
    assert_eq!(life.starts.get(1), Some(&at(18.35)), "{}", life.log);
}

#[test]
fn a_session_whose_process_lives_on_settles_when_that_is_gone_and_a_dead_one_at_once() {
    let broken = Fault::Broken { reason: String::new() };
    for fault in [Fault::OutputClosed, Fault::InputClosed, broken, killed(), exited(1)] {
        let mut owner = Owner::new(&exact(), 1);
        owner.event(at(0.0), Event::Start);
        let epoch = owner.epoch();
        owner.event(at(1.0), Event::Connected(epoch));
        let caller = owner.call(at(2.0), Duration::ZERO, Nature::Effect, Some(secs(60.0)), 1);
        let id = owner.supervisor.ledger.find(|&c| c == caller).unwrap();
        owner.supervisor.ledger.sent(id, 0);
        owner.event(at(3.0), Event::Lost(epoch, fault.clone()));
        assert_eq!(owner.supervisor.ledger.is_empty(), fault.ends_process(), "{fault}");
        owner.event(at(3.1), Event::Gone(epoch, None));
        assert!(owner.supervisor.ledger.is_empty(), "{fault}");
        let ended = Told::Ended(caller, Fate::Failed(Delivery::Unknown, fault));
        assert!(owner.told.contains(&ended), "{:?}", owner.told);
    }
}

#[test]
fn a_silent_server_is_not_spared_for_calls_that_came_after_it_was_asked() {
    // A client that calls on and on, a second each: the doubt of the first call decides.
    let mut world = World::new(9.0).start(0.0).then(2.0, Happening::Hangs);
    for second in 2..9 {
        world = world.call_within(f64::from(second), 1.0);
    }
    let life = world.live(&exact());
    assert_eq!(life.starts.get(1), Some(&at(3.0 + 5.0)), "{}", life.log);
}

#[test]
fn a_call_in_the_very_millisecond_in_which_the_server_was_asked_came_after_that() {
    let world = World::new(12.0)
        .start(0.0)
        .then(2.0, Happening::Hangs)
        .call_within(2.0, 1.0)
        .call_within(3.0, 100.0)
        .gone_in(0.1);
    let life = world.live(&exact());
    assert_eq!(life.fate(1), (3.0, &Fate::TimedOut(Delivery::Unknown)), "{}", life.log);
    assert_eq!(life.starts.get(1), Some(&at(3.0 + 5.0 + 0.1)), "{}", life.log);
    assert_eq!(life.fate(2).1, &Fate::Answered, "{}", life.log);
}

#[test]
fn a_server_that_does_not_know_ping_is_never_killed_for_silence() {
    let world = World::new(3000.0)
        .start(0.0)
        .pings(Ping::Refuses)
        .then(200.0, Happening::Hangs)
        .call_within(300.0, 10.0)
        .call_within(302.0, 20.0);
    let life = world.live(&exact());
    assert_eq!((life.starts.len(), life.charges(), life.state), (1, 0, "ready"));
}

#[test]
fn a_cancelled_call_raises_a_doubt_only_after_ten_silent_seconds() {
    let quick = World::new(40.0).start(0.0).answers_in(99.0).call(2.0).then(9.0, Happening::Cancel(1));
    assert_eq!(quick.live(&exact()).probes, []);
    let slow = World::new(40.0).start(0.0).answers_in(99.0).call(2.0).then(20.0, Happening::Cancel(1));
    assert_eq!(slow.live(&exact()).probes, [at(20.0)]);
    let after_idling =
        World::new(58.0).start(0.0).answers_in(99.0).call(50.0).then(50.5, Happening::Cancel(1));
    assert_eq!(
        after_idling.live(&exact()).probes,
        [],
        "the server was silent because nobody asked it anything"
    );
}

// Sleep.

#[test]
fn a_machine_that_slept_probes_before_it_charges() {
    let world = World::new(20_000.0).start(0.0).sleeps(10.0, 10_000.0);
    let life = world.live(&exact());
    assert_eq!((life.starts.len(), life.charges()), (1, 0), "{}", life.log);
    assert!(life.probes.contains(&at(10_000.0)));
    assert_eq!(count(&life, |n| *n == Notice::Woke), 1);
}

#[test]
fn a_silent_server_that_was_spared_when_the_machine_slept_is_asked_again() {
    let world = World::new(9000.0)
        .start(0.0)
        .then(2.0, Happening::Hangs)
        .call_within(3.0, 7.0)
        .then(4.0, Happening::Call(Nature::Effect, None))
        .sleeps(30.0, 8000.0);
    let life = world.live(&exact());
    assert!(life.probes.contains(&at(8000.0)), "{:?}", life.probes);
    assert!(life.starts[1] > at(8000.0));
}

#[test]
fn a_handshake_that_the_machine_slept_through_is_not_a_fault() {
    // The server slept, too, and has still to answer when both wake.
    let world = World::new(6000.0).start(0.0).starts_in(5020.0).sleeps(1.0, 5000.0);
    let life = world.live(&exact());
    assert_eq!((life.charges(), life.starts.len(), life.state), (0, 1, "ready"), "{}", life.log);
}

/// The instants at which eight connections of one machine start again after it slept.
fn woken(world: &World) -> Vec<Time> {
    (0..8)
        .map(|seed| {
            let life = world.clone().seed(seed).live(&Policy::default());
            *life
                .starts
                .iter()
                .find(|&&t| t >= at(5000.0))
                .unwrap_or_else(|| panic!("never started:\n{}", life.log))
        })
        .collect()
}

#[test]
fn eight_servers_do_not_reconnect_in_the_same_instant_when_the_machine_wakes() {
    let lost = World::new(9000.0).start(0.0).sleeps(10.0, 5000.0).kill(4000.0);
    let parked = World::new(9000.0).start(0.0).broken_until(4000.0, exited(1), 0.0).sleeps(10.0, 5000.0);
    let pausing = World::new(9000.0).start(0.0).broken_until(4000.0, exited(1), 0.0).sleeps(1.0, 5000.0);
    for (world, name) in [(lost, "lost"), (parked, "parked"), (pausing, "pausing")] {
        let mut starts = woken(&world);
        assert!(starts.iter().all(|&t| t <= at(5001.0)), "{name}: spread over a second: {starts:?}");
        starts.sort();
        starts.dedup();
        assert!(starts.len() >= 6, "{name}: {starts:?}");
    }
}

#[test]
fn what_ends_long_after_the_machine_woke_does_not_wait() {
    // A probe may take 10 s to find out what did not survive, and 10 s are given for the rest.
    let dies = |seconds| woken(&World::new(9000.0).start(0.0).sleeps(10.0, 5000.0).kill(seconds));
    assert!(dies(5019.999).iter().any(|&start| start > at(5020.0)));
    assert_eq!(dies(5020.0), [at(5020.0); 8]);
}

#[test]
fn an_epoch_that_was_ending_when_the_machine_slept_is_given_its_time() {
    // The ladder's own timers stood still too: nobody has sent SIGKILL yet.
    let world = World::new(9000.0)
        .start(0.0)
        .never_gone()
        .then(3.0, Happening::Reconnect(Requester::Person))
        .sleeps(3.5, 5000.0);
    let life = world.live(&exact());
    let abandoned = life.notices.iter().find(|(_, n)| matches!(n, Notice::Abandoned(_)));
    assert_eq!(abandoned.map(|&(time, _)| time), Some(at(5002.0)), "{}", life.log);
}

// Drain and close.

#[test]
fn a_drain_lets_calls_finish() {
    let world = World::new(40.0)
        .start(0.0)
        .answers_in(10.0)
        .call(2.0)
        .then(3.0, Happening::Reconnect(Requester::Person))
        .call(4.0);
    check(
        &exact(),
        world,
        "
        0.0s idle -> connecting
        1.0s connecting -> ready
        3.0s ready -> draining
        12.0s call 1: answered
        12.0s draining -> closing: planned
        12.0s closing -> connecting
        13.0s connecting -> ready
        23.0s call 2: answered
        ",
    );
}

#[test]
fn a_drain_is_bounded_by_30_s_and_then_what_still_runs_fails_as_unknown() {
    let world = World::new(40.0)
        .start(0.0)
        .answers_in(100.0)
        .call(2.0)
        .then(3.0, Happening::Reconnect(Requester::Person));
    let life = check(
        &exact(),
        world,
        "
        0.0s idle -> connecting
        1.0s connecting -> ready
        3.0s ready -> draining
        33.0s call 1: failed, unknown: the connection was restarted on request
        33.0s draining -> closing: planned
        33.0s closing -> connecting
        34.0s connecting -> ready
        ",
    );
    assert_eq!(life.charges(), 0);
}

#[test]
fn close_is_reached_in_bounded_time_from_every_state() {
    let missing = Fault::NotFound { program: "x".into() };
    let worlds = [
        ("idle", World::new(60.0)),
        ("connecting", World::new(60.0).start(4.5).starts_in(30.0).never_gone()),
        ("ready", World::new(60.0).start(0.0).answers_in(100.0).call(2.0).never_gone()),
        (
            "draining",
            World::new(60.0)
                .start(0.0)
                .answers_in(100.0)
                .call(2.0)
                .then(4.0, Happening::Reconnect(Requester::Person))
                .never_gone(),
        ),
        (
            "closing",
            World::new(60.0).start(0.0).then(4.0, Happening::Reconnect(Requester::Person)).never_gone(),
        ),
        ("backoff", World::new(60.0).start(0.5).broken_until(99.0, exited(1), 0.9)),
        ("parked", World::new(60.0).start(0.0).broken_until(99.0, missing, 0.0)),
    ];
    for (state, world) in worlds {
        assert_eq!(world.clone().until(5.0).live(&exact()).state, state);
        for manner in [Manner::Planned, Manner::ClientLeft, Manner::Told] {
            let life = world
                .clone()
                .then(5.0, Happening::Close(manner))
                .then(5.1, Happening::Close(manner))
                .call(5.2)
                .live(&exact());
            let bound = match state {
                "idle" | "backoff" | "parked" => 5.0,
                _ => 5.1 + exact().ladders.ladder(manner).length().as_secs_f64() + 2.0,
            };
            let closed = life.notices.iter().find(|(_, n)| *n == Notice::Closed).map(|&(t, _)| t);
            assert!(closed.is_some_and(|t| t <= at(bound)), "{state}, {manner:?}:\n{}", life.log);
            assert_eq!(life.state, "closed");
            let last = *life.fates.keys().last().expect("the call after the close was refused");
            assert!((1..=last).all(|call| life.fates.contains_key(&call)), "{state}: a call is pending");
        }
    }
}

#[test]
fn a_drain_to_close_is_bounded_however_often_it_is_asked_for() {
    let mut world = World::new(200.0).start(0.0).answers_in(150.0).call(2.0);
    for n in 0..20 {
        world = world.then(3.0 + f64::from(n) * 5.0, Happening::Drain);
    }
    check(
        &exact(),
        world,
        "
        0.0s idle -> connecting
        1.0s connecting -> ready
        3.0s ready -> draining
        33.0s call 1: failed, unknown: the connection was closed
        33.0s draining -> closing: planned
        33.0s closing -> closed
        ",
    );
}

#[test]
fn calls_that_wait_for_the_end_of_a_drain_fail_when_it_becomes_a_close() {
    let world = World::new(20.0)
        .start(0.0)
        .answers_in(6.0)
        .call(2.0)
        .then(3.0, Happening::Reconnect(Requester::Person))
        .call(4.0)
        .then(5.0, Happening::Drain)
        .call(6.0);
    check(
        &exact(),
        world,
        "
        0.0s idle -> connecting
        1.0s connecting -> ready
        3.0s ready -> draining
        5.0s call 2: failed, not-sent: the connection was closed
        6.0s call 3: refused: Closed
        8.0s call 1: answered
        8.0s draining -> closing: planned
        8.0s closing -> closed
        ",
    );
}

#[test]
fn a_hangup_only_ever_gets_faster() {
    let mut owner = Owner::new(&exact(), 7);
    owner.event(at(0.0), Event::Start);
    for manner in [Manner::Planned, Manner::Told, Manner::ClientLeft, Manner::Planned] {
        owner.event(at(1.0), Event::Close(manner));
    }
    owner.event(at(1.0), Event::Drain);
    let hangups: Vec<_> = owner.told.iter().filter(|told| matches!(told, Told::Hangup(..))).collect();
    let epoch = owner.epoch();
    assert_eq!(hangups, [&Told::Hangup(epoch, Manner::Planned), &Told::Hangup(epoch, Manner::Told)]);
}

#[test]
fn a_failed_slow_probe_is_known_to_park_before_its_process_is_gone() {
    let mut policy = Policy { park_probe: secs(200.0), ..exact() };
    policy.budget.charges = 1;
    let mut owner = Owner::new(&policy, 7);
    owner.event(at(0.0), Event::Start);
    for (time, parks) in [(1.0, false), (2.0, true), (202.0, true)] {
        owner.tick(at(time));
        let epoch = owner.epoch();
        owner.event(at(time), Event::Lost(epoch, exited(1)));
        assert_eq!(owner.lifecycle().parks(at(time)), parks, "at {time} s");
        owner.event(at(time), Event::Gone(epoch, None));
        assert_eq!(owner.lifecycle().state().name(), if parks { "parked" } else { "connecting" });
    }
}

#[test]
fn who_asks_when_to_try_again_is_told_when_that_may_be() {
    let mut owner = Owner::new(&exact(), 7);
    let told = |owner: &Owner| owner.lifecycle().next_attempt();
    assert_eq!(told(&owner), None, "now");
    owner.event(at(0.0), Event::Start);
    assert_eq!(told(&owner), None, "it is being tried");
    for (died, soonest) in [(0.2, 1.0), (0.5, 1.2)] {
        let epoch = owner.epoch();
        owner.event(at(died), Event::Lost(epoch, exited(1)));
        assert_eq!(told(&owner), Some(at(soonest)), "as soon as calls may ask for it");
        owner.event(at(died), Event::Gone(epoch, None));
    }
    assert_eq!(told(&owner), Some(at(0.75)), "when the pause is over");
    owner.event(at(0.6), Event::Park);
    assert_eq!(told(&owner), None, "who knows");

    let mut owner = Owner::new(&exact(), 7);
    owner.event(at(0.0), Event::Start);
    let epoch = owner.epoch();
    owner.event(at(0.1), Event::Lost(epoch, Fault::NotFound { program: "x".into() }));
    assert_eq!(told(&owner), Some(at(10.0)));
    owner.event(at(0.2), Event::Gone(epoch, None));
    assert_eq!((told(&owner), owner.lifecycle().parks(at(0.2))), (Some(at(10.0)), true));
    owner.event(at(0.3), Event::Close(Manner::Told));
    assert_eq!(told(&owner), None, "never");
}

#[test]
fn an_epoch_that_does_not_end_is_abandoned_two_seconds_after_sigkill() {
    let world = World::new(20.0).start(0.0).never_gone().then(3.0, Happening::Reconnect(Requester::Person));
    let life = check(
        &exact(),
        world,
        "
        0.0s idle -> connecting
        1.0s connecting -> ready
        3.0s ready -> draining
        3.0s draining -> closing: planned
        12.0s closing -> connecting: abandoned
        13.0s connecting -> ready
        ",
    );
    assert_eq!(life.charges(), 0);
}

// Handshakes.

#[test]
fn an_exit_on_discover_is_free_and_the_next_attempt_follows_at_once() {
    let world = World::new(10.0).call(0.0).steps_first(Step::Discovering).broken_until(0.05, exited(1), 0.1);
    let life = check(
        &exact(),
        world,
        "
        0.0s idle -> connecting
        0.1s connecting -> closing: exited with code 1, free
        0.1s closing -> connecting
        1.1s connecting -> ready
        1.2s call 1: answered
        ",
    );
    assert_eq!(life.budget_left, 5);
}

#[test]
fn free_ends_of_handshakes_that_lead_nowhere_are_bounded() {
    for fault in [exited(1), Fault::WrongEra] {
        let world = World::new(25.0).start(0.0).steps_first(Step::Discovering).broken_until(99.0, fault, 0.0);
        let life = world.live(&exact());
        assert!(life.starts.len() <= 24, "three free ends for each charge: {}", life.starts.len());
        assert_eq!((life.charges(), life.state), (6, "parked"));
    }
}

#[test]
fn after_the_first_wrong_guess_of_the_era_the_next_attempt_does_not_wait_and_every_other_does() {
    let policy = Policy { attempt_floor: secs(0.5), ..exact() };
    let world = World::new(3.0).start(0.0).steps_first(Step::Discovering);
    check(
        &policy,
        world.broken_until(0.3, Fault::WrongEra, 0.1),
        "
        0.0s idle -> connecting
        0.1s connecting -> closing: the server speaks the other protocol era, free
        0.1s closing -> connecting
        0.2s connecting -> closing: the server speaks the other protocol era, free
        0.2s closing -> backoff: 0.4s
        0.6s backoff -> connecting
        1.6s connecting -> ready
        ",
    );
}

#[test]
fn a_server_that_says_wrong_era_and_dies_of_it_is_not_charged() {
    let mut owner = Owner::new(&exact(), 7);
    owner.event(at(0.0), Event::Start);
    let epoch = owner.epoch();
    owner.event(at(0.0), Event::Begun(epoch, Step::Discovering));
    owner.event(at(0.1), Event::Lost(epoch, Fault::WrongEra));
    owner.event(at(0.1), Event::Lost(epoch, exited(1)));
    assert_eq!(owner.lifecycle().budget_left(at(0.1)), 5);
}

/// A client that greets at this time, and waits for a minute.
fn greets(world: World, seconds: f64) -> World {
    let world = world.answers_in(999.0).steps_first(Step::ClientsTurn);
    world.then(seconds, Happening::Call(Nature::Greeting, Some(secs(60.0))))
}

#[test]
fn a_server_that_exits_at_its_first_start_is_reported_after_three_starts() {
    let world = greets(World::new(4.9).start(0.0), 0.0).broken_until(999.0, exited(1), 0.3);
    check(
        &exact(),
        world,
        "
        0.0s idle -> connecting
        0.3s connecting -> closing: exited with code 1
        0.3s closing -> connecting
        0.6s connecting -> closing: exited with code 1
        0.6s closing -> backoff: 0.25s
        0.85s backoff -> connecting
        1.15s call 1: failed, unknown: exited with code 1
        1.15s connecting -> closing: exited with code 1
        1.15s closing -> backoff: 3.85s
        ",
    );
}

#[test]
fn a_failed_first_start_is_not_tried_again_before_its_time_is_over_whoever_calls() {
    let world = greets(World::new(20.0).start(0.0), 2.0).broken_until(999.0, exited(1), 0.1).call(3.0);
    let life = world.then(4.0, Happening::Start).call(6.5).live(&exact());
    for (call, time) in [(1, 2.0), (2, 3.0)] {
        assert_eq!(life.fate(call), (time, &Fate::Failed(Delivery::NotSent, exited(1))), "{}", life.log);
    }
    assert_eq!(life.starts.iter().filter(|start| **start < at(5.0)).count(), 3, "{}", life.log);
    assert!(life.fate(3).0 <= 7.6, "the usual rules hold afterwards:\n{}", life.log);
    assert!(life.starts.len() > 3, "{}", life.log);
}

#[test]
fn a_person_need_not_wait_for_the_next_start() {
    let world = greets(World::new(4.0).start(0.0), 0.0).broken_until(1.0, exited(1), 0.1);
    let life = world.then(2.0, Happening::Reconnect(Requester::Person)).live(&exact());
    assert_eq!(life.starts.last(), Some(&at(2.0)), "{}", life.log);
}

#[test]
fn a_first_start_that_fails_slowly_is_reported_with_the_first_failure_after_five_seconds() {
    for (after, starts) in [(2.0, 3), (3.0, 2), (6.0, 1)] {
        let world = greets(World::new(59.0).start(0.0), 0.0).broken_until(999.0, exited(1), after);
        let life = world.live(&exact());
        let (time, fate) = life.fate(1);
        assert_eq!(*fate, Fate::Failed(Delivery::Unknown, exited(1)), "{}", life.log);
        assert_eq!(life.starts.iter().filter(|start| **start < at(time)).count(), starts, "{}", life.log);
    }
}

#[test]
fn the_time_in_which_the_client_does_not_speak_is_not_held_against_the_server() {
    let world = greets(World::new(40.0).start(0.0), 30.0).answers_in(1.0).kill(30.1);
    let life = world.live(&exact());
    assert_eq!((life.fate(1).1, life.starts.len()), (&Fate::Answered, 2), "{}", life.log);
}

#[test]
fn a_first_start_that_works_the_second_or_third_time_is_answered() {
    let world = greets(World::new(30.0).start(0.0), 0.0).answers_in(0.5).broken_until(0.7, exited(1), 0.3);
    let life = world.live(&exact());
    assert_eq!((life.fate(1).1, life.starts.len()), (&Fate::Answered, 3), "{}", life.log);
}

#[test]
fn an_exit_at_the_question_for_the_era_counts_as_a_start() {
    let world = || World::new(4.9).start(0.0).broken_until(999.0, exited(1), 0.1);
    let life = world().steps_first(Step::Discovering).live(&exact());
    assert_eq!((life.starts.len(), life.charges()), (3, 1), "two may tell its era: {}", life.log);
    // A slow one that leaves because of the question is a legacy server all the same.
    let slow = World::new(99.0).start(0.0).steps_first(Step::Discovering).broken_until(1.0, exited(1), 20.0);
    let life = slow.live(&exact());
    assert_eq!((life.state, life.charges()), ("ready", 0), "{}", life.log);
}

#[test]
fn an_address_that_refuses_at_first_is_retried_for_ten_seconds() {
    let refused = || Fault::Unreachable { address: "host:1".into(), reason: "connection refused".into() };
    let world = || greets(World::new(59.0).over_http().start(0.0), 0.0).answers_in(0.1);
    let up_in_time = world().broken_until(9.0, refused(), 0.0).live(&exact());
    assert_eq!(up_in_time.fate(1).1, &Fate::Answered, "{}", up_in_time.log);
    assert!(up_in_time.fate(1).0 <= 10.2, "{}", up_in_time.log);

    let never = world().broken_until(999.0, refused(), 0.0).live(&exact());
    let (time, fate) = never.fate(1);
    assert!((10.0..=11.5).contains(&time), "{}", never.log);
    assert!(matches!(fate, Fate::Failed(_, Fault::Unreachable { .. })), "{fate:?}");
    assert!(never.starts.iter().filter(|start| **start < at(time)).count() <= 16, "{}", never.log);
}

#[test]
fn only_a_silent_server_gets_all_the_time_of_the_handshake() {
    let world = greets(World::new(99.0).start(0.0), 0.0);
    assert_eq!(world.live(&exact()).fate(1), (60.0, &Fate::TimedOut(Delivery::Unknown)));
}

#[test]
fn a_clients_handshake_that_times_out_ends_the_attempt_that_it_has_come_to() {
    let hello = Happening::Call(Nature::Greeting, Some(secs(60.0)));
    let world = World::new(62.1).start(0.0).steps_first(Step::ClientsTurn).answers_in(99.0);
    check(
        &exact(),
        world.then(2.0, hello).kill(4.0),
        "
        0.0s idle -> connecting
        4.0s connecting -> closing: killed by SIGKILL
        4.0s closing -> connecting
        62.0s call 1: timed out, unknown
        62.0s connecting -> closing: the handshake timed out after 60 s
        62.0s closing -> backoff: 0.25s
        ",
    );
}

#[test]
fn a_server_that_leaves_at_the_clients_discover_is_one_that_does_not_know_it() {
    let discover = Happening::Call(Nature::Discovery, Some(secs(60.0)));
    let world = World::new(20.0).start(0.0).steps_first(Step::ClientsTurn).then(1.0, discover).kill(1.1);
    let life = world.answers_in(1.0).live(&exact());
    assert_eq!(life.fate(1), (1.1, &Fate::NotKnown));
}

#[test]
fn a_server_that_never_answers_the_handshake_fails_at_the_limit() {
    let world = World::new(60.5).starts_in(1000.0).call(0.0);
    check(
        &exact(),
        world,
        "
        0.0s idle -> connecting
        60.0s call 1: failed, not-sent: the handshake timed out after 60 s
        60.0s connecting -> closing: the handshake timed out after 60 s
        60.0s closing -> connecting
        ",
    );
}

// Calls.

#[test]
fn the_time_a_person_is_asked_does_not_count() {
    let world = World::new(4000.0)
        .start(0.0)
        .answers_in(1500.0)
        .call(2.0)
        .then(10.0, Happening::Asks)
        .then(1400.0, Happening::Replies);
    assert_eq!(world.live(&exact()).fate(1), (1502.0, &Fate::Answered));
    let never = World::new(9000.0).start(0.0).answers_in(9000.0).call(2.0).then(10.0, Happening::Asks);
    assert_eq!(never.live(&exact()).fate(1), (3602.0, &Fate::TimedOut(Delivery::Unknown)), "an hour in all");
}

#[test]
fn progress_extends_a_call_up_to_an_hour() {
    let mut world = World::new(9000.0).start(0.0).answers_in(8000.0).call(2.0);
    for n in 1..80 {
        world = world.then(2.0 + f64::from(n) * 100.0, Happening::Progress(1));
    }
    assert_eq!(world.live(&exact()).fate(1), (3602.0, &Fate::TimedOut(Delivery::Unknown)));
    let once = World::new(9000.0).start(0.0).answers_in(8000.0).call(2.0).then(200.0, Happening::Progress(1));
    assert_eq!(once.live(&exact()).fate(1).0, 500.0);
}

#[test]
fn a_stream_survives_restarts_and_hours() {
    let mut world = World::new(50_000.0)
        .start(0.0)
        .answers_in(90_000.0)
        .then(2.0, Happening::Call(Nature::Stream, Some(secs(300.0))));
    for n in 1..=10 {
        world = world.kill(f64::from(n) * 4000.0);
    }
    world = world.then(45_000.0, Happening::Reconnect(Requester::Person));
    let life = world.live(&exact());
    assert_eq!(life.fates.len(), 0);
    assert_eq!(life.sends[&1], 12, "opened again on every session");
    assert_eq!(count(&life, |n| matches!(n, Notice::Planned(..))), 1, "and no drain waits for it");
}
