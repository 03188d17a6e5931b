//! Messages framed by newlines, read with a cap on their length.

use std::io;

use bytes::{BufMut, Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt};

use crate::frame::{Salvage, Salvaged};

/// Cuts a stream into lines. It does no I/O of its own: bytes are written into [`space`](LineReader::space).
///
/// Memory is bounded by the cap, and small while nothing long is being read.
#[derive(Debug)]
pub struct LineReader {
    max_line: usize,
    buffer: BytesMut,
    /// So many bytes at the start of the buffer hold no newline.
    scanned: usize,
    /// The line at the start of the buffer began before it, and is over the cap.
    discarding: Option<Discarded>,
}

/// One line, without its end (`\n` or `\r\n`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Line {
    /// A line within the cap.
    ///
    /// It is a slice of the buffer that it was read into, and keeps that alive: with a short line up to 64 KiB, with a
    /// longer one up to about twice its length. What is kept for long should be copied
    /// ([`Frame::compact`](crate::frame::Frame::compact)).
    Whole(Bytes),
    /// A line over the cap, of which only this is known.
    TooLong {
        /// How long it was.
        bytes: u64,
        /// Whom to tell.
        salvage: Salvaged,
    },
}

#[derive(Debug, Default)]
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
        LineReader { max_line, buffer: BytesMut::new(), scanned: 0, discarding: None }
    }

    /// The next line, once its end has been read. Blank lines are skipped.
    pub fn next_line(&mut self) -> Option<Line> {
        while let Some(end) = self.find_newline() {
            let line = self.buffer.split_to(end + 1).freeze();
            self.scanned = 0;
            if end > LARGE {
                self.shrink();
            }
            if let Some(line) = self.complete(line.slice(..end)) {
                return Some(line);
            }
        }
        self.discard_if_too_long();
        None
    }

    /// Room to read into. Call [`next_line`](LineReader::next_line) until it has no more before reading again.
    pub fn space(&mut self) -> impl BufMut + '_ {
        if self.room() < SMALL / 4 {
            // Doubles while a line grows.
            self.buffer.reserve(self.buffer.len().max(SMALL));
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

    /// Reads until there is a line; none at the end of the stream, after which there may be one to
    /// [finish](LineReader::finish). Dropping the future loses nothing.
    pub async fn read_line(
        &mut self,
        reader: &mut (impl AsyncRead + Unpin + ?Sized),
    ) -> io::Result<Option<Line>> {
        loop {
            if let Some(line) = self.next_line() {
                return Ok(Some(line));
            }
            if reader.read_buf(&mut self.space()).await? == 0 {
                return Ok(None);
            }
        }
    }

    fn room(&self) -> usize {
        self.buffer.capacity() - self.buffer.len()
    }

    fn find_newline(&mut self) -> Option<usize> {
        let found = memchr::memchr(b'\n', &self.buffer[self.scanned..]).map(|at| self.scanned + at);
        self.scanned = found.unwrap_or(self.buffer.len());
        found
    }

    /// Makes a line of all that was read of one; none if it is blank.
    fn complete(&mut self, rest: Bytes) -> Option<Line> {
        if let Some(mut discarded) = self.discarding.take() {
            discarded.push(&rest);
            return Some(discarded.into_line());
        }
        let line = rest.slice(..rest.strip_suffix(b"\r").unwrap_or(&rest).len());
        if line.len() > self.max_line {
            let mut discarded = Discarded::default();
            discarded.push(&rest);
            return Some(discarded.into_line());
        }
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

impl Discarded {
    fn push(&mut self, chunk: &[u8]) {
        self.bytes += chunk.len() as u64;
        self.salvage.push(chunk);
    }

    fn into_line(self) -> Line {
        Line::TooLong { bytes: self.bytes, salvage: self.salvage.finish() }
    }
}
