//! Changes of a text by positions.

use std::ops::Range;

/// One change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Edit {
    /// What is replaced, in bytes; empty where something is put in.
    pub(super) range: Range<usize>,
    pub(super) text: String,
    /// What is shown in its place, where the text holds a secret.
    pub(super) shown: Option<String>,
}

impl Edit {
    pub(super) fn replace(range: Range<usize>, text: impl Into<String>) -> Edit {
        Edit { range, text: text.into(), shown: None }
    }

    pub(super) fn insert(at: usize, text: impl Into<String>) -> Edit {
        Edit::replace(at..at, text)
    }

    pub(super) fn shown_as(mut self, shown: impl Into<String>) -> Edit {
        self.shown = Some(shown.into());
        self
    }
}

/// This part of the text with the changes in it, which are in order and do not overlap.
pub(super) fn apply<'a>(
    text: &str,
    part: Range<usize>,
    changes: impl Iterator<Item = (&'a Range<usize>, &'a str)>,
) -> String {
    let mut changed = String::with_capacity(part.len());
    let mut at = part.start;
    for (range, new) in changes.filter(|(range, _)| range.start >= part.start && range.end <= part.end) {
        changed.push_str(&text[at..range.start]);
        changed.push_str(new);
        at = range.end;
    }
    changed.push_str(&text[at..part.end]);
    changed
}
