//! The life of a connection: `step(now, event) -> effects`. Every decision about attempts is made here.

use crate::event::{Effect, Event, Notice, Pulse, Requester};
use crate::state::{Intent, State, Step, Watch};
use crate::watch::{Sign, Trust};
use crate::{Backoff, Epoch, Fault, Manner, Policy, Reach, Remedy, Time};
use std::sync::Arc;

mod accounts;
mod attempts;
mod commands;
mod ending;
mod first;

use accounts::Accounts;
use attempts::deferral;
use ending::meant;
use first::FirstStart;

/// The pure state machine: a supervisor reports events and carries out effects.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Lifecycle {
    policy: Arc<Policy>,
    state: State,
    epoch: Epoch,
    /// How far the handshake of this epoch got; none once it was ready.
    step: Option<Step>,
    accounts: Accounts,
    backoff: Backoff,
    trust: Trust,
    /// When the newest attempt started; none after the one that guessed the era wrong.
    attempted: Option<Time>,
    /// When we last noticed that the machine had slept.
    woke: Option<Time>,
    /// How many slow probes have failed since the budget was spent; none with a session since then.
    probes: Option<u32>,
    /// Whether calls have made the next attempt come sooner.
    demanded: bool,
    /// The newest epoch in which something was fixed: a permanent fault of it may be from before that.
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
            accounts: Accounts::new(policy.budget),
            backoff: Backoff::new(policy.backoff, seed),
            policy,
            state: State::Idle,
            epoch: Epoch(0),
            step: None,
            trust: Trust { refused: false, answers_when_busy: false },
            attempted: None,
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

    /// Faults left before the connection parks.
    pub fn budget_left(&self, now: Time) -> u32 {
        self.accounts.left(now)
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
            _ if self.state.is_parked_by_command() => None,
            State::Parked { .. } | State::Closing { then: Intent::Replace(_), .. } => {
                Some(self.demand_floor())
            }
            _ => None,
        }
    }

    /// Whether the connection will park, or has, rather than start the next attempt on its own.
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

    /// Takes in what happened; returns what must be done.
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
            (state, E::Demand) if state.is_parked_by_command() => vec![Effect::FailWaiting(Fault::Parked)],
            (S::Parked { fault: Fault::Parked, .. }, E::Start | E::Reconnect(Requester::Program)) => vec![],
            (S::Draining { then: Intent::Park, .. }, E::Reconnect(Requester::Person)) => self.hurry(),

            (S::Idle, E::Start | E::Demand) => self.connect_soon(now, Requester::Program),
            (S::Idle, E::Reconnect(requester)) => self.connect_soon(now, requester),

            (S::Connecting { .. }, E::Opened(_)) => self.greet(Step::ClientsTurn, None),
            (S::Connecting { .. }, E::Begun(_, step)) => {
                self.first.iter_mut().for_each(|first| first.handshake_begins(now));
                self.greet(step, Some(now + self.policy.connect_timeout))
            }
            (S::Connecting { .. }, E::Connected(_)) => self.ready(now),
            (S::Connecting { .. }, E::Lost(_, fault)) => self.lost(now, fault, pulse),
            (S::Connecting { .. }, E::Reconnect(Requester::Person)) => {
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
            // The server lives. A call in flight may be asking the user just now, and its own exchange tells what comes of that.
            (S::Ready { .. }, E::ProbeFailed(_, fault)) if fault.may_ask() && pulse.calls > 0 => {
                self.heed(now, Sign::Wait(Watch::calm(now, now, pulse, &self.policy)), pulse)
            }
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
            (S::Ready { .. }, E::Reconnect(requester)) => self.reconnect(now, requester, pulse),
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
            (S::Closing { then, .. }, E::Reconnect(Requester::Person)) if *then != Intent::Close => {
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
            (S::Backoff { .. }, E::Reconnect(requester)) => self.connect_soon(now, requester),

            (S::Parked { probe_at: Some(probe_at), .. }, E::Tick) if now >= *probe_at => match slept {
                true => self.spread(now),
                false => {
                    self.count_probe();
                    self.connect(now)
                }
            },
            (S::Parked { .. }, E::Demand) => self.demand(now),
            (S::Parked { .. }, E::Reconnect(requester)) => self.connect_soon(now, requester),
            (S::Parked { .. }, E::Start) => self.connect_soon(now, Requester::Program),
            (S::Parked { fault, .. }, E::Mended) if fault.is_permanent() => {
                self.connect_soon(now, Requester::Person)
            }
            (_, E::Mended) => {
                self.mended = Some(self.epoch);
                vec![]
            }
            _ => vec![],
        }
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

    /// Whether our own timer is so late that the machine must have slept. The first timer that fires reports it.
    fn notice_sleep(&mut self, now: Time) -> bool {
        let slept = self.deadline().is_some_and(|deadline| now - deadline >= self.policy.clock_jump);
        if slept {
            self.woke = Some(now);
        }
        slept
    }

    /// What slept with the machine gets its full time again.
    fn extend(&mut self, later: Time) -> Vec<Effect> {
        match &mut self.state {
            State::Connecting { deadline, .. } => *deadline = Some(later),
            State::Closing { deadline, .. } => *deadline = later,
            _ => {}
        }
        vec![Effect::Notice(Notice::Woke)]
    }
}
