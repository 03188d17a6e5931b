//! One list of a server, as it was fetched.

use std::collections::HashSet;
use std::fmt;
use std::time::{Duration, SystemTime};

use regrow_protocol::list::List;
use serde_json::value::RawValue;

use super::{Defect, Item};

/// More pages of one list are not asked for.
pub(crate) const MAX_PAGES: usize = 100;
/// More items of one list are not kept,
pub(crate) const MAX_ITEMS: usize = 10_000;
/// nor more bytes.
pub(crate) const MAX_BYTES: usize = 16 << 20;
/// More items that are left out are counted, not named.
const MAX_DEFECTS: usize = 10;

/// A list of a server.
#[derive(Clone, Debug)]
pub struct Listing {
    items: Vec<Item>,
    revision: u64,
    /// When it was asked for.
    pub fetched: SystemTime,
    /// For how long it holds, where the server said so.
    pub ttl: Option<Duration>,
    /// Why it is not the whole list, where it is not.
    pub cut: Option<Cut>,
    /// The items that are not offered,
    pub left_out: usize,
    /// and what is wrong with the first of them.
    pub defects: Vec<Defect>,
}

/// Why a list is not whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// It has too many pages,
    Pages,
    /// too many items,
    Items,
    /// or too many bytes.
    Bytes,
    /// The server gave the same cursor twice: it would never end.
    Cursor,
}

impl fmt::Display for Cut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Cut::Pages => write!(f, "the list goes on after {MAX_PAGES} pages; the rest is left out"),
            Cut::Items => write!(f, "the list has more than {MAX_ITEMS} items; the rest is left out"),
            Cut::Bytes => write!(f, "the list is over {} MiB; the rest is left out", MAX_BYTES >> 20),
            Cut::Cursor => f.write_str("the server gave the same cursor twice; the list ends there"),
        }
    }
}

impl Listing {
    /// The items, in the server's order.
    pub fn items(&self) -> &[Item] {
        &self.items
    }

    /// The same as long as the content is; its order does not count, which some servers change each time. Not the same in
    /// every version of Regrow.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// The same with other items in their places; those for which there is none are left out, for this reason.
    pub(super) fn filter_map(mut self, reason: &str, change: impl Fn(&Item) -> Option<Item>) -> Listing {
        for item in std::mem::take(&mut self.items) {
            match change(&item) {
                Some(other) => self.items.push(other),
                None => leave_out(&mut self.left_out, &mut self.defects, Defect::of(item.key(), reason)),
            }
        }
        self.revision = revision(&self.items);
        self
    }

    /// What a reader sees of it.
    pub(super) fn said(&self) -> (u64, Option<Cut>, usize, &[Defect]) {
        (self.revision, self.cut, self.left_out, &self.defects)
    }

    /// Which items are left out, for people; none if all are there.
    pub(crate) fn omission(&self) -> Option<String> {
        let named = self.defects.iter().map(Defect::to_string).collect::<Vec<_>>().join("; ");
        let more = match self.left_out - self.defects.len() {
            0 => String::new(),
            more => format!("; and {more} more"),
        };
        (self.left_out > 0).then(|| format!("left out {}: {named}{more}", self.left_out))
    }
}

/// A list in the making, page by page.
#[derive(Debug)]
pub(super) struct Draft {
    list: List,
    items: Vec<Item>,
    keys: HashSet<String>,
    bytes: usize,
    left_out: usize,
    defects: Vec<Defect>,
}

impl Draft {
    pub(super) fn new(list: List) -> Draft {
        Draft { list, items: vec![], keys: HashSet::new(), bytes: 0, left_out: 0, defects: vec![] }
    }

    /// Adds the items of a page. Of two with the same key the first counts.
    pub(super) fn add(&mut self, page: &[&RawValue]) -> Result<(), Cut> {
        for raw in page {
            if self.items.len() >= MAX_ITEMS {
                return Err(Cut::Items);
            }
            if self.bytes + raw.get().len() > MAX_BYTES {
                return Err(Cut::Bytes);
            }
            match Item::read(self.list, raw) {
                Ok(item) if self.keys.insert(item.key().to_owned()) => {
                    self.bytes += raw.get().len();
                    self.items.push(item);
                }
                Ok(item) => self.leave_out(Defect::of(item.key(), "is listed twice; the first counts")),
                Err(defect) => self.leave_out(defect),
            }
        }
        Ok(())
    }

