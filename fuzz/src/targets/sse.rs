//! Server-sent events: however a stream is cut, the events are the same.

use bytes::Bytes;
use regrow::fuzzing::events;

use crate::pieces::cuts;

const MAX_DATA: usize = 64;

pub(super) fn run(input: &[u8]) {
    let whole = events(MAX_DATA, [Bytes::copy_from_slice(input)]);
    for pieces in cuts(input) {
        let cut = events(MAX_DATA, pieces.iter().map(|piece| Bytes::copy_from_slice(piece)));
        assert_eq!(cut, whole, "cut into {} pieces", pieces.len());
    }
}
