//! Time limits that a pause of our own process does not spoil.

use std::time::Duration;

use regrow_core::Grace;
use tokio::time::{Instant, sleep, sleep_until};

/// Waits for this, but no longer than `limit`; none when the time is over.
///
/// If Regrow was stopped meanwhile (SIGSTOP, a paused container), what has arrived is read before the limit counts.
pub async fn within<F: Future>(limit: Duration, future: F) -> Option<F::Output> {
    tokio::select! {
        biased;
        output = future => Some(output),
        () = passed(limit) => None,
    }
}

/// Resolves when so much time has passed, and what arrived while Regrow was stopped has been read.
pub(crate) async fn passed(limit: Duration) {
    let Some(deadline) = Instant::now().checked_add(limit) else { return std::future::pending().await };
    sleep_until(deadline).await;
    if let Some(round) = Grace::after(deadline.elapsed()) {
        sleep(round).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::sync::oneshot;
    use tokio::time::advance;

    #[tokio::test(start_paused = true)]
    async fn what_does_not_come_is_over_at_the_limit() {
        let began = Instant::now();
        assert_eq!(within(Duration::from_secs(2), std::future::pending::<()>()).await, None);
        assert!(began.elapsed() < Duration::from_millis(2010));
        assert_eq!(within(Duration::MAX, std::future::ready(1)).await, Some(1));
    }

    #[tokio::test(start_paused = true)]
    async fn what_came_while_we_were_stopped_counts() {
        let (sender, received) = oneshot::channel();
        let waiting = tokio::spawn(within(Duration::from_secs(2), received));
        tokio::spawn(async move {
            sleep(Duration::from_secs(1)).await;
            // As when a reader must run before the value is there.
            tokio::task::yield_now().await;
            let _ = sender.send("in time");
        });
        tokio::task::yield_now().await;
        advance(Duration::from_secs(3)).await;
        assert_eq!(waiting.await.unwrap(), Some(Ok("in time")));
    }
}
