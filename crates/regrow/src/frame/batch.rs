//! Batches: an array of messages in one line, and an array of answers back.

use bytes::Bytes;
use serde_json::value::RawValue;

use super::{Frame, Invalid, Kind, ParseError, build};

/// A batch of more messages than this is refused.
pub const MAX_BATCH: usize = 10_000;

/// The messages of a batch, as slices of it; a frame that is no batch is the only one of its own.
pub fn split_batch(batch: &Frame) -> Vec<Result<Frame, ParseError>> {
    if batch.kind() != Kind::Batch {
        return vec![Ok(batch.clone())];
    }
    match serde_json::from_slice::<Vec<&RawValue>>(&batch.bytes) {
        Ok(elements) => elements
            .into_iter()
            .map(|element| match Frame::parse(batch.bytes.slice_ref(element.get().as_bytes()))? {
                nested if nested.kind() == Kind::Batch => {
                    Err(ParseError::NotRpc { id: None, why: Invalid::NestedBatch })
                }
                frame => Ok(frame),
            })
            .collect(),
        Err(error) => vec![Err(error.into())],
    }
}

/// The answers to a batch as one line; none if there is no answer, since an empty array must not be sent.
pub fn join_batch(answers: impl IntoIterator<Item = Bytes>) -> Option<Bytes> {
    let mut line = Vec::new();
    for answer in answers {
        line.push(if line.is_empty() { b'[' } else { b',' });
        line.extend_from_slice(answer.trim_ascii_end());
    }
    if line.is_empty() {
        return None;
    }
    line.push(b']');
    Some(build::line(line))
}
