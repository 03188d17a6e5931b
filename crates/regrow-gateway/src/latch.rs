//! Something that happens once. Who waits for it goes on in the order in which they came.

use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;

pub(crate) struct Latch {
    is_open: AtomicBool,
    opened: Notify,
}

impl Latch {
    pub(crate) fn new(is_open: bool) -> Latch {
        Latch { is_open: AtomicBool::new(is_open), opened: Notify::new() }
    }

    pub(crate) fn is_open(&self) -> bool {
        self.is_open.load(Ordering::Acquire)
    }

    pub(crate) fn open(&self) {
        self.is_open.store(true, Ordering::Release);
        self.opened.notify_waiters();
    }

    pub(crate) async fn opened(&self) {
        let mut opened = pin!(self.opened.notified());
        opened.as_mut().enable(); // Before looking: it may open in between.
        if !self.is_open() {
            opened.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    #[tokio::test]
    async fn those_who_wait_go_on_in_the_order_in_which_they_came() {
        let (latch, went) = (Arc::new(Latch::new(false)), Arc::new(Mutex::new(vec![])));
        let waiting: Vec<_> = (0..20)
            .map(|number| {
                let (latch, went) = (latch.clone(), went.clone());
                tokio::spawn(async move {
                    latch.opened().await;
                    went.lock().unwrap().push(number);
                })
            })
            .collect();
        tokio::task::yield_now().await;
        assert!(!latch.is_open() && went.lock().unwrap().is_empty());
        latch.open();
        for waiting in waiting {
            waiting.await.unwrap();
        }
        assert_eq!(*went.lock().unwrap(), (0..20).collect::<Vec<_>>());
        latch.opened().await; // Who comes later does not wait.
    }
}
