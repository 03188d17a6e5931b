//! The life of a connection: `step(now, event) -> effects`. Every decision about attempts is made here.

use crate::event::{Effect, Event, Notice, Orderer, Patience, Pulse};
use crate::state::{Intent, State, Step, Watch};
use crate::watch::{Sign, Trust};
use crate::{Again, Backoff, Budget, Epoch, Fault, Manner, Phase, Policy, Reach, Remedy, Time, Verdict};
use std::sync::Arc;
use std::time::Duration;

mod first;
mod orders;

use first::FirstStart;

/// The pure state machine: a supervisor reports events and carries out effects.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Lifecycle {
    policy: Arc<Policy>,
    state: State,
    epoch: Epoch,
    /// How far the handshake of this epoch got; none once it was ready.
    step: Option<Step>,
    budget: Budget,
    backoff: Backoff,
    trust: Trust,
    /// The newest epoch that was charged. Each is charged once, for its first cause.
    charged: Option<Epoch>,
    /// When the newest attempt started.
    attempted: Option<Time>,
    /// Ends in a row that cost nothing and followed no good answer.
    free_in_a_row: u32,
    /// When we last noticed that the machine had slept.
    woke: Option<Time>,
    /// How many slow probes have failed since the budget was spent; none with a session since then.
    probes: Option<u32>,
    /// Whether calls have made the next attempt come sooner.
    demanded: bool,
    /// The newest epoch in which something was mended: a permanent fault of it may be one of before.
    mended: Option<Epoch>,
    /// How the first start went so far; none once a session has been ready.
    first: Option<FirstStart>,
    /// When the newest session that served calls ended. Not kept where calls have no patience, nor is the next.
    healthy: Option<Time>,
    /// When it parked because of its faults; none with a session since then.
    parked: Option<Time>,
}

impl Lifecycle {
    /// A connection that has not started. Equal seeds give equal pauses.
    pub fn new(policy: Arc<Policy>, seed: u64) -> Lifecycle {
        Lifecycle {
            budget: Budget::new(policy.budget),
            backoff: Backoff::new(policy.backoff, seed),
            policy,
            state: State::Idle,
            epoch: Epoch(0),
            step: None,
            trust: Trust { refused: false, answers_when_busy: false },
            charged: None,
            attempted: None,
            free_in_a_row: 0,
            woke: None,
            probes: None,
            demanded: false,
            mended: None,
            first: Some(FirstStart::default()),
            healthy: None,
            parked: None,
        }
    }

    /// Where the connection stands.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// The newest epoch.
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// How many more faults are borne before the connection parks.
    pub fn budget_left(&self, now: Time) -> u32 {
        self.budget.left(now)
    }

    /// When `step` wants a tick.
    pub fn deadline(&self) -> Option<Time> {
        self.state.deadline()
    }

    /// Whether calls are no longer taken.
    pub fn is_closing(&self) -> bool {
        matches!(
            self.state,
            State::Closed
                | State::Closing { then: Intent::Close, .. }
                | State::Draining { then: Intent::Close, .. }
        )
    }

    /// Whether everything is over.
    pub fn is_closed(&self) -> bool {
        self.state == State::Closed
    }

    /// When the next attempt may start, for callers who ask when to try again.
    pub fn next_attempt(&self) -> Option<Time> {
        match self.state {
            State::Backoff { retry_at, .. } => Some(retry_at),
            _ if self.state.is_parked_by_order() => None,
            State::Parked { .. } | State::Closing { then: Intent::Replace(_), .. } => {
                Some(self.demand_floor())
            }
            _ => None,
        }
    }

    /// Whether the connection will park, or has, rather than start the next attempt by itself.
    pub fn parks(&self, now: Time) -> bool {
        match &self.state {
            State::Parked { .. } => true,
            State::Closing { then: Intent::Replace(remedy), fault, .. } => match remedy {
                Remedy::AtOnce => false,
                Remedy::Park if !self.is_mended() => true,
                Remedy::Retry | Remedy::Park => self.has_spent(now) && deferral(fault).is_none(),
            },
            _ => false,
        }
    }

