//! What becomes of calls when their exchange or their session is lost, or when no session comes for them.

use super::call::{Asked, Call, Delivery, Ended, Place, delivery_after, ended};
use super::{CallId, Ledger};
use crate::{Again, Epoch, Evidence, Fault, Nature, Patience, Reach, Time};

/// What became of a call whose exchange ended without an answer.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum MissedCall<R> {
    /// It is sent again later, or on the next session.
    Kept,
    /// It has ended.
    Over(Ended<R>),
}

impl<R> Ledger<R> {
    /// The exchange of this one call has ended without an answer, for this reason. It may be sent again, on this session or on the
    /// next; or it ends here.
    pub(crate) fn miss(
        &mut self,
        now: Time,
        epoch: Epoch,
        id: CallId,
        fault: &Fault,
    ) -> Option<MissedCall<R>> {
        let Place::On(on, start) = self.calls.get(id)?.place else { return None };
        if on != epoch {
            return None;
        }
        if fault.reach() == Reach::Session && self.live == Some(epoch) {
            self.hold(epoch); // Its owner hears of that, too; until then calls would go where nobody knows us.
        }
        let evidence = match fault {
            Fault::NoSession { evidence, .. } => Some(*evidence),
            _ => None,
        };
        if evidence == Some(Evidence::Response) {
            self.refusals.believed_a_response();
        }
        let clock = self.deadlines.clock(now);
        let call = self.calls.get_mut(id)?;
        let arrived = start.is_some() && fault.may_have_run();
        // A status that means expiry in the protocol is believed once, though the call may have caused it.
        let may_repeat = !arrived || evidence == Some(Evidence::Status);
        let refused_again = evidence.is_some() && std::mem::replace(&mut call.refused, true);
        if !arrived {
            call.sends = call.sends.saturating_sub(1);
        }
        let pause = call.pause(now, &self.policy);
        let place = match fault.again() {
            Again::Never => None,
            Again::After(wait) if wait > self.policy.defer_limit => None,
            Again::After(wait) => Some(Place::Paused(now + wait.max(pause), Asked::Yes)),
            Again::Soon if epoch > self.held => Some(Place::Paused(now + pause, Asked::No)),
            Again::Soon | Again::NextSession => Some(Place::Waiting),
        };
        let in_time = |place: &Place| match (place, call.deadline) {
            (Place::Paused(until, _), Some(deadline)) => *until < deadline + (now - clock),
            _ => true,
        };
        let may_move = !self.closed && !refused_again && call.may_move(clock, !may_repeat, &self.policy);
        match place.filter(in_time).filter(|_| may_move) {
            Some(place) => {
                call.place = place;
                call.wait_from(now, &self.policy);
                match place {
                    Place::Waiting => drop(self.waiting.insert(call.arrival, id)),
                    _ => self.pauses += 1,
                }
                Some(MissedCall::Kept)
            }
            None => {
                let call = self.remove(id)?;
                let delivery = delivery_after(call.sends);
                Some(MissedCall::Over(Ended { delivery, ..ended(id, call) }))
            }
        }
    }

    /// The session is lost. Of its input the server can have read `read` bytes, no more. Calls that may be sent again
    /// wait for the next session, in the order in which they arrived; the others end here.
    pub(crate) fn settle(&mut self, now: Time, epoch: Epoch, read: u64, greeted: bool) -> Vec<Ended<R>> {
        self.settle_calls(now, read, greeted, |on, _, _| on == epoch, Some(epoch))
    }

    /// The server has forgotten the session. Calls whose exchange is open keep it, for their answer may come yet; the others are
    /// settled.
    pub(crate) fn retire(
        &mut self,
        now: Time,
        epoch: Epoch,
        has_exchange: impl Fn(CallId) -> bool,
    ) -> Vec<Ended<R>> {
        let lost = |on: Epoch, id: CallId, call: &Call<R>| {
            let is_call = !call.own && call.nature != Nature::Stream && !call.nature.is_handshake();
            let keeps = is_call && matches!(call.place, Place::On(_, Some(_))) && has_exchange(id);
            on == epoch && !keeps
        };
        self.settle_calls(now, u64::MAX, true, lost, Some(epoch))
    }

