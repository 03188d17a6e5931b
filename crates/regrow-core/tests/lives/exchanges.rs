//! Lives over HTTP, where each call has an exchange of its own, which may fail while its session lives on.

use std::time::Duration;

use super::{count, gaps};
use crate::world::owner::{Fate, Owner, Told};
use crate::world::{Happening, World, at, check, exact, no_session, secs};
use regrow_core::{Delivery, Event, Evidence, Fault, Nature, Notice, Policy, Requester};

fn unreachable() -> Fault {
    Fault::Unreachable { address: "localhost:80".into(), reason: "connection refused".into() }
}

fn deferred(seconds: f64) -> Fault {
    Fault::Deferred { code: 429, after: secs(seconds) }
}

fn unauthorized() -> Fault {
    Fault::Unauthorized { code: 401 }
}

/// A server that is there at once and answers in 0.1 s.
fn web(until: f64) -> World {
    World::new(until).over_http().starts_in(0.1)
}

fn read(world: World, seconds: f64) -> World {
    world.then(seconds, Happening::Call(Nature::Read, Some(secs(300.0))))
}

// Outages.

#[test]
fn a_server_that_is_down_at_the_start_is_ready_soon_after_it_appears() {
    let world = web(10.0).start(0.0).down(0.0, 3.0, unreachable()).call(4.0);
    check(
        &exact(),
        world,
        "
        0.0s idle -> connecting
        0.0s connecting -> closing: localhost:80 cannot be reached: connection refused
        0.0s closing -> backoff: 0.02s
        0.02s backoff -> connecting
        0.02s connecting -> closing: localhost:80 cannot be reached: connection refused
        0.02s closing -> backoff: 0.25s
        0.27s backoff -> connecting
        0.27s connecting -> closing: localhost:80 cannot be reached: connection refused
        0.27s closing -> backoff: 0.5s
        0.77s backoff -> connecting
        0.77s connecting -> closing: localhost:80 cannot be reached: connection refused
        0.77s closing -> backoff: 1s
        1.77s backoff -> connecting
        1.77s connecting -> closing: localhost:80 cannot be reached: connection refused
        1.77s closing -> backoff: 2s
        3.77s backoff -> connecting
        3.87s connecting -> ready
        4.1s call 1: answered
        ",
    );
}

#[test]
fn after_an_outage_it_is_back_within_one_probe_interval() {
    let slowest = Policy::default().park_probe_cap.as_secs_f64() * 1.2;
    for (outage, seeds) in [(60.0, 20), (1800.0, 20), (21_600.0, 5)] {
        for seed in 0..seeds {
            let back = 100.0 + outage;
            let world = web(back + 1000.0).seed(seed).call(0.0).down(100.0, back, unreachable());
            let life = world.live(&Policy::default());
            assert_eq!(life.readies.len(), 2, "{}", life.log);
            assert!(life.readies[1] <= at(back + slowest + 0.1), "{outage} s: {}", life.log);
            let starts = life.starts.len();
            assert!(starts <= 10 + (outage / 240.0) as usize, "{starts} attempts in {outage} s");
        }
    }
}

#[test]
fn after_an_outage_the_next_call_brings_it_back_at_once() {
    for outage in [60.0, 1800.0, 21_600.0] {
        let back = 100.0 + outage;
        let world = web(back + 10.0).call(0.0).down(100.0, back, unreachable());
        let life = world.call(back + 1.0).live(&exact());
        let (answered, fate) = life.fate(2);
        assert!(*fate == Fate::Answered && answered <= back + 2.2, "{}", life.log);
        assert_eq!(life.state, "ready");
    }
}

#[test]
fn a_call_that_finds_the_server_gone_moves_to_the_next_session_and_nobody_notices() {
    let world = web(10.0).start(0.0).gone_in(0.1).down(2.0, 2.05, unreachable()).call(2.0);
    check(
        &exact(),
        world,
        "
        0.0s idle -> connecting
        0.1s connecting -> ready
        2.0s ready -> closing: localhost:80 cannot be reached: connection refused
        2.1s closing -> connecting
        2.2s connecting -> ready
        2.3s call 1: answered
        ",
    );
}

// Forgotten sessions.

