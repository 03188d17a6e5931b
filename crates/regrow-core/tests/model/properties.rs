//! The invariants P1 to P10 of the design, each held against what the model knows of the world, and the goals that
//! show that it does not hold them by doing nothing.

use crate::owner::Judged;
use crate::scope::{HORIZON, Scope};
use crate::world::{Call, Caller, End, World};
use regrow_core::{
    CallId, Epoch, Event, Evidence, Fault, Intent, Nature, Notice, Policy, Requester, State, Step, Time,
    Transition, Watch,
};
use std::time::Duration;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Property {
    P1,
    P2,
    P3,
    P4,
    P5,
    P6,
    P7,
    P8,
    P9,
    P10,
}

/// The first invariant that did not hold, and how.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Broken {
    pub(crate) property: Property,
    pub(crate) how: &'static str,
}

/// Each once, so that none can be wanted and forgotten.
macro_rules! goals {
    ($($goal:ident),* $(,)?) => {
        /// What some life must reach.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        pub(crate) enum Goal { $($goal),* }

        impl Goal {
            pub(crate) const ALL: &'static [Goal] = &[$(Goal::$goal),*];

            pub(crate) fn bit(self) -> u128 {
                1 << self as u8
            }
        }
    };
}

goals! {
    Idle,
    Connecting,
    Ready,
    Draining,
    Closing,
    Backoff,
    InParked,
    Closed,
    ClientsTurn,
    Discovering,
    Probed,
    Doubted,
    Spared,
    Silent,
    HandshakeTimeout,
    ReadyAgain,
    Answered,
    AnsweredAfterRestart,
    AnsweredAfterReplay,
    Moved,
    Replayed,
    FailedNotSent,
    FailedUnknown,
    MethodNotKnown,
    TimedOut,
    Cancelled,
    Refused,
    Parked,
    ParkedForGood,
    WokenByDemand,
    WokenByPerson,
    SlowProbe,
    Abandoned,
    ReplacedAbandoned,
    ClosedAbandoned,
    Retired,
    Fault,
    LateFault,
    FreeEndsOver,
    ReconnectCharged,
    Planned,
    Woke,
    DrainedToClose,
    StreamReopened,
    MissedAndKept,
    MissedAndOver,
    SentAgain,
    Paused,
    PausedThroughAClose,
    Forgotten,
    ForgottenCharged,
    Deferred,
    DeferredWithCallsWaiting,
    ProbeFailed,
    ProbeFailedAndSpared,
    WokenByMend,
    MendedInTime,
    Rested,
    RestRefused,
    WokenFromRest,
    ParkedByOrder,
    RefusedByOrder,
    WokenByOrder,
    WokenByReset,
    HandshakeWaits,
    FirstStartFailed,
    ExitsWhileAskedForItsEra,
    Patient,
    PatientWhileParked,
    PatienceOver,
    AnswersWhenBusy,
    LeftAlone,
    Hung,
}

/// Notes that this does not hold, if it is the first thing that does not.
pub(crate) fn require(world: &mut World, property: Property, holds: bool, how: &'static str) {
    if !holds && world.truth.broken.is_none() {
        world.truth.broken = Some(Broken { property, how });
    }
}

/// P4: whether an epoch that this happens to has ended in a fault, by the words of the design.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Charge {
    None,
    Due,
    /// Only the probes tell.
    IfSilent,
}

