//! When the next attempt starts: at once, after a pause, on demand, or slowly while parked.

use std::time::Duration;

use super::Lifecycle;
use crate::event::{Effect, Notice, Pulse, Requester};
use crate::state::{State, Step, Watch};
use crate::{Again, Fault, Remedy, Time};

/// A server that asks us to come back later, at once, is given a second;
const DEFERRED: Duration = Duration::from_secs(1);
/// and one that asks for hours is asked again after five minutes.
const DEFERRED_CAP: Duration = Duration::from_secs(300);
/// Faults so soon after a sleep are its aftermath.
const JUST_WOKE: Duration = Duration::from_secs(10);

impl Lifecycle {
    pub(super) fn connect(&mut self, now: Time) -> Vec<Effect> {
        debug_assert!(now >= self.attempt_floor(), "P10: attempts have a floor between them");
        self.epoch = self.epoch.next();
        self.attempted = Some(now);
        self.demanded = false;
        self.first.iter_mut().for_each(|first| first.attempt_begins(now));
        self.greet(Step::Greeting, Some(now + self.policy.connect_timeout));
        vec![Effect::Notice(Notice::Connecting(self.epoch)), Effect::Connect(self.epoch)]
    }

    /// Somebody wants a session now. A person need not wait; a program is paced as calls are (P5).
    pub(super) fn connect_soon(&mut self, now: Time, requester: Requester) -> Vec<Effect> {
        let floor = match requester {
            Requester::Person => self.attempt_floor(),
            Requester::Program if self.is_deferred(now) => return vec![],
            Requester::Program => self.demand_floor(),
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

    /// Calls are waiting: one shared attempt, soon, but not more often than the floor allows.
    pub(super) fn demand(&mut self, now: Time) -> Vec<Effect> {
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
            State::Parked { fault, .. } if stays(fault) && now < floor => {
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
    pub(super) fn put_off(&self, now: Time) -> Vec<Effect> {
        match &self.state {
            State::Backoff { retry_at, fault: Some(Fault::Deferred { code, .. }) }
                if *retry_at - now > self.policy.defer_limit =>
            {
                vec![Effect::FailCalls(Fault::Deferred { code: *code, after: *retry_at - now })]
            }
            _ => vec![],
        }
    }

    pub(super) fn replace(&mut self, now: Time, remedy: Remedy, fault: Option<Fault>) -> Vec<Effect> {
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

    pub(super) fn pause(&mut self, now: Time, retry_at: Time, fault: Option<Fault>) -> Vec<Effect> {
        self.state = State::Backoff { retry_at, fault };
        if retry_at <= now {
            return self.connect(now);
        }
        vec![Effect::Notice(Notice::Backoff(retry_at - now))]
    }

    pub(super) fn park(&mut self, now: Time, fault: Fault) -> Vec<Effect> {
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
    pub(super) fn count_probe(&mut self) {
        if !self.demanded {
            self.probes = self.probes.map(|probes| probes.saturating_add(1));
        }
    }

    /// After a sleep every connection of this machine wakes at the same instant; each waits a different moment.
    pub(super) fn spread(&mut self, now: Time) -> Vec<Effect> {
        let later = now + self.wake_jitter(now);
        match &mut self.state {
            State::Backoff { retry_at, .. } => *retry_at = later,
            State::Parked { probe_at, .. } => *probe_at = Some(later),
            _ => {}
        }
        vec![Effect::Notice(Notice::Woke)]
    }

    pub(super) fn wake_jitter(&mut self, now: Time) -> Duration {
        // Those that did not survive are found out by a probe, which takes its time.
        let aftermath = self.policy.probe_timeout + JUST_WOKE;
        let just_woke = self.woke.is_some_and(|woke| now - woke < aftermath);
        if just_woke { self.backoff.between_zero_and(self.policy.wake_spread) } else { Duration::ZERO }
    }

    /// Whether the server asked us to come back later than this. Neither calls nor programs make it sooner.
    pub(super) fn is_deferred(&self, now: Time) -> bool {
        matches!(&self.state, State::Backoff { retry_at, fault } if now < *retry_at && deferral(fault).is_some())
    }

    pub(super) fn attempt_floor(&self) -> Time {
        self.attempted.map_or(Time::ZERO, |attempted| attempted + self.policy.attempt_floor)
    }

    pub(super) fn demand_floor(&self) -> Time {
        let permanent = match &self.state {
            State::Parked { fault, .. } | State::Closing { fault: Some(fault), .. } => stays(fault),
            _ => false,
        };
        let floor = if permanent { self.policy.permanent_demand_floor } else { self.policy.demand_floor };
        let paced = self.attempted.map(|attempted| attempted + floor.max(self.policy.attempt_floor));
        paced.unwrap_or(Time::ZERO).max(self.first_start_floor())
    }

    pub(super) fn greet(&mut self, step: Step, deadline: Option<Time>) -> Vec<Effect> {
        self.step = Some(step);
        self.state = State::Connecting { step, deadline };
        vec![]
    }

    pub(super) fn ready(&mut self, now: Time) -> Vec<Effect> {
        self.step = None;
        self.first = None;
        self.trust.refused = false;
        self.probes = None;
        self.parked = None;
        self.state =
            State::Ready { since: now, watch: Watch::calm(now, now, Pulse::default(), &self.policy) };
        vec![Effect::Notice(Notice::Ready(self.epoch))]
    }
}

/// Whether a call can only meet it again.
fn stays(fault: &Fault) -> bool {
    fault.is_permanent() && !fault.may_ask()
}

/// How long the server asked us to wait, within bounds.
pub(super) fn deferral(fault: &Option<Fault>) -> Option<Duration> {
    match fault.as_ref().map(Fault::again) {
        Some(Again::After(wait)) => Some(wait.clamp(DEFERRED, DEFERRED_CAP)),
        _ => None,
    }
}
