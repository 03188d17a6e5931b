//! What one server offers, as it last said.
//!
//! - A [`Catalog`] is what is known of a server; it never changes, a newer one takes its place.
//! - A [`CatalogRefresher`] keeps it fresh over a connection.
//! - A [`Pinning`] notices what has changed since a person approved it, and may keep it from clients.
//! - A [`Store`] keeps it on disk, so that clients are answered before slow servers have started.

mod fetch;
mod item;
mod listing;
mod pin_folder;
mod pinning;
mod pins;
mod refresher;
mod round;
mod session_review;
mod store;
mod wanted;
mod watched;

use std::sync::Arc;

use regrow::HandshakeResult;
use regrow_protocol::frame::Frame;
use regrow_protocol::list::List;
use regrow_protocol::meta;
use regrow_protocol::version::Era;
use serde_json::Value;

pub use item::{Defect, Item};
pub use listing::{Cut, Listing};
pub use pin_folder::{PinFolder, StoredPins};
pub use pinning::{Pin, Pinning};
pub(crate) use pins::sha256;
pub use pins::{Change, PinOwner, Pins, difference};
pub use refresher::CatalogRefresher;
pub(crate) use session_review::SessionReview;
pub use store::{Store, StoreKey};
pub use watched::{Revision, WatchedCatalog};

/// Longer instructions of a server are cut.
pub(crate) const MAX_INSTRUCTIONS: usize = 16 << 10;
/// The id, as raw JSON, of the stream that reports changed lists of a modern server.
pub(crate) const STREAM_ID: &str = "\"regrow-catalog\"";

/// Whether a notification belongs to the stream of the catalog, and so to no client.
pub(crate) fn is_of_stream(notification: &Frame) -> bool {
    notification.subscription_id().is_some_and(|id| id.as_bytes() == STREAM_ID.as_bytes())
}

/// What one server offers. Lists are shared, so clones are cheap.
#[derive(Clone, Debug, Default)]
pub struct Catalog {
    /// Who it says it is.
    pub server_info: Option<Value>,
    /// What it can do; none where it was never heard.
    pub capabilities: Option<Value>,
    /// What it tells models about itself; cut where it is too long.
    pub instructions: Option<String>,
    /// The era that it speaks; [`Era::Auto`] where that is not known yet.
    pub era: Era,
    listings: [Option<Arc<Listing>>; 4],
    stale: [Option<Arc<str>>; 4],
}

impl Catalog {
    /// The list as it was last fetched; none where it never was.
    pub fn listing(&self, list: List) -> Option<&Listing> {
        self.listings[list as usize].as_deref()
    }

    /// Why the list may not be what the server has now, or is not there at all.
    pub fn stale(&self, list: List) -> Option<&str> {
        self.stale[list as usize].as_deref()
    }

    /// Whether the server has the capability that this list needs, as far as we know: one that was never heard may.
    pub fn offers(&self, list: List) -> bool {
        self.has(&[list.capability()])
    }

    /// Whether the server has ever told what is on this list, or that it has none.
    pub fn has_told(&self, list: List) -> bool {
        self.capabilities.is_some() && (self.listing(list).is_some() || !self.offers(list))
    }

    /// Whether its capabilities have this member, down this path. A server that was never heard may have everything.
    pub(crate) fn has(&self, path: &[&str]) -> bool {
        let Some(capabilities) = &self.capabilities else { return true };
        let member = path.iter().try_fold(capabilities, |value, name| value.get(name));
        member.is_some_and(|value| !value.is_null() && value != false)
    }

    /// Whether both say the same. When it was said does not count.
    pub fn is_like(&self, other: &Catalog) -> bool {
        let is_same =
            |list: List| self.listing(list).map(Listing::said) == other.listing(list).map(Listing::said);
        List::ALL.into_iter().all(is_same)
            && self.stale == other.stale
            && self.server_info == other.server_info
            && self.capabilities == other.capabilities
            && self.instructions == other.instructions
            && self.era == other.era
    }

    /// A fresh list.
    pub(crate) fn refresh(&mut self, list: List, listing: Listing) {
        self.listings[list as usize] = Some(Arc::new(listing));
        self.stale[list as usize] = None;
    }

