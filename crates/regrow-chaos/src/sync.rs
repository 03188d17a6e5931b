//! Waiting and locking, as threads do it here.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// How often it is looked whether something has come.
const GLANCE: Duration = Duration::from_millis(2);

/// Waits until this holds; false if it does not within the limit.
pub fn wait_until(limit: Duration, mut holds: impl FnMut() -> bool) -> bool {
    let deadline = Instant::now() + limit;
    while !holds() {
        if Instant::now() >= deadline {
            return false;
        }
        thread::sleep(GLANCE);
    }
    true
}

/// For locks whose holders do not panic, and which hold what is whole at any time.
pub fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