    fn leave_out(&mut self, defect: Defect) {
        leave_out(&mut self.left_out, &mut self.defects, defect);
    }

    pub(super) fn finish(self, fetched: SystemTime, ttl: Option<Duration>, cut: Option<Cut>) -> Listing {
        let revision = revision(&self.items);
        let Draft { items, left_out, defects, .. } = self;
        Listing { items, revision, fetched, ttl, cut, left_out, defects }
    }
}

/// Of those that are left out, all are counted and the first are named.
fn leave_out(count: &mut usize, defects: &mut Vec<Defect>, defect: Defect) {
    *count += 1;
    if defects.len() < MAX_DEFECTS {
        defects.push(defect);
    }
}

fn revision(items: &[Item]) -> u64 {
    items.iter().fold(items.len() as u64, |sum, item| sum.wrapping_add(item.revision()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(text: &str) -> Box<RawValue> {
        RawValue::from_string(text.to_owned()).unwrap()
    }

    fn listing(items: &[&str]) -> Listing {
        let items: Vec<_> = items.iter().map(|text| raw(text)).collect();
        let mut draft = Draft::new(List::Tools);
        draft.add(&items.iter().map(|item| &**item).collect::<Vec<_>>()).unwrap();
        draft.finish(SystemTime::UNIX_EPOCH, None, None)
    }

    #[test]
    fn an_item_that_is_taken_out_later_is_named_with_the_reason() {
        let mut draft = Draft::new(List::Tools);
        draft.add(&[&raw(r#"{"name":"a"}"#), &raw(r#"{"name":"b"}"#)]).unwrap();
        let listing = draft.finish(SystemTime::UNIX_EPOCH, None, None);
        let listing = listing.filter_map("is not pinned", |item| (item.key() == "a").then(|| item.clone()));
        assert_eq!(listing.items().len(), 1);
        assert_eq!(listing.omission().unwrap(), "left out 1: \"b\" is not pinned");
    }

    #[test]
    fn of_two_tools_with_one_name_the_first_counts_and_the_rest_is_counted() {
        let listing =
            listing(&[r#"{"name":"a","n":1}"#, r#"{"x":0}"#, r#"{"name":"b"}"#, r#"{"name":"a","n":2}"#]);
        assert_eq!(listing.items().iter().map(Item::key).collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(listing.items()[0].raw().get(), r#"{"name":"a","n":1}"#);
        let told = r#"left out 2: an item has no name, or two; "a" is listed twice; the first counts"#;
        assert_eq!(listing.omission().as_deref(), Some(told));
    }

    #[test]
    fn the_revision_follows_the_content() {
        let one = listing(&[r#"{"name":"a"}"#]).revision();
        assert_eq!(one, listing(&[r#"{"name":"a"}"#]).revision());
        assert_ne!(one, listing(&[r#"{"name":"a","title":"A"}"#]).revision());
        assert_ne!(one, listing(&[]).revision());
        let two = listing(&[r#"{"name":"a","x":1}"#, r#"{"name":"b"}"#]).revision();
        assert_eq!(
            two,
            listing(&[r#"{"name":"b"}"#, r#"{"x":1, "name":"a"}"#]).revision(),
            "order is no change"
        );
    }

    #[test]
    fn a_list_over_the_caps_is_cut_there() {
        let many: Vec<_> = (0..=MAX_ITEMS).map(|n| raw(&format!(r#"{{"name":"{n}"}}"#))).collect();
        let mut draft = Draft::new(List::Tools);
        assert_eq!(draft.add(&many.iter().map(|item| &**item).collect::<Vec<_>>()), Err(Cut::Items));
        assert_eq!(draft.finish(SystemTime::UNIX_EPOCH, None, Some(Cut::Items)).items().len(), MAX_ITEMS);

        let large = raw(&format!(r#"{{"name":"a","x":"{}"}}"#, "x".repeat(MAX_BYTES)));
        assert_eq!(Draft::new(List::Tools).add(&[&large]), Err(Cut::Bytes));
    }
}
