//! Scans of all processes of the machine. One scan serves everybody who waits for one, and many scans in a row keep a pace: otherwise
//! many servers that end would cost as much as the square of their number.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;
use tokio::time::{sleep, timeout};

/// Of this many parts of the time, scans take one.
const PARTS: u32 = 10;
/// The pause after a scan is at most this long.
const LONGEST_PAUSE: Duration = Duration::from_millis(100);
/// Time without scans counts up to this long, so that a few in a row need not wait.
const SAVED: Duration = Duration::from_millis(250);

/// Nobody waits longer for others: their runtime may stand still.
const LONGEST_WAIT: Duration = Duration::from_secs(5);

/// A scan that several can wait for.
pub(super) struct SharedScan<T> {
    scan: fn() -> T,
    /// Where the result of the next scan goes, if somebody waits for it. One that has begun may have missed what they look for.
    next: Mutex<Option<Arc<OnceLock<Arc<T>>>>>,
    turn: Semaphore,
    pace: Mutex<Pace>,
}

impl<T: Send + Sync + 'static> SharedScan<T> {
    pub(super) const fn new(scan: fn() -> T) -> SharedScan<T> {
        SharedScan {
            scan,
            next: Mutex::new(None),
            turn: Semaphore::const_new(1),
            pace: Mutex::new(Pace { free_at: None }),
        }
    }

    /// What a scan found that began after this call. None while the runtime shuts down.
    pub(super) async fn result(&self) -> Option<Arc<T>> {
        let result = lock(&self.next).get_or_insert_default().clone();
        let Ok(turn) = timeout(LONGEST_WAIT, self.turn.acquire()).await else {
            return spawn_blocking(self.scan).await.ok().map(Arc::new);
        };
        let _turn = turn.ok()?;
        if let Some(found) = result.get() {
            return Some(found.clone());
        }
        let pause = lock(&self.pace).pause(Instant::now());
        sleep(pause).await;
        lock(&self.next).take();
        let scan = self.scan;
        let begun = Instant::now();
        // It reads files for each process of the machine, so it runs beside the runtime.
        let found = Arc::new(spawn_blocking(scan).await.ok()?);
        lock(&self.pace).scanned(begun, begun.elapsed());
        Some(result.get_or_init(|| found).clone())
    }
}

/// When the next scan may begin.
struct Pace {
    free_at: Option<Instant>,
}

impl Pace {
    fn pause(&self, now: Instant) -> Duration {
        self.free_at.map(|free_at| free_at.saturating_duration_since(now)).unwrap_or_default()
    }

    fn scanned(&mut self, begun: Instant, took: Duration) {
        let earliest = begun.checked_sub(SAVED).unwrap_or(begun);
        let from = self.free_at.map_or(earliest, |free_at| free_at.max(earliest));
        self.free_at = Some(from + (took * PARTS).min(took + LONGEST_PAUSE));
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::task::yield_now;

    use super::*;

    /// The number of the scan. It ends when it is told to.
    fn numbered(number: &AtomicUsize, steps: &Barrier) -> usize {
        let number = number.fetch_add(1, Ordering::Relaxed) + 1;
        steps.wait(); // It has begun,
        steps.wait(); // and may end.
        number
    }

    #[tokio::test]
    async fn all_who_come_during_a_scan_share_the_next() {
        static SCANS: AtomicUsize = AtomicUsize::new(0);
        static STEPS: Barrier = Barrier::new(2);
        static SCAN: SharedScan<usize> = SharedScan::new(|| numbered(&SCANS, &STEPS));
        let step = || spawn_blocking(|| STEPS.wait());
        let first = tokio::spawn(SCAN.result());
        step().await.unwrap();
        let others: Vec<_> = (0..200).map(|_| tokio::spawn(SCAN.result())).collect();
        yield_now().await; // On this runtime, until all of them wait.
        for _ in 0..3 {
            step().await.unwrap();
        }
        assert_eq!(first.await.unwrap().as_deref(), Some(&1));
        for other in others {
            assert_eq!(other.await.unwrap().as_deref(), Some(&2), "a scan that had begun is not enough");
        }
        assert_eq!(SCANS.load(Ordering::Relaxed), 2);
    }

    #[tokio::test]
    async fn one_who_no_longer_waits_holds_up_nobody() {
        static SCANS: AtomicUsize = AtomicUsize::new(0);
        static STEPS: Barrier = Barrier::new(2);
        static SCAN: SharedScan<usize> = SharedScan::new(|| numbered(&SCANS, &STEPS));
        let first = tokio::spawn(SCAN.result());
        let other = tokio::spawn(SCAN.result());
        let step = || spawn_blocking(|| STEPS.wait());
        step().await.unwrap();
        first.abort();
        for _ in 0..3 {
            step().await.unwrap();
        }
        assert!(first.await.unwrap_err().is_cancelled());
        assert_eq!(other.await.unwrap().as_deref(), Some(&2));
    }

    #[tokio::test(start_paused = true)]
    async fn a_runtime_that_stands_still_holds_up_nobody_for_long() {
        static SCAN: SharedScan<usize> = SharedScan::new(|| 7);
        let _turn = SCAN.turn.acquire().await.unwrap();
        let begun = tokio::time::Instant::now();
        assert_eq!(SCAN.result().await.as_deref(), Some(&7));
        assert_eq!(begun.elapsed().as_secs(), LONGEST_WAIT.as_secs());
    }

    /// The pauses before many scans in a row that take this long.
    fn pauses(took: Duration) -> Vec<Duration> {
        let mut pace = Pace { free_at: None };
        let mut now = Instant::now() + SAVED;
        let mut scan = || {
            let pause = pace.pause(now);
            pace.scanned(now + pause, took);
            now += pause + took;
            pause
        };
        (0..100).map(|_| scan()).collect()
    }

    #[test]
    fn a_few_scans_do_not_wait_and_many_take_a_tenth_of_the_time() {
        let took = Duration::from_millis(5);
        let pauses = pauses(took);
        assert_eq!(pauses[..5], [Duration::ZERO; 5]);
        assert_eq!(pauses[50..], [took * (PARTS - 1); 50]);
    }

    #[test]
    fn slow_scans_do_not_wait_long() {
        assert!(pauses(Duration::from_secs(1)).iter().all(|pause| *pause <= LONGEST_PAUSE));
    }
}
