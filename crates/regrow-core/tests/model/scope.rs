//! How far a model goes: its numbers, and what may happen in it.

use regrow_core::{
    BackoffPolicy, BudgetPolicy, Evidence, Fault, FirstStartPolicy, Ladder, Ladders, Manner, Nature, Policy,
    Requester, Time,
};
use std::time::Duration;

/// When every life begins; see `FromNow`.
pub(crate) const BIRTH: Time = Time::from_millis(1 << 40);

/// Time passes in steps of this length, and every length of the policy is a multiple of it.
pub(crate) const fn units(number: u64) -> Duration {
    Duration::from_millis(250 * number)
}

/// Longer ago than this is all the same: no length of the policy that is held against the past is longer.
pub(crate) const HORIZON: Duration = units(6);

/// What may happen, and how often.
#[derive(Clone, Debug)]
pub(crate) struct Scope {
    pub(crate) name: &'static str,
    pub(crate) policy: Policy,
    /// The attempt after so many is the last thing looked at.
    pub(crate) epochs: u64,
    pub(crate) calls: usize,
    pub(crate) natures: &'static [Nature],
    /// How a server may end or fail by itself.
    pub(crate) faults: Vec<Fault>,
    /// How the exchange of a call may end without an answer; none: calls share one stream.
    pub(crate) misses: Vec<Fault>,
    /// How a probe may fail.
    pub(crate) probe_faults: Vec<Fault>,
    pub(crate) mends: u8,
    /// How often an operator may rest, park, wake it, or reset its budget.
    pub(crate) operated: u8,
    /// Whether a second cause may come to light.
    pub(crate) second_causes: bool,
    /// The first session is greeted by the client itself.
    pub(crate) relay: bool,
    /// Attempts may ask for the era first.
    pub(crate) discovers: bool,
    pub(crate) requesters: &'static [Requester],
    pub(crate) orders: u8,
    pub(crate) manners: &'static [Manner],
    pub(crate) drains: bool,
    pub(crate) cancels: bool,
    /// The OS may take its time to accept a call.
    pub(crate) slow_writes: bool,
    pub(crate) late_news: bool,
    /// Servers may answer with an error, or refuse probes.
    pub(crate) errors: bool,
    pub(crate) sleeps: u8,
    /// How many processes outlive all patience.
    pub(crate) abandons: u8,
    /// Look no further after about so many moves. None: look at all of it.
    pub(crate) most: Option<usize>,
}

impl Scope {
    /// Whether each call has an exchange of its own.
    pub(crate) fn exchanges(&self) -> bool {
        !self.misses.is_empty()
    }
}

/// What is looked at every time.
pub(crate) fn usual() -> Vec<Scope> {
    vec![
        one_call(),
        calls(),
        ends(),
        orders(),
        closes(),
        abandoned(),
        liveness(),
        question(),
        relay(),
        exchange(),
        exchanges(),
        refused(),
        deferred(),
        mended(),
        operator(),
        patience(),
        hangs(),
    ]
}

/// The same, larger. Takes minutes.
pub(crate) fn full() -> Vec<Scope> {
    let ends = Scope { epochs: 3, orders: 0, ..ends() };
    let calls = Scope { epochs: 3, late_news: false, ..calls() };
    let relay = Scope { faults: vec![death(), orderly()], ..relay() };
    vec![
        one_call(),
        calls,
        ends,
        orders(),
        closes(),
        abandoned(),
        liveness(),
        question(),
        relay,
        Scope { epochs: 3, ..exchange() },
        exchanges(),
        Scope { natures: &[Nature::Effect, Nature::Read], drains: true, ..refused() },
        deferred(),
        mended(),
        Scope { orders: 1, manners: &[Manner::Told], ..operator() },
        Scope { natures: &[Nature::Effect, Nature::Read], faults: vec![death(), permanent()], ..patience() },
        Scope { epochs: 2, ..hangs() },
        everything(),
    ]
}

/// A server that starts and ends in good order, and nothing else.
fn quiet(name: &'static str) -> Scope {
    Scope {
        name,
        policy: Policy { idle_probe: None, ..small_policy() },
        epochs: 2,
        calls: 0,
        natures: &[Nature::Effect, Nature::Read],
        faults: vec![death()],
        misses: vec![],
        probe_faults: vec![],
        mends: 0,
        operated: 0,
        second_causes: false,
        relay: false,
        discovers: false,
        requesters: &[Requester::Person, Requester::Program],
        orders: 0,
        manners: &[],
        drains: false,
        cancels: false,
        slow_writes: false,
        late_news: false,
        errors: false,
        sleeps: 0,
        abandons: 0,
        most: None,
    }
}