    /// Takes in what happened; says what must be done.
    pub fn step(&mut self, now: Time, event: Event, pulse: Pulse) -> Vec<Effect> {
        if event.epoch().is_some_and(|epoch| epoch != self.epoch) {
            return vec![]; // News of a session that we have left.
        }
        let slept = self.notice_sleep(now);
        use {Event as E, State as S};
        match (&self.state, event) {
            (S::Closed, _) => vec![],
            (_, E::Close(manner)) => self.close(now, manner),
            (S::Ready { .. } | S::Draining { .. }, E::Drain) => self.drain_to_close(now),
            (_, E::Drain) => self.close(now, Manner::Planned),
            (_, E::Rest) if self.may_rest(pulse) => self.rest(now, pulse),
            (_, E::Park) => self.park_by_order(now, pulse),
            (_, E::Wake) => self.wake(now),
            (_, E::ResetBudget) => self.reset_budget(now),
            (state, E::Demand) if state.is_parked_by_order() => vec![Effect::FailWaiting(Fault::Parked)],
            (S::Parked { fault: Fault::Parked, .. }, E::Start | E::Reconnect(Orderer::Program)) => vec![],
            (S::Draining { then: Intent::Park, .. }, E::Reconnect(Orderer::Person)) => self.hurry(),

            (S::Idle, E::Start | E::Demand) => self.connect_soon(now, Orderer::Program),
            (S::Idle, E::Reconnect(orderer)) => self.connect_soon(now, orderer),

            (S::Connecting { .. }, E::Opened(_)) => self.greet(Step::ClientsTurn, None),
            (S::Connecting { .. }, E::Begun(_, step)) => {
                self.first.iter_mut().for_each(|first| first.handshake_begins(now));
                self.greet(step, Some(now + self.policy.connect_timeout))
            }
            (S::Connecting { .. }, E::Connected(_)) => self.ready(now),
            (S::Connecting { .. }, E::Lost(_, fault)) => self.lost(now, fault, pulse),
            (S::Connecting { .. }, E::Reconnect(Orderer::Person)) => {
                self.hangup(now, Manner::Planned, Intent::Replace(Remedy::AtOnce))
            }
            (S::Connecting { deadline: Some(deadline), .. }, E::Tick) if now >= *deadline => {
                match slept {
                    // The server had no chance to answer while the machine slept.
                    true => self.extend(now + self.policy.connect_timeout),
                    false => {
                        let after = self.policy.connect_timeout;
                        self.lost(now, Fault::HandshakeTimeout { after }, pulse)
                    }
                }
            }

            (S::Ready { .. }, E::Lost(_, fault)) => self.lost(now, fault, pulse),
            // A client's own handshake has the time of its attempt; its end is the attempt's.
            (S::Connecting { .. }, E::TimedOut(_)) => {
                let after = self.policy.connect_timeout;
                self.lost(now, Fault::HandshakeTimeout { after }, pulse)
            }
            (S::Ready { .. }, E::TimedOut(_) | E::Doubted(_)) => self.doubt(now, pulse),
            (S::Ready { watch, .. }, E::ProbeFailed(_, fault)) => {
                match watch.failed(now, pulse, &self.policy) {
                    Some(Sign::Silent) => self.lost(now, fault, pulse),
                    Some(sign) => self.heed(now, sign, pulse),
                    None => vec![],
                }
            }
            // A server that has just been asked is not silent, however long nothing was read before.
            (S::Ready { .. }, E::Cancelled(_, taken))
                if now - pulse.heard.max(taken) >= self.policy.doubt_silence =>
            {
                self.doubt(now, pulse)
            }
            (S::Ready { watch, .. }, E::ProbeAnswered(_, asked)) => {
                self.trust.answers_when_busy |= watch.proves_answers_when_busy(asked, pulse);
                vec![]
            }
            (S::Ready { .. }, E::ProbeRefused(_)) => {
                self.trust.refused = true;
                vec![]
            }
            (S::Ready { .. }, E::Reconnect(orderer)) => self.reconnect(now, orderer, pulse),
            (S::Ready { .. }, E::Tick) => self.look(now, pulse, slept),

            (S::Draining { then, .. }, E::Drained(_)) => {
                let then = *then;
                self.hangup(now, Manner::Planned, then)
            }
            // It is being left anyway, as soon as its calls have ended.
            (S::Draining { .. }, E::Lost(_, fault)) if fault.reach() == Reach::Session => {
                vec![Effect::Retire(self.epoch, fault)]
            }
            (S::Draining { .. }, E::Lost(_, fault)) => self.lost(now, fault, pulse),
            (S::Draining { deadline, then }, E::Tick) if now >= *deadline => {
                let then = *then;
                let mut effects = vec![Effect::Settle(self.epoch, meant(then))];
                effects.extend(self.hangup(now, Manner::Planned, then));
                effects
            }

            (S::Closing { .. }, E::Lost(_, fault)) if !self.is_charged() => {
                self.lost_while_closing(now, fault, pulse)
            }
            (S::Closing { then, .. }, E::Reconnect(Orderer::Person)) if *then != Intent::Close => {
                self.hurry()
            }
            (S::Closing { .. }, E::Gone(_, ended)) => {
                let mut effects = self.untidy(ended);
                effects.extend(self.gone(now));
                effects
            }
            (S::Closing { settle_at: Some(settle_at), .. }, E::Tick) if now >= *settle_at => self.settle(),
            // The timers of the ladder slept, too: nobody may have sent SIGKILL yet.
            (S::Closing { deadline, .. }, E::Tick) if now >= *deadline && slept => {
                self.extend(now + self.policy.abandon_after)
            }
            (S::Closing { deadline, .. }, E::Tick) if now >= *deadline => {
                let abandoned = self.epoch;
                let mut effects =
                    vec![Effect::Abandon(abandoned), Effect::Notice(Notice::Abandoned(abandoned))];
                effects.extend(self.gone(now));
                effects
            }

            (S::Backoff { retry_at, .. }, E::Tick) if now >= *retry_at => match slept {
                true => self.spread(now),
                false => self.connect(now),
            },
            (S::Backoff { .. }, E::Demand) => self.demand(now),
            (S::Backoff { .. }, E::Reconnect(orderer)) => self.connect_soon(now, orderer),

            (S::Parked { probe_at: Some(probe_at), .. }, E::Tick) if now >= *probe_at => match slept {
                true => self.spread(now),
                false => {
                    self.count_probe();
                    self.connect(now)
                }
            },
            (S::Parked { .. }, E::Demand) => self.demand(now),
            (S::Parked { .. }, E::Reconnect(orderer)) => self.connect_soon(now, orderer),
            (S::Parked { .. }, E::Start) => self.connect_soon(now, Orderer::Program),
            (S::Parked { fault, .. }, E::Mended) if fault.is_permanent() => {
                self.connect_soon(now, Orderer::Person)
            }
            (_, E::Mended) => {
                self.mended = Some(self.epoch);
                vec![]
            }
            _ => vec![],
        }
    }

