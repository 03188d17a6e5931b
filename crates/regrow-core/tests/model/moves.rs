//! What may happen next in a world, and what it comes to.

use crate::properties::{self, Goal, Property, require};
use crate::scope::{Scope, death, units};
use crate::world::{Caller, World};
use regrow_core::{
    CallId, Epoch, Event, Evidence, Fault, Manner, Nature, Requester, State, Step, Supervisor, Watch,
};

/// One thing that happens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Move {
    /// Time passes.
    Wait,
    /// The machine sleeps until its next timer is much too late.
    Sleep,
    /// The timer fires.
    Tick,
    Start,
    Call(Nature),
    Cancel(Caller),
    /// The OS accepts the first byte of a call.
    Write(Caller),
    /// The server reads a call in its input, and runs it: the next one, unless each has an exchange of its own.
    Run(Epoch, usize),
    Answer(Epoch, CallId, bool),
    /// The exchange of a call ends without an answer.
    Miss(Epoch, CallId, Fault),
    /// The question for a sign of life got nowhere.
    FailProbe(Fault),
    /// Something else is read from the server.
    Hear,
    /// It answers the probe.
    Pong,
    RefuseProbe,
    /// The handshake goes on to this step.
    Begin(Step),
    /// The handshake is done: calls go to the session, though its owner does not know yet.
    Greet,
    /// The owner hears of that, perhaps again.
    Connected,
    /// The server ends, or fails, by itself.
    Fail(Fault),
    /// The owner hears why, perhaps again.
    Lost(Fault),
    /// The last of what was told to end disappears.
    Vanish(Epoch),
    /// News that is old when it comes.
    Late(Event),
    Reconnect(Requester),
    /// What an operator may order.
    Rest,
    Park,
    Wake,
    ResetBudget,
    /// Something has changed that may mend what only a person can.
    Mend,
    Drain,
    Close(Manner),
}

