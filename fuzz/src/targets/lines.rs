//! Line framing: however a stream is cut, the lines are the same, and none is over the cap.

use bytes::BufMut;
use regrow_protocol::lines::{Line, LineReader};

use crate::pieces::cuts;

const MAX_LINE: usize = 64;

pub(super) fn run(input: &[u8]) {
    let whole = read(&[input]);
    for pieces in cuts(input) {
        assert!(read(&pieces) == whole, "other lines when cut into {} pieces", pieces.len());
    }
    for line in &whole {
        match line {
            Line::Whole(bytes) => assert!(bytes.len() <= MAX_LINE && !bytes.contains(&b'\n')),
            Line::TooLong { bytes, .. } => assert!(*bytes > MAX_LINE as u64),
        }
    }
}

fn read(pieces: &[&[u8]]) -> Vec<Line> {
    let mut reader = LineReader::new(MAX_LINE);
    let mut lines = vec![];
    for piece in pieces {
        let mut rest = *piece;
        while !rest.is_empty() {
            let mut space = reader.space();
            let (now, later) = rest.split_at(rest.len().min(space.remaining_mut()));
            space.put_slice(now);
            drop(space);
            rest = later;
            lines.extend(std::iter::from_fn(|| reader.next_line()));
        }
    }
    lines.extend(reader.finish());
    lines
}