    fn connect(&mut self, now: Time) -> Vec<Effect> {
        debug_assert!(now >= self.attempt_floor(), "P10: attempts have a floor between them");
        self.epoch = self.epoch.next();
        self.attempted = Some(now);
        self.demanded = false;
        self.first.iter_mut().for_each(|first| first.attempt_begins(now));
        self.greet(Step::Greeting, Some(now + self.policy.connect_timeout));
        vec![Effect::Notice(Notice::Connecting(self.epoch)), Effect::Connect(self.epoch)]
    }

    fn greet(&mut self, step: Step, deadline: Option<Time>) -> Vec<Effect> {
        self.step = Some(step);
        self.state = State::Connecting { step, deadline };
        vec![]
    }

    fn ready(&mut self, now: Time) -> Vec<Effect> {
        self.step = None;
        self.first = None;
        self.trust.refused = false;
        self.probes = None;
        self.parked = None;
        self.state =
            State::Ready { since: now, watch: Watch::calm(now, now, Pulse::default(), &self.policy) };
        vec![Effect::Notice(Notice::Ready(self.epoch))]
    }

    /// The session or attempt ended, and not because we wanted it.
    fn lost(&mut self, now: Time, fault: Fault, pulse: Pulse) -> Vec<Effect> {
        let was_connecting = matches!(self.state, State::Connecting { .. });
        if was_connecting && let Some(first) = &mut self.first {
            first.failed(&fault);
        }
        let verdict = self.verdict(&fault, pulse);
        let charged_before = self.is_charged();
        self.settle_accounts(now, verdict, pulse);
        let notice = match verdict.charged {
            _ if charged_before => None,
            true => Some(Notice::Fault(self.epoch, fault.clone(), pulse.calls)),
            false => Some(Notice::Retired(self.epoch, fault.clone())),
        };
        let then = match self.state {
            State::Draining { then: then @ (Intent::Close | Intent::Park), .. } => then,
            _ if charged_before && verdict.remedy == Remedy::AtOnce => Intent::Replace(Remedy::Retry),
            _ => Intent::Replace(verdict.remedy),
        };
        let mut effects: Vec<Effect> = notice.map(Effect::Notice).into_iter().collect();
        // What a living process has not read, it may still read: that is known when it is gone. A handshake is sent
        // again in any case, and fails with its attempt.
        let retires = fault.reach() == Reach::Session;
        let settles = !retires && (was_connecting || fault.ends_process());
        let too_long = matches!(fault.again(), Again::After(wait) if wait > self.policy.defer_limit);
        if settles {
            effects.push(Effect::Settle(self.epoch, fault.clone()));
        } else if retires {
            effects.push(Effect::Retire(self.epoch, fault.clone()));
        }
        if was_connecting && (verdict.charged || too_long) {
            let handshakes_wait = !self.is_first_start_over(now, &fault);
            let patience = self.patience(now, &fault);
            effects.push(Effect::FailAttempt { fault: fault.clone(), handshakes_wait, patience });
        }
        effects.extend(self.enter_closing(now, Manner::Failed, then, Some(fault)));
        if let State::Closing { settle_at, deadline, .. } = &mut self.state
            && !settles
            && !retires
        {
            let proven = now + self.policy.ladders.failed.length() + self.policy.settle_after;
            *settle_at = Some(proven.min(*deadline));
        }
        effects
    }

