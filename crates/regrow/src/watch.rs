//! A value that others watch, like tokio's `watch`, except that those who wait wake in the order in which they began to wait. Tokio wakes
//! them in random order, so a simulated life would not be the same every time.

use std::fmt;
use std::ops::Deref;
use std::pin::pin;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use tokio::sync::Notify;

/// A value, and the one who changes it.
pub fn channel<T>(value: T) -> (Sender<T>, Receiver<T>) {
    let sender = Sender::new(value);
    let receiver = sender.subscribe();
    (sender, receiver)
}

/// Changes the value.
pub struct Sender<T>(Arc<Inner<T>>);

/// Sees the value, now and whenever it changes.
pub struct Receiver<T> {
    inner: Arc<Inner<T>>,
    seen: u64,
}

/// The value does not change any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the value does not change any more")]
pub struct Closed;

struct Inner<T> {
    state: RwLock<State<T>>,
    changed: Notify,
}

struct State<T> {
    value: T,
    /// How often it has changed.
    version: u64,
    is_closed: bool,
}

/// The value, which cannot change while this is held. Drop it before you wait for anything.
pub struct Ref<'a, T>(RwLockReadGuard<'a, State<T>>);

impl<T> Sender<T> {
    /// A value that nobody watches yet.
    pub fn new(value: T) -> Sender<T> {
        let state = RwLock::new(State { value, version: 0, is_closed: false });
        Sender(Arc::new(Inner { state, changed: Notify::new() }))
    }

    /// Sees the changes from now on.
    pub fn subscribe(&self) -> Receiver<T> {
        Receiver { inner: self.0.clone(), seen: self.0.state().version }
    }

    /// The value.
    pub fn borrow(&self) -> Ref<'_, T> {
        Ref(self.0.state())
    }

    /// Sets the value, and wakes those who wait.
    pub fn send(&self, value: T) {
        self.send_if_modified(|current| {
            *current = value;
            true
        });
    }

    /// Changes the value, and wakes those who wait if that says so. Returns what it says.
    pub fn send_if_modified(&self, change: impl FnOnce(&mut T) -> bool) -> bool {
        let is_changed = {
            let mut state = self.0.state.write().unwrap_or_else(PoisonError::into_inner);
            let is_changed = change(&mut state.value);
            state.version += u64::from(is_changed);
            is_changed
        };
        if is_changed {
            self.0.changed.notify_waiters();
        }
        is_changed
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        self.0.state.write().unwrap_or_else(PoisonError::into_inner).is_closed = true;
        self.0.changed.notify_waiters();
    }
}

impl<T> Receiver<T> {
    /// The value.
    pub fn borrow(&self) -> Ref<'_, T> {
        Ref(self.inner.state())
    }

    /// The value, which counts as seen.
    pub fn borrow_and_update(&mut self) -> Ref<'_, T> {
        let state = self.inner.state();
        self.seen = state.version;
        Ref(state)
    }

    /// Whether the value has changed since it was last seen. An error if it does not change any more.
    pub fn has_changed(&self) -> Result<bool, Closed> {
        let state = self.inner.state();
        if state.is_closed { Err(Closed) } else { Ok(state.version != self.seen) }
    }

    /// Resolves when the value has changed since it was last seen, and counts as seen then.
    pub async fn changed(&mut self) -> Result<(), Closed> {
        let seen = self.seen;
        self.until(|state| state.version != seen).await.map(|_| ())
    }

    /// Resolves with the value when it is so.
    pub async fn wait_for(&mut self, mut is_so: impl FnMut(&T) -> bool) -> Result<Ref<'_, T>, Closed> {
        self.until(|state| is_so(&state.value)).await
    }

    async fn until(&mut self, mut is_so: impl FnMut(&State<T>) -> bool) -> Result<Ref<'_, T>, Closed> {
        loop {
            let mut changed = pin!(self.inner.changed.notified());
            changed.as_mut().enable(); // Before looking: it may change in between.
            {
                let state = self.inner.state();
                let is_closed = state.is_closed;
                self.seen = state.version;
                if is_so(&state) {
                    break;
                }
                if is_closed {
                    return Err(Closed);
                }
            }
            changed.await;
        }
        Ok(self.borrow_and_update())
    }
}

impl<T> Clone for Receiver<T> {
    fn clone(&self) -> Receiver<T> {
        Receiver { inner: self.inner.clone(), seen: self.seen }
    }
}

impl<T> Inner<T> {
    // A panic can only come from the code that changes the value, which is ours.
    fn state(&self) -> RwLockReadGuard<'_, State<T>> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Deref for Ref<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0.value
    }
}

impl<T: fmt::Debug> fmt::Debug for Ref<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T: fmt::Debug> fmt::Debug for Sender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Sender").field(&self.borrow()).finish()
    }
}

impl<T: fmt::Debug> fmt::Debug for Receiver<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Receiver").field(&self.borrow()).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    #[tokio::test]
    async fn those_who_wait_wake_in_the_order_in_which_they_came() {
        let (sender, receiver) = channel(0);
        let woken = Arc::new(Mutex::new(vec![]));
        let waiting: Vec<_> = (0..50)
            .map(|number| {
                let (mut receiver, woken) = (receiver.clone(), woken.clone());
                tokio::spawn(async move {
                    receiver.changed().await.unwrap();
                    woken.lock().unwrap().push(number);
                })
            })
            .collect();
        tokio::task::yield_now().await;
        sender.send(1);
        for waiting in waiting {
            waiting.await.unwrap();
        }
        assert_eq!(*woken.lock().unwrap(), (0..50).collect::<Vec<_>>());
    }

    #[tokio::test]
    async fn a_change_is_seen_once_and_the_last_one_after_the_end_too() {
        let (sender, mut receiver) = channel(1);
        assert_eq!(receiver.has_changed(), Ok(false));
        sender.send(2);
        assert!(!sender.send_if_modified(|_| false));
        assert_eq!((receiver.has_changed(), *receiver.borrow()), (Ok(true), 2));
        assert_eq!(receiver.changed().await, Ok(()));
        assert_eq!(receiver.has_changed(), Ok(false));
        assert_eq!(receiver.wait_for(|value| *value == 2).await.as_deref(), Ok(&2));
        sender.send(3);
        drop(sender);
        assert_eq!((receiver.changed().await, *receiver.borrow()), (Ok(()), 3));
        assert_eq!((receiver.changed().await, receiver.has_changed()), (Err(Closed), Err(Closed)));
        assert_eq!(receiver.wait_for(|value| *value == 3).await.as_deref(), Ok(&3));
        assert!(receiver.wait_for(|value| *value == 4).await.is_err());
    }
}