/// A call over three sessions, and every place where it may be when one ends.
fn one_call() -> Scope {
    let faults = vec![death(), orderly()];
    let policy = small_policy();
    Scope { policy, epochs: 3, calls: 1, faults, slow_writes: true, late_news: true, ..quiet("one call") }
}

/// Two calls, safe and not, in each other's way.
fn calls() -> Scope {
    Scope { calls: 2, late_news: true, ..quiet("calls") }
}

/// Every way in which attempts and sessions end, two causes at a time, while a close may come.
fn ends() -> Scope {
    Scope {
        policy: small_policy(),
        faults: every_fault(),
        second_causes: true,
        discovers: true,
        orders: 1,
        manners: &[Manner::Told],
        late_news: true,
        abandons: 1,
        ..quiet("ends")
    }
}

/// People and programs want fresh sessions while the old ones die.
fn orders() -> Scope {
    Scope { calls: 1, orders: 2, errors: true, ..quiet("orders") }
}

/// Closes, drains and reconnects, in each other's way and in the way of a death.
fn closes() -> Scope {
    Scope {
        calls: 1,
        orders: 1,
        manners: &[Manner::Planned, Manner::Told],
        drains: true,
        late_news: true,
        ..quiet("closes")
    }
}

/// A server that has closed its output lives on, reads on, and outlives all patience.
fn abandoned() -> Scope {
    let faults = vec![Fault::OutputClosed, death()];
    Scope {
        calls: 1,
        faults,
        second_causes: true,
        orders: 1,
        slow_writes: true,
        abandons: 2,
        ..quiet("abandoned")
    }
}

/// All of it at once: too large to be looked at whole, so only the first moves of every life are.
fn everything() -> Scope {
    Scope {
        policy: small_policy(),
        epochs: 3,
        calls: 2,
        faults: every_fault(),
        second_causes: true,
        discovers: true,
        orders: 2,
        manners: &[Manner::Planned, Manner::ClientLeft, Manner::Told],
        drains: true,
        cancels: true,
        slow_writes: true,
        late_news: true,
        errors: true,
        sleeps: 1,
        abandons: 1,
        most: Some(12_000_000),
        ..quiet("everything")
    }
}

/// Probes, doubts, silence, cancelled calls, and a machine that sleeps.
fn liveness() -> Scope {
    Scope { policy: small_policy(), calls: 1, cancels: true, errors: true, sleeps: 1, ..quiet("liveness") }
}

/// The client asks for the era, and the server may die of it.
fn question() -> Scope {
    let natures = &[Nature::Discovery, Nature::Effect];
    Scope { relay: true, calls: 2, natures, faults: vec![orderly()], ..quiet("question") }
}

/// The client's own handshake, and streams.
fn relay() -> Scope {
    Scope {
        relay: true,
        calls: 2,
        natures: &[Nature::Greeting, Nature::Stream, Nature::Effect],
        faults: vec![orderly()],
        manners: &[Manner::Told],
        ..quiet("relay")
    }
}

/// A call with an exchange of its own, every way in which that can fail, and a session that may end under it.
fn exchange() -> Scope {
    Scope {
        calls: 1,
        faults: vec![],
        misses: vec![
            gone(),
            Fault::AnswerCut,
            forgotten(Evidence::Status),
            forgotten(Evidence::Response),
            later(2),
        ],
        probe_faults: vec![gone()],
        orders: 1,
        requesters: &[Requester::Person],
        manners: &[Manner::Told],
        drains: true,
        late_news: true,
        ..quiet("exchange")
    }
}

/// Two calls whose exchanges fail, one by one, and what each says of the session that they share.
fn exchanges() -> Scope {
    Scope {
        epochs: 1,
        calls: 2,
        natures: &[Nature::Read],
        faults: vec![],
        misses: vec![Fault::AnswerCut, forgotten(Evidence::Words)],
        probe_faults: vec![gone()],
        ..quiet("exchanges")
    }
}

/// Calls that are refused as if the session were gone, some of them whatever the session, while others run on.
fn refused() -> Scope {
    Scope {
        epochs: 2,
        calls: 2,
        natures: &[Nature::Effect],
        faults: vec![],
        misses: vec![forgotten(Evidence::Words), forgotten(Evidence::Status)],
        manners: &[Manner::Told],
        ..quiet("refused")
    }
}

