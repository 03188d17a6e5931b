//! How a session ends: lost, drained, hung up, closed; and what becomes of its calls.

use super::Lifecycle;
use crate::event::{Effect, Notice, Pulse, Requester};
use crate::state::{Intent, State};
use crate::{Again, Fault, Manner, Reach, Remedy, Time, Verdict};

impl Lifecycle {
    /// The session or attempt ended, and not because we wanted it.
    pub(super) fn lost(&mut self, now: Time, fault: Fault, pulse: Pulse) -> Vec<Effect> {
        let was_connecting = matches!(self.state, State::Connecting { .. });
        if was_connecting && let Some(first) = &mut self.first {
            if first.guessed_wrong(&fault) {
                self.attempted = None;
            }
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

    /// A fault that happened before our hangup reached the session, but was told after. It counts, even when
    /// the session seemed to have ended cleanly.
    pub(super) fn lost_while_closing(&mut self, now: Time, fault: Fault, pulse: Pulse) -> Vec<Effect> {
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

    pub(super) fn reconnect(&mut self, now: Time, requester: Requester, pulse: Pulse) -> Vec<Effect> {
        if requester == Requester::Person {
            self.remember_health(now, pulse);
            return self.drain(now, Intent::Replace(Remedy::AtOnce));
        }
        let charged = self.accounts.leads_nowhere(pulse.answered, &self.policy);
        let remedy = if charged { Remedy::Retry } else { Remedy::AtOnce };
        self.settle_accounts(now, Verdict { remedy, charged }, pulse);
        let notice = Effect::Notice(Notice::Fault(self.epoch, Fault::Replaced, pulse.calls));
        let mut effects: Vec<Effect> = charged.then_some(notice).into_iter().collect();
        effects.extend(self.drain(now, Intent::Replace(remedy)));
        effects
    }

    pub(super) fn drain(&mut self, now: Time, then: Intent) -> Vec<Effect> {
        self.state = State::Draining { deadline: now + self.policy.drain_timeout, then };
        let mut effects = vec![Effect::Hold(self.epoch)];
        if !matches!(then, Intent::Replace(_)) {
            effects.push(Effect::FailWaiting(meant(then))); // No session will come for them.
        }
        effects
    }

    /// The calls in flight may finish, in the time that a drain has, however often that is asked for.
    pub(super) fn drain_to_close(&mut self, now: Time) -> Vec<Effect> {
        let mut effects = vec![Effect::FailWaiting(Fault::Closed)];
        match &mut self.state {
            State::Draining { then, .. } => *then = Intent::Close,
            _ => effects.extend(self.drain(now, Intent::Close)),
        }
        effects
    }

    /// Ends the session because we want it so. What it still has in flight is settled when it is gone.
    pub(super) fn hangup(&mut self, now: Time, manner: Manner, then: Intent) -> Vec<Effect> {
        let mut effects = vec![Effect::Notice(Notice::Planned(self.epoch, manner))];
        let fault = (self.is_charged() && matches!(then, Intent::Replace(_))).then_some(Fault::Replaced);
        effects.extend(self.enter_closing(now, manner, then, fault));
        effects
    }

    pub(super) fn enter_closing(
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
    pub(super) fn hurry(&mut self) -> Vec<Effect> {
        if let State::Draining { then, .. } | State::Closing { then, .. } = &mut self.state {
            *then = Intent::Replace(Remedy::AtOnce);
        }
        vec![]
    }

    /// What a closing session still has in flight waits no longer.
    pub(super) fn settle(&mut self) -> Vec<Effect> {
        let State::Closing { settle_at, then, fault, .. } = &mut self.state else { return vec![] };
        *settle_at = None;
        let fault = fault.clone().unwrap_or(meant(*then));
        vec![match fault.reach() {
            Reach::Session => Effect::Retire(self.epoch, fault),
            Reach::Call | Reach::Doubt => Effect::Settle(self.epoch, fault),
        }]
    }

    /// Where we meant the end, every way of ending is benign, but it is said.
    pub(super) fn untidy(&self, ended: Option<Fault>) -> Vec<Effect> {
        let meant = matches!(self.state, State::Closing { fault: None, .. });
        let notice = ended.filter(|_| meant).map(|fault| Notice::Untidy(self.epoch, fault));
        notice.map(Effect::Notice).into_iter().collect()
    }

    pub(super) fn gone(&mut self, now: Time) -> Vec<Effect> {
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

    pub(super) fn close(&mut self, now: Time, manner: Manner) -> Vec<Effect> {
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

    pub(super) fn closed(&mut self) -> Vec<Effect> {
        self.state = State::Closed;
        vec![
            Effect::FailWaiting(Fault::Closed),
            Effect::EndAll(Fault::Closed),
            Effect::Notice(Notice::Closed),
        ]
    }
}

/// What callers are told when we end a session under their calls.
pub(super) fn meant(then: Intent) -> Fault {
    match then {
        Intent::Close => Fault::Closed,
        Intent::Park => Fault::Parked,
        Intent::Replace(_) | Intent::Rest => Fault::Replaced,
    }
}
