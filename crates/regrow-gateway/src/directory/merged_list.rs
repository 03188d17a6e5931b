//! One list of all servers, written once and handed out whole or in pages.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};

use bytes::Bytes;

use crate::catalog::Item;

/// How many items a page usually has at most.
pub const PAGE_SIZE: usize = 1000;

/// Where an item stands: its server, and its place in the server's list.
type ItemPlace = (usize, usize);

#[derive(Debug)]
pub(super) struct MergedList {
    /// All items as a JSON array.
    json: Bytes,
    /// Of each item, where its text ends there; and its name, hashed.
    items: Vec<(usize, u64)>,
    places: HashMap<String, ItemPlace>,
    revision: u64,
}

/// A part of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// Its items, as a JSON array.
    pub items: Bytes,
    /// What to ask for the next part, if there is one.
    pub next: Option<String>,
}

/// A cursor that we did not give.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadCursor;

impl fmt::Display for BadCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("this cursor does not belong to this list")
    }
}

impl std::error::Error for BadCursor {}

impl MergedList {
    pub(super) fn of<'a>(named: impl Iterator<Item = (ItemPlace, &'a Item, Cow<'a, str>)>) -> MergedList {
        let mut json = "[".to_owned();
        let mut items = vec![];
        let mut places = HashMap::new();
        let mut revision = 0u64;
        for (place, item, name) in named {
            if !items.is_empty() {
                json.push(',');
            }
            item.write_as(&name, &mut json);
            items.push((json.len(), hash(&*name)));
            revision = revision.wrapping_add(hash((&*name, item.revision()))); // Their order does not count.
            places.insert(name.into_owned(), place);
        }
        json.push(']');
        MergedList { revision, json: json.into(), items, places }
    }

    pub(super) fn count(&self) -> usize {
        self.items.len()
    }

    pub(super) fn revision(&self) -> u64 {
        self.revision
    }

    pub(super) fn find(&self, name: &str) -> Option<ItemPlace> {
        self.places.get(name).copied()
    }

    /// A page has at least one item, so that its reader comes to an end.
    pub(super) fn page(&self, cursor: Option<&str>, size: usize) -> Result<Page, BadCursor> {
        let start = match cursor {
            Some(cursor) => self.after(Cursor::read(cursor).ok_or(BadCursor)?),
            None => 0,
        };
        let end = start.saturating_add(size.max(1)).min(self.items.len());
        if start == 0 && end == self.items.len() {
            return Ok(Page { items: self.json.clone(), next: None });
        }
        // Behind the bracket or comma before the first, up to the end of the last.
        let from = start.checked_sub(1).map_or(1, |before| self.items[before].0 + 1);
        let text = if start < end { &self.json[from..self.items[end - 1].0] } else { b"" };
        let more = end < self.items.len();
        let next = more.then(|| Cursor { position: end, last: self.items[end - 1].1 }.to_string());
        Ok(Page { items: [b"[", text, b"]"].concat().into(), next })
    }

    /// Where to go on. If the list has changed meanwhile, its reader gets an error and reads it again; until then it goes on behind
    /// the same item, or at the same place where that is gone. To refuse would make lists fail while servers start.
    fn after(&self, cursor: Cursor) -> usize {
        let is_last = |position: usize| self.items.get(position).is_some_and(|item| item.1 == cursor.last);
        if is_last(cursor.position - 1) {
            return cursor.position;
        }
        let moved = self.items.iter().position(|item| item.1 == cursor.last);
        moved.map_or(cursor.position.min(self.items.len()), |position| position + 1)
    }
}

/// How far a reader has come.
struct Cursor {
    /// How many items it has read; not none.
    position: usize,
    /// The name of the last one, hashed.
    last: u64,
}

impl Cursor {
    fn read(text: &str) -> Option<Cursor> {
        let (position, last) = text.split_once('-')?;
        let number = |text| u64::from_str_radix(text, 16).ok();
        let position = usize::try_from(number(position)?).ok().filter(|position| *position > 0)?;
        let cursor = Cursor { position, last: number(last)? };
        (cursor.to_string() == text).then_some(cursor) // Numbers can be written in ways that are not ours.
    }
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:x}-{:x}", self.position, self.last)
    }
}

fn hash(what: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    what.hash(&mut hasher);
    hasher.finish()
}
