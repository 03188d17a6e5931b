//! A future that a busy task waits for on the side: it is polled when it was woken itself, not whenever the task is.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

/// See the head of this file.
pub(super) struct Aside<F> {
    future: Pin<Box<F>>,
    /// None before the first poll.
    alarm: Option<Arc<Alarm>>,
}

/// Wakes the task, and remembers for whom.
struct Alarm {
    is_woken: AtomicBool,
    task: Waker,
}

impl<F: Future> Aside<F> {
    pub(super) fn new(future: F) -> Aside<F> {
        Aside { future: Box::pin(future), alarm: None }
    }
}

impl<F: Future> Future for Aside<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let this = &mut *self;
        let alarm = match &mut this.alarm {
            Some(alarm) if alarm.task.will_wake(cx.waker()) => alarm,
            other => other.insert(Arc::new(Alarm { is_woken: true.into(), task: cx.waker().clone() })),
        };
        // Only read first: nearly always it was not woken.
        if !alarm.is_woken.load(Ordering::Acquire) || !alarm.is_woken.swap(false, Ordering::AcqRel) {
            return Poll::Pending;
        }
        this.future.as_mut().poll(&mut Context::from_waker(&alarm.clone().into()))
    }
}

impl Wake for Alarm {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.is_woken.store(true, Ordering::Release);
        self.task.wake_by_ref();
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::sync::atomic::AtomicUsize;

    use tokio::sync::oneshot;

    use super::*;

    #[tokio::test]
    async fn it_is_polled_when_it_is_woken_and_not_when_the_task_is() {
        let (sender, mut receiver) = oneshot::channel();
        let polls = Arc::new(AtomicUsize::new(0));
        let counted = polls.clone();
        let mut aside = Aside::new(poll_fn(move |cx| {
            counted.fetch_add(1, Ordering::Relaxed);
            Pin::new(&mut receiver).poll(cx)
        }));
        // In a task: the waker of a test's own future need not be known again.
        let task = tokio::spawn(async move {
            for _ in 0..3 {
                tokio::select! {
                    biased;
                    _ = &mut aside => panic!("nothing was sent"),
                    () = tokio::task::yield_now() => {}
                }
            }
            assert_eq!(polls.load(Ordering::Relaxed), 1);
            sender.send(7).unwrap();
            assert_eq!(aside.await, Ok(7));
            assert_eq!(polls.load(Ordering::Relaxed), 2);
        });
        task.await.unwrap();
    }

    struct Counter(AtomicUsize);

    impl Wake for Counter {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn a_task_that_takes_it_over_is_woken_instead() {
        let (sender, receiver) = oneshot::channel();
        let mut aside = Aside::new(receiver);
        let tasks = [0; 2].map(|none| Arc::new(Counter(AtomicUsize::new(none))));
        for task in &tasks {
            let waker = Waker::from(task.clone());
            assert!(Pin::new(&mut aside).poll(&mut Context::from_waker(&waker)).is_pending());
        }
        sender.send(7).unwrap();
        assert_eq!(tasks.each_ref().map(|task| task.0.load(Ordering::Relaxed)), [0, 1]);
        let waker = Waker::from(tasks[1].clone());
        assert_eq!(Pin::new(&mut aside).poll(&mut Context::from_waker(&waker)), Poll::Ready(Ok(7)));
    }
}
