//! Where a JSON value stands in a message.

use std::borrow::Cow;
use std::ops::Range;

/// From its first byte to after its last. No JSON value is empty, so the empty span says "absent".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Span {
    start: u32,
    end: u32,
}

/// Longer messages are refused, so that a span is small.
pub(super) const MAX_MESSAGE: usize = u32::MAX as usize;

impl Span {
    /// Offsets in a message that is not longer than [`MAX_MESSAGE`].
    pub(super) fn new(start: usize, end: usize) -> Span {
        Span { start: start as u32, end: end as u32 }
    }

    pub(super) fn is_empty(self) -> bool {
        self.start == self.end
    }

    pub(super) fn end(self) -> usize {
        self.end as usize
    }

    pub(super) fn range(self) -> Range<usize> {
        self.start as usize..self.end as usize
    }
}

/// The text of a valid raw JSON string; none where it is no string, or a lone surrogate makes it no text.
pub(super) fn decode(raw: &[u8]) -> Option<Cow<'_, str>> {
    let inner = raw.strip_prefix(b"\"")?.strip_suffix(b"\"")?;
    if memchr::memchr(b'\\', inner).is_none() {
        return std::str::from_utf8(inner).ok().map(Cow::Borrowed);
    }
    serde_json::from_slice(raw).ok().map(Cow::Owned)
}