#[test]
fn a_forgotten_session_is_replaced_at_once_and_the_call_that_told_us_is_sent_again() {
    let world = web(10.0).call(0.0).then(2.0, Happening::Forgets).call(3.0);
    let life = check(
        &exact(),
        world,
        "
        0.0s idle -> connecting
        0.1s connecting -> ready
        0.2s call 1: answered
        3.0s ready -> closing: the server no longer knows the session, free
        3.0s closing -> connecting
        3.1s connecting -> ready
        3.2s call 2: answered
        ",
    );
    assert_eq!((life.charges(), life.budget_left, life.sends[&2]), (0, 5, 2));
}

#[test]
fn a_session_that_is_forgotten_fifty_times_costs_nothing_and_loses_no_call() {
    let mut world = web(200.0).start(0.0).forgets_after(3);
    for n in 0..150 {
        world = world.call(1.0 + f64::from(n));
    }
    let life = world.live(&Policy::default());
    assert_eq!((life.answered(), life.charges(), life.budget_left), (150, 0, 5), "{}", life.log);
    assert_eq!(life.starts.len(), 50);
    assert!(life.notices.iter().all(|(_, notice)| !matches!(notice, Notice::Backoff(_))), "no pause at all");
    assert!(gaps(&life)[1..].iter().all(|&gap| (gap - 3.0).abs() < 0.01), "each at the call that found out");
}

#[test]
fn sessions_that_are_forgotten_without_an_answer_are_bounded() {
    let world = (1..=30).fold(web(20.0).start(0.0).forgets_after(0), |world, n| read(world, f64::from(n)));
    let life = world.until(60.0).live(&exact());
    assert!(life.sends.values().all(|&sends| sends <= 2), "{:?}", life.sends);
    assert!(life.starts.len() <= 10 + 60, "{}", life.starts.len());
}

#[test]
fn a_call_that_is_refused_on_two_sessions_has_its_answer_and_the_session_stays() {
    let refused = || Happening::Cuts(no_session(Evidence::Status));
    let life = check(
        &exact(),
        web(20.0).start(0.0).call(1.0).call(2.0).then(2.05, refused()).then(2.2, refused()).call(3.0),
        "
        0.0s idle -> connecting
        0.1s connecting -> ready
        1.1s call 1: answered
        2.05s ready -> closing: the server no longer knows the session, free
        2.05s closing -> connecting
        2.15s connecting -> ready
        2.2s call 2: failed, unknown: the server responded with HTTP 404
        3.1s call 3: answered
        ",
    );
    assert_eq!((life.charges(), life.sends[&2]), (0, 2));
}

#[test]
fn a_call_that_runs_while_its_session_is_forgotten_is_answered_on_its_own_exchange() {
    let world = web(10.0).start(0.0).call(1.0).call(2.0).then(2.02, Happening::Forgets).call(2.05);
    let life = check(
        &exact(),
        world,
        "
        0.0s idle -> connecting
        0.1s connecting -> ready
        1.1s call 1: answered
        2.05s ready -> closing: the server no longer knows the session, free
        2.05s closing -> connecting
        2.1s call 2: answered
        2.15s connecting -> ready
        2.25s call 3: answered
        ",
    );
    assert_eq!((life.charges(), life.sends[&2], life.sends[&3]), (0, 1, 2));
}

#[test]
fn sessions_that_are_forgotten_under_many_calls_are_free_only_a_few_times() {
    let mut owner = Owner::new(&exact(), 7);
    let mut charged = vec![];
    owner.event(at(0.0), Event::Start);
    for n in 1..=6 {
        let (now, epoch) = (at(f64::from(n) * 10.0), owner.epoch());
        owner.event(now, Event::Connected(epoch));
        let caller = owner.call(now, Duration::ZERO, Nature::Effect, None, 1);
        let id = owner.supervisor.ledger.find(|&c| c == caller).expect("it is pending");
        owner.supervisor.ledger.sent(id, 0);
        owner.event(now, Event::Lost(epoch, Fault::SessionExpired { ran: false }));
        charged.push(owner.lifecycle().budget_left(now) < 5);
        owner.event(now, Event::Gone(epoch, None));
        let later = at(f64::from(n) * 10.0 + 5.0);
        owner.tick(later);
    }
    assert_eq!(charged, [false, false, false, true, true, true]);
}

// Servers that ask us to come back later.