    /// Which calls may wait for the next attempt although this one has failed. A server that is only restarting was healthy
    /// shortly before; one that has parked the connection is not expected back soon.
    fn patience(&self, now: Time, fault: &Fault) -> Patience {
        let healthy = self.healthy.is_some_and(|ended| now - ended <= self.policy.healthy_within);
        let soon = !fault.is_permanent() && !matches!(fault.again(), Again::After(_));
        match self.parked {
            _ if !healthy || !soon => Patience::None,
            Some(parked) => Patience::TakenBefore(parked),
            None => Patience::All,
        }
    }

    /// What a closing session still has in flight waits no longer.
    fn settle(&mut self) -> Vec<Effect> {
        let State::Closing { settle_at, then, fault, .. } = &mut self.state else { return vec![] };
        *settle_at = None;
        let fault = fault.clone().unwrap_or(meant(*then));
        vec![match fault.reach() {
            Reach::Session => Effect::Retire(self.epoch, fault),
            Reach::Call | Reach::Doubt => Effect::Settle(self.epoch, fault),
        }]
    }

    /// A fault that happened before our hangup reached the session, but was told after. It counts, even when
    /// the session seemed to have ended in good order.
    fn lost_while_closing(&mut self, now: Time, fault: Fault, pulse: Pulse) -> Vec<Effect> {
        let verdict = fault.verdict(self.phase(pulse));
        if !verdict.charged {
            return vec![];
        }
        self.settle_accounts(now, verdict, pulse);
        let notice = Notice::Late(self.epoch, fault.clone());
        if let State::Closing { fault: kept, then, .. } = &mut self.state {
            match then {
                Intent::Replace(_) | Intent::Rest => *then = Intent::Replace(verdict.remedy),
                Intent::Park | Intent::Close => {}
            }
            *kept = Some(fault);
        }
        vec![Effect::Notice(notice)]
    }