pub(crate) fn moves(world: &World, scope: &Scope, moves: &mut Vec<Move>) {
    let truth = &world.truth;
    let epoch = world.epoch();
    if truth.broken.is_some() || epoch.0 > scope.epochs {
        return;
    }
    let state = world.lifecycle().state();
    let over = *state == State::Closed;
    let due = world.is_due();
    if !due && !over {
        moves.push(Move::Wait);
        if truth.sleeps < scope.sleeps && world.deadline().is_some() {
            moves.push(Move::Sleep);
        }
    }
    let closing_is_due = state.deadline().is_some_and(|deadline| deadline <= world.now);
    let abandons = matches!(state, State::Closing { .. }) && truth.abandons == scope.abandons;
    if due && !(abandons && closing_is_due) {
        moves.push(Move::Tick);
    }
    if matches!(state, State::Idle | State::Parked { .. }) {
        moves.push(Move::Start);
    }
    if truth.calls.len() < scope.calls {
        moves.extend(scope.natures.iter().map(|&nature| Move::Call(nature)));
    }
    for (caller, call) in truth.calls.iter().enumerate() {
        if scope.cancels && call.end.is_none() {
            moves.push(Move::Cancel(caller));
        }
    }
    for owed in &truth.owed {
        let process = world.process(owed.epoch);
        let takes_input = process.is_some_and(|process| process.alive && process.patience.is_none());
        if !owed.written && takes_input {
            moves.push(Move::Write(owed.caller));
        }
        // Without a process it is on an exchange that goes on.
        if process.is_none_or(|process| !process.abandoned) {
            let told = |fault: &&Fault| !owed.ran || may_have_run(fault);
            let misses = scope.misses.iter().filter(told);
            moves.extend(misses.map(|fault| Move::Miss(owed.epoch, owed.id, fault.clone())));
        }
        if owed.ran {
            moves.push(Move::Answer(owed.epoch, owed.id, true));
            if scope.errors {
                moves.push(Move::Answer(owed.epoch, owed.id, false));
            }
        }
    }
    let connecting = matches!(state, State::Connecting { .. });
    for process in &truth.processes {
        if process.alive {
            let most = if process.exchanges { usize::MAX } else { 1 };
            moves.extend((0..process.pipe.len().min(most)).map(|nth| Move::Run(process.epoch, nth)));
        }
        if process.patience.is_some() {
            moves.push(Move::Vanish(process.epoch));
        }
        if process.epoch != epoch || process.abandoned {
            continue;
        }
        let kept = process.patience.is_none();
        if process.alive && kept && connecting && !process.greeted {
            // Only the first session is the client's to greet.
            match (state, truth.greeting_open) {
                (State::Connecting { step: Step::Greeting, .. }, true) => {
                    moves.push(Move::Begin(Step::ClientsTurn))
                }
                (_, true) => {}
                (State::Connecting { step: Step::Greeting, .. }, _) => {
                    moves.push(Move::Greet);
                    if scope.discovers && !truth.account.discovering {
                        moves.push(Move::Begin(Step::Discovering));
                    }
                }
                (State::Connecting { step: Step::Discovering, .. }, _) => {
                    moves.push(Move::Greet);
                    moves.push(Move::Begin(Step::Greeting));
                }
                _ => {}
            }
        }
        if process.greeted && !truth.greeting_open {
            moves.push(Move::Connected);
        }
        let probed = match state {
            State::Ready { watch, .. } => !matches!(watch, Watch::Calm { .. } | Watch::LeftAlone { .. }),
            _ => false,
        };
        if probed && process.alive && truth.heard < world.now {
            moves.push(Move::Hear);
        }
        let beside = matches!(state, State::Ready { watch: Watch::Beside { .. }, .. });
        if beside && process.alive && truth.messages < 2 {
            moves.push(Move::Pong);
        }
        if scope.errors && probed && process.alive && !truth.account.probe_refused {
            moves.push(Move::RefuseProbe);
        }
        if probed && kept {
            moves.extend(scope.probe_faults.iter().map(|fault| Move::FailProbe(fault.clone())));
        }
        let most = if scope.second_causes { 2 } else { 1 };
        if kept && process.causes.len() < most && process.causes_told == process.causes.len() {
            for fault in &scope.faults {
                let at_start =
                    fault.is_permanent() || matches!(fault, Fault::WrongEra | Fault::Deferred { .. });
                let again = process.causes.contains(fault);
                if (connecting || !at_start) && !again && (process.alive || !outlives(fault)) {
                    moves.push(Move::Fail(fault.clone()));
                }
            }
        }
        // A session of exchanges tells its end once.
        let told = if process.exchanges { process.causes_told } else { 0 };
        moves.extend(process.causes[told..].iter().map(|cause| Move::Lost(cause.clone())));
    }
    if truth.orders < scope.orders && !over {
        moves.extend(scope.requesters.iter().map(|&requester| Move::Reconnect(requester)));
    }
    if truth.operated < scope.operated && !over {
        moves.extend([Move::Rest, Move::Park, Move::Wake, Move::ResetBudget]);
    }
    if truth.mends < scope.mends && !over {
        moves.push(Move::Mend);
    }
    if !over {
        moves.extend(scope.manners.iter().map(|&manner| Move::Close(manner)));
        if scope.drains {
            moves.push(Move::Drain);
        }
    }
    if scope.late_news {
        late_news(world, scope, moves);
    }
}

/// The newest epoch of which nothing can be new any more may still be spoken of.
fn late_news(world: &World, scope: &Scope, moves: &mut Vec<Move>) {
    let epoch = world.epoch();
    let left = if world.process(epoch).is_some() { Epoch(epoch.0.saturating_sub(1)) } else { epoch };
    if left == Epoch(0) {
        return;
    }
    let lives = world.process(left).is_some();
    let late =
        [Event::Lost(left, death()), Event::Connected(left), Event::TimedOut(left), Event::Drained(left)];
    moves.extend(late.into_iter().map(Move::Late));
    if scope.exchanges() {
        moves.push(Move::Late(Event::Doubted(left)));
        moves.push(Move::Late(Event::ProbeFailed(left, death())));
    }
    if !lives {
        moves.push(Move::Late(Event::Gone(left, None)));
    }
}

