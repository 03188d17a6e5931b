//! A value that others wait for. Unlike with tokio's `watch`, waiters wake in the order in which they came, so that the same
//! seed gives the same life.

use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard};

use tokio::sync::Notify;

/// Clones share it.
#[derive(Clone)]
pub struct Signal<T>(Arc<Inner<T>>);

struct Inner<T> {
    /// With the number of its changes.
    value: Mutex<(u64, T)>,
    changed: Notify,
}

impl<T: Clone> Signal<T> {
    pub fn new(value: T) -> Signal<T> {
        Signal(Arc::new(Inner { value: Mutex::new((0, value)), changed: Notify::new() }))
    }

    pub fn value(&self) -> T {
        self.0.value().1.clone()
    }

    /// The value does not change meanwhile.
    pub fn hold<R>(&self, look: impl FnOnce(&T) -> R) -> R {
        look(&self.0.value().1)
    }

    /// Gives the value before.
    pub fn set(&self, value: T) -> T {
        let before = self.value();
        self.change(|it| *it = value);
        before
    }

    pub fn change(&self, change: impl FnOnce(&mut T)) {
        {
            let mut value = self.0.value();
            value.0 += 1;
            change(&mut value.1);
        }
        self.0.changed.notify_waiters();
    }

    /// Sees the changes from now on.
    pub fn watch(&self) -> Watcher<T> {
        Watcher { inner: self.0.clone(), seen: self.0.value().0 }
    }
}

impl<T> Inner<T> {
    fn value(&self) -> MutexGuard<'_, (u64, T)> {
        self.value.lock().unwrap()
    }
}

pub struct Watcher<T> {
    inner: Arc<Inner<T>>,
    seen: u64,
}

impl<T: Clone> Watcher<T> {
    /// Resolves when the value has been changed since it was last looked at.
    pub async fn changed(&mut self) {
        let before = self.seen;
        self.until_seen(|count, _| count != before).await;
    }

    /// Resolves with the value when it is so.
    pub async fn until(&mut self, is_so: impl Fn(&T) -> bool) -> T {
        self.until_seen(|_, value| is_so(value)).await
    }

    async fn until_seen(&mut self, is_so: impl Fn(u64, &T) -> bool) -> T {
        loop {
            let mut changed = pin!(self.inner.changed.notified());
            changed.as_mut().enable();
            {
                let value = self.inner.value();
                if is_so(value.0, &value.1) {
                    self.seen = value.0;
                    return value.1.clone();
                }
            }
            changed.await;
        }
    }
}
