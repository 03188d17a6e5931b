//! A message in parts, so that a long one gets another id without being copied.

use bytes::{Buf, Bytes};

use super::rewrite::Edit;
use super::span::Span;
use super::{Frame, build};

/// A shorter stretch of a message is copied: that costs less than a part of its own.
const LONG: usize = 16 << 10;

/// A message as it is written: as a line, or where its length tells its end, as in the body of an HTTP request. None of its parts is empty, and a
/// short message is one part.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Parts {
    first: Bytes,
    rest: Vec<Bytes>,
}

impl Frame {
    /// A long message with these values replaced. What lies between them is not copied, and keeps its line breaks. None where all would have to be
    /// copied, or nothing is replaced.
    pub fn parts<const N: usize>(&self, edits: [Edit<'_>; N]) -> Option<Parts> {
        self.spliced_parts(edits, b"")
    }

    /// The same as one line. None where it has line breaks, too.
    pub fn line_parts<const N: usize>(&self, edits: [Edit<'_>; N]) -> Option<Parts> {
        let has_breaks = || memchr::memchr2(b'\n', b'\r', &self.bytes).is_some();
        if self.bytes.len() < LONG || has_breaks() { None } else { self.spliced_parts(edits, b"\n") }
    }

    fn spliced_parts<const N: usize>(&self, edits: [Edit<'_>; N], end: &[u8]) -> Option<Parts> {
        if self.bytes.len() < LONG {
            return None;
        }
        let last = (Span::new(self.bytes.len(), self.bytes.len()), end);
        let (mut parts, mut short, mut done) = (vec![], vec![], 0);
        for (span, new) in self.splices(edits).into_iter().chain([last]) {
            let between = done..span.range().start;
            if between.len() < LONG {
                short.extend_from_slice(&self.bytes[between]);
            } else {
                parts.extend([std::mem::take(&mut short).into(), self.bytes.slice(between)]);
            }
            short.extend_from_slice(new);
            done = span.end();
        }
        parts.push(short.into());
        parts.retain(|part| !part.is_empty());
        (parts.len() > 1).then(|| parts.into_iter().collect())
    }
}

impl Parts {
    /// How many bytes there are in all parts.
    pub fn len(&self) -> usize {
        self.first.len() + self.rest.iter().map(Bytes::len).sum::<usize>()
    }

    /// Whether all parts were taken.
    pub fn is_empty(&self) -> bool {
        self.first.is_empty()
    }

    /// The parts, each as a slice.
    pub fn slices(&self) -> impl Iterator<Item = &[u8]> {
        std::iter::once(&self.first).chain(&self.rest).map(|part| &part[..])
    }

    /// Leaves out this many bytes, which have been written.
    pub fn advance(&mut self, mut written: usize) {
        while written >= self.first.len() && !self.is_empty() {
            written -= self.first.len();
            self.next();
        }
        self.first.advance(written);
    }

    /// The message in one piece and as one line. Only one of several parts is copied.
    pub fn into_line(self) -> Bytes {
        if self.rest.is_empty() {
            return self.first;
        }
        let mut line = Vec::with_capacity(self.len() + 1);
        self.for_each(|part| line.extend_from_slice(&part));
        build::line(line)
    }
}

/// Takes one part after the other.
impl Iterator for Parts {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        let after = if self.rest.is_empty() { Bytes::new() } else { self.rest.remove(0) };
        let next = std::mem::replace(&mut self.first, after);
        (!next.is_empty()).then_some(next)
    }
}

/// A message that is one part.
impl From<Bytes> for Parts {
    fn from(first: Bytes) -> Parts {
        Parts { first, rest: vec![] }
    }
}

impl FromIterator<Bytes> for Parts {
    fn from_iter<I: IntoIterator<Item = Bytes>>(parts: I) -> Parts {
        let mut parts = parts.into_iter();
        Parts { first: parts.next().unwrap_or_default(), rest: parts.collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{RawId, random::Random};
    use super::*;

    fn frame(text: &str) -> Frame {
        Frame::parse(Bytes::copy_from_slice(text.as_bytes())).unwrap()
    }

    /// Compares the parts with the line that the same edits make.
    fn check<const N: usize>(message: &str, edits: [Edit<'_>; N]) -> usize {
        let frame = frame(message);
        let line = frame.with(edits);
        let Some(parts) = frame.parts(edits) else { return 1 };
        let hint = &message[..60];
        let all: Vec<u8> = parts.clone().flatten().collect();
        assert_eq!(parts.len(), all.len());
        assert!(parts.clone().all(|part| !part.is_empty()), "{hint}");
        let without_breaks = String::from_utf8(all).unwrap().replace(['\r', '\n'], " ") + "\n";
        assert!(line == without_breaks, "{hint}");
        let has_breaks = frame.bytes().iter().any(|byte| matches!(byte, b'\r' | b'\n'));
        let of_line = frame.line_parts(edits);
        assert_eq!(of_line.is_none(), has_breaks, "{hint}");
        assert!(of_line.is_none_or(|parts| parts.slices().collect::<Vec<_>>().concat() == line), "{hint}");
        let count = parts.clone().count();
        assert!(parts.into_line() == line, "{hint}");
        count
    }

    #[test]
    fn a_long_message_has_the_same_bytes_in_parts_wherever_its_id_stands() {
        let long = "x".repeat(LONG);
        for (message, count) in [
            (format!(r#"{{"id":1,"method":"a","params":["{long}"]}}"#), 2),
            (format!("{{\n\"method\":\"a\",\r\n\"params\":[\"{long}\"],\"id\":\"old\"}}"), 2),
            (format!(r#"{{"method":"a","params":["{long}"],"id":-1.5e3,"jsonrpc":"{long}"}}"#), 3),
            (format!(r#"{{"error":{{"data":"{long}"}},"id":null}}"#), 2),
            (format!(r#"{{"error":{{"data":"{long}"}}}}"#), 1),
            (format!(r#"{{"method":"{long}"}}"#), 1),
            (format!(r#"{{"jsonrpc":"{0}","id":1,"result":"{0}"}}"#, &long[LONG / 2..]), 1),
            (format!(r#"{{"id":1,"method":"a","params":["{}"]}}"#, &long[100..]), 1),
        ] {
            for id in ["7", r#""a \"new\" one""#, "12345678901234567890"] {
                let id = RawId::parse(id.as_bytes()).unwrap();
                assert_eq!(check(&message, [Edit::Id(&id)]), count, "{}", &message[..60]);
            }
        }
    }

    #[test]
    fn what_has_been_written_of_it_is_left_out() {
        let parts: Parts = ["one", "two", "three"].map(Bytes::from).into_iter().collect();
        for written in 0..=parts.len() {
            let mut rest = parts.clone();
            rest.advance(written);
            assert_eq!(rest.slices().collect::<Vec<_>>().concat(), &b"onetwothree"[written..]);
            assert_eq!((rest.len(), rest.is_empty()), (11 - written, written == 11));
        }
    }

    #[test]
    fn several_values_are_replaced_in_any_order_and_length() {
        for seed in 0..300 {
            let random = &mut Random::new(seed);
            let long = |random: &mut Random| format!("\"{}\"", "y".repeat(random.below(2 * LONG)));
            let meta = [("progressToken", random.pick(&["1", "\"t\""]).to_owned()), ("z", long(random))];
            let params = [("_meta", random.object(&meta)), ("arguments", long(random)), ("q", long(random))];
            let message = [
                ("id", random.pick(&["0", r#""\u00e9\"}""#]).to_owned()),
                ("method", "\"a\"".to_owned()),
                ("params", random.object(&params)),
                ("jsonrpc", long(random)),
            ];
            let (id, token) = (RawId::from(100 + seed), RawId::parse(b"\"new\"").unwrap());
            check(&random.object(&message), [Edit::Id(&id), Edit::MetaProgressToken(&token)]);
        }
    }
}