#[test]
fn a_server_that_asks_for_a_pause_at_the_handshake_gets_it_however_many_calls_wait() {
    let world = web(40.0).call(0.0).down(0.0, 8.0, deferred(10.0)).call(1.0).call(5.0).call(9.0);
    let life = check(
        &exact(),
        world,
        "
        0.0s idle -> connecting
        0.0s connecting -> closing: the server responded with HTTP 429 and asked to retry after 10 s, free
        0.0s closing -> backoff: 10s
        10.0s backoff -> connecting
        10.1s connecting -> ready
        10.2s call 1: answered
        10.2s call 2: answered
        10.2s call 3: answered
        10.2s call 4: answered
        ",
    );
    assert_eq!((life.charges(), life.answered()), (0, 4));
}

#[test]
fn nobody_but_a_person_hurries_a_server_that_asked_for_a_pause() {
    let world = web(40.0).start(0.0).down(0.0, 0.5, deferred(30.0));
    let programs = world.clone().then(2.0, Happening::Reconnect(Requester::Program)).start(3.0);
    assert!(gaps(&programs.live(&exact())).iter().all(|&gap| gap >= 30.0));
    let person = world.then(2.0, Happening::Reconnect(Requester::Person)).live(&exact());
    assert_eq!(person.starts, [at(0.0), at(2.0)]);
}

#[test]
fn a_server_that_asks_for_a_pause_gets_it_also_when_the_budget_is_spent() {
    let mut policy = exact();
    policy.budget.charges = 0;
    // It dies once, which parks it; the attempt that a call demands is deferred.
    let world = web(200.0).start(0.0).kill(1.0).down(2.0, 100.0, deferred(50.0)).call(5.0).call(10.0);
    let life = world.live(&policy);
    assert_eq!(gaps(&life)[1..].iter().filter(|&&gap| gap < 50.0).count(), 0, "{}", life.log);
    assert_eq!((life.charges(), life.answered()), (1, 2), "{}", life.log);
}

#[test]
fn calls_are_told_at_once_when_a_server_asks_for_a_longer_pause_than_they_wait() {
    let world = web(200.0).call(0.0).down(0.0, 8.0, deferred(90.0)).call(1.0).call(30.0);
    check(
        &exact(),
        world,
        "
        0.0s idle -> connecting
        0.0s call 1: failed, not-sent: the server responded with HTTP 429 and asked to retry after 90 s
        0.0s connecting -> closing: the server responded with HTTP 429 and asked to retry after 90 s, free
        0.0s closing -> backoff: 90s
        1.0s call 2: failed, not-sent: the server responded with HTTP 429 and asked to retry after 89 s
        90.0s backoff -> connecting
        90.1s connecting -> ready
        90.2s call 3: answered
        ",
    );
}

#[test]
fn pauses_that_a_server_asked_for_are_no_free_ends() {
    let mut world = web(60.0).start(0.0).down(0.0, 5.0, deferred(1.0));
    // A session that a program replaces before it has answered is free three times.
    for n in 0..3 {
        world = world.then(20.0 + f64::from(n), Happening::Reconnect(Requester::Program));
    }
    let life = world.live(&exact());
    assert!(count(&life, |notice| matches!(notice, Notice::Retired(_, Fault::Deferred { .. }))) >= 3);
    assert_eq!(life.charges(), 0, "{}", life.log);
}

#[test]
fn a_call_that_is_deferred_is_sent_again_when_the_server_has_asked_for_it() {
    let world = web(20.0).start(0.0).down(2.0, 3.0, deferred(5.0)).call(2.0).call(4.0);
    let life = check(
        &exact(),
        world,
        "
        0.0s idle -> connecting
        0.1s connecting -> ready
        4.1s call 2: answered
        7.1s call 1: answered
        ",
    );
    assert_eq!((life.sends[&1], life.charges(), life.probes.len()), (2, 0, 0));
}

// What only a person can mend.

#[test]
fn refused_credentials_park_without_a_probe_and_new_ones_wake_it() {
    let world = web(4000.0).start(0.0).down(0.0, 2000.0, unauthorized()).then(3000.0, Happening::Mends);
    check(
        &exact(),
        world,
        "
        0.0s idle -> connecting
        0.0s connecting -> closing: the server refused the credentials (HTTP 401); provide valid ones
        0.0s closing -> parked: the server refused the credentials (HTTP 401); provide valid ones
        3000.0s parked -> connecting
        3000.1s connecting -> ready
        ",
    );
}

fn sign_in(may_ask: bool) -> Fault {
    Fault::SignInNeeded { command: String::new(), may_ask }
}

