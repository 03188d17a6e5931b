//! A server's standard error: always drained, its last lines kept, every line passed on if wanted.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use super::terminal::Hint;
use super::text::escape;
use super::{Stderr, pass};
use crate::mask::Mask;

/// Of a longer line the beginning is kept.
const LINE_LIMIT: usize = 4 * 1024;
/// So many lines are kept,
const TAIL_LINES: usize = 100;
/// and so many bytes.
const TAIL_BYTES: usize = 64 * 1024;

/// Takes what the server writes.
pub(super) struct Drain {
    tail: Arc<Tail>,
    name: String,
    stderr: Stderr,
    mask: Mask,
    terminal: Hint,
}

/// The last lines.
#[derive(Default)]
pub(super) struct Tail(Mutex<Lines>);

impl Drain {
    pub(super) fn new(name: String, stderr: Stderr, mask: Mask) -> Drain {
        Drain { tail: Arc::default(), name, stderr, mask, terminal: Hint::new() }
    }

    pub(super) fn tail(&self) -> Arc<Tail> {
        self.tail.clone()
    }

    /// Whether nobody reads along who would wait.
    pub(super) fn only_keeps(&self) -> bool {
        matches!(self.stderr, Stderr::Latest(_))
    }

    /// What is to be fed of something that was read: not the lines that the rest of it would drive out of the tail, where nobody
    /// wants them.
    pub(super) fn wanted<'a>(&self, read: &'a [u8]) -> &'a [u8] {
        if let Stderr::Pass | Stderr::Call(_) = self.stderr {
            return read;
        }
        match memchr::memrchr_iter(b'\n', read).nth(TAIL_LINES) {
            None => read,
            Some(end) => {
                self.tail.0.lock().unwrap_or_else(PoisonError::into_inner).unfinished.clear();
                &read[end + 1..]
            }
        }
    }

    /// Takes the next piece, wherever it was cut.
    pub(super) fn feed(&self, piece: &[u8]) {
        let look = |line: &Line| self.terminal.look(&self.name, &line.bytes);
        let mut lines = self.tail.0.lock().unwrap_or_else(PoisonError::into_inner);
        match &self.stderr {
            Stderr::Keep => lines.feed(piece, look),
            Stderr::Pass => lines.feed(piece, |line| {
                pass::on(&self.name, &self.mask.apply(&line.text()));
                look(line);
            }),
            Stderr::Call(function) | Stderr::Latest(function) => {
                let mut texts = vec![];
                lines.feed(piece, |line| {
                    texts.push(self.mask.apply(&line.text()));
                    look(line);
                });
                drop(lines); // The function may ask for the tail.
                texts.iter().for_each(|text| function(text));
            }
        }
    }

    /// The server writes no more: an unfinished line is passed on as it is.
    pub(super) fn finish(&self) {
        let is_within_line =
            !self.tail.0.lock().unwrap_or_else(PoisonError::into_inner).unfinished.is_empty();
        if is_within_line {
            self.feed(b"\n");
        }
    }
}

impl Tail {
    /// The kept lines, escaped; the last may be unfinished.
    pub(super) fn texts(&self) -> Vec<String> {
        let lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let unfinished = (!lines.unfinished.is_empty()).then_some(&lines.unfinished);
        lines.finished.iter().chain(unfinished).map(Line::text).collect()
    }
}

#[derive(Default)]
struct Lines {
    finished: VecDeque<Line>,
    /// In all finished lines.
    bytes: usize,
    unfinished: Line,
}

impl Lines {
    fn feed(&mut self, piece: &[u8], mut each: impl FnMut(&Line)) {
        let mut rest = piece;
        while let Some(end) = memchr::memchr(b'\n', rest) {
            self.unfinished.push(&rest[..end]);
            each(&self.unfinished);
            self.finish_line();
            rest = &rest[end + 1..];
        }
        self.unfinished.push(rest);
    }

    fn finish_line(&mut self) {
        // The room of a forgotten line serves the next one: a flood allocates nothing.
        let mut room = Line::default();
        self.bytes += self.unfinished.bytes.len();
        while self.finished.len() >= TAIL_LINES || self.bytes > TAIL_BYTES {
            let Some(oldest) = self.finished.pop_front() else { break };
            self.bytes -= oldest.bytes.len();
            room = oldest;
        }
        room.clear();
        self.finished.push_back(std::mem::replace(&mut self.unfinished, room));
    }
}