/// Servers that ask us to come back later, while the budget is spent and a program is impatient.
fn deferred() -> Scope {
    let small = small_policy();
    Scope {
        policy: Policy { idle_probe: None, budget: BudgetPolicy { charges: 0, ..small.budget }, ..small },
        calls: 1,
        natures: &[Nature::Effect],
        faults: vec![later(4), death()],
        misses: vec![later(2)],
        mends: 1,
        requesters: &[Requester::Program],
        orders: 1,
        ..quiet("deferred")
    }
}

/// What only a person can mend is mended, perhaps while it is still being tried.
fn mended() -> Scope {
    let sign_in = |may_ask| Fault::SignInNeeded { command: String::new(), may_ask };
    let faults = vec![sign_in(false), sign_in(true), death()];
    Scope { calls: 1, natures: &[Nature::Effect], faults, mends: 2, ..quiet("mended") }
}

/// An operator lets it rest, parks it, wakes it and resets its budget, in each other's way and in that of calls and a death.
fn operator() -> Scope {
    let small = small_policy();
    Scope {
        policy: Policy { idle_probe: None, budget: BudgetPolicy { charges: 0, ..small.budget }, ..small },
        calls: 1,
        natures: &[Nature::Effect, Nature::Stream],
        operated: 2,
        ..quiet("operator")
    }
}

/// A server that was healthy and cannot start for a while, with calls that wait through its failing attempts.
fn patience() -> Scope {
    let small = small_policy();
    Scope {
        policy: Policy {
            idle_probe: None,
            patience: Some(units(4)),
            healthy_within: units(5),
            call_timeout: Some(units(6)),
            call_limit: units(6),
            ..small
        },
        epochs: 3,
        calls: 1,
        natures: &[Nature::Read],
        ..quiet("patience")
    }
}

/// A hang timeout: servers that answer beside their calls, servers that do not, and servers that hang.
fn hangs() -> Scope {
    let small = small_policy();
    Scope {
        policy: Policy {
            idle_probe: None,
            hang_timeout: Some(units(1)),
            call_timeout: Some(units(3)),
            ..small
        },
        epochs: 1,
        calls: 2,
        natures: &[Nature::Effect],
        errors: true,
        ..quiet("hangs")
    }
}

fn gone() -> Fault {
    Fault::Unreachable { address: String::new(), reason: String::new() }
}

fn forgotten(evidence: Evidence) -> Fault {
    Fault::NoSession { code: 404, said: String::new(), evidence }
}

fn later(number: u64) -> Fault {
    Fault::Deferred { code: 429, after: units(number) }
}

/// Small numbers, and no two that must be told apart alike.
pub(crate) fn small_policy() -> Policy {
    let ladder = |term, kill| Ladder { term_after: units(term), kill_after: units(kill) };
    Policy {
        connect_timeout: units(2),
        first_start: FirstStartPolicy { starts: 2, within: units(4), unreachable_for: units(2) },
        call_timeout: Some(units(3)),
        call_limit: units(6),
        drain_timeout: units(2),
        idle_probe: Some(units(2)),
        probe_timeout: units(1),
        doubt_timeout: units(1),
        doubt_silence: units(2),
        doubt_patience: units(1),
        probe_while_busy: false,
        hang_timeout: None,
        patience: None,
        healthy_within: units(4),
        budget: BudgetPolicy { charges: 1, window: units(5) },
        backoff: BackoffPolicy { first: units(1), cap: units(2), jitter_percent: 0, proven: units(2) },
        attempt_floor: units(1),
        demand_floor: units(2),
        permanent_demand_floor: units(3),
        park_probe: units(3),
        park_probe_cap: units(4),
        free_reconnects: 1,
        clock_jump: units(2),
        wake_spread: Duration::ZERO,
        ladders: Ladders {
            planned: ladder(1, 1),
            client_left: ladder(0, 1),
            told: ladder(0, 0),
            failed: ladder(0, 0),
        },
        abandon_after: units(1),
        settle_after: units(1),
        max_sends: 2,
        resend_pause: units(1),
        defer_limit: units(3),
        ..Policy::default()
    }
}

pub(crate) fn orderly() -> Fault {
    Fault::Exited { code: 0 }
}

pub(crate) fn death() -> Fault {
    Fault::Killed { signal: 9 }
}

pub(crate) fn permanent() -> Fault {
    Fault::NotFound { program: String::new() }
}

/// One of every class: death, orderly exit, permanent, passing (the process lives on), wrong era.
pub(crate) fn every_fault() -> Vec<Fault> {
    vec![orderly(), death(), permanent(), Fault::OutputClosed, Fault::WrongEra]
}
