//! The gate against plain cases and a naive model, and the limiter in simulated time.

mod model;
mod turning;

use super::*;

const ONE: Principal = Principal::Client(0);
const OTHER: Principal = Principal::Client(1);

pub(super) const fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

const fn at(millis: u64) -> Time {
    Time::from_millis(millis)
}

fn gate(concurrency: Option<u32>, rate: Option<(u32, Duration)>, queue: u32) -> Gate<u32> {
    Gate::new(Limits { concurrency, rate, queue }, true)
}

#[test]
fn so_many_run_at_once_so_many_wait_and_the_next_is_refused() {
    let mut gate = gate(Some(2), None, 2);
    let arrivals: Vec<_> = (0..5).map(|n| gate.arrive(at(0), None, ONE, n)).collect();
    use Arrival::{Full, Go, Wait};
    assert_eq!(arrivals, [Go(0), Go(1), Wait, Wait, Full(4)]);
    assert!(gate.due(at(1000)).is_empty());
    assert_eq!(gate.next_due(), None, "only somebody who leaves makes room");
    gate.leave();
    gate.leave();
    assert_eq!(gate.due(at(1000)), [2, 3], "in the order in which they came");
    assert_eq!((gate.running(), gate.waiting()), (2, 0));
}

#[test]
fn a_rate_lets_its_count_go_at_once_after_a_rest_and_then_one_by_one() {
    let mut gate = gate(None, Some((3, secs(1))), 100);
    let gone = (0..10).filter(|n| gate.arrive(at(0), None, ONE, *n) == Arrival::Go(*n)).count();
    assert_eq!(gone, 3);
    assert_eq!(gate.next_due(), Some(at(334)), "a third of a second, and never early");
    assert!(gate.due(at(333)).is_empty());
    assert_eq!(gate.due(at(334)), [3]);
    assert_eq!(gate.due(at(667)), [4]);
    assert_eq!(gate.due(at(1000)), [5], "rounding does not add up");
    assert_eq!(gate.due(at(60_000)), [6, 7, 8], "a long rest saves up no more than the count");
    assert_eq!(gate.due(at(60_334)), [9]);
}

#[test]
fn nobody_overtakes_who_waits() {
    let mut gate = gate(None, Some((1, secs(1))), 100);
    assert_eq!(gate.arrive(at(0), None, ONE, 0), Arrival::Go(0));
    assert_eq!(gate.arrive(at(0), None, ONE, 1), Arrival::Wait);
    assert_eq!(gate.arrive(at(5000), None, ONE, 2), Arrival::Wait, "though there is a token");
    assert_eq!(gate.due(at(5000)), [1]);
}

#[test]
fn who_waits_too_long_is_taken_out_and_makes_room() {
    let mut gate = gate(Some(1), None, 2);
    assert_eq!(gate.arrive(at(0), None, ONE, 0), Arrival::Go(0));
    assert_eq!(gate.arrive(at(0), Some(at(500)), ONE, 1), Arrival::Wait);
    assert_eq!(gate.arrive(at(0), Some(at(300)), ONE, 2), Arrival::Wait);
    assert_eq!(gate.next_due(), Some(at(300)));
    assert!(gate.expire(at(299)).is_empty());
    assert_eq!(gate.expire(at(300)), [2]);
    assert_eq!(gate.arrive(at(300), None, ONE, 3), Arrival::Wait);
    assert_eq!(gate.expire(at(10_000)), [1]);
    gate.leave();
    assert_eq!(gate.due(at(10_000)), [3]);
}

#[test]
fn who_does_not_want_to_go_any_more_is_taken_out_the_newest_alone_or_all() {
    let mut gate = gate(Some(1), None, 10);
    for n in 0..6 {
        gate.arrive(at(0), Some(at(100)), ONE, n);
    }
    assert_eq!(gate.withdraw_newest(|n| n % 2 == 1), Some(5));
    assert_eq!(gate.withdraw(|n| n % 2 == 0), [2, 4], "who is in already is not meant");
    assert_eq!(gate.withdraw_newest(|n| *n == 0), None);
    assert_eq!(gate.expire(at(100)), [1, 3]);
    assert_eq!(gate.next_due(), None);
}

#[test]
fn principals_take_turns_and_none_fills_the_queue() {
    let limits = Limits { concurrency: Some(1), rate: None, queue: 8 };
    let mut gate = Gate::new(limits, false);
    let arrivals: Vec<_> = (0..7).map(|n| gate.arrive(at(0), None, ONE, n)).collect();
    use Arrival::{Full, Go, Wait};
    assert_eq!(arrivals, [Go(0), Wait, Wait, Wait, Wait, Full(5), Full(6)]);
    assert_eq!([10, 11].map(|n| gate.arrive(at(0), None, OTHER, n)), [Wait, Wait]);
    let mut order = vec![];
    while gate.running() > 0 {
        gate.leave();
        order.extend(gate.due(at(0)));
    }
    assert_eq!(order, [1, 10, 2, 11, 3, 4]);
}
