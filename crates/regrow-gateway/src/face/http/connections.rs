//! The connections of clients, and whose they are.
//!
//! A connection is nobody's until a request on it is let in. Those of nobody have the smallest share: when they are too many, or there
//! is no room for another connection, the oldest of them is closed. So a client that sends its request at once gets in.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use tokio::sync::Notify;
use tokio::time::Sleep;

use super::peer::Peer;
use crate::admit::Principal;
use crate::shares::CountShares;

/// Of all connections, this part may be nobody's.
const UNAUTHENTICATED_PART: usize = 8;

/// See the head of this file.
pub(super) struct Connections {
    most: usize,
    state: Mutex<ConnectionsState>,
}

struct ConnectionsState {
    owned: CountShares<Principal>,
    /// The others, oldest first.
    unauthenticated: BTreeMap<u64, Arc<Notify>>,
    last: u64,
}

/// One connection, as long as this lives.
pub(super) struct Slot {
    connections: Arc<Connections>,
    number: u64,
    hangup: Arc<Notify>,
    owner: OnceLock<Principal>,
    /// Of its last request, for the next: a timer that is set later than before costs nearly nothing, and each new one wakes the runtime.
    timer: Mutex<Option<Pin<Box<Sleep>>>>,
}

/// Where a request comes from.
#[derive(Clone)]
pub(super) struct ConnectionInfo {
    /// Who is at the other end.
    pub(super) peer: Peer,
    /// None where there is no connection, as in tests.
    pub(super) slot: Option<Arc<Slot>>,
}

impl Connections {
    pub(super) fn new(most: usize, owned: CountShares<Principal>) -> Arc<Connections> {
        let state = ConnectionsState { owned, unauthenticated: BTreeMap::new(), last: 0 };
        Arc::new(Connections { most, state: Mutex::new(state) })
    }

    pub(super) fn count(&self) -> usize {
        let state = self.state();
        state.owned.count() + state.unauthenticated.len()
    }

    /// One more, unless there are too many that are somebody's.
    pub(super) fn accept(self: &Arc<Connections>) -> Option<Arc<Slot>> {
        let mut state = self.state();
        let is_full = state.owned.count() + state.unauthenticated.len() >= self.most;
        let most_unauthenticated = (self.most / UNAUTHENTICATED_PART).max(1);
        if is_full || state.unauthenticated.len() >= most_unauthenticated {
            let (_, hangup) = state.unauthenticated.pop_first()?;
            hangup.notify_one();
        }
        state.last += 1;
        let (number, hangup) = (state.last, Arc::new(Notify::new()));
        state.unauthenticated.insert(number, hangup.clone());
        Some(Arc::new(Slot {
            connections: self.clone(),
            number,
            hangup,
            owner: OnceLock::new(),
            timer: Mutex::default(),
        }))
    }

    fn state(&self) -> MutexGuard<'_, ConnectionsState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Slot {
    /// A request of this principal is let in, unless the principal has too many connections. A connection stays with the first.
    pub(super) fn authenticate(&self, principal: Principal) -> bool {
        if self.owner.get().is_some() {
            return true;
        }
        let mut state = self.connections.state();
        let Some(hangup) = state.unauthenticated.remove(&self.number) else {
            return self.owner.get().is_some(); // By another request just now, or it is being closed.
        };
        let is_taken = state.owned.take(principal);
        if is_taken {
            // Nobody else sets it: that takes the place in the table.
            let _ = self.owner.set(principal);
        } else {
            state.unauthenticated.insert(self.number, hangup);
        }
        is_taken
    }

    pub(super) fn is_authenticated(&self) -> bool {
        self.owner.get().is_some()
    }

    pub(super) fn take_timer(&self) -> Option<Pin<Box<Sleep>>> {
        self.timer.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    pub(super) fn keep_timer(&self, timer: Pin<Box<Sleep>>) {
        *self.timer.lock().unwrap_or_else(PoisonError::into_inner) = Some(timer);
    }

    /// Closes it.
    pub(super) fn hang_up(&self) {
        self.hangup.notify_one();
    }

    /// Resolves when it is to be closed.
    pub(super) async fn hung_up(&self) {
        self.hangup.notified().await;
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut state = self.connections.state();
        match self.owner.get() {
            Some(owner) => state.owned.release(owner),
            None => drop(state.unauthenticated.remove(&self.number)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALICE: Principal = Principal::Client(0);
    const BOB: Principal = Principal::Client(1);

    fn connections(most: usize) -> Arc<Connections> {
        Connections::new(most, CountShares::new(most, false))
    }

    async fn is_hung_up(slot: &Slot) -> bool {
        tokio::select! {
            biased;
            () = slot.hung_up() => true,
            () = std::future::ready(()) => false,
        }
    }

    #[tokio::test]
    async fn of_connections_that_are_nobodys_the_oldest_is_closed_for_a_new_one() {
        let connections = connections(16);
        let mut slots: Vec<_> = (0..2).filter_map(|_| connections.accept()).collect();
        assert!(slots[0].authenticate(ALICE));
        slots.extend((0..2).filter_map(|_| connections.accept()));
        assert_eq!(connections.count(), 3);
        assert!(!is_hung_up(&slots[0]).await && is_hung_up(&slots[1]).await && !is_hung_up(&slots[2]).await);
        assert!(!slots[1].authenticate(ALICE), "it is being closed");
        drop(slots);
        assert_eq!(connections.count(), 0);
    }

    #[test]
    fn a_principal_with_many_connections_leaves_room_for_another() {
        let connections = connections(8);
        let open = |principal| connections.accept().filter(|slot| slot.authenticate(principal));
        let alices: Vec<_> = std::iter::from_fn(|| open(ALICE)).collect();
        assert_eq!(alices.len(), 4);
        assert!(open(BOB).is_some());
        assert!(alices[0].authenticate(BOB), "a connection stays with the first");
        drop(alices);
        assert!(open(ALICE).is_some());
    }
}