pub(crate) fn expected_charge(world: &mut World, scope: &Scope, step: &Transition) -> Charge {
    let Transition { event, pulse, before, .. } = step;
    world.truth.first.told(event);
    if matches!(event, Event::Reconnect(Requester::Person) | Event::Wake) {
        world.truth.deferred_until = None; // A person need not wait.
    }
    let policy = &scope.policy;
    let charged = world.truth.account.charged;
    let newest = world.epoch();
    let current = |epoch: &Epoch| *epoch == newest;
    let slept = before.deadline().is_some_and(|deadline| world.now - deadline >= policy.clock_jump);
    let answered = world.truth.account.answered;
    let spent = !answered && world.truth.free_in_a_row >= policy.free_reconnects;
    let due = match (before, event) {
        // It is being left, and that is all.
        (State::Draining { .. }, Event::Lost(_, Fault::SessionExpired { .. })) => false,
        (
            State::Connecting { .. } | State::Ready { .. } | State::Draining { .. },
            Event::Lost(epoch, fault),
        ) if current(epoch) => {
            let exits_again = world.truth.first.lost(before, fault, policy);
            if exits_again && world.truth.account.discovering {
                world.reach(Goal::ExitsWhileAskedForItsEra);
            }
            a_loss_is_a_fault(world, fault, spent || exits_again)
        }
        (
            State::Ready { watch: Watch::Probed { since, .. } | Watch::Spared { since, .. }, .. },
            Event::ProbeFailed(epoch, fault),
        ) if current(epoch) => {
            let spared = pulse.eldest.is_some_and(|eldest| eldest < *since);
            world.reach(if spared { Goal::ProbeFailedAndSpared } else { Goal::ProbeFailed });
            !spared && a_loss_is_a_fault(world, fault, spent)
        }
        (State::Closing { .. }, Event::Lost(epoch, fault)) if current(epoch) => {
            let is_fault = is_a_fault(world, fault);
            if is_fault && !charged {
                world.truth.free_in_a_row = 0;
            }
            is_fault
        }
        (State::Ready { .. }, Event::Reconnect(Requester::Program)) => {
            if spent {
                world.reach(Goal::ReconnectCharged);
            }
            count_free_end(world, spent);
            spent
        }
        (State::Connecting { deadline: Some(deadline), .. }, Event::Tick) => {
            let late = *deadline <= world.now && !slept;
            if late {
                world.reach(Goal::HandshakeTimeout);
                count_free_end(world, true);
            }
            late
        }
        (State::Connecting { .. }, Event::TimedOut(epoch)) if current(epoch) => {
            count_free_end(world, true);
            true
        }
        (State::Ready { .. }, Event::Tick | Event::TimedOut(_) | Event::Cancelled(..)) => {
            return Charge::IfSilent;
        }
        _ => false,
    };
    if due && !charged { Charge::Due } else { Charge::None }
}

/// An attempt or session that ended by itself costs something, unless its server wanted that, and not too often.
fn a_loss_is_a_fault(world: &mut World, fault: &Fault, spent: bool) -> bool {
    if let Fault::Deferred { after, .. } = fault {
        let bounded = (*after).clamp(Duration::from_secs(1), Duration::from_secs(300));
        world.truth.deferred_until = Some(world.now + bounded);
        return false; // Its pause bounds it.
    }
    let is_fault = is_a_fault(world, fault);
    if spent && !is_fault {
        world.reach(Goal::FreeEndsOver);
    }
    count_free_end(world, is_fault || spent);
    is_fault || spent
}

/// Planned and retired ends are none, nor is a death that tells the era.
fn is_a_fault(world: &World, fault: &Fault) -> bool {
    let account = &world.truth.account;
    let epoch = world.epoch();
    let read = world.process(epoch).map_or(u64::MAX, |process| process.can_have_read());
    let busy = world.truth.owed.iter().any(|owed| {
        let call = owed.epoch == epoch && world.truth.calls[owed.caller].nature != Nature::Stream;
        call && owed.written && position_of(world, owed.epoch, owed.id).is_none_or(|p| p < read)
    });
    let in_good_order = *fault == Fault::Exited { code: 0 };
    let retired = account.was_ready && in_good_order && !busy && account.answered;
    match fault {
        Fault::Deferred { .. } => return false,
        Fault::SessionExpired { .. } => return !(account.was_ready && (busy || account.answered)),
        _ => {}
    }
    let ended = matches!(fault, Fault::Exited { .. } | Fault::Killed { .. });
    let told_its_era = !account.was_ready && account.discovering && ended;
    !(retired || told_its_era || *fault == Fault::WrongEra)
}

