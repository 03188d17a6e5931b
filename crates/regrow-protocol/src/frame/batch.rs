//! Batches: an array of messages in one line, and an array of answers back.

use bytes::Bytes;

use super::span::Span;
use super::{Frame, Invalid, Kind, ParseError, build, scan};

/// A batch of more messages than this is refused.
pub const MAX_BATCH: usize = 10_000;

/// The messages of a batch, as slices of it; a frame that is no batch is the only one of its own.
pub fn split_batch(batch: &Frame) -> Vec<Result<Frame, ParseError>> {
    if batch.kind() != Kind::Batch {
        return vec![Ok(batch.clone())];
    }
    let mut frames = vec![];
    let found = |element: Span| {
        frames.push(match Frame::parse(batch.bytes.slice(element.range())) {
            Ok(nested) if nested.kind() == Kind::Batch => {
                Err(ParseError::NotRpc { id: None, why: Invalid::NestedBatch })
            }
            other => other,
        });
    };
    match scan::elements(&batch.bytes, found) {
        Ok(()) => frames,
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

#[cfg(test)]
mod tests {
    use super::super::notification;
    use super::*;

    fn batch(text: String) -> Result<Frame, ParseError> {
        Frame::parse(text.into())
    }

    fn refused(why: Invalid) -> ParseError {
        ParseError::NotRpc { id: None, why }
    }

    #[test]
    fn a_batch_is_split_into_slices_of_itself() {
        let batch = batch(r#"[ {"id":1,"method":"a"} , 5,{"method":"b"},[{"method":"c"}] ]"#.into()).unwrap();
        let parts = split_batch(&batch);
        let first = parts[0].as_ref().unwrap();
        assert_eq!(first.bytes(), r#"{"id":1,"method":"a"}"#);
        assert_eq!(first.bytes().as_ptr(), batch.bytes()[2..].as_ptr());
        assert_eq!(parts[1].as_ref().unwrap_err(), &refused(Invalid::NotAnObject));
        assert_eq!(parts[2].as_ref().unwrap().method(), Some("b"));
        assert_eq!(parts[3].as_ref().unwrap_err(), &refused(Invalid::NestedBatch));
        assert_eq!(parts.len(), 4);
    }

    #[test]
    fn a_batch_holds_one_message_at_least_and_ten_thousand_at_most() {
        let of = |count: usize| batch(format!("[{}]", vec![r#"{"method":"a"}"#; count].join(",")));
        assert_eq!(of(0).unwrap_err(), refused(Invalid::EmptyBatch));
        assert_eq!(split_batch(&of(MAX_BATCH).unwrap()).len(), MAX_BATCH);
        assert_eq!(of(MAX_BATCH + 1).unwrap_err(), refused(Invalid::LongBatch));
    }

    #[test]
    fn answers_are_joined_into_one_line() {
        let answers = [notification("a", None), Bytes::from_static(b"{}\r\n")];
        assert_eq!(join_batch(answers).unwrap(), "[{\"jsonrpc\":\"2.0\",\"method\":\"a\"},{}]\n");
        assert_eq!(join_batch([]), None);
    }
}
