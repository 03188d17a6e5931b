//! One client's place at a shared connection: where it is told things, whether it keeps up, and what it waits for here.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use regrow::core::Epoch;
use regrow::{CallError, ErrorKind, Inbox, Incoming, Outcome, Reply};
use regrow_protocol::frame::{Frame, RawId};

/// So much is told to a client that has no room any more, before it is dropped: it may just be reading a large answer.
const MAX_BEHIND: usize = 16 << 20;
/// At most this many of its requests wait for what is settled for all.
const MAX_WAITING: usize = 1024;

/// A request that waits for what is settled for all clients together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Waiter {
    pub(super) share: u64,
    pub(super) number: u64,
}

pub(super) struct SessionMember {
    /// The connection knows its calls by this number.
    pub(super) share: u64,
    name: Arc<str>,
    inbox: Weak<dyn Inbox>,
    state: Mutex<MemberState>,
    /// It takes no calls any more. Set under the lock.
    is_over: AtomicBool,
    /// What it was told since it last had room.
    behind: AtomicUsize,
}

#[derive(Default)]
struct MemberState {
    /// Requests that the connection does not know: they wait for what is settled for all.
    waiting: BTreeMap<u64, WaitingRequest>,
    last: u64,
}

/// The task that takes it out answers it, so it ends once.
pub(super) struct WaitingRequest {
    /// As the client knows it.
    id: RawId,
    pub(super) request: Frame,
    pub(super) reply: Box<dyn Reply>,
}

impl SessionMember {
    pub(super) fn new(share: u64, name: Arc<str>, inbox: Weak<dyn Inbox>) -> SessionMember {
        let (is_over, behind) = (AtomicBool::new(false), AtomicUsize::new(0));
        SessionMember { share, name, inbox, state: Mutex::default(), is_over, behind }
    }

    fn state(&self) -> MutexGuard<'_, MemberState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A request waits for what is settled for all. None if the client cannot have it, which it is told.
    pub(super) fn wait(&self, request: &Frame, id: RawId, reply: Box<dyn Reply>) -> Option<Waiter> {
        let mut state = self.state();
        let refused = match self.is_over() {
            true => Some(ErrorKind::Closed),
            false if state.waiting.len() >= MAX_WAITING => Some(ErrorKind::Overloaded),
            false => None,
        };
        if let Some(kind) = refused {
            drop(state);
            reply.end(Outcome::Failed(self.error(request, kind)));
            return None;
        }
        state.last += 1;
        let number = state.last;
        state.waiting.insert(number, WaitingRequest { id, request: request.clone(), reply });
        Some(Waiter { share: self.share, number })
    }

    /// What a request waited for is settled, unless it was given up before. Returns whether the client keeps up.
    pub(super) fn settled(&self, number: u64, outcome: Outcome) -> bool {
        let Some(waiting) = self.state().waiting.remove(&number) else { return true };
        let bytes = match &outcome {
            Outcome::Answered(frame) => frame.bytes().len(),
            _ => 0,
        };
        waiting.reply.end(outcome);
        self.keeps_up(bytes)
    }

    /// The newest request of this id that waits here was given up. Returns it.
    pub(super) fn forget_waiting(&self, id: &RawId) -> Option<WaitingRequest> {
        let mut state = self.state();
        let number =
            state.waiting.iter().rev().find(|(_, waiting)| waiting.id == *id).map(|(&number, _)| number)?;
        state.waiting.remove(&number)
    }

    /// Takes no calls any more. Returns those that wait here; none if it was closed before.
    pub(super) fn close(&self) -> Option<Vec<WaitingRequest>> {
        let mut state = self.state();
        let was_over = self.is_over.swap(true, Ordering::SeqCst);
        (!was_over).then(|| std::mem::take(&mut state.waiting).into_values().collect())
    }

    pub(super) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::SeqCst)
    }

    /// Tells the client something. Returns whether it was taken, and whether the client keeps up.
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
    pub(super) fn keeps_up(&self, bytes: usize) -> bool {
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
}