/// Where a call lies in the input of a server; none if it was read.
fn position_of(world: &World, epoch: Epoch, id: CallId) -> Option<u64> {
    let process = world.process(epoch)?;
    let behind = process.pipe.iter().position(|&(unread, _)| unread == id)? as u64;
    Some(process.read + behind)
}

fn count_free_end(world: &mut World, charged: bool) {
    let free = charged || world.truth.account.answered;
    world.truth.free_in_a_row = if free { 0 } else { world.truth.free_in_a_row + 1 };
}

/// What a step did, held against what had to come of it.
pub(crate) fn judge_step(world: &mut World, scope: &Scope, judged: &Judged) {
    let Judged { step: Transition { event, before, after, .. }, expected, told } = judged;
    let policy = &scope.policy;
    note_handshake(world, before, event);
    let faults: Vec<&Fault> = told
        .iter()
        .filter_map(|notice| match notice {
            Notice::Fault(_, fault, _) | Notice::Late(_, fault) => Some(fault),
            _ => None,
        })
        .collect();
    match (*expected, faults[..].first()) {
        (Charge::Due, None) => require(world, Property::P4, false, "a fault is not charged"),
        (Charge::None, Some(_)) => require(world, Property::P4, false, "charged for no fault, or twice"),
        (Charge::IfSilent, Some(fault)) => {
            let slept = before.deadline().is_some_and(|deadline| world.now - deadline >= policy.clock_jump);
            let silent = matches!(fault, Fault::Silent { .. }) && is_silent(world, policy) && !slept;
            require(
                world,
                Property::P4,
                silent,
                "charged for silence, but it was not asked, or not given its time",
            );
            if let State::Ready { watch: Watch::Beside { .. }, .. } = before {
                let proven = world.truth.answers_when_busy;
                require(world, Property::P4, proven, "a server that is only busy is taken for hung");
                world.reach(Goal::Hung);
            }
            world.truth.free_in_a_row = 0;
            world.reach(Goal::Silent);
        }
        (Charge::Due, Some(_)) | (Charge::None | Charge::IfSilent, None) => {}
    }
    require(world, Property::P4, faults.len() <= 1, "one end is told as two faults");
    let parked_for_good = told.iter().any(|notice| matches!(notice, Notice::Parked(f) if f.is_permanent()));
    if parked_for_good && world.truth.account.mended {
        let over = is_over_budget(world, policy) || world.truth.slow;
        require(world, Property::P9, over, "what was mended is not tried, and nobody will");
    }
    if !faults.is_empty() {
        require(world, Property::P4, !world.truth.account.charged, "an epoch is charged twice");
        world.truth.account.charged = true;
        let now = world.now;
        world.truth.charges.push(now);
    }
    if matches!(before, State::Connecting { .. }) && !faults.is_empty() {
        let fault = faults[0].clone();
        let may_wait = world.truth.first.may_wait(world.now, &fault, policy);
        let waiting = || (0..world.truth.calls.len()).filter(|&caller| world.is_waiting(caller));
        let left = waiting().any(|caller| !waits_on(world, scope, caller, &fault));
        let nature = |caller: Caller| world.truth.calls[caller].nature;
        let patient = waiting().any(|caller| is_impatient(nature(caller)));
        let handshake_waits = waiting().any(|caller| nature(caller) == Nature::Greeting);
        if handshake_waits {
            world.reach(Goal::HandshakeWaits);
        } else if !may_wait {
            world.reach(Goal::FirstStartFailed);
        }
        require(world, Property::P8, !left, "a call waits on after the attempt it waited for has failed");
        if patient {
            let parked = world.truth.parked.is_some();
            world.reach(if parked { Goal::PatientWhileParked } else { Goal::Patient });
        }
    }
    if matches!(before, State::Closing { .. }) && matches!(after, State::Backoff { .. }) {
        over_budget_it_parks(world, before, policy);
    }
    match event {
        Event::Demand => demand_has_a_floor(world, before, after, policy),
        Event::Rest => nobody_loses_by_a_rest(world, before, after),
        _ => {}
    }
}