    /// The list as it was fetched, with other items.
    pub(crate) fn map_listing(&mut self, list: List, change: impl FnOnce(Listing) -> Listing) {
        if let Some(listing) = self.listings[list as usize].take() {
            self.listings[list as usize] = Some(Arc::new(change(Listing::clone(&listing))));
        }
    }

    /// The list could not be refreshed; what was there stays.
    pub(crate) fn mark_stale(&mut self, list: List, reason: &str) {
        self.stale[list as usize] = Some(reason.into());
    }

    /// There is a new session. Lists that the server no longer has are dropped.
    pub(crate) fn greet(&mut self, welcome: &HandshakeResult) {
        let said: Value = serde_json::from_slice(&welcome.result).unwrap_or_default();
        let member = |name: &str| said.get(name).filter(|value| !value.is_null()).cloned();
        self.era = if welcome.modern { Era::Modern } else { Era::Legacy };
        // In the modern era it stands in `_meta`.
        let in_meta = || said.get("_meta")?.get(meta::SERVER_INFO).cloned();
        self.server_info = member("serverInfo").or_else(in_meta);
        self.capabilities = Some(member("capabilities").unwrap_or_else(|| Value::Object(Default::default())));
        let instructions = said.get("instructions").and_then(Value::as_str);
        self.instructions =
            instructions.map(|text| text[..text.floor_char_boundary(MAX_INSTRUCTIONS)].into());
        for list in List::ALL.into_iter().filter(|list| !self.offers(*list)).collect::<Vec<_>>() {
            self.listings[list as usize] = None;
            self.stale[list as usize] = None;
        }
    }
}

#[cfg(test)]
pub(crate) mod made_up {
    use std::time::SystemTime;

    use super::listing::Draft;
    use super::*;

    /// What a server offers that was greeted with this, and has these items.
    pub(crate) fn catalog(welcome: &Value, lists: &[(List, &[&str])]) -> Arc<Catalog> {
        let mut catalog = Catalog::default();
        catalog.greet(&HandshakeResult { modern: false, result: welcome.to_string().into() });
        for (list, items) in lists {
            let items: Vec<&serde_json::value::RawValue> =
                items.iter().map(|item| serde_json::from_str(item).expect("it is JSON")).collect();
            let mut draft = Draft::new(*list);
            draft.add(&items).expect("they are few");
            catalog.refresh(*list, draft.finish(SystemTime::UNIX_EPOCH, None, None));
        }
        Arc::new(catalog)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn welcome(modern: bool, result: &str) -> HandshakeResult {
        HandshakeResult { modern, result: bytes::Bytes::copy_from_slice(result.as_bytes()) }
    }

    #[test]
    fn who_a_server_is_stands_elsewhere_in_each_era() {
        let mut legacy = Catalog::default();
        legacy.greet(&welcome(
            false,
            r#"{"serverInfo":{"name":"a"},"capabilities":{"tools":{}},"instructions":"be kind"}"#,
        ));
        assert_eq!(legacy.server_info.as_ref().unwrap()["name"], "a");
        assert_eq!((legacy.era, legacy.instructions.as_deref()), (Era::Legacy, Some("be kind")));
        assert_eq!((legacy.offers(List::Tools), legacy.offers(List::Templates)), (true, false));

        let mut modern = Catalog::default();
        modern.greet(&welcome(true, r#"{"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"b"}}}"#));
        assert_eq!(modern.server_info.as_ref().unwrap()["name"], "b");
        assert_eq!((modern.era, modern.offers(List::Tools)), (Era::Modern, false));
    }

    #[test]
    fn a_server_that_was_never_heard_may_have_everything() {
        assert!(List::ALL.into_iter().all(|list| Catalog::default().offers(list)));
    }

    #[test]
    fn long_instructions_are_cut_between_characters() {
        let mut catalog = Catalog::default();
        let text = "ü".repeat(MAX_INSTRUCTIONS);
        catalog.greet(&welcome(false, &format!(r#"{{"instructions":"x{text}"}}"#)));
        assert_eq!(catalog.instructions.unwrap().len(), MAX_INSTRUCTIONS - 1);
    }
}
