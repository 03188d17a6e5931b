//! The invariants P1 to P10 of DESIGN.md, section 8, each held against what the walk knows of the world.

use super::owner::{Caller, Fate};
use super::{Truth, Walk};
use regrow_core::{Delivery, Epoch, Event, Fault, Intent, Nature, Policy, Requester, State, Step, Watch};
use std::collections::BTreeSet;

/// P1: at most one live process per connection, at any instant; only an abandoned one is excepted.
pub(crate) fn p1_at_most_one_process_lives(epoch: Epoch, walk: &Walk) {
    let alive: Vec<_> = walk.processes.keys().filter(|epoch| !walk.abandoned.contains(epoch)).collect();
    assert!(alive.is_empty(), "P1: {epoch} starts while {alive:?} lives");
}

/// P2: every accepted call ends exactly once (see `judge_end`), by its deadline.
pub(crate) fn p2_every_call_ends_by_its_deadline(walk: &Walk) {
    if walk.owner.deadline().is_some_and(|due| due <= walk.now) {
        return; // The timer is about to fire.
    }
    for (caller, truth) in walk.calls.iter().filter(|(_, truth)| truth.ended.is_none()) {
        let late = truth.ends_by.is_some_and(|ends_by| ends_by < walk.now);
        assert!(!late, "P2: call {caller} is pending after {:?}", truth.ends_by);
    }
}

/// P2: a call whose session has failed ends, or moves on, within a moment.
pub(crate) fn p2_the_calls_of_a_failed_session_end_soon(walk: &Walk) {
    if walk.owner.deadline().is_some_and(|due| due <= walk.now) {
        return; // The timer is about to fire.
    }
    for (epoch, id) in walk.outstanding.keys() {
        let settled_by = walk.processes.get(epoch).and_then(|process| process.settled_by);
        let late = settled_by.is_some_and(|settled_by| settled_by <= walk.now);
        assert!(!late, "P2: {id:?} is still on the failed session {epoch}");
    }
}

/// P3: a call runs at most once, unless safe; and never more than three times. A handshake runs nothing, and a
/// stream is no call.
pub(crate) fn p3_a_call_runs_at_most_once_unless_safe(caller: Caller, truth: &Truth, policy: &Policy) {
    let most = match truth.nature {
        // What the protocol takes for a forgotten session is believed once.
        Nature::Effect => 1 + u32::from(truth.refused),
        Nature::Read | Nature::Discovery => u32::from(policy.max_sends),
        Nature::Greeting | Nature::Stream => return,
    };
    assert!(truth.runs <= most, "P3: call {caller} ran {} times", truth.runs);
}

/// P3: and never sent more than three times, whatever the reason.
pub(crate) fn p3_a_call_is_sent_at_most_three_times(caller: Caller, truth: &Truth, policy: &Policy) {
    let exempt = matches!(truth.nature, Nature::Greeting | Nature::Stream);
    let sends = truth.written;
    assert!(exempt || sends <= u32::from(policy.max_sends), "P3: call {caller} was sent {sends} times");
}

/// The other half of P3: whoever is told "not sent" may send again, so it must be true, then and later.
pub(crate) fn a_call_said_to_be_not_sent_never_runs(caller: Caller, truth: &Truth) {
    use Fate::{Cancelled, Failed, TimedOut};
    let said = matches!(
        truth.ended,
        Some(Failed(Delivery::NotSent, _) | TimedOut(Delivery::NotSent) | Cancelled(Delivery::NotSent))
    );
    assert!(!said || truth.runs == 0, "call {caller} was said to be not sent, but ran");
}

/// P4: an epoch is charged if and only if it ended in a fault, once.
pub(crate) fn p4_a_charge_is_a_fault(fault: &Fault, walk: &mut Walk) {
    let by_timer = matches!(fault, Fault::HandshakeTimeout { .. } | Fault::Silent { .. })
        && matches!(
            walk.step,
            Some((State::Connecting { .. } | State::Ready { .. }, Event::Tick))
                | Some((State::Connecting { .. }, Event::TimedOut(_)))
        );
    if let Some((State::Ready { watch: Watch::Beside { .. }, .. }, Event::Tick)) = walk.step {
        let proven = walk.answers_when_busy && !walk.refused;
        assert!(proven, "P4: taken for hung, but it never answered a probe during a call");
        walk.seen.insert("hung");
    }
    if by_timer && !walk.account.charged {
        walk.account.charged = true;
        walk.charges.push(walk.now);
        walk.free_in_a_row = 0;
        return;
    }
    assert!(walk.expected_charge, "P4: charged for no fault, or twice: {fault}");
    walk.expected_charge = false;
}