    /// Whatever is in flight on any session is settled: nobody will hear an answer.
    pub(crate) fn end_all(&mut self, now: Time) -> Vec<Ended<R>> {
        let live = self.live;
        self.settle_calls(now, u64::MAX, true, |_, _, _| true, live)
    }

    fn settle_calls(
        &mut self,
        now: Time,
        read: u64,
        greeted: bool,
        is_lost: impl Fn(Epoch, CallId, &Call<R>) -> bool,
        session: Option<Epoch>,
    ) -> Vec<Ended<R>> {
        if self.live == session {
            self.live = None;
        }
        let lost: Vec<CallId> = self
            .calls
            .iter()
            .filter(|(id, call)| matches!(call.place, Place::On(on, _) if is_lost(on, *id, call)))
            .map(|(id, _)| id)
            .collect();
        let clock = self.deadlines.clock(now);
        let mut over = vec![];
        for id in lost {
            let Some(call) = self.calls.get_mut(id) else { continue };
            let arrived = matches!(call.place, Place::On(_, Some(start)) if start < read);
            if !arrived {
                call.sends = call.sends.saturating_sub(1);
            }
            let refused = call.nature == Nature::Discovery && !greeted && arrived;
            if !refused && !self.closed && call.may_move(clock, arrived, &self.policy) {
                call.place = Place::Waiting;
                call.wait_from(now, &self.policy);
                self.waiting.insert(call.arrival, id);
            } else if let Some(call) = self.remove(id) {
                let delivery = delivery_after(call.sends);
                over.push(Ended { delivery, refused, ..ended(id, call) });
            }
        }
        over
    }

    /// No session will come soon for the calls that wait, for this reason. Streams wait on, unless retrying cannot help or
    /// the connection is over.
    pub(crate) fn fail_waiting(&mut self, fault: &Fault) -> Vec<Ended<R>> {
        let for_good = self.closed || fault.is_permanent();
        self.fail_where(|call| for_good || call.nature != Nature::Stream)
    }

    /// The next attempt is too far away for the calls that wait. A client's first handshake waits for it, and so do streams.
    pub(crate) fn fail_calls(&mut self) -> Vec<Ended<R>> {
        self.fail_where(|call| !matches!(call.nature, Nature::Greeting | Nature::Stream))
    }

    /// The attempt that these calls waited for has failed, for this reason. Those that may wait for the next one do, and so do
    /// streams; the others fail.
    pub(crate) fn fail_attempt(
        &mut self,
        now: Time,
        fault: &Fault,
        handshakes_wait: bool,
        patience: Patience,
    ) -> Vec<Ended<R>> {
        for (_, call) in self.calls.iter_mut().filter(|(_, call)| call.waits()) {
            call.attempts = call.attempts.saturating_add(1);
        }
        let for_good = self.closed || fault.is_permanent();
        let longest = self.policy.patience.unwrap_or_default();
        // A client that writes on behind its handshake wants its calls to wait with that.
        let clock = self.deadlines.clock(now);
        let greets = |call: &Call<R>| {
            call.nature == Nature::Greeting
                && call.waits()
                && call.deadline.is_none_or(|deadline| deadline > clock)
        };
        let with_handshake = handshakes_wait && self.calls.values().any(greets);
        self.fail_where(|call| {
            let may_wait = match patience {
                _ if call.nature == Nature::Stream || with_handshake => return for_good,
                _ if call.nature == Nature::Greeting && handshakes_wait => return for_good,
                Patience::None => false,
                Patience::TakenBefore(parked) => call.taken < parked,
                Patience::All => true,
            };
            let did_not_run = call.delivery() == Delivery::NotSent;
            for_good || !(may_wait && did_not_run && now < call.waits_since + longest)
        })
    }

    fn fail_where(&mut self, fails: impl Fn(&Call<R>) -> bool) -> Vec<Ended<R>> {
        let failing = self.calls.iter().filter(|(_, call)| call.waits() && fails(call));
        let ids: Vec<CallId> = failing.map(|(id, _)| id).collect();
        ids.into_iter().filter_map(|id| self.cancel(id)).collect()
    }
}