#[test]
fn a_call_has_an_attempt_of_its_own_where_it_can_ask_the_user() {
    let failed_at = |may_ask| {
        let world = web(60.0).start(0.0).down(0.0, 60.0, sign_in(may_ask)).call(0.5);
        let life = world.live(&exact());
        assert!(matches!(life.fate(1).1, Fate::Failed(Delivery::NotSent, _)), "{}", life.log);
        (life.starts.len(), life.fate(1).0)
    };
    assert_eq!(failed_at(true), (2, 1.0));
    assert_eq!(failed_at(false), (1, 0.5), "the user was asked already");
}

#[test]
fn a_refused_probe_leaves_a_call_alone_that_may_be_asking_the_user() {
    let state_after = |may_ask, calls| {
        let mut owner = Owner::new(&exact(), 7);
        owner.event(at(0.0), Event::Start);
        let epoch = owner.epoch();
        owner.event(at(0.1), Event::Connected(epoch));
        owner.concern(at(1.0), epoch, &sign_in(may_ask));
        for _ in 0..calls {
            let caller = owner.call(at(2.0), Duration::ZERO, Nature::Effect, None, 1);
            let id = owner.supervisor.ledger.find(|&c| c == caller).expect("it is pending");
            owner.supervisor.ledger.sent(id, 0);
        }
        owner.event(at(3.0), Event::ProbeFailed(epoch, sign_in(may_ask)));
        owner.lifecycle().state().name()
    };
    assert_eq!(
        [(true, 1), (true, 0), (false, 1)].map(|(may, calls)| state_after(may, calls)),
        ["ready", "closing", "closing"]
    );
}

#[test]
fn new_credentials_wake_nothing_else() {
    let broken = web(120.0).start(0.0).down(0.0, 99.0, unreachable());
    let plain = broken.clone().live(&exact());
    let mut mended = broken;
    for n in 0..100 {
        mended = mended.then(f64::from(n), Happening::Mends);
    }
    assert_eq!(mended.live(&exact()).log, plain.log);
    let ready = web(20.0).start(0.0).then(5.0, Happening::Mends).live(&exact());
    assert_eq!((ready.starts.len(), ready.state), (1, "ready"));
}

#[test]
fn credentials_that_change_while_the_refused_attempt_still_runs_or_ends_are_tried() {
    for mended in [0.5, 1.2] {
        // Refused after a second, gone a moment later.
        let world = web(30.0).start(0.0).gone_in(0.05).broken_until(0.1, unauthorized(), 1.17);
        let life = world.then(mended, Happening::Mends).live(&exact());
        assert_eq!(
            (life.state, life.starts.len(), life.charges()),
            ("ready", 2, 1),
            "{mended}: {}",
            life.log
        );
    }
}

#[test]
fn a_session_whose_credentials_are_refused_parks() {
    let world = web(100.0).call(0.0).down(5.0, 60.0, unauthorized()).call(5.0).then(70.0, Happening::Mends);
    check(
        &exact(),
        world,
        "
        0.0s idle -> connecting
        0.1s connecting -> ready
        0.2s call 1: answered
        5.0s call 2: failed, not-sent: the server refused the credentials (HTTP 401); provide valid ones
        5.0s ready -> closing: the server refused the credentials (HTTP 401); provide valid ones
        5.0s closing -> parked: the server refused the credentials (HTTP 401); provide valid ones
        70.0s parked -> connecting
        70.1s connecting -> ready
        ",
    );
}

// Doubts.

#[test]
fn a_reset_raises_a_doubt_and_the_answer_to_the_probe_calms_it() {
    let world = web(60.0).start(0.0).answers_in(2.0).call(1.0).call(1.0);
    let life = check(
        &exact(),
        read(world, 1.0).then(2.0, Happening::Cuts(Fault::AnswerCut)),
        "
        0.0s idle -> connecting
        0.1s connecting -> ready
        2.0s call 1: failed, unknown: connection closed before the response was complete
        2.0s call 2: failed, unknown: connection closed before the response was complete
        4.25s call 3: answered
        ",
    );
    assert_eq!(count(&life, |notice| matches!(notice, Notice::Doubted(_))), 1, "three resets, one doubt");
    assert_eq!((life.probes.len(), life.charges(), life.state), (1, 0, "ready"));
}

