//! A catalog that others watch, and a count of the changes of all catalogs: what is built from several is current as long as the count
//! is the same.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use regrow::watch;

use super::Catalog;

/// Counts changes. Read it before what it counts the changes of: then nothing newer than that can go unnoticed.
#[derive(Debug, Default)]
pub struct Revision(AtomicU64);

impl Revision {
    /// The revision now.
    pub fn current(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }

    /// Something has changed.
    pub fn advance(&self) {
        self.0.fetch_add(1, Ordering::AcqRel);
    }
}

/// What is known of one server, for others to watch.
pub struct WatchedCatalog {
    catalog: watch::Sender<Arc<Catalog>>,
    revision: Arc<Revision>,
}

impl WatchedCatalog {
    /// It counts its changes in `revision`.
    pub fn new(catalog: Catalog, revision: Arc<Revision>) -> WatchedCatalog {
        WatchedCatalog { catalog: watch::Sender::new(Arc::new(catalog)), revision }
    }

    /// The catalog now.
    pub fn current(&self) -> Arc<Catalog> {
        self.catalog.borrow().clone()
    }

    /// Sees the changes from now on.
    pub fn subscribe(&self) -> watch::Receiver<Arc<Catalog>> {
        self.catalog.subscribe()
    }

    /// Puts what is made of it in its place. Those who watch are woken only if that differs in more than the time of a fetch, or if
    /// `wakes` says so.
    pub fn replace(&self, change: impl FnOnce(&Catalog) -> Catalog, wakes: bool) {
        self.catalog.send_if_modified(|catalog| {
            let new = change(catalog);
            let is_news = wakes || !new.is_like(catalog);
            *catalog = Arc::new(new);
            self.revision.advance(); // Before anybody is woken.
            is_news
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_change_is_a_new_revision_also_one_that_wakes_nobody() {
        let revision = Arc::<Revision>::default();
        let catalogs = [(); 2].map(|()| WatchedCatalog::new(Catalog::default(), revision.clone()));
        let (before, mut seen) = (revision.current(), catalogs[1].subscribe());
        let known = catalogs[1].current();
        catalogs[0].replace(Catalog::clone, true);
        catalogs[1].replace(Catalog::clone, false);
        assert_eq!(revision.current(), before + 2);
        assert!(
            !Arc::ptr_eq(&known, &seen.borrow_and_update()),
            "it is another, though it is like the first"
        );
    }
}
