//! One client's place at a shared connection: its open calls, where it is told things, and whether it keeps up.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use regrow::core::{Delivery, Epoch};
use regrow::{CallError, ErrorKind, Inbox, Incoming, Outcome, Reply};
use regrow_protocol::frame::{self, Frame, RawId};
use regrow_protocol::method;

use super::Commons;

/// So much is told to a client that has no room any more, before it is dropped: it may just be reading a large answer.
const MAX_BEHIND: usize = 16 << 20;
/// So many of its requests may wait for what is settled for all.
const MAX_WAITING: usize = 1024;

/// A call that waits for what is settled for all clients together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Waiter {
    pub(super) share: u64,
    pub(super) number: u64,
}

pub(super) struct Seat {
    pub(super) share: u64,
    name: Arc<str>,
    inbox: Weak<dyn Inbox>,
    calls: Mutex<Calls>,
    /// What it was told since it last had room.
    behind: AtomicUsize,
}

#[derive(Default)]
struct Calls {
    last: u64,
    open: BTreeMap<u64, Call>,
    /// How many of them wait here.
    waiting: usize,
    is_over: bool,
}

/// One of its calls. Whoever takes it out answers it, so it ends once.
pub(super) struct Call {
    /// As the client knows it.
    pub(super) id: RawId,
    pub(super) request: Frame,
    pub(super) reply: Box<dyn Reply>,
    /// It waits for what is settled for all; the connection does not know it.
    pub(super) waits_here: bool,
}

impl Seat {
    pub(super) fn new(share: u64, name: Arc<str>, inbox: Weak<dyn Inbox>) -> Seat {
        Seat { share, name, inbox, calls: Mutex::default(), behind: AtomicUsize::new(0) }
    }

    fn calls(&self) -> MutexGuard<'_, Calls> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A call begins. None if the client cannot have it, which it is told.
    pub(super) fn begin(&self, request: &Frame, id: RawId, reply: Box<dyn Reply>) -> Option<u64> {
        let call = Call { id, request: request.clone(), reply, waits_here: false };
        self.take_in(call)
    }

    /// The same for a call that waits for what is settled for all.
    pub(super) fn begin_waiting(&self, request: &Frame, id: RawId, reply: Box<dyn Reply>) -> Option<Waiter> {
        let call = Call { id, request: request.clone(), reply, waits_here: true };
        self.take_in(call).map(|number| Waiter { share: self.share, number })
    }

    fn take_in(&self, call: Call) -> Option<u64> {
        let mut calls = self.calls();
        let refused = match calls.is_over {
            true => Some(ErrorKind::Closed),
            false if call.waits_here && calls.waiting >= MAX_WAITING => Some(ErrorKind::Overloaded),
            false => None, // How many run is the ledger's to bound.
        };
        if let Some(kind) = refused {
            drop(calls);
            let error = self.error(&call.request, kind);
            call.reply.end(Outcome::Failed(error));
            return None;
        }
        calls.waiting += usize::from(call.waits_here);
        calls.last += 1;
        let number = calls.last;
        calls.open.insert(number, call);
        Some(number)
    }

    fn take_out(&self, number: u64) -> Option<Call> {
        let mut calls = self.calls();
        let call = calls.open.remove(&number)?;
        calls.waiting -= usize::from(call.waits_here);
        Some(call)
    }

    /// A call has ended, unless it was given up before. Says whether the client keeps up.
    pub(super) fn end(&self, number: u64, outcome: Outcome) -> bool {
        let Some(call) = self.take_out(number) else { return true };
        let outcome = match outcome {
            Outcome::Answered(frame) if call.request.method() == Some(method::SUBSCRIPTIONS_LISTEN) => {
                let end = frame::stream_end(&frame, &call.id).and_then(|line| Frame::parse(line).ok());
                Outcome::Answered(end.unwrap_or(frame))
            }
            outcome => outcome,
        };
        let bytes = match &outcome {
            Outcome::Answered(frame) => frame.bytes().len(),
            _ => 0,
        };
        call.reply.end(outcome);
        self.keeps_up(bytes)
    }

    /// A call was given up: it gets no answer.
    fn forget(&self, number: u64) {
        drop(self.take_out(number));
    }

    /// The newest call of this id that waits here was given up. Gives it.
    pub(super) fn forget_waiting(&self, id: &RawId) -> Option<Call> {
        let is_it = |call: &Call| call.waits_here && call.id == *id;
        let number = {
            let calls = self.calls();
            calls.open.iter().rev().find(|(_, call)| is_it(call)).map(|(&number, _)| number)
        };
        number.and_then(|number| self.take_out(number))
    }

    /// Takes no calls any more. Gives those that are open; none if it was closed before.
    pub(super) fn close(&self) -> Option<Vec<Call>> {
        let mut calls = self.calls();
        calls.waiting = 0;
        let was_over = std::mem::replace(&mut calls.is_over, true);
        (!was_over).then(|| std::mem::take(&mut calls.open).into_values().collect())
    }

    pub(super) fn is_over(&self) -> bool {
        self.calls().is_over
    }

    /// Tells the client something. Says whether it was taken, and whether the client keeps up.
    pub(super) fn tell(&self, incoming: Incoming) -> (bool, bool) {
        let Some(inbox) = self.inbox.upgrade() else { return (false, true) }; // It is leaving.
        let bytes = incoming.frame.bytes().len();
        let taken = inbox.take(incoming);
        (taken, self.keeps_up(bytes))
    }

    pub(super) fn lost(&self, epoch: Epoch) {
        if let Some(inbox) = self.inbox.upgrade() {
            inbox.lost(epoch);
        }
    }

    pub(super) fn over(&self) {
        if let Some(inbox) = self.inbox.upgrade() {
            inbox.over();
        }
    }

    /// It was told so many bytes more.
    fn keeps_up(&self, bytes: usize) -> bool {
        if self.inbox.upgrade().is_none_or(|inbox| inbox.has_room()) {
            self.behind.store(0, Ordering::Relaxed);
            return true;
        }
        self.behind.fetch_add(bytes, Ordering::Relaxed) + bytes <= MAX_BEHIND
    }

    /// What the client is told of a request that was not sent.
    pub(super) fn error(&self, request: &Frame, kind: ErrorKind) -> CallError {
        CallError::unsent(self.name.clone(), request, kind)
    }

    /// What it is told of a call that it was dropped from.
    pub(super) fn interrupted(&self, call: &Call) -> CallError {
        let delivery = if call.waits_here { Delivery::NotSent } else { Delivery::Unknown };
        CallError { delivery, ..self.error(&call.request, ErrorKind::Closed) }
    }
}

/// Waits for the end of a call at the shared connection. Dropped untold, the call was given up.
pub(super) struct Ending {
    commons: Weak<Commons>,
    seat: Arc<Seat>,
    number: u64,
}

impl Ending {
    pub(super) fn new(commons: Weak<Commons>, seat: Arc<Seat>, number: u64) -> Ending {
        Ending { commons, seat, number }
    }
}

impl Reply for Ending {
    fn end(self: Box<Self>, outcome: Outcome) {
        if !self.seat.end(self.number, outcome)
            && let Some(commons) = self.commons.upgrade()
        {
            commons.drop_slow(&self.seat);
        }
    }
}

impl Drop for Ending {
    fn drop(&mut self) {
        self.seat.forget(self.number);
    }
}