    fn phase(&self, pulse: Pulse) -> Phase {
        match self.step {
            Some(Step::Discovering) => Phase::Discovering,
            Some(Step::Greeting | Step::ClientsTurn) => Phase::Greeting,
            None if pulse.calls > 0 => Phase::Busy,
            None if pulse.answered => Phase::Proven,
            None => Phase::Unproven,
        }
    }

    fn verdict(&self, fault: &Fault, pulse: Pulse) -> Verdict {
        let verdict = fault.verdict(self.phase(pulse));
        let at_once = verdict.remedy == Remedy::AtOnce;
        let leads_nowhere = !pulse.answered && self.free_in_a_row >= self.policy.free_reconnects;
        let exits_again = fault.ends_process() && self.has_used_up_starts();
        if at_once && (leads_nowhere || exits_again) {
            // Free ends that lead nowhere would be a loop without a bound.
            return Verdict { remedy: Remedy::Retry, charged: true };
        }
        verdict
    }

    /// Charges the epoch if it ended in a fault, and remembers what it proved.
    fn settle_accounts(&mut self, now: Time, Verdict { remedy, charged }: Verdict, pulse: Pulse) {
        self.remember_health(now, pulse);
        self.free_in_a_row = match remedy {
            _ if charged || pulse.answered => 0,
            Remedy::AtOnce => self.free_in_a_row.saturating_add(1),
            Remedy::Retry | Remedy::Park => self.free_in_a_row, // Its pause bounds it.
        };
        if charged && !self.is_charged() {
            self.charged = Some(self.epoch);
            self.budget.charge(now);
        }
    }

    fn remember_health(&mut self, now: Time, pulse: Pulse) {
        if let State::Ready { since, .. } = self.state
            && pulse.answered
        {
            self.backoff.proven(now - since);
        }
    }

    /// Whether the budget is spent. Charges grow old while it is parked; that alone is no reason to try at the old
    /// pace again, only a session is.
    fn has_spent(&self, now: Time) -> bool {
        self.budget.is_over(now) || self.probes.is_some()
    }

    fn is_charged(&self) -> bool {
        self.charged == Some(self.epoch)
    }

    fn is_mended(&self) -> bool {
        self.mended == Some(self.epoch)
    }

    /// Whether the server asked us to come back later than this. Neither calls nor programs make it sooner.
    fn is_deferred(&self, now: Time) -> bool {
        matches!(&self.state, State::Backoff { retry_at, fault } if now < *retry_at && deferral(fault).is_some())
    }

    fn reconnect(&mut self, now: Time, orderer: Orderer, pulse: Pulse) -> Vec<Effect> {
        if orderer == Orderer::Person {
            self.remember_health(now, pulse);
            return self.drain(now, Intent::Replace(Remedy::AtOnce));
        }
        let charged = !pulse.answered && self.free_in_a_row >= self.policy.free_reconnects;
        let remedy = if charged { Remedy::Retry } else { Remedy::AtOnce };
        self.settle_accounts(now, Verdict { remedy, charged }, pulse);
        let notice = Effect::Notice(Notice::Fault(self.epoch, Fault::Replaced, pulse.calls));
        let mut effects: Vec<Effect> = charged.then_some(notice).into_iter().collect();
        effects.extend(self.drain(now, Intent::Replace(remedy)));
        effects
    }

    fn drain(&mut self, now: Time, then: Intent) -> Vec<Effect> {
        self.state = State::Draining { deadline: now + self.policy.drain_timeout, then };
        let mut effects = vec![Effect::Hold(self.epoch)];
        if !matches!(then, Intent::Replace(_)) {
            effects.push(Effect::FailWaiting(meant(then))); // No session will come for them.
        }
        effects
    }

    /// The calls in flight may finish, in the time that a drain has, however often that is asked for.
    fn drain_to_close(&mut self, now: Time) -> Vec<Effect> {
        let mut effects = vec![Effect::FailWaiting(Fault::Closed)];
        match &mut self.state {
            State::Draining { then, .. } => *then = Intent::Close,
            _ => effects.extend(self.drain(now, Intent::Close)),
        }
        effects
    }