/// Whether such calls fail with an attempt that fails, unless they have patience.
fn is_impatient(nature: Nature) -> bool {
    !matches!(nature, Nature::Greeting | Nature::Stream)
}

/// Whether a call may wait for the next attempt after one has failed so.
fn waits_on(world: &World, scope: &Scope, caller: Caller, fault: &Fault) -> bool {
    let (truth, policy) = (&world.truth, &scope.policy);
    let call = &truth.calls[caller];
    let healthy = truth.healthy.is_some_and(|ended| world.now - ended <= policy.healthy_within);
    let soon = !fault.is_permanent() && !matches!(fault, Fault::Deferred { .. });
    let before_it_parked = truth.parked.is_none_or(|parked| call.taken < parked);
    let left = policy.patience.is_some_and(|patience| world.now < call.waits_since + patience);
    let patient = call.runs == 0 && healthy && soon && before_it_parked && left;
    let greets = (0..truth.calls.len()).any(|caller| {
        let Call { nature, ends_by, .. } = truth.calls[caller];
        nature == Nature::Greeting && world.is_waiting(caller) && ends_by.is_none_or(|at| at > world.now)
    });
    let goes_on = truth.first.may_wait(world.now, fault, policy);
    match call.nature {
        Nature::Stream => true,
        Nature::Greeting => goes_on || patient,
        _ => goes_on && greets || patient, // A client that writes on behind its handshake waits with that.
    }
}

/// P2: a call that no session ever had does not fail with an attempt, as long as it has patience.
pub(crate) fn judge_patience(world: &mut World, scope: &Scope, caller: Caller, fault: Option<&Fault>) {
    let Some(fault) = fault.filter(|fault| !matches!(fault, Fault::Closed | Fault::Parked)) else { return };
    let call = &world.truth.calls[caller];
    // Only a handshake waits as long as a server that is busy asks for.
    let too_long = matches!(fault, Fault::Deferred { .. }) && call.nature != Nature::Greeting;
    let patient = call.sends == 0 && !too_long && waits_on(world, scope, caller, fault);
    require(world, Property::P2, !patient, "a call fails though it has patience left");
}

/// P2: what a session has in flight, or a client listens to, is no reason to end it but one to keep it.
fn nobody_loses_by_a_rest(world: &mut World, before: &State, after: &State) {
    let rests = |state: &State| matches!(state, State::Closing { then: Intent::Rest, .. });
    if rests(before) || !rests(after) {
        return world.reach(Goal::RestRefused);
    }
    let bound = |nature: fn(Nature) -> bool| {
        world.truth.calls.iter().any(|call| call.end.is_none() && nature(call.nature))
    };
    let (busy, listening) = (bound(|nature| nature != Nature::Stream), bound(|n| n == Nature::Stream));
    require(world, Property::P2, !busy, "a session rests under its calls");
    require(world, Property::P2, !listening, "a session rests though its client listens");
}

fn note_handshake(world: &mut World, before: &State, event: &Event) {
    let ends = matches!(before, State::Closing { .. }) || before.is_parked_by_command();
    if ends && matches!(event, Event::Reconnect(Requester::Person) | Event::Wake) {
        world.truth.account.hurried = true;
    }
    match event {
        Event::Demand if before.is_parked_by_command() => world.reach(Goal::RefusedByOrder),
        Event::Demand if world.truth.deferred_until.is_some() => world.reach(Goal::DeferredWithCallsWaiting),
        // What is parked is tried at once, and needs no second try.
        Event::Mended if !matches!(before, State::Parked { .. }) => world.truth.account.mended = true,
        _ => {}
    }
    if !matches!(before, State::Connecting { .. }) {
        return;
    }
    match event {
        Event::Begun(epoch, step) if *epoch == world.epoch() => {
            world.truth.account.discovering = *step == Step::Discovering;
            let now = world.now;
            world.truth.first.handshake(now);
        }
        Event::Opened(epoch) if *epoch == world.epoch() => world.truth.account.discovering = false,
        _ => {}
    }
}

