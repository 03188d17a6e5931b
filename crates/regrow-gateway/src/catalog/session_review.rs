//! What the sessions of one connection offer: compared with what was approved before a call goes there.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use regrow::{Approver, Unapproved};
use regrow_protocol::frame::Frame;
use regrow_protocol::list::List;
use regrow_protocol::method;

use super::Pinning;
use super::fetch::ListPage;
use super::listing::Draft;
use super::pins::meaning;

/// Judges the calls of one connection by what its newest session offers.
pub(crate) struct SessionReview {
    pinning: Arc<Pinning>,
    /// Hashes of the tools and prompts, by list and name.
    offered: Mutex<BTreeMap<List, BTreeMap<String, String>>>,
}

impl SessionReview {
    pub(crate) fn new(pinning: Arc<Pinning>) -> SessionReview {
        SessionReview { pinning, offered: Mutex::default() }
    }
}

impl Approver for SessionReview {
    fn review(&self, list: List, pages: &[Frame]) {
        let mut draft = Draft::new(list);
        for page in pages {
            let page = serde_json::from_slice::<ListPage<'_>>(page.result().unwrap_or_default()).ok();
            let items = page.as_ref().and_then(|page| page.items(list));
            if items.is_none_or(|items| draft.add(items).is_err()) {
                break;
            }
        }
        let listing = draft.finish(SystemTime::now(), None, None);
        self.pinning.note_changes(list, listing.items());
        let hashes = listing.items().iter().map(|item| (item.key().to_owned(), meaning(item.raw().get())));
        let hashes = hashes.collect();
        self.offered.lock().unwrap_or_else(PoisonError::into_inner).insert(list, hashes);
    }

    fn refuse(&self, request: &Frame) -> Option<Unapproved> {
        let list = match request.method()? {
            method::TOOLS_CALL => List::Tools,
            method::PROMPTS_GET => List::Prompts,
            _ => return None,
        };
        let name = request.name()?;
        let offered = self.offered.lock().unwrap_or_else(PoisonError::into_inner);
        let hash = offered.get(&list).and_then(|items| items.get(&*name));
        self.pinning.is_held(list, &name, hash.map(String::as_str)).then_some(Unapproved::Definition)
    }
}