    /// Ends the session because we want it so. What it still has in flight is settled when it is gone.
    fn hangup(&mut self, now: Time, manner: Manner, then: Intent) -> Vec<Effect> {
        let mut effects = vec![Effect::Notice(Notice::Planned(self.epoch, manner))];
        let fault = (self.is_charged() && matches!(then, Intent::Replace(_))).then_some(Fault::Replaced);
        effects.extend(self.enter_closing(now, manner, then, fault));
        effects
    }

    fn enter_closing(
        &mut self,
        now: Time,
        manner: Manner,
        then: Intent,
        fault: Option<Fault>,
    ) -> Vec<Effect> {
        let ladder = self.policy.ladders.ladder(manner).length();
        let deadline = now + ladder + self.policy.abandon_after;
        let served = matches!(self.state, State::Ready { .. } | State::Draining { .. });
        if served && self.policy.patience.is_some() {
            self.healthy = Some(now);
        }
        self.state = State::Closing { deadline, settle_at: None, then, fault };
        vec![Effect::Hold(self.epoch), Effect::Hangup(self.epoch, manner)]
    }

    /// A person wants a fresh session and gets the next attempt at once, whatever the last one ended with.
    fn hurry(&mut self) -> Vec<Effect> {
        if let State::Draining { then, .. } | State::Closing { then, .. } = &mut self.state {
            *then = Intent::Replace(Remedy::AtOnce);
        }
        vec![]
    }

    /// Where we meant the end, every way of ending is benign, but it is said.
    fn untidy(&self, ended: Option<Fault>) -> Vec<Effect> {
        let meant = matches!(self.state, State::Closing { fault: None, .. });
        let notice = ended.filter(|_| meant).map(|fault| Notice::Untidy(self.epoch, fault));
        notice.map(Effect::Notice).into_iter().collect()
    }

    fn gone(&mut self, now: Time) -> Vec<Effect> {
        let mut effects = self.settle(); // Nobody can answer it now.
        let State::Closing { then, fault, .. } = &mut self.state else { return vec![] };
        let (then, fault) = (*then, fault.take());
        effects.extend(match then {
            Intent::Close => self.closed(),
            Intent::Park => self.parked_by_order(),
            Intent::Rest => self.rested(),
            Intent::Replace(remedy) => self.replace(now, remedy, fault),
        });
        effects
    }

    fn replace(&mut self, now: Time, remedy: Remedy, fault: Option<Fault>) -> Vec<Effect> {
        let deferral = deferral(&fault);
        match fault {
            Some(fault) if remedy == Remedy::Park && !self.is_mended() => return self.park(now, fault),
            // Who names a time is asked at that time, spent or not.
            Some(fault) if remedy != Remedy::AtOnce && deferral.is_none() && self.has_spent(now) => {
                return self.park(now, fault);
            }
            _ => {}
        }
        let pause = match (remedy, deferral) {
            (Remedy::AtOnce, _) => Duration::ZERO,
            (_, Some(wait)) => self.backoff.no_sooner(wait),
            (_, None) => self.backoff.pause(),
        };
        let start = now + pause + self.wake_jitter(now);
        let floor = match remedy {
            Remedy::AtOnce => self.attempt_floor(),
            Remedy::Retry | Remedy::Park => self.attempt_floor().max(self.first_start_floor()),
        };
        self.pause(now, start.max(floor), fault)
    }

    fn pause(&mut self, now: Time, retry_at: Time, fault: Option<Fault>) -> Vec<Effect> {
        self.state = State::Backoff { retry_at, fault };
        if retry_at <= now {
            return self.connect(now);
        }
        vec![Effect::Notice(Notice::Backoff(retry_at - now))]
    }

    fn park(&mut self, now: Time, fault: Fault) -> Vec<Effect> {
        let probe_at = (!fault.is_permanent()).then(|| {
            let failed = *self.probes.get_or_insert(0);
            let step = self.policy.park_probe.saturating_mul(failed.saturating_add(1));
            let probe_at = now + self.backoff.jitter(step.min(self.policy.park_probe_cap));
            probe_at.max(self.first_start_floor())
        });
        if self.policy.patience.is_some() {
            self.parked.get_or_insert(now);
        }
        self.state = State::Parked { probe_at, probes: self.probes.unwrap_or(0), fault: fault.clone() };
        vec![Effect::Notice(Notice::Parked(fault))]
    }