#[test]
fn one_502_fails_its_call_alone() {
    let bad_gateway = Fault::Status { code: 502, said: String::new() };
    let world = read(web(20.0).start(0.0).down(2.0, 2.1, bad_gateway).call(2.0), 2.0).call(3.0);
    let life = check(
        &exact(),
        world,
        "
        0.0s idle -> connecting
        0.1s connecting -> ready
        2.0s call 1: failed, unknown: the server responded with HTTP 502
        2.35s call 2: answered
        3.1s call 3: answered
        ",
    );
    assert_eq!((life.probes.len(), life.charges(), life.sends[&2]), (0, 0, 2));
}

#[test]
fn a_probe_that_fails_at_once_ends_the_session() {
    let world = web(20.0).call(0.0).down(2.0, 2.4, unreachable()).call(2.0);
    let life = world.live(&exact());
    assert_eq!(life.probes, [at(2.0)]);
    assert!(life.log.contains("2.0s ready -> closing: localhost:80 cannot be reached"), "{}", life.log);
}

/// One call is on its way and takes six seconds when another finds that no new connection is to be had.
fn full_house() -> World {
    web(30.0).start(0.0).answers_in(6.0).call(1.0).down(2.0, 2.4, unreachable()).call(2.0)
}

#[test]
fn a_probe_that_fails_spares_a_session_with_older_calls_in_flight() {
    let life = check(
        &exact(),
        full_house(),
        "
        0.0s idle -> connecting
        0.1s connecting -> ready
        7.0s call 1: answered
        9.25s call 2: answered
        ",
    );
    assert_eq!((life.charges(), life.probes.len()), (0, 1));
}

#[test]
fn a_probe_that_fails_ends_the_session_as_soon_as_its_older_calls_have_ended() {
    let life = full_house().then(4.0, Happening::Cuts(Fault::AnswerCut)).live(&exact());
    assert!(life.log.contains("4.0s ready -> closing: the server did not respond"), "{}", life.log);
}

#[test]
fn a_habitual_probe_that_fails_spares_older_calls_too() {
    let policy = Policy { probe_while_busy: true, ..exact() };
    let world = web(200.0).start(0.0).answers_in(90.0).call(1.0).down(50.0, 70.0, unreachable());
    let life = world.live(&policy);
    assert_eq!((life.probes.is_empty(), life.charges(), life.answered()), (false, 0, 1), "{}", life.log);
}

#[test]
fn a_server_that_does_not_know_the_probe_is_not_ended_under_older_calls_for_one_that_failed() {
    let mut owner = Owner::new(&Policy { probe_while_busy: true, ..exact() }, 7);
    owner.event(at(0.0), Event::Start);
    let epoch = owner.epoch();
    owner.event(at(0.1), Event::Connected(epoch));
    owner.event(at(0.2), Event::ProbeRefused(epoch));
    let caller = owner.call(at(1.0), Duration::ZERO, Nature::Effect, None, 1);
    let id = owner.supervisor.ledger.find(|&c| c == caller).expect("it is pending");
    owner.supervisor.ledger.sent(id, 0);
    owner.concern(at(2.0), epoch, &Fault::AnswerCut);
    owner.event(at(2.0), Event::ProbeFailed(epoch, unreachable()));
    while let Some(due) = owner.deadline().filter(|&due| due < at(600.0)) {
        owner.tick(due);
    }
    assert_eq!((owner.lifecycle().state().name(), owner.epoch()), ("ready", epoch));
}

#[test]
fn a_half_open_connection_is_found_by_a_probe_and_its_calls_end() {
    let policy = Policy { probe_while_busy: true, ..exact() };
    let world = web(100.0).call(0.0).then(10.0, Happening::Hangs).call_within(20.0, 30.0).call(89.9);
    check(
        &policy,
        world,
        "
        0.0s idle -> connecting
        0.1s connecting -> ready
        0.2s call 1: answered
        50.0s call 2: timed out, unknown
        55.0s ready -> closing: the server did not respond for 54.8 s
        55.0s closing -> connecting
        55.1s connecting -> ready
        90.0s call 3: answered
        ",
    );
}

#[test]
fn a_server_that_is_busy_with_one_call_and_answers_no_probe_meanwhile_is_spared_for_it() {
    let policy = Policy { probe_while_busy: true, ..exact() };
    let world = web(200.0).call(0.0).then(10.0, Happening::Hangs).call_within(20.0, 130.0);
    check(
        &policy,
        world,
        "
        0.0s idle -> connecting
        0.1s connecting -> ready
        0.2s call 1: answered
        130.2s ready -> closing: the server did not respond for 130 s
        130.2s call 2: failed, unknown: the server did not respond for 130 s
        130.2s closing -> connecting
        130.3s connecting -> ready
        ",
    );
}