/// Whether a server that has a call may run it, or may have, although its exchange ended so. The world knows that by itself.
pub(crate) fn may_have_run(fault: &Fault) -> bool {
    match fault {
        Fault::NoSession { evidence, .. } => *evidence != Evidence::Words,
        fault => *fault == Fault::AnswerCut,
    }
}

/// Whether the process lives on with this fault.
fn outlives(fault: &Fault) -> bool {
    matches!(
        fault,
        Fault::OutputClosed | Fault::WrongEra | Fault::Deferred { .. } | Fault::SignInNeeded { .. }
    )
}

impl World {
    pub(crate) fn make(&mut self, scope: &Scope, happening: Move) {
        let epoch = self.epoch();
        let sleeps = matches!(happening, Move::Wait | Move::Sleep);
        match happening {
            Move::Wait => {
                self.now = self.now + units(1);
                self.truth.just_woke = false;
            }
            Move::Sleep => {
                let due = self.deadline().unwrap_or(self.now);
                self.now = due + scope.policy.clock_jump;
                self.truth.sleeps += 1;
                self.truth.just_woke = true;
                self.truth.closed_by = None;
                for call in &mut self.truth.calls {
                    // Nobody ends a call while the machine sleeps, nor before what arrived meanwhile is read.
                    call.ends_by = call.ends_by.map(|ends_by| ends_by.max(self.now + units(1)));
                }
            }
            Move::Tick => {
                let before = self.supervisor.clone();
                self.handle(scope, Event::Tick);
                let Supervisor { ledger, .. } = &self.supervisor;
                let same = (self.lifecycle(), ledger) == (before.lifecycle(), &before.ledger);
                let again = same && self.deadline() == before.deadline();
                require(self, Property::P9, !again, "a timer fires and fires");
            }
            Move::Start => drop(self.handle(scope, Event::Start)),
            Move::Call(nature) => self.call(scope, nature),
            Move::Cancel(caller) => self.cancel(scope, caller),
            Move::Write(caller) => self.write(scope, caller),
            Move::Run(epoch, nth) => self.run(scope, epoch, nth),
            Move::Answer(epoch, id, good) => self.answer(scope, epoch, id, good),
            Move::Miss(epoch, id, fault) => self.miss(scope, epoch, id, &fault),
            Move::FailProbe(fault) => {
                self.handle(scope, Event::ProbeFailed(epoch, fault));
            }
            Move::Mend => {
                self.truth.mends += 1;
                self.handle(scope, Event::Mended);
            }
            Move::Hear => {
                self.truth.heard = self.now;
                self.truth.messages += 1;
            }
            Move::Pong => {
                let State::Ready { watch: Watch::Beside { since, .. }, .. } = *self.lifecycle().state()
                else {
                    return;
                };
                self.truth.heard = self.now;
                self.truth.messages += 1;
                let in_flight = self.truth.owed.iter().filter(|owed| owed.epoch == epoch && owed.written);
                let from_before = in_flight.filter(|owed| self.truth.calls[owed.caller].taken < since);
                if self.truth.messages == 1 && from_before.count() > 0 {
                    self.truth.answers_when_busy = true;
                    self.reach(Goal::AnswersWhenBusy);
                }
                self.handle(scope, Event::ProbeAnswered(epoch, since));
            }
            Move::RefuseProbe => {
                self.truth.heard = self.now;
                self.truth.account.probe_refused = true;
                self.handle(scope, Event::ProbeRefused(epoch));
            }
            Move::Begin(Step::ClientsTurn) => {
                self.greeted(epoch);
                self.handle(scope, Event::Opened(epoch));
                self.open(scope, epoch);
                self.reach(Goal::ClientsTurn);
            }
            Move::Begin(step) => {
                self.handle(scope, Event::Begun(epoch, step));
                self.reach(Goal::Discovering);
            }
            Move::Greet => {
                self.greeted(epoch);
                self.truth.heard = self.now;
                self.open(scope, epoch);
            }
            Move::Connected => drop(self.handle(scope, Event::Connected(epoch))),
            Move::Fail(fault) => {
                if let Some(process) = self.process_mut(epoch) {
                    process.alive &= outlives(&fault);
                    process.causes.push(fault);
                }
            }
            Move::Lost(fault) => {
                if let Some(process) = self.process_mut(epoch) {
                    process.causes_told = process.causes.len();
                }
                self.handle(scope, Event::Lost(epoch, fault));
            }
            Move::Vanish(epoch) => {
                if let Some(process) = self.process_mut(epoch) {
                    process.alive = false;
                    process.gone = true;
                }
                self.handle(scope, Event::Gone(epoch, None));
                self.truth.processes.retain(|process| process.epoch != epoch);
            }
            Move::Late(event) => {
                let step = self.handle(scope, event);
                let same = step.is_some_and(|step| step.before == step.after);
                require(self, Property::P10, same, "late news of an epoch that is over did something");
            }
            Move::Reconnect(requester) => {
                self.truth.orders += 1;
                self.handle(scope, Event::Reconnect(requester));
            }
            Move::Rest => {
                self.operate(scope, Event::Rest);
            }
            Move::Park => {
                self.operate(scope, Event::Park);
            }
            Move::Wake => self.operate(scope, Event::Wake),
            Move::ResetBudget => self.operate(scope, Event::ResetBudget),
            Move::Drain => {
                let drain = scope.policy.drain_timeout;
                let ladder = scope.policy.ladders.planned.length() + scope.policy.abandon_after;
                self.must_close_by(drain + ladder);
                self.handle(scope, Event::Drain);
            }
            Move::Close(manner) => {
                let ladder = scope.policy.ladders.ladder(manner).length() + scope.policy.abandon_after;
                self.must_close_by(ladder);
                self.handle(scope, Event::Close(manner));
            }
        }
        // Its owner wakes, and looks at the calls that wait.
        if !sleeps && !self.is_due() {
            self.handle(scope, Event::Tick);
        }
        if !self.is_due() {
            self.supervisor.sleep(self.now);
        }
        properties::look(self, scope);
    }