/// Asked, long enough ago, and nothing heard since.
fn is_silent(world: &World, policy: &Policy) -> bool {
    let wait = policy.probe_timeout.min(policy.doubt_timeout).min(policy.hang_timeout.unwrap_or(HORIZON));
    let silent = |asked: Time| world.now - asked >= wait && world.truth.heard < asked;
    world.truth.asked.is_some_and(silent) && !world.truth.account.probe_refused
}

fn is_over_budget(world: &World, policy: &Policy) -> bool {
    charged_within_window(world, policy) > policy.budget.charges
}

fn charged_within_window(world: &World, policy: &Policy) -> u32 {
    let recent = |&&charged: &&Time| world.now - charged < policy.budget.window;
    world.truth.charges.iter().filter(recent).count() as u32
}

/// P5: a fault over budget parks, and so does every further one until there is a session.
fn over_budget_it_parks(world: &mut World, before: &State, policy: &Policy) {
    let account = &world.truth.account;
    let over = account.charged && (is_over_budget(world, policy) || world.truth.slow);
    let hurried = account.hurried;
    let mended = account.mended;
    let waits = world.truth.deferred_until.is_some();
    require(world, Property::P5, !over || hurried || waits, "over budget it goes on trying");
    let permanent = matches!(before, State::Closing { fault: Some(fault), .. } if fault.is_permanent());
    require(world, Property::P5, !permanent || hurried || mended, "what cannot be mended is tried again");
    if permanent && mended {
        world.reach(Goal::MendedInTime);
    }
}

/// P5: demand brings the next attempt forward, but not before its floor.
fn demand_has_a_floor(world: &mut World, before: &State, after: &State, policy: &Policy) {
    if let (State::Backoff { .. } | State::Parked { .. }, Some(at)) = (after, after.deadline()) {
        let kept = before.deadline().is_some_and(|was| was <= at);
        let floor = world.truth.attempted.map(|last| last + policy.demand_floor);
        let holds = kept || floor.is_none_or(|floor| at >= floor);
        require(world, Property::P5, holds, "demand makes an attempt come sooner than its floor");
    }
}