/// P4, seen from the other side: the budget has lost exactly what was told as a fault.
pub(crate) fn p4_the_budget_is_what_was_charged(walk: &Walk) {
    let left = walk.policy.budget.charges.saturating_sub(walk.charged_within_window());
    assert_eq!(walk.owner.lifecycle().budget_left(walk.now), left, "P4: {:?}", walk.charges);
}

/// P5: while pausing or parked, only a due timer, one demand per floor, or a person starts an attempt.
pub(crate) fn p5_an_attempt_has_a_reason(walk: &Walk) {
    let (state, event) = walk.step.as_ref().expect("effects come of steps");
    let permanent = matches!(state, State::Parked { fault, .. } if fault.is_permanent());
    let asks = matches!(state, State::Parked { fault: Fault::SignInNeeded { may_ask: true, .. }, .. });
    let floor =
        if permanent && !asks { walk.policy.permanent_demand_floor } else { walk.policy.demand_floor };
    let paced = walk.since_attempt().is_none_or(|since| since >= floor);
    let due = state.deadline().is_some_and(|due| due <= walk.now);
    let allowed = match (state, event) {
        // Who ordered that it be parked alone may order otherwise.
        (State::Parked { fault: Fault::Parked, .. }, event) => {
            matches!(event, Event::Wake | Event::Reconnect(Requester::Person))
        }
        (State::Idle | State::Backoff { .. } | State::Parked { .. }, Event::Wake) => true,
        (State::Parked { .. }, Event::ResetBudget) => !permanent,
        (State::Idle, Event::Reconnect(Requester::Person)) => true,
        (State::Idle, Event::Start | Event::Demand | Event::Reconnect(..)) => paced,
        (State::Closing { then: Intent::Replace(_), .. }, Event::Gone(..) | Event::Tick) => true,
        (State::Backoff { .. } | State::Parked { .. }, Event::Tick) => due,
        (State::Backoff { .. } | State::Parked { .. }, Event::Reconnect(Requester::Person)) => true,
        (State::Backoff { .. }, Event::Demand | Event::Reconnect(..)) => paced || due,
        (State::Parked { .. }, Event::Mended) => permanent,
        (State::Parked { .. }, Event::Demand | Event::Start | Event::Reconnect(..)) => paced,
        _ => false,
    };
    assert!(allowed, "P5: {event:?} in {state:?} starts an attempt");
}

/// P5: a server that fails its first start again and again is left alone for the rest of its time, but for orders.
pub(crate) fn p5_a_first_start_fails_only_so_often(walk: &Walk) {
    assert!(!walk.first.is_held(walk.now, &walk.policy), "P5: started too often at first");
}

/// P5: who asks us to come back later is not asked sooner, but for a person.
pub(crate) fn p5_who_asks_for_a_pause_is_not_asked_sooner(walk: &Walk) {
    let sooner = walk.deferred_until.is_some_and(|until| walk.now < until);
    assert!(!sooner, "P5: asked before {:?}", walk.deferred_until);
}

/// P5: demand brings the next attempt forward, but not before its floor.
pub(crate) fn p5_demand_makes_nothing_come_sooner_than_its_floor(before: &State, walk: &Walk) {
    let after = walk.owner.lifecycle().state();
    if let (State::Backoff { .. } | State::Parked { .. }, Some(now_at)) = (after, after.deadline()) {
        let floor = walk.attempts.last().map(|&last| last + walk.policy.demand_floor);
        let kept = before.deadline().is_some_and(|was| was <= now_at);
        assert!(kept || floor.is_none_or(|floor| now_at >= floor), "P5: {before:?} became {after:?}");
    }
}

