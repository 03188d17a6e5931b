//! Many lives, on as many threads as there are cores.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// A number from the environment.
pub(super) fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable} must be a number, not {text:?}")))
}

/// How many lives: what `REGROW_SEEDS` says, ten times the usual number with `REGROW_LONG`, or the usual number.
pub(super) fn seeds(usual: u64) -> u64 {
    let long = std::env::var_os("REGROW_LONG").is_some();
    number("REGROW_SEEDS").unwrap_or(if long { 10 * usual } else { usual })
}

/// Does this for each of the seeds, and gives what it came to, in order.
pub(super) fn each<T: Send>(seeds: std::ops::Range<u64>, work: impl Fn(u64) -> T + Sync) -> Vec<T> {
    let threads = std::thread::available_parallelism().map_or(2, usize::from);
    let (next, done) = (AtomicU64::new(seeds.start), Mutex::new(vec![]));
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds.end {
                        return;
                    }
                    let result = work(seed);
                    done.lock().expect("no life panics here").push((seed, result));
                }
            });
        }
    });
    let mut done = done.into_inner().expect("no life panics here");
    done.sort_by_key(|(seed, _)| *seed);
    done.into_iter().map(|(_, result)| result).collect()
}
