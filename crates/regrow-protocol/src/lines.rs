//! Messages framed by newlines, read with a cap on their length.

use std::fmt;

use bytes::{Buf as _, BufMut, Bytes, BytesMut};

use crate::frame::{Salvage, Salvaged};

/// Cuts a stream into lines. It does no I/O of its own: bytes are written into [`space`](LineReader::space).
///
/// Memory is bounded by the cap, and small while nothing long is being read.
pub struct LineReader {
    max_line: usize,
    buffer: BytesMut,
    /// This many bytes at the start of the buffer hold no newline.
    scanned: usize,
    /// How long the last long line was: the next one is likely to be as long. Without that, a buffer would have up to twice the size, and all of it
    /// would be copied on the way there.
    expected: usize,
    /// The line at the start of the buffer began before it, and is over the cap.
    discarding: Option<Discarded>,
}

/// One line, without its end (`\n` or `\r\n`).
#[derive(Clone, PartialEq, Eq)]
pub enum Line {
    /// A line within the cap.
    ///
    /// A short one has memory of its own. One over 16 KiB is a slice of the buffer that it was read into, and keeps that alive: up to about twice its length.
    Whole(Bytes),
    /// A line over the cap, of which only this is known.
    TooLong {
        /// How long it was, without its newline.
        bytes: u64,
        /// Whom to tell.
        salvage: Salvaged,
    },
}

impl Line {
    /// How long it was.
    pub fn bytes(&self) -> u64 {
        match self {
            Line::Whole(line) => line.len() as u64,
            Line::TooLong { bytes, .. } => *bytes,
        }
    }
}

#[derive(Default)]
struct Discarded {
    bytes: u64,
    salvage: Salvage,
}

/// The buffer starts with this much, and returns to it.
const SMALL: usize = 8 * 1024;
/// After a line longer than this the buffer is given back.
const LARGE: usize = 16 * 1024;
/// At most so much is read at once, so that at most so much is moved when a long line is done.
const CHUNK: usize = 64 * 1024;

impl LineReader {
    /// Lines of at most `max_line` bytes, not counting the line end.
    pub fn new(max_line: usize) -> LineReader {
        LineReader { max_line, buffer: BytesMut::new(), scanned: 0, expected: 0, discarding: None }
    }

    /// The next line, once its end has been read. Blank lines are skipped.
    pub fn next_line(&mut self) -> Option<Line> {
        while let Some(end) = self.find_newline() {
            let line = self.take_line(end);
            self.scanned = 0;
            if let Some(line) = self.complete(line) {
                return Some(line);
            }
        }
        self.discard_if_too_long();
        None
    }

    /// Whether the end of another line has been read already.
    pub fn has_line(&mut self) -> bool {
        self.find_newline().is_some()
    }

    /// Room to read into. Call [`next_line`](LineReader::next_line) until it has no more before reading again.
    pub fn space(&mut self) -> impl BufMut + '_ {
        if self.room() < SMALL / 4 {
            // Doubles while a line grows; faster as long as the last long one was longer.
            let length = self.buffer.len();
            let expected = (self.expected + self.expected / 8).saturating_sub(length);
            self.buffer.reserve(expected.min(15 * length).max(length).max(SMALL));
        }
        let room = self.room();
        (&mut self.buffer).limit(room.min(CHUNK))
    }

    /// At the end of the stream: the last line, which has no newline. It may well be cut off.
    pub fn finish(&mut self) -> Option<Line> {
        self.scanned = 0;
        let rest = self.buffer.split().freeze();
        self.complete(rest)
    }

    fn room(&self) -> usize {
        self.buffer.capacity() - self.buffer.len()
    }

    fn find_newline(&mut self) -> Option<usize> {
        let found = memchr::memchr(b'\n', &self.buffer[self.scanned..]).map(|at| self.scanned + at);
        self.scanned = found.unwrap_or(self.buffer.len());
        found
    }

    /// Takes a line and its newline out of the buffer.
    fn take_line(&mut self, end: usize) -> Bytes {
        let is_loose = self.buffer.capacity() > 2 * end.max(LARGE); // It is shorter than was expected.
        let mut line = if is_loose || end <= LARGE {
            let line = Bytes::copy_from_slice(&self.buffer[..end]);
            self.buffer.advance(end + 1);
            line
        } else {
            self.buffer.split_to(end + 1).freeze()
        };
        line.truncate(end);
        if is_loose || end > LARGE {
            self.expected = end;
            self.shrink();
        }
        line
    }

    /// Makes a line of all that was read of one; none if it is blank.
    fn complete(&mut self, mut line: Bytes) -> Option<Line> {
        if let Some(mut discarded) = self.discarding.take() {
            discarded.push(&line);
            return Some(discarded.into_line());
        }
        let end = line.strip_suffix(b"\r").unwrap_or(&line).len();
        if end > self.max_line {
            let mut discarded = Discarded::default();
            discarded.push(&line);
            return Some(discarded.into_line());
        }
        line.truncate(end);
        (!line.trim_ascii_start().is_empty()).then_some(Line::Whole(line))
    }

    /// Stops storing a line that is over the cap. One byte more than the cap may still be a carriage return.
    fn discard_if_too_long(&mut self) {
        if self.discarding.is_none() && self.buffer.len() <= self.max_line.saturating_add(1) {
            return;
        }
        self.discarding.get_or_insert_default().push(&self.buffer);
        self.buffer.clear();
        self.scanned = 0;
        if self.buffer.capacity() > LARGE {
            self.shrink();
        }
    }

    /// Moves what is left to a small buffer, so that the large one goes when its line does.
    fn shrink(&mut self) {
        let mut small = BytesMut::with_capacity(self.buffer.len().max(SMALL));
        small.extend_from_slice(&self.buffer);
        self.buffer = small;
    }
}