/// One line, as it was written.
#[derive(Default)]
struct Line {
    bytes: Vec<u8>,
    is_cut: bool,
}

impl Line {
    fn push(&mut self, bytes: &[u8]) {
        let room = LINE_LIMIT - self.bytes.len();
        self.is_cut |= bytes.len() > room;
        self.bytes.extend_from_slice(&bytes[..bytes.len().min(room)]);
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.is_cut = false;
    }

    fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    fn text(&self) -> String {
        let bytes = self.bytes.strip_suffix(b"\r").unwrap_or(&self.bytes);
        let mut text = escape(bytes);
        if self.is_cut {
            text.push_str(" ... (cut)");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drain() -> Drain {
        Drain::new("test".into(), Stderr::Keep, Mask::default())
    }

    type Told = Arc<Mutex<Vec<String>>>;

    fn tell(told: &Told) -> Arc<dyn Fn(&str) + Send + Sync> {
        let told = told.clone();
        Arc::new(move |line| told.lock().unwrap().push(line.to_owned()))
    }

    #[test]
    fn lines_are_put_together_from_pieces_and_the_last_may_be_unfinished() {
        let drain = drain();
        for piece in ["one\ntw", "o\r\n", "\nth", "ree"] {
            drain.feed(piece.as_bytes());
        }
        assert_eq!(drain.tail().texts(), ["one", "two", "", "three"]);
    }

    #[test]
    fn only_the_last_hundred_lines_are_kept() {
        let drain = drain();
        for number in 0..1000 {
            drain.feed(format!("{number}\n").as_bytes());
        }
        let texts = drain.tail().texts();
        assert_eq!((texts.len(), texts[0].as_str(), texts[99].as_str()), (100, "900", "999"));
    }

    #[test]
    fn it_does_not_matter_in_which_pieces_a_flood_comes() {
        let flood: String = (0..5000).map(|number| format!("line {number}\n")).collect();
        let flood = flood + "unfin";
        for size in [1, 7, 100, 1000, 10_000, flood.len()] {
            let drain = drain();
            flood.as_bytes().chunks(size).for_each(|read| drain.feed(drain.wanted(read)));
            let texts = drain.tail().texts();
            let ends = (texts.len(), texts[0].as_str(), texts[99].as_str(), texts[100].as_str());
            assert_eq!(ends, (101, "line 4900", "line 4999", "unfin"), "in pieces of {size}");
        }
    }

    #[test]
    fn a_megabyte_without_a_newline_is_cut_and_forgets_nothing_else() {
        let drain = drain();
        drain.feed(b"before\n");
        for _ in 0..16 {
            drain.feed(&[b'x'; 64 * 1024]);
        }
        drain.feed(b"\nafter\n");
        let texts = drain.tail().texts();
        assert_eq!((texts[0].as_str(), texts[2].as_str()), ("before", "after"));
        assert_eq!(texts[1].len(), LINE_LIMIT + " ... (cut)".len());
    }

    #[test]
    fn long_lines_do_not_keep_more_than_the_bound() {
        let drain = drain();
        for _ in 0..100 {
            drain.feed(&[b'x'; LINE_LIMIT]);
            drain.feed(b"\n");
        }
        let kept: usize = drain.tail().texts().iter().map(String::len).sum();
        assert_eq!(kept, TAIL_BYTES);
    }

    #[test]
    fn who_keeps_the_last_lines_is_not_told_those_that_a_flood_drives_out() {
        let heard = Told::default();
        let drain = Drain::new("test".into(), Stderr::Latest(tell(&heard)), Mask::default());
        drain.feed(drain.wanted(b"before\nunfin"));
        let flood: String = (0..5000).map(|number| format!("line {number}\n")).collect();
        drain.feed(drain.wanted(flood.as_bytes()));
        let heard = heard.lock().unwrap();
        assert_eq!((heard.len(), heard[0].as_str(), heard[1].as_str()), (101, "before", "line 4900"));
        assert_eq!(drain.tail().texts(), heard[1..]);
    }

    #[test]
    fn every_line_is_handed_on_once_even_one_that_was_never_finished() {
        let heard = Told::default();
        let drain = Drain::new("test".into(), Stderr::Call(tell(&heard)), Mask::default());
        drain.feed(b"one\ntwo\x1b\nthr");
        drain.feed(b"ee");
        drain.finish();
        drain.finish();
        assert_eq!(*heard.lock().unwrap(), ["one", "two\\u{1b}", "three"]);
        assert_eq!(drain.tail().texts().len(), 3);
    }
}