    fn greeted(&mut self, epoch: Epoch) {
        if let Some(process) = self.process_mut(epoch) {
            process.greeted = true;
        }
    }

    pub(crate) fn write(&mut self, scope: &Scope, caller: Caller) {
        let Some(owed) = self.truth.owed.iter_mut().find(|owed| owed.caller == caller) else { return };
        owed.written = true;
        let (epoch, id) = (owed.epoch, owed.id);
        self.truth.calls[caller].written += 1;
        properties::judge_write(self, scope, caller);
        let Some(process) = self.process_mut(epoch) else { return };
        let position = process.written;
        process.written += 1;
        process.pipe.push((id, caller));
        let position = if process.exchanges { 0 } else { position };
        self.supervisor.ledger.sent(id, position);
    }

    fn run(&mut self, scope: &Scope, epoch: Epoch, nth: usize) {
        let Some(process) = self.process_mut(epoch) else { return };
        process.read += 1;
        let (id, caller) = process.pipe.remove(nth);
        if let Some(owed) = self.truth.owed.iter_mut().find(|owed| (owed.epoch, owed.id) == (epoch, id)) {
            owed.ran = true;
        }
        self.truth.calls[caller].runs += 1;
        properties::judge_run(self, scope, caller);
    }

    fn operate(&mut self, scope: &Scope, order: Event) {
        self.truth.operated += 1;
        self.handle(scope, order);
    }

    fn must_close_by(&mut self, within: std::time::Duration) {
        let by = self.now + within;
        // After a sleep nothing is promised for what had begun before.
        if self.truth.sleeps == 0 || !self.lifecycle().is_closing() {
            self.truth.closed_by = Some(self.truth.closed_by.map_or(by, |sooner| sooner.min(by)));
        }
    }
}
