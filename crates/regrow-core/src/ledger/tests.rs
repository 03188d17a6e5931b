//! The ledger's promises, one by one.

use super::*;
use crate::{Evidence, Fault, Patience};
use Nature::{Discovery, Effect, Greeting, Read, Stream};

const MINUTE: Option<Duration> = Some(Duration::from_secs(60));
const ALL: u64 = u64::MAX;
/// It has not waited anywhere else.
const AT_ONCE: Duration = Duration::ZERO;

fn at(seconds: u64) -> Time {
    Time::from_millis(seconds * 1000)
}

fn ledger() -> Ledger<&'static str> {
    Ledger::new(Arc::new(Policy::default()))
}

/// A ledger whose first session is open.
fn open() -> Ledger<&'static str> {
    let mut ledger = ledger();
    ledger.open(Epoch(1));
    ledger
}

/// Makes a call at 0 s with a minute's time; returns its id.
fn call(ledger: &mut Ledger<&'static str>, nature: Nature, name: &'static str) -> CallId {
    match ledger.admit(at(0), AT_ONCE, nature, MINUTE, 1, name).expect("there is room") {
        Admission::Send(_, id) | Admission::Wait(id) => id,
    }
}

/// The names of the waiting calls as they leave to this session, with their ids.
fn dispatch(ledger: &mut Ledger<&'static str>, epoch: u64) -> Vec<(&'static str, CallId)> {
    ledger.open(Epoch(epoch));
    std::iter::from_fn(|| ledger.dispatch(Epoch(epoch)))
        .collect::<Vec<_>>()
        .into_iter()
        .map(|id| (*ledger.reply(id).expect("a dispatched call is known"), id))
        .collect()
}

