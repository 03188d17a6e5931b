//! Since when something has not been used.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, sleep};

/// Who uses it now, and when the last one left.
pub(crate) struct Usage(Mutex<UsageState>);

struct UsageState {
    users: usize,
    last: Instant,
    is_over: bool,
}

impl Default for Usage {
    fn default() -> Usage {
        Usage(Mutex::new(UsageState { users: 0, last: Instant::now(), is_over: false }))
    }
}

impl Usage {
    fn state(&self) -> MutexGuard<'_, UsageState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn begin(&self) {
        self.state().users += 1;
    }

    pub(crate) fn end(&self) {
        let mut state = self.state();
        state.users -= 1;
        if state.users == 0 {
            state.last = Instant::now();
        }
    }

    /// It is of no more use to anybody.
    pub(crate) fn retire(&self) {
        self.state().is_over = true;
    }

    pub(crate) fn is_over(&self) -> bool {
        self.state().is_over
    }

    /// Since when nobody uses it; none while somebody does.
    fn unused(&self) -> Option<Instant> {
        let state = self.state();
        (state.users == 0).then_some(state.last)
    }

    /// Resolves when nobody has used it for so long.
    pub(crate) async fn unused_for(&self, length: Duration) {
        loop {
            let left = match self.unused() {
                Some(since) => (since + length).saturating_duration_since(Instant::now()),
                None => length,
            };
            if left.is_zero() {
                return;
            }
            sleep(left).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn time_starts_anew_with_each_use_and_stands_still_during_one() {
        let minute = Duration::from_secs(60);
        let start = Instant::now();
        let usage = Usage::default();
        let using = async {
            sleep(minute / 2).await;
            usage.begin();
            sleep(minute * 5).await;
            usage.end();
        };
        tokio::join!(using, usage.unused_for(minute));
        assert_eq!(start.elapsed(), minute / 2 + minute * 5 + minute);
    }
}
