//! Lets a few servers start at a time. Each start needs a thread until its program is loaded. Except on Linux, that thread also forks this process, which copies the page tables of the
//! whole process, with the stacks of all those threads: if all servers started at once, that would cost the square of their number.

use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::time::sleep;

/// The starts of all servers of this process.
pub(super) static STARTS: Turns = Turns::new(4);

/// A start that takes longer makes room for the next: one program on a disk that hangs must not keep other servers from starting.
const TURN: Duration = Duration::from_millis(200);

pub(super) struct Turns(Semaphore);

impl Turns {
    const fn new(at_once: usize) -> Turns {
        Turns(Semaphore::const_new(at_once))
    }

    /// Runs this when it is its turn.
    pub(super) async fn run<T>(&self, start: impl AsyncFnOnce() -> T) -> T {
        let turn = self.0.acquire().await; // It is never closed.
        let mut started = std::pin::pin!(start());
        tokio::select! {
            biased;
            started = &mut started => return started,
            () = sleep(TURN) => drop(turn),
        }
        started.await
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

    use tokio::task::JoinSet;
    use tokio::time::{Instant, timeout};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn many_starts_run_a_few_at_a_time() {
        let turns = Arc::new(Turns::new(4));
        let (running, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let mut starts = JoinSet::new();
        for _ in 0..200 {
            let (turns, running, most) = (turns.clone(), running.clone(), most.clone());
            starts.spawn(async move {
                let start = async || {
                    most.fetch_max(running.fetch_add(1, SeqCst) + 1, SeqCst);
                    sleep(Duration::from_millis(2)).await;
                    running.fetch_sub(1, SeqCst);
                };
                turns.run(start).await;
            });
        }
        assert_eq!(starts.join_all().await.len(), 200);
        assert_eq!(most.load(SeqCst), 4);
    }

    #[tokio::test(start_paused = true)]
    async fn starts_that_hang_keep_no_other_from_starting() {
        let turns = Turns::new(2);
        let hangs = || timeout(Duration::from_secs(10), turns.run(async || pending::<()>().await));
        let begun = Instant::now();
        let starts = async || begun.elapsed();
        let (.., started) = tokio::join!(hangs(), hangs(), hangs(), hangs(), turns.run(starts));
        assert_eq!(started.as_millis(), 400);
    }
}