    /// A slow probe is due. What calls demanded is none, and makes the next no slower.
    fn count_probe(&mut self) {
        if !self.demanded {
            self.probes = self.probes.map(|probes| probes.saturating_add(1));
        }
    }

    /// Calls are waiting: one shared attempt, soon, but not more often than the floor allows.
    fn demand(&mut self, now: Time) -> Vec<Effect> {
        let floor = self.demand_floor();
        if self.is_deferred(now) {
            return self.put_off(now);
        }
        if now < self.first_start_floor()
            && let State::Backoff { fault: Some(fault), .. } | State::Parked { fault, .. } = &self.state
        {
            return vec![Effect::FailWaiting(fault.clone())];
        }
        match &mut self.state {
            State::Parked { fault, .. } if fault.is_permanent() && now < floor => {
                vec![Effect::FailWaiting(fault.clone())]
            }
            State::Parked { probe_at, .. } if now < floor => {
                if probe_at.is_none_or(|at| floor < at) {
                    *probe_at = Some(floor);
                    self.demanded = true;
                }
                vec![]
            }
            State::Backoff { retry_at, .. } if now < floor => {
                *retry_at = floor.min(*retry_at);
                vec![]
            }
            _ => self.connect(now),
        }
    }

    /// The server asked us to come back later: calls wait until then, unless that is too long.
    fn put_off(&self, now: Time) -> Vec<Effect> {
        match &self.state {
            State::Backoff { retry_at, fault: Some(Fault::Deferred { code, .. }) }
                if *retry_at - now > self.policy.defer_limit =>
            {
                vec![Effect::FailCalls(Fault::Deferred { code: *code, after: *retry_at - now })]
            }
            _ => vec![],
        }
    }

    /// Somebody wants a session now. A person need not wait; a program is paced as calls are (P5).
    fn connect_soon(&mut self, now: Time, orderer: Orderer) -> Vec<Effect> {
        let floor = match orderer {
            Orderer::Person => self.attempt_floor(),
            Orderer::Program if self.is_deferred(now) => return vec![],
            Orderer::Program => self.demand_floor(),
        };
        let (retry_at, fault) = match &self.state {
            State::Backoff { retry_at, .. } if *retry_at <= floor && now < *retry_at => return vec![],
            State::Backoff { retry_at, fault } => (floor.min(*retry_at).max(now), fault.clone()),
            State::Parked { fault: Fault::Parked, .. } | State::Idle => (floor.max(now), None),
            State::Parked { fault, .. } => (floor.max(now), Some(fault.clone())),
            _ => return vec![],
        };
        self.pause(now, retry_at, fault)
    }

    fn close(&mut self, now: Time, manner: Manner) -> Vec<Effect> {
        let mut effects = vec![Effect::FailWaiting(Fault::Closed)];
        effects.extend(match &mut self.state {
            State::Idle | State::Backoff { .. } | State::Parked { .. } => self.closed(),
            State::Closing { then, deadline, .. } => {
                // Already ending. It may have to go faster now.
                *then = Intent::Close;
                let sooner = now + self.policy.ladders.ladder(manner).length() + self.policy.abandon_after;
                if sooner >= *deadline {
                    return effects;
                }
                *deadline = sooner;
                vec![Effect::Hangup(self.epoch, manner)]
            }
            _ => self.hangup(now, manner, Intent::Close),
        });
        effects
    }

    fn closed(&mut self) -> Vec<Effect> {
        self.state = State::Closed;
        vec![
            Effect::FailWaiting(Fault::Closed),
            Effect::EndAll(Fault::Closed),
            Effect::Notice(Notice::Closed),
        ]
    }

    /// A call got no answer: is the server still there?
    fn doubt(&mut self, now: Time, pulse: Pulse) -> Vec<Effect> {
        let State::Ready { watch, .. } = self.state else { return vec![] };
        let Some(sign) = watch.doubt(now, pulse, &self.policy) else { return vec![] };
        let mut effects = vec![Effect::Notice(Notice::Doubted(self.epoch))];
        effects.extend(self.heed(now, sign, pulse));
        effects
    }

