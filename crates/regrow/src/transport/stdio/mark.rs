//! The mark in a server's environment, by which its helpers are found again wherever they went.

use std::hash::{BuildHasher as _, RandomState};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use regrow_core::Epoch;

/// The variable that carries it.
pub(super) const VARIABLE: &str = "REGROW_MARK";

/// Names one start of one server, unlike any other on this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mark {
    /// Shared by all servers of one guard.
    pub(super) nonce: u64,
    /// Counted in this process.
    pub(super) serial: u64,
    /// For a person who looks at it.
    epoch: Epoch,
}

impl Mark {
    /// A mark for the next server of this nonce.
    pub(super) fn next(nonce: u64, epoch: Epoch) -> Mark {
        static SERIAL: AtomicU64 = AtomicU64::new(1);
        Mark { nonce, serial: SERIAL.fetch_add(1, Ordering::Relaxed), epoch }
    }

    /// The value of the variable.
    pub(super) fn value(self) -> String {
        format!("{:016x}.{}.{}", self.nonce, self.serial, self.epoch.0)
    }

    /// How an environment entry of this server and its helpers begins.
    #[cfg(target_os = "linux")]
    pub(super) fn prefix(self) -> String {
        format!("{VARIABLE}={:016x}.{}.", self.nonce, self.serial)
    }
}

/// The same, of an environment entry of anybody; none if it has no mark.
#[cfg(target_os = "linux")]
pub(super) fn prefix_in(entry: &[u8]) -> Option<&[u8]> {
    entry.strip_prefix(VARIABLE.as_bytes())?.strip_prefix(b"=")?;
    Some(&entry[..=memchr::memrchr(b'.', entry)?])
}

/// The same for all servers of one nonce.
#[cfg(target_os = "linux")]
pub(super) fn prefix_of_all(nonce: u64) -> String {
    format!("{VARIABLE}={nonce:016x}.")
}

/// A new number, unlike any other.
pub(super) fn nonce() -> u64 {
    RandomState::new().hash_one(std::process::id())
}

/// The nonce of servers without a guard.
pub(super) fn own_nonce() -> u64 {
    static NONCE: OnceLock<u64> = OnceLock::new();
    *NONCE.get_or_init(nonce)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn a_mark_is_recognised_in_an_environment() {
        let mark = Mark::next(7, Epoch(3));
        let entry = format!("{VARIABLE}={}", mark.value());
        assert_eq!(prefix_in(entry.as_bytes()), Some(mark.prefix().as_bytes()));
        assert_eq!(prefix_in(b"REGROW_MARKS=1.2.3"), None);
        assert_eq!(prefix_in(b"REGROW_MARK=1"), None);
    }
}