/// P1, P5 and P10, when an attempt starts.
pub(crate) fn judge_attempt(world: &mut World, scope: &Scope, before: &State, event: &Event, epoch: Epoch) {
    let policy = &scope.policy;
    let alone = world.truth.processes.iter().all(|process| process.gone || process.abandoned);
    require(world, Property::P1, alone, "an attempt starts while another process lives");
    let newest = world.truth.processes.iter().map(|process| process.epoch).max();
    let rises = epoch > world.epoch() && newest.is_none_or(|newest| newest < epoch);
    require(world, Property::P10, rises, "an epoch is used twice");
    let since = world.truth.attempted.map(|last| world.now - last);
    let floor = policy.attempt_floor;
    let is_paced = since.is_none_or(|since| since >= floor) || world.truth.first.has_guessed_wrong();
    require(world, Property::P10, is_paced, "attempts without a floor");

    let permanent = matches!(before, State::Parked { fault, .. } if fault.is_permanent());
    let asks = matches!(before, State::Parked { fault: Fault::SignInNeeded { may_ask: true, .. }, .. });
    let floor = if permanent && !asks { policy.permanent_demand_floor } else { policy.demand_floor };
    let paced = since.is_none_or(|since| since >= floor);
    let due = before.deadline().is_some_and(|due| due <= world.now);
    let allowed = match (before, event) {
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
    require(world, Property::P5, allowed, "an attempt without a reason");
    let held = world.truth.first.is_held(world.now, policy);
    require(world, Property::P5, !held, "a first start fails too often in its time");
    let sooner = world.truth.deferred_until.is_some_and(|until| world.now < until);
    require(world, Property::P5, !sooner, "a server that asked for a pause is asked sooner");
    world.truth.deferred_until = None;
    if *event == Event::Demand {
        let calls = (0..world.truth.calls.len())
            .any(|caller| world.is_waiting(caller) && world.truth.calls[caller].nature != Nature::Stream);
        require(world, Property::P5, calls, "a stream alone is no demand");
    }
    match (before, event) {
        (State::Closing { .. }, event) => {
            over_budget_it_parks(world, before, policy);
            if matches!(event, Event::Tick) {
                world.reach(Goal::ReplacedAbandoned);
            }
        }
        (State::Idle, _) if since.is_some() => world.reach(Goal::WokenFromRest),
        (State::Parked { fault: Fault::Parked, .. }, _) => world.reach(Goal::WokenByOrder),
        (_, Event::ResetBudget) => world.reach(Goal::WokenByReset),
        (State::Parked { .. }, Event::Demand) => world.reach(Goal::WokenByDemand),
        (State::Parked { .. }, Event::Reconnect(Requester::Person)) => world.reach(Goal::WokenByPerson),
        (State::Parked { .. }, Event::Mended) => world.reach(Goal::WokenByMend),
        (State::Parked { .. }, Event::Tick) => world.reach(Goal::SlowProbe),
        _ => {}
    }
}

/// Calls go to what lives, older ones first.
pub(crate) fn judge_send(world: &mut World, epoch: Epoch, caller: Caller) {
    let kept = world.process(epoch).is_some_and(|process| process.patience.is_none());
    require(world, Property::P7, kept, "a call goes to a session that was told to end");
    let forgot = |cause: &Fault| matches!(cause, Fault::SessionExpired { .. });
    let forgotten = world.process(epoch).is_some_and(|process| process.causes.iter().any(forgot));
    require(world, Property::P7, !forgotten, "a call goes to a session that has forgotten us");
    let call = &world.truth.calls[caller];
    let (nature, sends, runs, ended) = (call.nature, call.sends, call.runs, call.end.is_some());
    let missed = call.missed;
    require(world, Property::P2, !ended, "a call is sent after its end");
    // A pause costs a call its place.
    let in_order = missed || world.truth.account.last_sent.is_none_or(|last| last < caller);
    require(world, Property::P2, in_order, "a newer call leaves before an older one");
    if nature == Nature::Stream && sends > 0 {
        world.reach(Goal::StreamReopened);
    } else if missed && matches!(world.lifecycle().state(), State::Ready { .. }) {
        world.reach(Goal::SentAgain);
    } else if sends > 0 {
        world.reach(if runs == 0 { Goal::Moved } else { Goal::Replayed });
    }
}

/// P3: a call runs at most once, unless safe; and whoever is told "not sent" may rely on it.
pub(crate) fn judge_run(world: &mut World, scope: &Scope, caller: Caller) {
    let call = &world.truth.calls[caller];
    let most = match call.nature {
        // What the protocol takes for a forgotten session is believed once.
        Nature::Effect => 1 + u8::from(call.refused == Some(Evidence::Status)),
        Nature::Read | Nature::Discovery => scope.policy.max_sends,
        Nature::Greeting | Nature::Stream => u8::MAX,
    };
    let (runs, end) = (call.runs, call.end);
    require(world, Property::P3, runs <= most, "a call runs too often");
    require(world, Property::P3, end != Some(End::ToldNotSent), "a call runs that was said to be not sent");
}

/// P3: and it is never sent more often than that, whatever the reason.
pub(crate) fn judge_write(world: &mut World, scope: &Scope, caller: Caller) {
    let call = &world.truth.calls[caller];
    let exempt = matches!(call.nature, Nature::Greeting | Nature::Stream);
    let often = call.written > scope.policy.max_sends && !exempt;
    require(world, Property::P3, !often, "a call is sent too often");
}

/// After every move.
pub(crate) fn look(world: &mut World, scope: &Scope) {
    let policy = &scope.policy;
    forget_the_past(world, policy);
    reach_state(world);
    p2_every_call_ends_by_its_deadline(world);
    let left = policy.budget.charges.saturating_sub(charged_within_window(world, policy));
    let same = world.lifecycle().budget_left(world.now) == left;
    require(world, Property::P4, same, "the budget is not what was charged");
    p6_closed_leaves_nothing(world);
    p7_stray_answers_reach_nobody(world);
    // Else the timer is about to fire, and its owner looks at the calls that wait.
    if !world.is_due() {
        p8_parked_and_closed_hold_no_waiting_call(world, policy);
        p9_whatever_is_pending_has_a_timer(world, policy);
    }
}

/// What cannot matter any more does not make two states of one.
fn forget_the_past(world: &mut World, policy: &Policy) {
    let now = world.now;
    world.truth.charges.retain(|&charged| now - charged < policy.budget.window);
    // How long a silence was is said in its fault; beyond the horizon all are alike.
    let horizon = Time::from_millis(now.as_millis() - HORIZON.as_millis() as u64);
    world.truth.heard = world.truth.heard.max(horizon);
    let calm = match world.lifecycle().state() {
        State::Connecting { .. } => true,
        State::Ready { watch, .. } => matches!(watch, Watch::Calm { .. }),
        _ => {
            world.truth.heard = Time::ZERO;
            true
        }
    };
    if calm {
        world.truth.asked = None;
        world.truth.messages = 0;
    }
    if !matches!(world.lifecycle().state(), State::Draining { .. } | State::Closing { .. }) {
        world.truth.account.hurried = false;
    }
    world.truth.deferred_until = world.truth.deferred_until.filter(|&until| now < until);
    match policy.patience {
        // Of an end that was longer ago, only that it was matters.
        Some(_) => world.truth.healthy = world.truth.healthy.map(|ended| ended.max(horizon)),
        None if policy.hang_timeout.is_some() => (world.truth.healthy, world.truth.parked) = (None, None),
        None => {
            (world.truth.healthy, world.truth.parked) = (None, None);
            for call in &mut world.truth.calls {
                (call.taken, call.waits_since) = (Time::ZERO, Time::ZERO);
            }
        }
    }
    for call in world.truth.calls.iter_mut().filter(|call| call.end.is_some()) {
        (call.taken, call.waits_since) = (Time::ZERO, Time::ZERO);
    }
}

fn reach_state(world: &mut World) {
    if world.supervisor.ledger.pause_ends().is_some() {
        let ready = matches!(world.lifecycle().state(), State::Ready { .. });
        world.reach(if ready { Goal::Paused } else { Goal::PausedThroughAClose });
    }
    world.reach(match world.lifecycle().state() {
        State::Idle => Goal::Idle,
        State::Connecting { .. } => Goal::Connecting,
        State::Ready { watch: Watch::Spared { .. }, .. } => Goal::Spared,
        State::Ready { watch: Watch::LeftAlone { .. }, .. } => Goal::LeftAlone,
        State::Ready { .. } => Goal::Ready,
        State::Draining { then: Intent::Close, .. } => Goal::DrainedToClose,
        State::Draining { .. } => Goal::Draining,
        State::Closing { .. } => Goal::Closing,
        State::Backoff { .. } => Goal::Backoff,
        State::Parked { .. } => Goal::InParked,
        State::Closed if world.truth.processes.is_empty() => Goal::Closed,
        State::Closed => Goal::ClosedAbandoned,
    });
}

fn p2_every_call_ends_by_its_deadline(world: &mut World) {
    let now = world.now;
    let late = world.truth.calls.iter().any(|call| call.ends_by.is_some_and(|ends_by| ends_by < now));
    require(world, Property::P2, !late, "a call is pending after its deadline");
    let pending = world.truth.calls.iter().filter(|call| call.end.is_none()).count();
    let kept = world.supervisor.ledger.len() == pending;
    require(world, Property::P2, kept, "a call is dropped without an end");
}

fn p6_closed_leaves_nothing(world: &mut World) {
    if world.lifecycle().is_closed() {
        let empty = world.supervisor.ledger.is_empty();
        require(world, Property::P6, empty, "closed with calls pending");
        let left = world.truth.processes.iter().any(|process| !process.gone && !process.abandoned);
        require(world, Property::P6, !left, "closed while a process lives");
        world.truth.closed_by = None;
    }
    let now = world.now;
    let late = world.truth.closed_by.is_some_and(|by| now > by);
    require(world, Property::P6, !late, "the close takes too long");
}

/// Every answer that is not owed: from another session, to another id, late, or twice.
fn p7_stray_answers_reach_nobody(world: &mut World) {
    let sends: u64 = world.truth.calls.iter().map(|call| u64::from(call.sends) + 1).sum();
    for epoch in (1..=world.epoch().0).map(Epoch) {
        for id in (1..=sends).map(CallId) {
            let owed = world.truth.owed.iter().any(|owed| (owed.epoch, owed.id) == (epoch, id));
            if !owed && world.supervisor.ledger.answer(epoch, id, true).is_some() {
                return require(world, Property::P7, false, "an answer that nobody owed is delivered");
            }
        }
    }
}

fn p8_parked_and_closed_hold_no_waiting_call(world: &mut World, policy: &Policy) {
    let waiting = world.supervisor.ledger.waiting();
    let holds = match world.lifecycle().state() {
        State::Parked { probe_at, .. } if waiting > 0 => {
            let floor = world.truth.attempted.map_or(world.now, |last| last + policy.demand_floor);
            let soon = floor.max(world.now + policy.wake_spread);
            probe_at.is_some_and(|at| at <= soon)
        }
        State::Closed | State::Draining { then: Intent::Close, .. } => waiting == 0,
        state => waiting == 0 || !state.is_parked_by_command(),
    };
    require(world, Property::P8, holds, "a call waits for nothing");
}

fn p9_whatever_is_pending_has_a_timer(world: &mut World, policy: &Policy) {
    let state = world.lifecycle().state();
    let timed = match state {
        State::Idle | State::Closed => true,
        State::Connecting { step, deadline } => deadline.is_some() || *step == Step::ClientsTurn,
        State::Ready { watch: Watch::Calm { look_at }, .. } => {
            look_at.is_some() == (policy.idle_probe.is_some() || policy.hang_timeout.is_some())
        }
        State::Parked { probe_at, fault: Fault::Parked, .. } => probe_at.is_none(),
        State::Parked { probe_at, fault, .. } => probe_at.is_some() || fault.is_permanent(),
        _ => state.deadline().is_some(),
    };
    let over = world.process(world.epoch()).is_some_and(|process| process.has_untold_cause());
    let unplaced = (0..world.truth.calls.len()).filter(|&caller| world.is_waiting(caller)).count();
    let paused = world.supervisor.ledger.pause_ends().is_some();
    let served = match state {
        State::Idle => world.supervisor.ledger.waiting() == 0,
        // Between the exchange that found out and the owner that hears of it, calls wait for the next session.
        State::Ready { .. } if over => true,
        State::Ready { .. } => world.supervisor.ledger.waiting() == 0 && (unplaced == 0 || paused),
        _ => true,
    };
    require(world, Property::P9, timed, "a state waits without a timer");
    require(world, Property::P9, served, "a call waits though there is a session, or nobody starts one");
    let due = world.supervisor.ledger.deadline();
    let ends = |ends_by: Time| due.is_some_and(|due| due <= ends_by);
    let holds = world.truth.calls.iter().all(|call| call.ends_by.is_none_or(ends));
    require(world, Property::P9, holds, "no timer ends a call");
}
