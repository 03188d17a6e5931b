//! The lists that somebody says have changed: any number of tellings, four bits of memory.

use std::sync::atomic::{AtomicU8, Ordering};

use regrow_protocol::list::List;
use tokio::sync::Notify;

#[derive(Debug, Default)]
pub(super) struct Wanted {
    lists: AtomicU8,
    told: Notify,
}

impl Wanted {
    pub(super) fn tell(&self, list: List) {
        self.lists.fetch_or(1 << list as u8, Ordering::Relaxed);
        self.told.notify_one();
    }

    /// Waits until something was told, and takes it. May be dropped: what was told stays.
    pub(super) async fn next(&self) -> impl Iterator<Item = List> + use<> {
        self.told.notified().await;
        let lists = self.lists.swap(0, Ordering::Relaxed);
        List::ALL.into_iter().filter(move |list| lists & (1 << *list as u8) != 0)
    }
}