/// Says how much is there, and not what: that may be a secret.
impl fmt::Debug for LineReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = self.buffer.len();
        f.debug_struct("LineReader").field("max_line", &self.max_line).field("bytes", &bytes).finish()
    }
}

/// Says how long a line is, and not what is in it.
impl fmt::Debug for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Line::Whole(line) => write!(f, "Whole({} bytes)", line.len()),
            Line::TooLong { bytes, salvage } => write!(f, "TooLong({bytes} bytes, {salvage:?})"),
        }
    }
}

impl Discarded {
    fn push(&mut self, chunk: &[u8]) {
        self.bytes += chunk.len() as u64;
        self.salvage.push(chunk);
    }

    fn into_line(self) -> Line {
        Line::TooLong { bytes: self.bytes, salvage: self.salvage.finish() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::RawId;
    use crate::frame::random::Random;

    /// Reads `bytes` in pieces of at most `chunk`.
    fn lines(reader: &mut LineReader, bytes: &[u8], chunk: usize) -> Vec<Line> {
        let mut lines = vec![];
        let mut rest = bytes;
        while !rest.is_empty() {
            let mut space = reader.space();
            let (now, later) = rest.split_at(rest.len().min(chunk).min(space.remaining_mut()));
            space.put_slice(now);
            drop(space);
            rest = later;
            lines.extend(std::iter::from_fn(|| reader.next_line()));
        }
        lines
    }

    fn whole(text: &'static str) -> Line {
        Line::Whole(text.into())
    }

    fn too_long(bytes: u64, id: u64) -> Line {
        let salvage = Salvaged { id: Some(RawId::from(id)), ..Salvaged::default() };
        Line::TooLong { bytes, salvage }
    }

    #[test]
    fn lines_come_without_their_ends_and_blank_ones_not_at_all() {
        let mut reader = LineReader::new(100);
        let read = lines(&mut reader, b"\na\r\n\r\n \n b c\n\n\nd", 3);
        assert_eq!(read, [whole("a"), whole(" b c")]);
        assert_eq!(reader.finish(), Some(whole("d")));
        assert_eq!(reader.finish(), None);
    }

    #[test]
    fn the_cap_does_not_count_the_line_end() {
        for chunk in 1..12 {
            let mut reader = LineReader::new(8);
            let read = lines(
                &mut reader,
                b"{\"id\":1}\n{\"id\":2}\r\n{\"id\":3 }\n{\"id\":4 }\r\n{\"id\":5}\r",
                chunk,
            );
            let expected = [whole(r#"{"id":1}"#), whole(r#"{"id":2}"#), too_long(9, 3), too_long(10, 4)];
            assert_eq!(read, expected, "chunks of {chunk}");
            assert_eq!(reader.finish(), Some(whole(r#"{"id":5}"#)), "chunks of {chunk}");
        }
    }

    #[test]
    fn it_does_not_matter_how_a_stream_is_cut() {
        for seed in 0..500 {
            let random = &mut Random::new(seed);
            let mut stream = String::new();
            for _ in 0..random.below(20) {
                let id = random.below(100).to_string();
                let long = format!("\"{}\"", "x".repeat(random.below(300)));
                stream += &random.object(&[("id", id), ("text", long)]);
                stream += random.pick(&["\n", "\r\n", "\n\n"]);
            }
            stream += random.pick(&["", "{\"id\":5", "\r"]);

            let mut at_once = LineReader::new(200);
            let expected = (lines(&mut at_once, stream.as_bytes(), usize::MAX), at_once.finish());
            let mut in_pieces = LineReader::new(200);
            let chunk = 1 + random.below(50);
            let read = (lines(&mut in_pieces, stream.as_bytes(), chunk), in_pieces.finish());
            assert_eq!(read, expected, "seed {seed}");
        }
    }

    #[test]
    fn a_line_far_over_the_cap_takes_no_more_memory_than_the_cap() {
        let cap = 1 << 20;
        let chunk = vec![b'x'; CHUNK];
        let mut reader = LineReader::new(cap);
        assert_eq!(lines(&mut reader, b"{\"result\":\"", CHUNK), []);
        for _ in 0..800 {
            assert_eq!(lines(&mut reader, &chunk, CHUNK), []);
            assert!(reader.buffer.capacity() <= 2 * cap + CHUNK);
            assert!(reader.discarding.is_none() || reader.buffer.capacity() <= LARGE);
        }
        let read = lines(&mut reader, b"\",\"id\":9}\n{}\n", CHUNK);
        let bytes = (r#"{"result":"","id":9}"#.len() + 800 * CHUNK) as u64;
        let salvage = Salvaged { id: Some(9.into()), result: true, ..Salvaged::default() };
        assert_eq!(read, [Line::TooLong { bytes, salvage }, whole("{}")]);
    }

    #[test]
    fn an_endless_line_is_told_of_at_the_end() {
        let mut reader = LineReader::new(10);
        assert_eq!(lines(&mut reader, b"{\"id\":4,\"result\":{\"a", 5), []);
        let Some(Line::TooLong { bytes: 20, salvage }) = reader.finish() else { panic!("not too long") };
        assert_eq!((salvage.id, salvage.result), (Some(4.into()), true));
        assert_eq!(lines(&mut reader, b"ok\n", 5), [whole("ok")]);
    }

    #[test]
    fn the_buffer_of_a_long_line_goes_with_the_line() {
        let mut reader = LineReader::new(100 << 20);
        let mut stream = vec![b'x'; 10 << 20];
        stream.extend_from_slice(b"\nshort\n");
        let read = lines(&mut reader, &stream, CHUNK);
        let [Line::Whole(long), Line::Whole(short)] = &read[..] else { panic!("{} lines", read.len()) };
        assert_eq!((long.len(), short.as_ref()), (10 << 20, &b"short"[..]));
        assert!(long.is_unique());
        assert!(reader.buffer.capacity() <= SMALL);
    }

    /// Reads a line of this length, and tells how large its buffer was just before its end came, and the line.
    fn read_line(reader: &mut LineReader, length: usize) -> (usize, Bytes) {
        assert_eq!(lines(reader, &vec![b'x'; length], CHUNK), []);
        let capacity = reader.buffer.capacity();
        let read = lines(reader, b"\n", CHUNK);
        let [Line::Whole(line)] = &read[..] else { panic!("{} lines", read.len()) };
        assert_eq!(line.len(), length);
        (capacity, line.clone())
    }

    #[test]
    fn the_buffer_of_a_line_that_is_as_long_as_the_last_is_little_larger_than_the_line() {
        let mut reader = LineReader::new(100 << 20);
        read_line(&mut reader, 1_100_000);
        for length in [1_100_000, 1_150_000, 1_050_000] {
            let (capacity, _) = read_line(&mut reader, length);
            assert!(capacity < length + length / 4, "{capacity} for {length}");
        }
    }

    #[test]
    fn a_line_far_shorter_than_the_last_does_not_keep_a_large_buffer() {
        let mut reader = LineReader::new(100 << 20);
        for length in [1_000_000, 200_000, 1_000_000, 9_000] {
            let (capacity, line) = read_line(&mut reader, length);
            let copied = capacity > 2 * length.max(LARGE);
            assert!(copied == (length < 1_000_000), "{capacity} for {length}");
            assert!(reader.buffer.capacity() <= SMALL, "after {length}");
            assert!(line.is_unique(), "{length}");
        }
        // And it costs no line more than sixteen times what has come of it.
        read_line(&mut reader, 10 << 20);
        assert_eq!(lines(&mut reader, &[b'x'; 9_000], CHUNK), []);
        assert!(reader.buffer.capacity() <= 16 * 9_000);
    }

    #[test]
    fn short_lines_reuse_one_small_buffer_and_do_not_keep_it() {
        let mut reader = LineReader::new(100 << 20);
        let stream = b"{\"id\":1,\"method\":\"ping\"}\n".repeat(10_000);
        let mut kept = vec![];
        for piece in stream.chunks(100) {
            kept.extend(lines(&mut reader, piece, CHUNK));
            assert!(reader.buffer.capacity() <= SMALL);
        }
        let is_alone = |line: &Line| matches!(line, Line::Whole(line) if line.is_unique());
        assert!(kept.len() == 10_000 && kept.iter().all(is_alone));
    }

    #[test]
    fn no_byte_is_searched_twice() {
        let mut reader = LineReader::new(100);
        assert_eq!(lines(&mut reader, b"one\ntw", 100).len(), 1);
        assert_eq!((reader.scanned, reader.buffer.len()), (2, 2));
        assert_eq!(lines(&mut reader, b"o\nthree\n", 100), [whole("two"), whole("three")]);
        assert_eq!((reader.scanned, reader.buffer.len()), (0, 0));
    }

    #[test]
    fn debug_shows_no_content() {
        let mut reader = LineReader::new(10);
        let read = lines(&mut reader, b"hunter2\nhunter", 100);
        assert_eq!(format!("{read:?} {reader:?}"), "[Whole(7 bytes)] LineReader { max_line: 10, bytes: 6 }");
    }
}