/// P5: a stream waits for a session, but wakes none.
pub(crate) fn p5_only_calls_are_demand(walk: &Walk) {
    let placed: BTreeSet<Caller> = walk.outstanding.values().copied().collect();
    let mut waiting = walk.calls.iter().filter(|(c, truth)| truth.ended.is_none() && !placed.contains(c));
    assert!(waiting.any(|(_, truth)| truth.nature != Nature::Stream), "P5: a stream alone is no demand");
}

/// P5: a fault over budget parks, and so does every further one until there is a session.
pub(crate) fn p5_over_budget_it_parks(walk: &mut Walk) {
    let over = walk.account.charged && (walk.is_over_budget() || walk.slow);
    let asked_to_wait = walk.deferred_until.is_some();
    assert!(!over || walk.account.hurried || asked_to_wait, "P5: over budget it goes on trying");
    let permanent =
        matches!(&walk.step, Some((State::Closing { fault: Some(f), .. }, _)) if f.is_permanent());
    let mended = walk.account.hurried || walk.account.mended;
    if permanent && walk.account.mended {
        walk.seen.insert("mended in time");
    }
    assert!(!permanent || mended, "P5: what cannot be mended is tried again");
}

/// P6: closed means that nothing is left: no process but abandoned ones, no pending call; in bounded time.
pub(crate) fn p6_closed_leaves_nothing(walk: &Walk) {
    assert!(walk.owner.supervisor.ledger.is_empty(), "P6: closed with calls pending");
    let left: Vec<_> = walk.processes.keys().filter(|epoch| !walk.abandoned.contains(epoch)).collect();
    assert!(left.is_empty(), "P6: closed while {left:?} lives");
    let since = walk.closing_since.expect("somebody closed it");
    let ladder = walk.policy.ladders.planned.length() + walk.policy.abandon_after;
    let bound = walk.policy.drain_timeout + ladder;
    assert!(walk.jumped || walk.now - since <= bound, "P6: closing took {:?}", walk.now - since);
}

/// P7: an answer is delivered only to the outstanding call of the same epoch and id.
pub(crate) fn p7_an_answer_reaches_only_its_own_call(got: Option<Caller>, owed: Option<Caller>) {
    assert!(got.is_none() || got == owed, "P7: {got:?} got an answer for {owed:?}");
}

/// P8: Parked and Closed hold no waiting call, except calls that wait for the attempt they caused.
pub(crate) fn p8_parked_and_closed_hold_no_waiting_call(walk: &Walk) {
    let waiting = walk.owner.supervisor.ledger.waiting();
    match walk.owner.lifecycle().state() {
        State::Parked { probe_at, .. } if waiting > 0 => {
            let floor = walk.attempts.last().map_or(walk.now, |&last| last + walk.policy.demand_floor);
            let soon = floor.max(walk.now + walk.policy.wake_spread);
            assert!(probe_at.is_some_and(|at| at <= soon), "P8: {waiting} calls wait in vain");
        }
        State::Draining { then: Intent::Close, .. } => {
            assert_eq!(waiting, 0, "P8: nothing will come of waiting")
        }
        state if state.is_parked_by_command() => {
            assert_eq!(waiting, 0, "P8: nobody wakes it for those that wait")
        }
        State::Closed => assert!(walk.owner.supervisor.ledger.is_empty(), "P8: closed with calls pending"),
        _ => {}
    }
}

/// P8: calls that wait for an attempt fail with it, except streams, a handshake and what waits with it while the first start goes on,
/// and calls that have patience left.
pub(crate) fn p8_calls_fail_with_the_attempt_they_waited_for(walk: &mut Walk, fault: &Fault) {
    let may_wait = walk.first.may_wait(walk.now, fault, &walk.policy);
    let is_open = |truth: &Truth| truth.ended.is_none() && truth.nature == Nature::Greeting;
    let waits = walk.calls.values().any(is_open);
    walk.seen.extend(match (waits, may_wait) {
        (true, _) => Some("handshake waits for the next start"),
        (_, false) => Some("first start failed"),
        _ => None,
    });
    let patient = |truth: &Truth| {
        let goes_on = waits && may_wait;
        let did_not_run = truth.runs == 0;
        truth.own
            || truth.nature == Nature::Stream
            || goes_on
            || did_not_run && walk.has_patience(truth, fault)
    };
    // Those of earlier sessions do not wait: their exchanges go on.
    let placed: BTreeSet<Caller> = walk.outstanding.values().copied().collect();
    let waits = |caller: &Caller, truth: &Truth| truth.ended.is_none() && !placed.contains(caller);
    let left = walk.calls.iter().find(|(caller, truth)| waits(caller, truth) && !patient(truth));
    assert!(left.is_none(), "P8: call {:?} waits on", left.map(|(caller, _)| caller));
}

