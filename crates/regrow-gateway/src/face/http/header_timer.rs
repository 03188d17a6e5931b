//! The timer of hyper's header timeout, one for each connection.
//!
//! hyper drops its timer with each request and makes another for the next. Here it is kept: a timer that is set later than before costs
//! nearly nothing.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::rt::Timer;
use tokio::time::{Instant, Sleep, sleep_until};

/// See the head of this file.
#[derive(Default)]
pub(super) struct HeaderTimer {
    kept: Arc<Kept>,
}

type Kept = Mutex<Option<Pin<Box<Sleep>>>>;

/// A timer that is kept when it is dropped.
struct KeptSleep {
    sleep: Option<Pin<Box<Sleep>>>,
    kept: Arc<Kept>,
}

impl Timer for HeaderTimer {
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn hyper::rt::Sleep>> {
        self.sleep_until((Instant::now() + duration).into_std())
    }

    fn sleep_until(&self, deadline: std::time::Instant) -> Pin<Box<dyn hyper::rt::Sleep>> {
        let (kept, deadline) = (self.kept.clone(), Instant::from_std(deadline));
        let mut sleep = kept.lock().unwrap_or_else(PoisonError::into_inner).take();
        match &mut sleep {
            Some(sleep) => sleep.as_mut().reset(deadline),
            None => sleep = Some(Box::pin(sleep_until(deadline))),
        }
        Box::pin(KeptSleep { sleep, kept })
    }

    fn now(&self) -> std::time::Instant {
        Instant::now().into_std()
    }
}

impl Future for KeptSleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        match &mut self.sleep {
            Some(sleep) => sleep.as_mut().poll(cx),
            None => Poll::Pending, // Only while it is dropped.
        }
    }
}

impl hyper::rt::Sleep for KeptSleep {}

impl Drop for KeptSleep {
    fn drop(&mut self) {
        *self.kept.lock().unwrap_or_else(PoisonError::into_inner) = self.sleep.take();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn each_request_has_its_own_time_also_after_another_that_was_over_or_not() {
        let (timer, began) = (HeaderTimer::default(), Instant::now());
        drop(timer.sleep(Duration::from_secs(30)));
        timer.sleep(Duration::from_secs(40)).await;
        assert_eq!(began.elapsed().as_secs(), 40);
        timer.sleep(Duration::from_secs(5)).await;
        assert_eq!(began.elapsed().as_secs(), 45);
    }
}