    /// A tick while ready: has the server shown life?
    fn look(&mut self, now: Time, pulse: Pulse, slept: bool) -> Vec<Effect> {
        let State::Ready { watch, .. } = self.state else { return vec![] };
        let sign = watch.look(now, pulse, slept, self.trust, &self.policy);
        let mut effects = vec![];
        if slept {
            effects.push(Effect::Notice(Notice::Woke));
        }
        effects.extend(self.heed(now, sign, pulse));
        effects
    }

    fn heed(&mut self, now: Time, sign: Sign, pulse: Pulse) -> Vec<Effect> {
        let (next, effects) = match sign {
            Sign::Wait(next) => (next, vec![]),
            Sign::Ask(next) => (next, vec![Effect::Probe(self.epoch)]),
            Sign::Silent => return self.lost(now, Fault::Silent { after: now - pulse.heard }, pulse),
        };
        if let State::Ready { watch, .. } = &mut self.state {
            *watch = next;
        }
        effects
    }

    /// Whether our own timer is so late that the machine must have slept. Whoever wakes first tells.
    fn notice_sleep(&mut self, now: Time) -> bool {
        let slept = self.deadline().is_some_and(|deadline| now - deadline >= self.policy.clock_jump);
        if slept {
            self.woke = Some(now);
        }
        slept
    }

    /// What slept with the machine gets its time anew.
    fn extend(&mut self, later: Time) -> Vec<Effect> {
        match &mut self.state {
            State::Connecting { deadline, .. } => *deadline = Some(later),
            State::Closing { deadline, .. } => *deadline = later,
            _ => {}
        }
        vec![Effect::Notice(Notice::Woke)]
    }

    /// After a sleep every connection of this machine wakes at the same instant; each waits a different moment.
    fn spread(&mut self, now: Time) -> Vec<Effect> {
        let later = now + self.wake_jitter(now);
        match &mut self.state {
            State::Backoff { retry_at, .. } => *retry_at = later,
            State::Parked { probe_at, .. } => *probe_at = Some(later),
            _ => {}
        }
        vec![Effect::Notice(Notice::Woke)]
    }

    fn wake_jitter(&mut self, now: Time) -> Duration {
        // Those that did not survive are found out by a probe, which takes its time.
        let aftermath = self.policy.probe_timeout + JUST_WOKE;
        let just_woke = self.woke.is_some_and(|woke| now - woke < aftermath);
        if just_woke { self.backoff.between_zero_and(self.policy.wake_spread) } else { Duration::ZERO }
    }

    fn attempt_floor(&self) -> Time {
        self.attempted.map_or(Time::ZERO, |attempted| attempted + self.policy.attempt_floor)
    }

    fn demand_floor(&self) -> Time {
        let permanent = match &self.state {
            State::Parked { fault, .. } | State::Closing { fault: Some(fault), .. } => fault.is_permanent(),
            _ => false,
        };
        let floor = if permanent { self.policy.permanent_demand_floor } else { self.policy.demand_floor };
        let paced = self.attempted.map(|attempted| attempted + floor.max(self.policy.attempt_floor));
        paced.unwrap_or(Time::ZERO).max(self.first_start_floor())
    }
}

/// A server that asks us to come back later, at once, is given a second;
const DEFERRED: Duration = Duration::from_secs(1);
/// and one that asks for hours is asked again after five minutes.
const DEFERRED_CAP: Duration = Duration::from_secs(300);

/// How long the server asked us to wait, within bounds.
fn deferral(fault: &Option<Fault>) -> Option<Duration> {
    match fault.as_ref().map(Fault::again) {
        Some(Again::After(wait)) => Some(wait.clamp(DEFERRED, DEFERRED_CAP)),
        _ => None,
    }
}

/// What callers are told when we end a session under their calls.
fn meant(then: Intent) -> Fault {
    match then {
        Intent::Close => Fault::Closed,
        Intent::Park => Fault::Parked,
        Intent::Replace(_) | Intent::Rest => Fault::Replaced,
    }
}

/// Faults so soon after a sleep are its aftermath.
const JUST_WOKE: Duration = Duration::from_secs(10);