/// P9: no silent wait; whatever is pending has a timer armed.
pub(crate) fn p9_whatever_is_pending_has_a_timer(walk: &Walk) {
    let state = walk.owner.lifecycle().state();
    let timed = match state {
        State::Idle | State::Closed => true,
        State::Connecting { step, deadline } => deadline.is_some() || *step == Step::ClientsTurn,
        State::Ready { watch: Watch::Calm { look_at }, .. } => {
            look_at.is_some() == (walk.policy.idle_probe.is_some() || walk.policy.hang_timeout.is_some())
        }
        State::Parked { probe_at, fault: Fault::Parked, .. } => probe_at.is_none(),
        State::Parked { probe_at, fault, .. } => probe_at.is_some() || fault.is_permanent(),
        _ => state.deadline().is_some(),
    };
    assert!(timed, "P9: {state:?} waits without a timer");
    let due = walk.owner.supervisor.ledger.deadline();
    for (caller, truth) in walk.calls.iter().filter(|(_, truth)| truth.ended.is_none()) {
        if let Some(ends_by) = truth.ends_by {
            assert!(due.is_some_and(|due| due <= ends_by), "P9: no timer ends call {caller}");
        }
    }
    let paused: Vec<Caller> = walk.owner.supervisor.ledger.paused().copied().collect();
    assert_eq!(
        paused.is_empty(),
        walk.owner.supervisor.ledger.pause_ends().is_none(),
        "P9: no timer ends a pause"
    );
    let known: BTreeSet<Caller> = walk.owner.supervisor.ledger.iter().map(|(_, &caller)| caller).collect();
    let pending = |caller: &Caller| walk.calls[caller].ended.is_none() && walk.calls[caller].missed;
    assert!(paused.iter().all(|caller| known.contains(caller) && pending(caller)), "P9: a pause of nobody");
    let served =
        !matches!(state, State::Ready { .. } | State::Idle) || walk.owner.supervisor.ledger.waiting() == 0;
    assert!(served, "P9: calls wait though {state:?}");
}

/// P9: a timer tells the time and nothing else. A tick before its time changes nothing, but that a server which has
/// answered meanwhile is seen to; and whether a silent one is spared any longer may be looked at whenever.
pub(crate) fn p9_a_tick_before_its_time_changes_nothing(walk: &Walk) {
    let lifecycle = walk.owner.lifecycle();
    let spared = matches!(lifecycle.state(), State::Ready { watch: Watch::Spared { .. }, .. });
    if spared || lifecycle.deadline().is_some_and(|due| due <= walk.now) {
        return;
    }
    let mut early = lifecycle.clone();
    let pulse = walk.owner.supervisor.pulse(&walk.owner.facts());
    let effects = early.step(walk.now, Event::Tick, pulse);
    let calm = matches!(early.state(), State::Ready { watch: Watch::Calm { .. }, .. });
    let nothing = effects.is_empty() && (calm || early == *lifecycle);
    assert!(nothing, "P9: a tick before its time, in {:?}: {effects:?}", lifecycle.state());
}

/// P10: epochs rise, and attempts have a floor between them.
pub(crate) fn p10_epochs_rise_and_attempts_have_a_floor(epoch: Epoch, walk: &Walk) {
    assert!(walk.processes.keys().all(|&older| older < epoch), "P10: {epoch} is not new");
    assert_eq!(epoch.0, walk.attempts.len() as u64 + 1, "P10");
    let floor = walk.policy.attempt_floor;
    let is_paced = walk.since_attempt().is_none_or(|since| since >= floor) || walk.first.has_guessed_wrong();
    assert!(is_paced, "P10: attempts without a pause");
}