#[test]
fn a_probe_that_fails_is_news_only_to_who_asked() {
    let mut owner = Owner::new(&exact(), 7);
    owner.event(at(0.0), Event::Start);
    let epoch = owner.epoch();
    let fails = |owner: &mut Owner, now| {
        owner.told.clear();
        owner.event(now, Event::ProbeFailed(epoch, unreachable()));
        !owner.told.iter().any(|told| matches!(told, Told::Moved(..) | Told::Hangup(..)))
    };
    assert!(fails(&mut owner, at(0.5)), "while connecting");
    owner.event(at(1.0), Event::Connected(epoch));
    assert!(fails(&mut owner, at(1.5)), "while calm");
    let caller = owner.call(at(2.0), Duration::ZERO, Nature::Effect, None, 1);
    let id = owner.supervisor.ledger.find(|&c| c == caller).expect("it is pending");
    owner.supervisor.ledger.sent(id, 0);
    owner.reconnect(at(3.0), Requester::Person);
    assert!(fails(&mut owner, at(3.5)), "while draining");
    owner.answer(at(4.0), epoch, id, true);
    assert!(fails(&mut owner, at(4.5)), "while closing");
    owner.event(at(5.0), Event::Gone(epoch, None));
    assert!(fails(&mut owner, at(5.5)), "of an epoch that is over");
}

// Calls that pause when their session ends.

#[test]
fn a_drain_neither_waits_for_a_paused_call_nor_forgets_it() {
    let world = web(30.0).start(0.0).down(2.0, 2.1, deferred(6.0)).call(2.0);
    check(
        &exact(),
        world.then(3.0, Happening::Reconnect(Requester::Person)),
        "
        0.0s idle -> connecting
        0.1s connecting -> ready
        3.0s ready -> draining
        3.0s draining -> closing: planned
        3.0s closing -> connecting
        3.1s connecting -> ready
        8.1s call 1: answered
        ",
    );
}

#[test]
fn a_paused_call_ends_with_its_connection() {
    for end in [Happening::Drain, Happening::Close(regrow_core::Manner::Told)] {
        let world = web(30.0).start(0.0).down(2.0, 2.1, deferred(20.0)).call(2.0).then(3.0, end);
        let life = world.live(&exact());
        assert_eq!(life.fate(1), (3.0, &Fate::Failed(Delivery::NotSent, Fault::Closed)), "{}", life.log);
        assert_eq!(life.state, "closed");
    }
}

#[test]
fn a_paused_call_wakes_a_parked_connection_when_its_pause_is_over() {
    let policy = Policy { budget: regrow_core::BudgetPolicy { charges: 0, ..exact().budget }, ..exact() };
    let world = web(60.0).start(0.0).down(2.0, 2.1, deferred(10.0)).call(2.0).kill(3.0);
    check(
        &policy,
        world,
        "
        0.0s idle -> connecting
        0.1s connecting -> ready
        3.0s ready -> closing: killed by SIGKILL
        3.0s closing -> parked: killed by SIGKILL
        12.0s parked -> connecting
        12.1s connecting -> ready
        12.2s call 1: answered
        ",
    );
}

#[test]
fn what_is_deferred_or_mended_is_known_not_to_park() {
    let parks = |charges: u32, fault: Fault, mended: bool| {
        let budget = regrow_core::BudgetPolicy { charges, ..exact().budget };
        let mut owner = Owner::new(&Policy { budget, ..exact() }, 7);
        owner.event(at(0.0), Event::Start);
        let epoch = owner.epoch();
        owner.event(at(0.1), Event::Lost(epoch, fault));
        if mended {
            owner.event(at(0.2), Event::Mended);
        }
        let foreseen = owner.lifecycle().parks(at(0.2));
        owner.event(at(0.2), Event::Gone(epoch, None));
        assert_eq!(owner.lifecycle().state().name() == "parked", foreseen);
        foreseen
    };
    assert!(parks(0, unreachable(), false), "the budget is spent");
    assert!(!parks(0, deferred(5.0), false));
    assert!(parks(5, unauthorized(), false));
    assert!(!parks(5, unauthorized(), true));
    assert!(parks(0, unauthorized(), true), "the budget is spent");
}
