//! Fair shares: what clients make the gateway hold, divided between principals, so that none of them can lock out another.
//!
//! `ByteShares` and `CountShares` decide, without clock or I/O. [`Shares`] is what the gateway and its HTTP face have in common: the
//! byte budget, and whether there are several principals. A `Permit` moves with the bytes that it stands for; dropping it returns them.

mod byte_shares;
mod count_shares;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use tokio::runtime::Handle;

use crate::admit::Principal;
use byte_shares::ByteShares;
pub use byte_shares::Refused;
pub(crate) use count_shares::{CountShares, is_left};

/// The budget where nothing is known about the machine.
pub const DEFAULT_BUDGET: usize = 256 << 20;
/// What a message or a stream holds up to here is not counted: most calls take no permit at all.
pub(crate) const FREE: usize = 4 << 10;

/// What all principals share.
pub struct Shares {
    is_one_principal: bool,
    most_each: usize,
    bytes: Mutex<ByteShares<Principal, GiveWay>>,
    refused: AtomicU64,
    cut: AtomicU64,
}

/// Frees the bytes of a permit that is gone from the books already.
type GiveWay = Box<dyn FnOnce() + Send>;

/// How the byte budget is used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryUse {
    /// Bytes that may be held.
    pub budget: usize,
    /// Bytes that are held.
    pub held: usize,
    /// Bodies and responses that were refused, ever.
    pub refused: u64,
    /// Bodies and responses that gave way to another principal's, ever.
    pub cut: u64,
}

impl Default for Shares {
    fn default() -> Shares {
        Shares::new(DEFAULT_BUDGET, true)
    }
}

impl fmt::Debug for Shares {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shares").field("memory", &self.memory()).finish_non_exhaustive()
    }
}

impl Shares {
    /// A budget of this many bytes. One principal alone may have all of it, one of several half of it.
    pub fn new(budget: usize, is_one_principal: bool) -> Shares {
        let most_each = if is_one_principal { budget } else { budget / 2 };
        Shares {
            is_one_principal,
            most_each,
            bytes: Mutex::new(ByteShares::new(budget, most_each)),
            refused: AtomicU64::new(0),
            cut: AtomicU64::new(0),
        }
    }

    /// How the budget is used.
    pub fn memory(&self) -> MemoryUse {
        let (budget, held) = {
            let bytes = self.bytes();
            (bytes.total(), bytes.held())
        };
        MemoryUse { budget, held, refused: self.refused.load(Relaxed), cut: self.cut.load(Relaxed) }
    }

    /// The most that one principal may ever hold.
    pub(crate) fn most_each(&self) -> usize {
        self.most_each
    }

    /// Whether one principal may have everything, because there is no other.
    pub(crate) fn is_one_principal(&self) -> bool {
        self.is_one_principal
    }

    /// Shares of something that is counted.
    pub(crate) fn counts(&self, total: usize) -> CountShares<Principal> {
        CountShares::new(total, self.is_one_principal)
    }

    /// Room for this many bytes of this principal. `give_way` is called if they must go for the sake of another principal: they are
    /// not counted from then on.
    pub(crate) fn take(
        self: &Arc<Shares>,
        principal: Principal,
        bytes: usize,
        give_way: impl FnOnce() + Send + 'static,
    ) -> Result<BytePermit, Refused> {
        let taken = self.bytes().take(principal, bytes, Box::new(give_way));
        let (number, cut) = taken.map_err(|refused| self.refuse(refused))?;
        self.cut(cut);
        Ok(BytePermit { shares: self.clone(), number })
    }

    fn refuse(&self, refused: Refused) -> Refused {
        self.refused.fetch_add(1, Relaxed);
        refused
    }

    /// In a task of its own: the caller may hold locks.
    fn cut(&self, cut: Vec<GiveWay>) {
        if cut.is_empty() {
            return;
        }
        self.cut.fetch_add(cut.len() as u64, Relaxed);
        tracing::warn!(
            "the memory budget is used up: dropped {} bodies or responses of the principal that held most",
            cut.len()
        );
        let give_way = move || cut.into_iter().for_each(|give_way| give_way());
        match Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn(async move { give_way() })),
            Err(_) => give_way(),
        }
    }

    fn bytes(&self) -> MutexGuard<'_, ByteShares<Principal, GiveWay>> {
        self.bytes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Bytes that are held. They are returned when it is dropped.
pub(crate) struct BytePermit {
    shares: Arc<Shares>,
    number: u64,
}

impl BytePermit {
    /// From now on it stands for this many bytes. Fewer are never refused.
    pub(crate) fn resize(&self, bytes: usize) -> Result<(), Refused> {
        let resized = self.shares.bytes().resize(self.number, bytes);
        self.shares.cut(resized.map_err(|refused| self.shares.refuse(refused))?);
        Ok(())
    }

    /// Its bytes do not give way any more: a server has them.
    pub(crate) fn pin(&self) -> Result<(), Refused> {
        self.shares.bytes().pin(self.number)
    }
}

impl Drop for BytePermit {
    fn drop(&mut self) {
        let give_way = self.shares.bytes().release(self.number);
        drop(give_way); // Not under the lock: nobody knows what it holds.
    }
}

/// The same bytes; the permit is returned with the last handle to them.
pub(crate) fn with_permit<P: Send + 'static>(bytes: Bytes, permit: Option<P>) -> Bytes {
    struct HeldBytes<P> {
        bytes: Bytes,
        _permit: P,
    }
    impl<P> AsRef<[u8]> for HeldBytes<P> {
        fn as_ref(&self) -> &[u8] {
            &self.bytes
        }
    }
    match permit {
        Some(permit) => Bytes::from_owner(HeldBytes { bytes, _permit: permit }),
        None => bytes,
    }
}