fn names(calls: &[(&'static str, CallId)]) -> Vec<&'static str> {
    calls.iter().map(|&(name, _)| name).collect()
}

fn fates(over: &[Ended<&'static str>]) -> Vec<(&'static str, Delivery)> {
    over.iter().map(|ended| (ended.reply, ended.delivery)).collect()
}

#[test]
fn a_call_goes_to_the_live_session_and_waits_where_there_is_none() {
    let mut ledger = ledger();
    assert!(matches!(ledger.admit(at(0), AT_ONCE, Effect, MINUTE, 1, "a"), Ok(Admission::Wait(_))));
    ledger.open(Epoch(1));
    assert!(ledger.is_open());
    assert!(matches!(ledger.admit(at(0), AT_ONCE, Effect, MINUTE, 1, "b"), Ok(Admission::Send(Epoch(1), _))));
    ledger.hold(Epoch(1));
    assert!(matches!(ledger.admit(at(0), AT_ONCE, Effect, MINUTE, 1, "c"), Ok(Admission::Wait(_))));
    assert_eq!((ledger.waiting(), ledger.in_flight(Epoch(1)), ledger.len()), (2, 1, 3));
}

#[test]
fn streams_leave_before_the_calls_that_are_older() {
    let mut ledger = open();
    for (nature, name) in [(Read, "a"), (Stream, "b"), (Read, "c")] {
        call(&mut ledger, nature, name);
    }
    assert_eq!(ledger.settle(at(1), Epoch(1), u64::MAX, true), []);
    let streams = ledger.dispatch_streams(Epoch(2));
    assert_eq!(streams.iter().map(|&id| *ledger.reply(id).unwrap()).collect::<Vec<_>>(), ["b"]);
    assert_eq!(names(&dispatch(&mut ledger, 2)), ["a", "c"]);
}

#[test]
fn calls_that_move_leave_in_arrival_order_and_before_newer_ones() {
    let mut ledger = open();
    for name in ["a", "b", "c"] {
        call(&mut ledger, Effect, name);
    }
    assert_eq!(ledger.settle(at(1), Epoch(1), ALL, true), []);
    call(&mut ledger, Effect, "d");
    // Twice, so that ids and arrivals no longer agree.
    assert_eq!(names(&dispatch(&mut ledger, 2)), ["a", "b", "c", "d"]);
    call(&mut ledger, Effect, "e");
    ledger.settle(at(2), Epoch(2), ALL, true);
    call(&mut ledger, Effect, "f");
    assert_eq!(names(&dispatch(&mut ledger, 3)), ["a", "b", "c", "d", "e", "f"]);
}

#[test]
fn only_calls_that_lie_wholly_in_what_the_server_never_read_are_not_sent() {
    let mut ledger = open();
    for (name, position) in [("read", 0), ("half read", 100), ("unread", 200)] {
        let id = call(&mut ledger, Effect, name);
        ledger.sent(id, position);
    }
    call(&mut ledger, Effect, "unwritten");
    let over = ledger.settle(at(1), Epoch(1), 200, true);
    assert_eq!(fates(&over), [("read", Delivery::Unknown), ("half read", Delivery::Unknown)]);
    assert_eq!(names(&dispatch(&mut ledger, 2)), ["unread", "unwritten"]);
}

#[test]
fn the_first_position_of_a_call_counts() {
    let mut ledger = open();
    let id = call(&mut ledger, Effect, "a");
    ledger.sent(id, 10);
    ledger.sent(id, 500);
    assert_eq!(fates(&ledger.settle(at(1), Epoch(1), 100, true)), [("a", Delivery::Unknown)]);
}

#[test]
fn a_read_is_sent_at_most_three_times() {
    let mut ledger = open();
    let mut id = call(&mut ledger, Read, "a");
    for epoch in 1..=2 {
        ledger.sent(id, 0);
        assert_eq!(ledger.settle(at(1), Epoch(epoch), ALL, true), []);
        id = dispatch(&mut ledger, epoch + 1)[0].1;
    }
    ledger.sent(id, 0);
    assert_eq!(fates(&ledger.settle(at(1), Epoch(3), ALL, true)), [("a", Delivery::Unknown)]);
    assert!(ledger.is_empty());
}

#[test]
fn a_send_that_never_arrived_is_not_counted() {
    let mut ledger = open();
    call(&mut ledger, Effect, "a");
    for epoch in 1..=20 {
        assert_eq!(ledger.settle(at(1), Epoch(epoch), ALL, true), []);
        assert_eq!(names(&dispatch(&mut ledger, epoch + 1)), ["a"]);
    }
}

#[test]
fn no_call_is_written_more_than_three_times_whatever_became_of_it() {
    for nature in [Effect, Read, Discovery] {
        // On a pipe whose server never reads, and on exchanges that the server puts off.
        let mut piped = open();
        let mut put_off = open();
        let mut ids = [call(&mut piped, nature, "a"), call(&mut put_off, nature, "a")];
        for epoch in 1..=2 {
            piped.sent(ids[0], 0);
            put_off.sent(ids[1], 0);
            assert_eq!(piped.settle(at(1), Epoch(epoch), 0, true), []);
            assert_eq!(put_off.miss(at(epoch * 10), Epoch(1), ids[1], &deferred(1)), KEPT);
            ids[0] = dispatch(&mut piped, epoch + 1)[0].1;
            ids[1] = resumed(&mut put_off, at(epoch * 10 + 9), 1)[0].1;
        }
        piped.sent(ids[0], 0);
        put_off.sent(ids[1], 0);
        assert_eq!(fates(&piped.settle(at(1), Epoch(3), 0, true)), [("a", Delivery::NotSent)]);
        let over = fate(put_off.miss(at(30), Epoch(1), ids[1], &deferred(1)));
        assert_eq!(over, Some((Delivery::NotSent, Some(Epoch(1)))));
    }
}

#[test]
fn one_deadline_holds_over_all_sends() {
    let mut ledger = open();
    let id = call(&mut ledger, Read, "a");
    ledger.sent(id, 0);
    ledger.settle(at(50), Epoch(1), ALL, true);
    assert_eq!(ledger.deadline(), Some(at(60)));
    dispatch(&mut ledger, 2);
    assert_eq!(ledger.deadline(), Some(at(60)));
    assert_eq!(ledger.expire(at(59)), []);
    assert_eq!(ledger.expire(at(60)).len(), 1);
    assert_eq!(ledger.deadline(), None);
}

#[test]
fn a_call_whose_time_is_over_does_not_move() {
    let mut ledger = open();
    call(&mut ledger, Effect, "a");
    assert_eq!(fates(&ledger.settle(at(60), Epoch(1), ALL, true)), [("a", Delivery::NotSent)]);
}

#[test]
fn an_answer_reaches_only_the_outstanding_call_of_its_session_and_id() {
    let mut ledger = open();
    let old = call(&mut ledger, Read, "a");
    ledger.sent(old, 0);
    assert_eq!(ledger.answer(Epoch(2), old, true), None, "another session");
    assert_eq!(ledger.answer(Epoch(1), CallId(99), true), None, "another id");
    ledger.settle(at(1), Epoch(1), ALL, true);
    assert_eq!(ledger.answer(Epoch(1), old, true), None, "it waits");
    let new = dispatch(&mut ledger, 2)[0].1;
    assert_eq!(ledger.answer(Epoch(1), old, true), None, "late");
    assert_eq!(ledger.answer(Epoch(2), old, true), None, "the id of the first send");
    assert_eq!(ledger.answer(Epoch(1), new, true), None, "the session of the first send");
    assert_eq!(ledger.answer(Epoch(2), new, true), Some("a"));
    assert_eq!(ledger.answer(Epoch(2), new, true), None, "twice");
}

#[test]
fn only_a_result_of_a_clients_request_proves_a_server() {
    let mut ledger = open();
    let own = ledger.admit_own(at(0), Epoch(1), Duration::from_secs(9), "own");
    ledger.answer(Epoch(1), own, true);
    for nature in [Greeting, Discovery] {
        let id = call(&mut ledger, nature, "handshake");
        ledger.answer(Epoch(1), id, true);
    }
    let error = call(&mut ledger, Effect, "error");
    ledger.answer(Epoch(1), error, false);
    assert!(!ledger.has_answered(Epoch(1)));
    let result = call(&mut ledger, Effect, "result");
    ledger.answer(Epoch(1), result, true);
    assert!(ledger.has_answered(Epoch(1)) && !ledger.has_answered(Epoch(2)));
}

#[test]
fn calls_over_the_bounds_are_refused_at_once() {
    let policy = Policy { max_calls: 3, max_pending_bytes: 100, ..Policy::default() };
    let mut ledger = Ledger::new(Arc::new(policy));
    ledger.open(Epoch(1));
    for _ in 0..2 {
        let Ok(Admission::Send(_, huge)) = ledger.admit(at(0), AT_ONCE, Effect, MINUTE, 1000, "huge") else {
            panic!("one call is always taken, whatever its size, when all bytes were given back")
        };
        assert_eq!(ledger.admit(at(0), AT_ONCE, Effect, MINUTE, 1, "a"), Err((Refusal::Overloaded, "a")));
        ledger.answer(Epoch(1), huge, true);
    }
    for name in ["a", "b", "c"] {
        assert!(ledger.admit(at(0), AT_ONCE, Effect, MINUTE, 1, name).is_ok());
    }
    assert_eq!(ledger.admit(at(0), AT_ONCE, Effect, MINUTE, 1, "d"), Err((Refusal::Overloaded, "d")));
}

#[test]
fn calls_may_hold_as_many_bytes_as_the_bound_says_and_no_more() {
    let policy = Policy { max_pending_bytes: 100, ..Policy::default() };
    let mut ledger = Ledger::new(Arc::new(policy));
    for (bytes, name) in [(60, "a"), (40, "b")] {
        assert!(ledger.admit(at(0), AT_ONCE, Effect, MINUTE, bytes, name).is_ok(), "{name}");
    }
    assert_eq!(ledger.admit(at(0), AT_ONCE, Effect, MINUTE, 1, "c"), Err((Refusal::Overloaded, "c")));
}

#[test]
fn what_a_server_can_have_seen_is_what_it_has_read_of_its_clients_calls() {
    let mut ledger = open();
    for (nature, name, position) in
        [(Effect, "a", 0), (Read, "b", 10), (Stream, "stream", 20), (Read, "c", 30)]
    {
        let id = call(&mut ledger, nature, name);
        ledger.sent(id, position);
    }
    call(&mut ledger, Effect, "unwritten");
    let seen = [0, 1, 30, 31, ALL].map(|read| ledger.seen(Epoch(1), read));
    assert_eq!((seen, ledger.in_flight(Epoch(1)), ledger.seen(Epoch(2), ALL)), ([0, 1, 2, 3, 3], 4, 0));
}

#[test]
fn the_eldest_is_a_clients_call_that_has_gone_to_the_server() {
    let mut ledger = open();
    let at_second = |ledger: &mut Ledger<_>, second: u64, nature: Nature| {
        let Ok(Admission::Send(_, id)) = ledger.admit(at(second), AT_ONCE, nature, MINUTE, 1, "call") else {
            panic!("a session is open")
        };
        id
    };
    let own = ledger.admit_own(at(1), Epoch(1), Duration::from_secs(9), "own");
    let stream = at_second(&mut ledger, 2, Stream);
    at_second(&mut ledger, 3, Effect);
    for id in [own, stream] {
        ledger.sent(id, 0);
    }
    assert_eq!(ledger.eldest(Epoch(1)), None);
    let [old, new] = [4, 5].map(|second| at_second(&mut ledger, second, Effect));
    for id in [old, new] {
        ledger.sent(id, 0);
    }
    assert_eq!((ledger.eldest(Epoch(1)), ledger.eldest(Epoch(2))), (Some(at(4)), None));
    assert_eq!(ledger.eldest_of(Epoch(1), |id| id != old), Some(at(5)));
}

#[test]
fn a_call_is_on_the_session_that_owes_its_answer_and_nowhere_else() {
    let mut ledger = open();
    let id = call(&mut ledger, Read, "a");
    assert!(ledger.is_on(Epoch(1), id) && !ledger.is_on(Epoch(2), id) && !ledger.is_on(Epoch(1), CallId(99)));
    ledger.settle(at(1), Epoch(1), ALL, true);
    assert!(!ledger.is_on(Epoch(1), id), "it waits");
}

#[test]
fn something_can_be_noted_about_a_call() {
    let mut ledger = open();
    let id = call(&mut ledger, Stream, "opened");
    *ledger.reply_mut(id).expect("it is pending") = "acknowledged";
    assert_eq!(ledger.reply(id), Some(&"acknowledged"));
}

#[test]
fn a_closed_ledger_takes_and_moves_nothing() {
    let mut ledger = open();
    assert!(!ledger.is_closed());
    call(&mut ledger, Effect, "a");
    call(&mut ledger, Stream, "stream");
    ledger.close();
    assert!(ledger.is_closed());
    assert_eq!(ledger.admit(at(0), AT_ONCE, Effect, MINUTE, 1, "b"), Err((Refusal::Closed, "b")));
    let over = ledger.settle(at(1), Epoch(1), ALL, true);
    assert_eq!(fates(&over), [("a", Delivery::NotSent), ("stream", Delivery::NotSent)]);
    assert!(ledger.is_empty());
}

#[test]
fn when_an_attempt_fails_handshakes_and_streams_go_on_waiting_unless_it_is_for_good() {
    let mut ledger = ledger();
    for (nature, name) in [(Greeting, "hello"), (Stream, "stream"), (Effect, "a"), (Read, "b")] {
        call(&mut ledger, nature, name);
    }
    let over = ledger.fail_calls();
    assert_eq!(fates(&over), [("a", Delivery::NotSent), ("b", Delivery::NotSent)]);
    assert_eq!(ledger.waiting(), 1, "and a stream alone wakes nobody");
    let mut closed = ledger.clone();
    let over = ledger.clone().fail_waiting(&Fault::Exited { code: 1 });
    assert_eq!(fates(&over), [("hello", Delivery::NotSent)], "a first start that has failed");
    call(&mut ledger, Greeting, "again");
    call(&mut ledger, Effect, "c");
    let over = ledger.fail_attempt(at(1), &Fault::Exited { code: 1 }, true, Patience::None);
    assert_eq!(fates(&over), [], "a first start that goes on, and what was sent behind the handshake");
    let over = ledger.clone().fail_attempt(at(1), &Fault::Exited { code: 1 }, false, Patience::None);
    assert_eq!(fates(&over).len(), 3, "it is over");
    ledger.cancel(ledger.find(|name| *name == "again").expect("it waits"));
    assert_eq!(ledger.fail_waiting(&Fault::NotFound { program: "x".into() }).len(), 3);
    assert!(ledger.is_empty());
    closed.close();
    assert_eq!(closed.fail_waiting(&Fault::Closed).len(), 2);
}

#[test]
fn a_patient_call_waits_through_failing_attempts_and_ends_with_their_number() {
    let exited = Fault::Exited { code: 1 };
    let mut ledger = ledger();
    for (nature, name) in [(Greeting, "hello"), (Stream, "stream"), (Effect, "a"), (Read, "b")] {
        call(&mut ledger, nature, name);
    }
    assert_eq!(ledger.fail_attempt(at(1), &exited, false, Patience::All), []);
    assert_eq!(ledger.fail_attempt(at(9), &exited, false, Patience::All), []);
    let over = ledger.fail_attempt(at(10), &exited, false, Patience::All);
    assert_eq!(fates(&over), ["hello", "a", "b"].map(|name| (name, Delivery::NotSent)));
    assert!(over.iter().all(|ended| ended.attempts == 3));
    let missing = Fault::NotFound { program: "x".into() };
    assert_eq!(ledger.fail_attempt(at(10), &missing, false, Patience::All).len(), 1, "for good");
}

#[test]
fn only_calls_taken_before_it_parked_and_that_did_not_run_are_patient() {
    let exited = Fault::Exited { code: 1 };
    let mut ledger = open();
    let id = call(&mut ledger, Read, "ran");
    ledger.sent(id, 0);
    let id = call(&mut ledger, Effect, "unread");
    ledger.sent(id, 10);
    ledger.settle(at(20), Epoch(1), 10, true);
    ledger.admit(at(21), AT_ONCE, Effect, MINUTE, 1, "early").expect("it is taken");
    ledger.admit(at(22), AT_ONCE, Effect, MINUTE, 1, "parked").expect("it is taken");
    let over = ledger.fail_attempt(at(23), &exited, false, Patience::TakenBefore(at(22)));
    assert_eq!(fates(&over), [("ran", Delivery::Unknown), ("parked", Delivery::NotSent)]);
    let over = ledger.fail_attempt(at(30), &exited, false, Patience::All);
    assert_eq!(fates(&over), [("unread", Delivery::NotSent)], "its patience starts when its session is lost");
    let over = ledger.fail_attempt(at(30), &exited, false, Patience::None);
    assert_eq!(fates(&over), [("early", Delivery::NotSent)]);
}

#[test]
fn where_an_operator_wants_no_session_only_streams_go_on_waiting() {
    let mut ledger = ledger();
    for (nature, name) in [(Greeting, "hello"), (Stream, "stream"), (Discovery, "era"), (Effect, "a")] {
        call(&mut ledger, nature, name);
    }
    let over = ledger.fail_waiting(&Fault::Parked);
    assert_eq!(fates(&over), ["hello", "era", "a"].map(|name| (name, Delivery::NotSent)));
    assert_eq!((ledger.len(), ledger.has_streams()), (1, true));
}

#[test]
fn pending_are_the_calls_of_clients_wherever_they_are_but_no_streams() {
    let mut ledger = open();
    call(&mut ledger, Effect, "in flight");
    let missed = sent(&mut ledger, Read, "paused");
    ledger.miss(at(1), Epoch(1), missed, &Fault::AnswerCut);
    ledger.admit_own(at(1), Epoch(1), Duration::from_secs(1), "ours");
    assert!(!ledger.has_streams());
    call(&mut ledger, Stream, "stream");
    ledger.hold(Epoch(1));
    call(&mut ledger, Effect, "waiting");
    assert_eq!((ledger.pending(), ledger.len(), ledger.has_streams()), (3, 5, true));
}

#[test]
fn a_waiting_call_that_was_sent_before_may_have_run() {
    let mut ledger = open();
    let id = call(&mut ledger, Read, "a");
    ledger.sent(id, 0);
    ledger.settle(at(1), Epoch(1), ALL, true);
    assert_eq!(fates(&ledger.fail_waiting(&Fault::Exited { code: 1 })), [("a", Delivery::Unknown)]);
}

#[test]
fn our_own_calls_never_move_and_do_not_make_a_session_busy() {
    let mut ledger = open();
    ledger.admit_own(at(0), Epoch(1), Duration::from_secs(9), "probe");
    assert_eq!(ledger.in_flight(Epoch(1)), 0);
    assert_eq!(ledger.deadline(), Some(at(9)));
    assert_eq!(fates(&ledger.settle(at(1), Epoch(1), ALL, true)), [("probe", Delivery::NotSent)]);
}

#[test]
fn a_stream_has_no_deadline_no_limit_of_sends_and_does_not_make_a_session_busy() {
    let mut ledger = open();
    let mut id = call(&mut ledger, Stream, "stream");
    assert_eq!((ledger.deadline(), ledger.in_flight(Epoch(1))), (None, 0));
    for epoch in 1..=1000 {
        ledger.sent(id, 0);
        assert_eq!(ledger.settle(at(epoch * 3600), Epoch(epoch), ALL, true), []);
        id = dispatch(&mut ledger, epoch + 1)[0].1;
    }
}

#[test]
fn a_stream_that_ends_because_its_session_is_hung_up_goes_on() {
    let mut ledger = open();
    let id = call(&mut ledger, Stream, "stream");
    ledger.sent(id, 0);
    ledger.hold(Epoch(1));
    assert_eq!(ledger.answer(Epoch(1), id, true), None);
    assert_eq!(ledger.settle(at(1), Epoch(1), ALL, true), []);
    let id = dispatch(&mut ledger, 2)[0].1;
    assert_eq!(ledger.answer(Epoch(2), id, true), Some("stream"), "here the server itself ended it");
}

#[test]
fn a_server_that_leaves_at_a_discover_it_has_read_does_not_know_it() {
    let refused = |position: Option<u64>, greeted| {
        let mut ledger = open();
        let id = call(&mut ledger, Discovery, "discover");
        if let Some(position) = position {
            ledger.sent(id, position);
        }
        ledger.settle(at(1), Epoch(1), 100, greeted).first().is_some_and(|ended| ended.refused)
    };
    assert!(refused(Some(0), false));
    assert!(!refused(Some(0), true), "after the handshake it is a read like any other");
    assert!(!refused(Some(100), false) && !refused(None, false), "it never saw the question");
}

#[test]
fn a_cancelled_call_leaves_nothing_behind() {
    let mut ledger = open();
    let id = call(&mut ledger, Effect, "a");
    ledger.sent(id, 0);
    let ended = ledger.cancel(id).expect("it was pending");
    assert_eq!((ended.delivery, ended.epoch), (Delivery::Unknown, Some(Epoch(1))));
    assert_eq!((ledger.cancel(id), ledger.answer(Epoch(1), id, true)), (None, None));
    assert_eq!((ledger.len(), ledger.deadline()), (0, None));
    ledger.hold(Epoch(1));
    let id = call(&mut ledger, Effect, "b");
    assert_eq!(ledger.cancel(id).map(|ended| ended.delivery), Some(Delivery::NotSent));
    assert_eq!((ledger.waiting(), ledger.dispatch(Epoch(2))), (0, None));
}

#[test]
fn progress_starts_a_deadline_anew_but_never_past_the_limit() {
    let mut ledger = open();
    let id = call(&mut ledger, Effect, "a");
    ledger.extend(at(0), id);
    let mut now = 0;
    while ledger.deadline() < Some(at(3600)) {
        now += 30;
        ledger.extend(at(now), id);
    }
    assert_eq!(ledger.deadline(), Some(at(3600)));
    ledger.extend(at(3590), id);
    assert_eq!(ledger.deadline(), Some(at(3600)));
}

#[test]
fn a_call_that_an_earlier_session_may_have_run_is_never_said_to_be_not_sent() {
    let moved = || {
        let mut ledger = open();
        let id = call(&mut ledger, Read, "a");
        ledger.sent(id, 0);
        ledger.settle(at(1), Epoch(1), ALL, true);
        dispatch(&mut ledger, 2);
        ledger
    };
    let mut ledger = moved();
    assert_eq!(
        fates(&ledger.expire(at(60))),
        [("a", Delivery::Unknown)],
        "nothing of the second send was written"
    );
    let mut ledger = moved();
    ledger.close();
    assert_eq!(fates(&ledger.settle(at(2), Epoch(2), ALL, true)), [("a", Delivery::Unknown)]);
}

#[test]
fn no_id_is_used_on_two_sessions() {
    let mut ledger = open();
    let old = call(&mut ledger, Effect, "a");
    ledger.sent(old, 900);
    ledger.settle(at(1), Epoch(1), 100, true);
    let new = dispatch(&mut ledger, 2)[0].1;
    assert_ne!(old, new);
    // The first session's writer is late with its news, which would pass for a position on the second.
    ledger.sent(old, 900);
    ledger.sent(new, 0);
    assert_eq!(fates(&ledger.settle(at(2), Epoch(2), 500, true)), [("a", Delivery::Unknown)]);
}

#[test]
fn progress_gives_a_call_its_own_timeout_anew() {
    let mut ledger = open();
    let id = call(&mut ledger, Effect, "a");
    ledger.extend(at(30), id);
    assert_eq!(ledger.deadline(), Some(at(90)), "its own minute, not the default of five");
}

#[test]
fn what_a_call_has_waited_elsewhere_is_taken_from_its_time() {
    let waited = Duration::from_secs(20);
    let mut ledger = open();
    let Ok(Admission::Send(_, id)) = ledger.admit(at(20), waited, Effect, MINUTE, 1, "a") else {
        panic!("it has forty seconds left")
    };
    assert_eq!(ledger.deadline(), Some(at(60)));
    ledger.extend(at(50), id);
    assert_eq!(ledger.deadline(), Some(at(110)), "progress gives it its whole minute");
    (80..3600).step_by(30).for_each(|now| ledger.extend(at(now), id));
    assert_eq!(ledger.deadline(), Some(at(3600)), "its limit runs since it waited, too");
}

#[test]
fn a_call_whose_time_is_over_when_it_comes_goes_nowhere_and_is_told_so() {
    let late = Duration::from_secs(60);
    for mut ledger in [open(), ledger()] {
        ledger.stop_clock(at(80));
        assert!(matches!(ledger.admit(at(90), late, Effect, MINUTE, 1, "a"), Ok(Admission::Wait(_))));
        assert_eq!((ledger.waiting(), ledger.dispatch(Epoch(1))), (0, None), "no session is for it");
        assert_eq!(ledger.deadline(), Some(at(90)), "even if the clock stands still");
        let told: Vec<_> = ledger.expire(at(90)).iter().map(|ended| (ended.reply, ended.delivery)).collect();
        assert_eq!(told, [("a", Delivery::NotSent)]);
    }
}

#[test]
fn what_has_no_time_is_never_late() {
    let late = Duration::from_secs(60);
    let mut ledger = open();
    assert!(matches!(ledger.admit(at(90), late, Effect, None, 1, "a"), Ok(Admission::Send(..))));
    assert!(matches!(ledger.admit(at(90), late, Stream, MINUTE, 1, "b"), Ok(Admission::Send(..))));
    assert_eq!(ledger.deadline(), None);
}

#[test]
fn deadlines_stand_still_while_the_clock_is_stopped() {
    let mut ledger = open();
    call(&mut ledger, Effect, "a");
    ledger.stop_clock(at(10));
    ledger.stop_clock(at(20));
    assert_eq!(ledger.expire(at(1000)), []);
    ledger.start_clock(at(1010));
    assert_eq!(ledger.deadline(), Some(at(1060)));
    assert_eq!(ledger.expire(at(1060)).len(), 1);
}

#[test]
fn a_call_made_while_the_clock_is_stopped_gains_only_what_it_stood_itself() {
    let mut ledger = open();
    ledger.stop_clock(at(0));
    ledger.admit(at(100), AT_ONCE, Effect, MINUTE, 1, "a").expect("there is room");
    ledger.start_clock(at(110));
    assert_eq!(ledger.deadline(), Some(at(170)));
}

#[test]
fn a_call_moves_even_if_its_time_would_be_over_had_the_clock_not_stopped() {
    let mut ledger = open();
    call(&mut ledger, Effect, "a");
    ledger.stop_clock(at(10));
    assert_eq!(ledger.settle(at(500), Epoch(1), ALL, true), []);
}

#[test]
fn no_stopped_clock_keeps_a_call_beyond_its_limit() {
    let mut ledger = open();
    call(&mut ledger, Effect, "a");
    ledger.stop_clock(at(50));
    ledger.admit(at(3000), AT_ONCE, Effect, MINUTE, 1, "b").expect("there is room");
    assert_eq!(ledger.deadline(), Some(at(3600)));
    assert_eq!(fates(&ledger.expire(at(3600))), [("a", Delivery::NotSent)]);
    assert_eq!(ledger.deadline(), Some(at(3650)), "then the clock goes on on its own");
    assert_eq!(ledger.expire(at(3650)), []);
    assert_eq!(ledger.deadline(), Some(at(3710)), "the minute of b began to count");
}

// Calls with an exchange of their own.

/// Sent, and whatever may be said of it after that was said by the server or its network.
fn sent(ledger: &mut Ledger<&'static str>, nature: Nature, name: &'static str) -> CallId {
    let id = call(ledger, nature, name);
    ledger.sent(id, 0);
    id
}

fn status(code: u16) -> Fault {
    Fault::Status { code, said: String::new() }
}

fn deferred(seconds: u64) -> Fault {
    Fault::Deferred { code: 429, after: Duration::from_secs(seconds) }
}

fn unreachable() -> Fault {
    Fault::Unreachable { address: "localhost:1".into(), reason: "connection refused".into() }
}

const KEPT: Option<MissedCall<&'static str>> = Some(MissedCall::Kept);

/// How a missed call ended; none if it is kept.
fn fate(missed: Option<MissedCall<&'static str>>) -> Option<(Delivery, Option<Epoch>)> {
    match missed.expect("the call was on this session") {
        MissedCall::Kept => None,
        MissedCall::Over(ended) => Some((ended.delivery, ended.epoch)),
    }
}

/// Ends the pauses that are over, and gives the names of the calls that leave to this session.
fn resumed(ledger: &mut Ledger<&'static str>, now: Time, epoch: u64) -> Vec<(&'static str, CallId)> {
    if ledger.end_pauses(now) { dispatch(ledger, epoch) } else { vec![] }
}

#[test]
fn a_call_that_may_have_run_is_sent_again_only_if_safe() {
    let mut ledger = open();
    let effect = sent(&mut ledger, Effect, "effect");
    let read = sent(&mut ledger, Read, "read");
    let unknown = Some((Delivery::Unknown, Some(Epoch(1))));
    assert_eq!(fate(ledger.miss(at(1), Epoch(1), effect, &Fault::AnswerCut)), unknown);
    assert_eq!(ledger.miss(at(1), Epoch(1), read, &Fault::AnswerCut), KEPT);
    assert_eq!((ledger.waiting(), ledger.in_flight(Epoch(1)), ledger.len()), (0, 0, 1), "it pauses");
}

#[test]
fn a_call_that_provably_did_not_run_is_sent_again_whatever_it_is() {
    let did_not = [unreachable(), Fault::SessionExpired { ran: false }, deferred(1)];
    for fault in &did_not {
        let mut ledger = open();
        let id = sent(&mut ledger, Effect, "a");
        assert_eq!(ledger.miss(at(1), Epoch(1), id, fault), KEPT, "{fault}");
    }
    // Nothing of it was given to the network: then no fault is proof that it ran.
    let mut ledger = open();
    let id = call(&mut ledger, Effect, "a");
    assert_eq!(ledger.miss(at(1), Epoch(1), id, &Fault::AnswerCut), KEPT);
}

#[test]
fn what_would_be_refused_again_is_not_sent_again() {
    let refusals = [
        (status(404), Delivery::Unknown),
        (status(405), Delivery::NotSent),
        (Fault::Unauthorized { code: 401 }, Delivery::NotSent),
        (Fault::Redirected { to: "https://elsewhere".into() }, Delivery::NotSent),
        (Fault::Untrusted { host: "h".into(), reason: "expired".into() }, Delivery::NotSent),
        (Fault::NotMcp { found: "a web page".into() }, Delivery::Unknown),
    ];
    for (fault, delivery) in refusals {
        let mut ledger = open();
        let id = sent(&mut ledger, Read, "a");
        assert_eq!(
            fate(ledger.miss(at(1), Epoch(1), id, &fault)),
            Some((delivery, Some(Epoch(1)))),
            "{fault}"
        );
        assert!(ledger.is_empty());
    }
}

#[test]
fn a_call_is_sent_again_on_this_session_after_a_short_pause_under_a_new_id() {
    let mut ledger = open();
    let old = sent(&mut ledger, Read, "a");
    ledger.miss(at(1), Epoch(1), old, &status(502));
    let pause_ends = at(1) + Policy::default().resend_pause;
    assert_eq!(ledger.pause_ends(), Some(pause_ends));
    assert_eq!(resumed(&mut ledger, at(1), 1), []);
    let resent = resumed(&mut ledger, pause_ends, 1);
    assert_eq!((names(&resent), ledger.pause_ends(), ledger.pauses), (vec!["a"], None, 0));
    let new = resent[0].1;
    assert_ne!(old, new);
    assert_eq!(ledger.answer(Epoch(1), old, true), None, "late");
    assert_eq!(ledger.answer(Epoch(1), new, true), Some("a"));
}

#[test]
fn a_read_whose_exchanges_fail_is_sent_at_most_three_times() {
    let mut ledger = open();
    let mut id = sent(&mut ledger, Read, "a");
    for second in 1..=2 {
        assert_eq!(ledger.miss(at(second * 10), Epoch(1), id, &status(502)), KEPT);
        id = resumed(&mut ledger, at(second * 10 + 9), 1)[0].1;
        ledger.sent(id, 0);
    }
    assert_eq!(
        fate(ledger.miss(at(30), Epoch(1), id, &status(502))),
        Some((Delivery::Unknown, Some(Epoch(1))))
    );
}

#[test]
fn a_read_whose_response_has_begun_is_not_sent_again() {
    let mut ledger = open();
    let id = sent(&mut ledger, Read, "cut");
    assert!(ledger.begin_response(Epoch(1), id));
    let missed = ledger.miss(at(1), Epoch(1), id, &Fault::AnswerCut);
    assert_eq!(fate(missed), Some((Delivery::Unknown, Some(Epoch(1)))));

    let id = sent(&mut ledger, Read, "lost");
    assert!(ledger.begin_response(Epoch(1), id));
    assert_eq!(fates(&ledger.settle(at(1), Epoch(1), ALL, true)), [("lost", Delivery::Unknown)]);

    let mut ledger = open();
    let id = sent(&mut ledger, Read, "moved");
    assert_eq!(ledger.settle(at(1), Epoch(1), ALL, true), []);
    assert!(!ledger.begin_response(Epoch(1), id), "the next session has it");
    assert_eq!(names(&dispatch(&mut ledger, 2)), ["moved"]);
}

#[test]
fn a_call_that_may_have_run_once_is_never_said_to_be_not_sent() {
    let mut ledger = open();
    let id = sent(&mut ledger, Read, "a");
    ledger.miss(at(1), Epoch(1), id, &Fault::AnswerCut);
    let mut paused = ledger.clone();
    assert_eq!(paused.cancel(id).map(|ended| ended.delivery), Some(Delivery::Unknown));
    let mut expired = ledger.clone();
    assert_eq!(fates(&expired.expire(at(60))), [("a", Delivery::Unknown)]);
    let id = resumed(&mut ledger, at(2), 1)[0].1;
    let over = ledger.miss(at(2), Epoch(1), id, &Fault::Unauthorized { code: 401 });
    assert_eq!(fate(over), Some((Delivery::Unknown, Some(Epoch(1)))), "the second time it did not run");
}

#[test]
fn a_miss_of_another_session_or_of_an_older_send_is_no_news() {
    let mut ledger = open();
    let id = sent(&mut ledger, Read, "a");
    assert_eq!(ledger.miss(at(1), Epoch(2), id, &status(502)), None, "another session");
    ledger.miss(at(1), Epoch(1), id, &status(502));
    assert_eq!(ledger.miss(at(1), Epoch(1), id, &status(502)), None, "it pauses");
    let id = resumed(&mut ledger, at(2), 1)[0].1;
    ledger.answer(Epoch(1), id, true);
    assert_eq!(ledger.miss(at(2), Epoch(1), id, &status(502)), None, "it was answered");
}

#[test]
fn our_own_calls_are_never_sent_again() {
    let mut ledger = open();
    let id = ledger.admit_own(at(0), Epoch(1), Duration::from_secs(9), "probe");
    assert_eq!(
        fate(ledger.miss(at(1), Epoch(1), id, &unreachable())),
        Some((Delivery::NotSent, Some(Epoch(1))))
    );
}

#[test]
fn a_server_that_asks_for_a_pause_gets_it_up_to_the_limit() {
    let limit = Policy::default().defer_limit.as_secs();
    let mut ledger = ledger();
    ledger.open(Epoch(1));
    for (name, asked) in [("at the limit", limit), ("beyond it", limit + 1)] {
        let Ok(Admission::Send(_, id)) = ledger.admit(at(0), AT_ONCE, Effect, None, 1, name) else {
            panic!("{name}")
        };
        ledger.sent(id, 0);
        let over = fate(ledger.miss(at(0), Epoch(1), id, &deferred(asked)));
        assert_eq!(over, (asked > limit).then_some((Delivery::NotSent, Some(Epoch(1)))), "{name}");
    }
    assert_eq!(ledger.pause_ends(), Some(at(limit)));
}

#[test]
fn a_server_that_asks_for_no_pause_at_all_is_given_a_short_one() {
    let mut ledger = open();
    let id = sent(&mut ledger, Effect, "a");
    assert_eq!(ledger.miss(at(1), Epoch(1), id, &deferred(0)), KEPT);
    assert_eq!(
        ledger.pause_ends(),
        Some(at(1) + Policy::default().resend_pause),
        "or we would not let it be"
    );
}

#[test]
fn a_pause_that_ends_after_the_calls_deadline_is_not_begun() {
    let mut ledger = open();
    let [early, late] = ["early", "late"].map(|name| sent(&mut ledger, Effect, name));
    assert_eq!(ledger.miss(at(20), Epoch(1), early, &deferred(39)), KEPT);
    let over = fate(ledger.miss(at(20), Epoch(1), late, &deferred(40)));
    assert_eq!(over, Some((Delivery::NotSent, Some(Epoch(1)))), "it has a minute in all");
}

#[test]
fn a_stopped_clock_leaves_time_for_a_pause() {
    let mut ledger = open();
    let id = sent(&mut ledger, Effect, "a");
    ledger.stop_clock(at(10));
    assert_eq!(ledger.miss(at(500), Epoch(1), id, &deferred(30)), KEPT, "it has fifty seconds left");
    ledger.start_clock(at(510));
    assert_eq!((ledger.pause_ends(), ledger.deadline()), (Some(at(530)), Some(at(560))));
    let id = resumed(&mut ledger, at(530), 1)[0].1;
    ledger.sent(id, 0);
    assert_eq!(
        fate(ledger.miss(at(540), Epoch(1), id, &deferred(30))),
        Some((Delivery::NotSent, Some(Epoch(1))))
    );
}

#[test]
fn a_paused_call_ends_by_its_deadline() {
    let mut ledger = open();
    let id = sent(&mut ledger, Effect, "a");
    ledger.miss(at(0), Epoch(1), id, &deferred(59));
    ledger.stop_clock(at(1));
    ledger.start_clock(at(1));
    assert_eq!(ledger.deadline(), Some(at(60)));
    assert_eq!(fates(&ledger.expire(at(60))), [("a", Delivery::NotSent)]);
    assert_eq!((ledger.pause_ends(), ledger.pauses, ledger.is_empty()), (None, 0, true));
    assert!(!ledger.end_pauses(at(99)));
}

#[test]
fn a_held_session_sends_its_paused_calls_to_the_next_in_arrival_order() {
    let mut ledger = open();
    for name in ["a", "b"] {
        let id = sent(&mut ledger, Read, name);
        ledger.miss(at(1), Epoch(1), id, &status(502));
    }
    call(&mut ledger, Effect, "c");
    ledger.hold(Epoch(1));
    call(&mut ledger, Effect, "d");
    assert_eq!((ledger.waiting(), ledger.pause_ends()), (3, None));
    assert_eq!(ledger.in_flight(Epoch(1)), 1, "a drain waits for c alone");
    ledger.settle(at(1), Epoch(1), ALL, true);
    assert_eq!(names(&dispatch(&mut ledger, 2)), ["a", "b", "c", "d"]);
}

#[test]
fn a_call_whose_exchange_fails_on_a_held_session_waits_for_the_next_without_a_pause() {
    let mut ledger = open();
    let id = sent(&mut ledger, Read, "a");
    ledger.hold(Epoch(1));
    assert_eq!(ledger.miss(at(1), Epoch(1), id, &Fault::AnswerCut), KEPT);
    call(&mut ledger, Effect, "b");
    assert_eq!(ledger.pause_ends(), None);
    assert_eq!(names(&dispatch(&mut ledger, 2)), ["a", "b"]);
}

#[test]
fn a_pause_that_the_server_asked_for_outlasts_its_session() {
    let mut ledger = open();
    let id = sent(&mut ledger, Effect, "a");
    ledger.miss(at(1), Epoch(1), id, &deferred(30));
    ledger.hold(Epoch(1));
    assert_eq!((ledger.settle(at(2), Epoch(1), ALL, true), ledger.waiting()), (vec![], 0));
    assert_eq!(dispatch(&mut ledger, 2), []);
    assert_eq!(resumed(&mut ledger, at(30), 2), []);
    assert_eq!(names(&resumed(&mut ledger, at(31), 2)), ["a"]);
}

#[test]
fn a_forgotten_session_gets_no_more_calls() {
    let mut ledger = open();
    let [paused, told] = ["paused", "told"].map(|name| sent(&mut ledger, Read, name));
    ledger.miss(at(1), Epoch(1), paused, &status(502));
    assert_eq!(ledger.miss(at(1), Epoch(1), told, &Fault::SessionExpired { ran: true }), KEPT);
    assert!(!ledger.is_open());
    assert!(matches!(ledger.admit(at(1), AT_ONCE, Effect, MINUTE, 1, "new"), Ok(Admission::Wait(_))));
    assert_eq!(names(&dispatch(&mut ledger, 2)), ["paused", "told", "new"]);
}

#[test]
fn a_session_that_forgot_us_after_all_did_not_run_an_unsafe_call_twice() {
    let expired = |ran| {
        let mut ledger = open();
        let id = sent(&mut ledger, Effect, "a");
        fate(ledger.miss(at(1), Epoch(1), id, &Fault::SessionExpired { ran }))
    };
    assert_eq!(expired(false), None);
    assert_eq!(expired(true), Some((Delivery::Unknown, Some(Epoch(1)))));
}

fn no_session(evidence: Evidence) -> Fault {
    Fault::NoSession { code: 404, said: String::new(), evidence }
}

#[test]
fn a_call_that_is_refused_on_two_sessions_has_its_answer() {
    for evidence in [Evidence::Words, Evidence::Status] {
        let mut ledger = open();
        let id = sent(&mut ledger, Effect, "a");
        assert_eq!(ledger.rule(Epoch(1), Some(id)), Ruling::Expired);
        assert_eq!(ledger.miss(at(1), Epoch(1), id, &no_session(evidence)), KEPT);
        assert!(!ledger.is_open());
        let id = dispatch(&mut ledger, 2)[0].1;
        ledger.sent(id, 0);
        assert_eq!(ledger.rule(Epoch(2), Some(id)), Ruling::Answer);
        let answer = no_session(evidence).as_answer();
        assert_eq!(
            fate(ledger.miss(at(1), Epoch(2), id, &answer)),
            Some((Delivery::Unknown, Some(Epoch(2))))
        );
        assert!(ledger.is_open(), "the session lives");
    }
}

#[test]
fn a_refused_call_that_ends_before_it_is_sent_again_may_have_run_unless_the_server_says_otherwise() {
    let delivery = |evidence| {
        let mut ledger = open();
        let id = sent(&mut ledger, Effect, "a");
        ledger.miss(at(1), Epoch(1), id, &no_session(evidence));
        fates(&ledger.fail_waiting(&unreachable()))
    };
    assert_eq!(delivery(Evidence::Words), [("a", Delivery::NotSent)]);
    assert_eq!(delivery(Evidence::Status), [("a", Delivery::Unknown)]);
}

#[test]
fn what_is_not_sent_again_is_no_proof_and_a_session_that_is_over_needs_none() {
    let mut ledger = open();
    let own = ledger.admit_own(at(0), Epoch(1), Duration::from_secs(1), "own");
    assert_eq!([ledger.rule(Epoch(1), Some(own)), ledger.rule(Epoch(1), None)], [Ruling::Ask; 2]);
    assert_eq!(ledger.rule(Epoch(2), None), Ruling::Expired, "in the handshake");
    let id = sent(&mut ledger, Effect, "a");
    ledger.hold(Epoch(1));
    let rulings = [Some(own), Some(id), None].map(|id| ledger.rule(Epoch(1), id));
    assert_eq!(rulings, [Ruling::Expired; 3]);
    assert_eq!([ledger.rule_ping(Epoch(1)), ledger.rule_ping(Epoch(2))], [Ruling::Expired; 2]);
    assert_eq!(ledger.rule_ping(Epoch(3)), Ruling::Answer);
    ledger.ping_answered();
    assert_eq!(ledger.rule_ping(Epoch(3)), Ruling::Expired);
}

#[test]
fn calls_keep_their_exchange_when_their_session_is_forgotten() {
    let mut ledger = open();
    let [carried, elsewhere] = ["carried", "elsewhere"].map(|name| sent(&mut ledger, Effect, name));
    let stream = sent(&mut ledger, Stream, "stream");
    let unsent = call(&mut ledger, Effect, "unsent");
    let own = ledger.admit_own(at(0), Epoch(1), Duration::from_secs(1), "own");
    ledger.sent(own, 0);
    let over = ledger.retire(at(1), Epoch(1), |id| id != elsewhere);
    assert_eq!(fates(&over), [("elsewhere", Delivery::Unknown), ("own", Delivery::Unknown)]);
    assert_eq!(names(&dispatch(&mut ledger, 2)), ["stream", "unsent"]);
    assert!(ledger.is_on(Epoch(1), carried) && !ledger.is_on(Epoch(1), stream));
    assert!(!ledger.is_on(Epoch(1), unsent));
    let next = sent(&mut ledger, Read, "next");
    assert_eq!(ledger.answer(Epoch(2), next, true), Some("next"));
    assert_eq!(ledger.answer(Epoch(1), carried, true), Some("carried"));
    assert!(ledger.has_answered(Epoch(2)), "what an older session answers does not undo that");
}

#[test]
fn whatever_is_in_flight_on_any_session_ends_with_the_connection() {
    let mut ledger = open();
    sent(&mut ledger, Read, "old");
    ledger.retire(at(1), Epoch(1), |_| true);
    ledger.open(Epoch(2));
    sent(&mut ledger, Read, "new");
    assert_eq!((ledger.in_flight(Epoch(2)), ledger.in_flight_anywhere()), (1, 2));
    ledger.close();
    assert_eq!(fates(&ledger.end_all(at(2))), [("old", Delivery::Unknown), ("new", Delivery::Unknown)]);
    assert!(ledger.is_empty());
}

#[test]
fn paused_calls_fail_with_those_that_wait() {
    let paused = || {
        let mut ledger = open();
        let asked = sent(&mut ledger, Effect, "asked");
        ledger.miss(at(1), Epoch(1), asked, &deferred(30));
        let read = sent(&mut ledger, Read, "read");
        ledger.miss(at(1), Epoch(1), read, &Fault::AnswerCut);
        let stream = sent(&mut ledger, Stream, "stream");
        ledger.miss(at(1), Epoch(1), stream, &Fault::AnswerCut);
        ledger
    };
    let (asked, read) = (("asked", Delivery::NotSent), ("read", Delivery::Unknown));
    let mut ledger = paused();
    assert_eq!(fates(&ledger.fail_waiting(&Fault::Exited { code: 1 })), [asked, read]);
    assert_eq!((ledger.len(), ledger.pause_ends().is_some()), (1, true), "a stream is patient");
    let mut ledger = paused();
    ledger.close();
    assert_eq!(fates(&ledger.fail_waiting(&Fault::Closed)), [asked, read, ("stream", Delivery::Unknown)]);
    assert_eq!((ledger.is_empty(), ledger.pause_ends()), (true, None));
}

#[test]
fn nothing_is_sent_again_once_closed() {
    let mut ledger = open();
    let id = sent(&mut ledger, Read, "a");
    ledger.close();
    assert_eq!(
        fate(ledger.miss(at(1), Epoch(1), id, &unreachable())),
        Some((Delivery::NotSent, Some(Epoch(1))))
    );
    assert!(ledger.is_empty());
}

/// How long a stream pauses each time, if its exchanges last so many seconds.
fn pauses(lasts: impl Iterator<Item = u64>) -> Vec<f64> {
    let mut ledger = open();
    let mut id = sent(&mut ledger, Stream, "stream");
    let mut now = at(0);
    lasts
        .map(|seconds| {
            now = now + Duration::from_secs(seconds);
            assert_eq!(ledger.miss(now, Epoch(1), id, &Fault::AnswerCut), KEPT);
            let until = ledger.pause_ends().expect("it pauses");
            let pause = until - now;
            now = until;
            id = resumed(&mut ledger, now, 1)[0].1;
            ledger.sent(id, 0);
            pause.as_secs_f64()
        })
        .collect()
}

#[test]
fn a_stream_that_is_lost_at_once_pauses_longer_each_time_and_one_that_lasts_does_not() {
    let at_once = pauses(std::iter::repeat_n(0, 300));
    assert_eq!(at_once[..4], [0.25, 1.0, 2.25, 4.0]);
    assert_eq!(at_once[299], 30.0);
    assert_eq!(pauses(std::iter::repeat_n(300, 300)), [0.25; 300]);
    assert_eq!(pauses([0, 0, 30, 0].into_iter()), [0.25, 1.0, 0.25, 1.0]);
}

#[test]
fn a_call_is_as_old_to_its_session_as_its_last_send() {
    let mut ledger = open();
    let id = sent(&mut ledger, Read, "a");
    assert_eq!(ledger.eldest(Epoch(1)), Some(at(0)));
    ledger.miss(at(1), Epoch(1), id, &status(502));
    assert_eq!(ledger.eldest(Epoch(1)), None);
    let id = resumed(&mut ledger, at(2), 1)[0].1;
    ledger.sent(id, 0);
    let pause_ended = at(1) + Policy::default().resend_pause;
    assert_eq!(
        ledger.eldest(Epoch(1)),
        Some(pause_ended),
        "it is no excuse for silence to what was asked before"
    );
}

#[test]
fn a_call_that_times_out_says_how_long_it_had() {
    let mut ledger = open();
    call(&mut ledger, Effect, "plain");
    assert_eq!(ledger.expire(at(60))[0].timeout, MINUTE);

    let extended = call(&mut ledger, Effect, "extended");
    ledger.extend(at(50), extended);
    assert_eq!(ledger.expire(at(110))[0].timeout, MINUTE, "since its last progress");

    let endless = call(&mut ledger, Effect, "endless");
    ledger.extend(at(3590), endless);
    assert_eq!(ledger.expire(at(3600))[0].timeout, Some(Duration::from_secs(3600)), "the limit of all calls");

    let waited = Duration::from_secs(60);
    ledger.admit(at(0), waited, Effect, MINUTE, 1, "late").expect("there is room");
    assert_eq!(ledger.expire(at(0))[0].timeout, MINUTE, "it waited elsewhere");

    ledger.admit(at(0), AT_ONCE, Effect, None, 1, "patient").expect("there is room");
    assert_eq!(ledger.settle(at(1), Epoch(1), ALL, true), [], "it was not sent, and waits");
    assert_eq!(ledger.fail_waiting(&Fault::Exited { code: 1 })[0].timeout, None);
}
