//! A server's standard error: always drained, its first and last lines kept, every line passed on if wanted.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use regrow_protocol::text::escape_except_tabs;

use super::terminal::Hint;
use super::{Stderr, pass};
use crate::excerpt::{Excerpt, Said};
use crate::mask::{CUT, Mask};

/// Of a longer line the beginning is kept.
const LINE_LIMIT: usize = 4 * 1024;
/// The first lines are kept, as many as these,
const HEAD_LINES: usize = 20;
/// and as many bytes;
const HEAD_BYTES: usize = 16 * 1024;
/// and of the rest the last lines,
const TAIL_LINES: usize = 100;
/// and so many bytes.
const TAIL_BYTES: usize = 64 * 1024;

/// Takes what the server writes.
pub(super) struct Drain {
    tail: Arc<Tail>,
    name: String,
    stderr: Stderr,
    terminal: Hint,
}

/// The first and the last lines.
pub(super) struct Tail {
    lines: Mutex<Lines>,
    mask: Mask,
}

impl Drain {
    pub(super) fn new(name: String, stderr: Stderr, mask: Mask) -> Drain {
        let tail = Arc::new(Tail { lines: Mutex::default(), mask });
        Drain { tail, name, stderr, terminal: Hint::default() }
    }

    pub(super) fn tail(&self) -> Arc<Tail> {
        self.tail.clone()
    }

    /// What is to be taken of something that was read: not the lines that the rest of it would drive out of the tail, where
    /// nobody wants them.
    pub(super) fn wanted<'a>(&self, read: &'a [u8]) -> Wanted<'a> {
        let all = Wanted { first: read, left_out: 0, last: &[] };
        if let Stderr::Pass | Stderr::Call(_) = self.stderr {
            return all;
        }
        let head_room = self.tail.lines().head_room();
        let mut ends = memchr::memchr_iter(b'\n', read);
        let head = match head_room {
            0 => 0,
            lines => ends.nth(lines - 1).map_or(read.len(), |end| end + 1),
        };
        let (first, rest) = read.split_at(head);
        match memchr::memrchr_iter(b'\n', rest).nth(TAIL_LINES) {
            None => all,
            Some(end) => {
                let (skipped, last) = rest.split_at(end + 1);
                let left_out = memchr::memchr_iter(b'\n', skipped).count() as u64;
                Wanted { first, left_out, last }
            }
        }
    }

    /// Takes all that is wanted of this at once.
    pub(super) fn take(&self, read: &[u8]) {
        let Wanted { first, left_out, last } = self.wanted(read);
        self.feed(first);
        self.leave_out(left_out);
        self.feed(last);
    }

    /// This many lines are skipped, and with them what was read of the first one.
    pub(super) fn leave_out(&self, lines: u64) {
        if lines == 0 {
            return;
        }
        {
            let mut kept = self.tail.lines();
            kept.unfinished.clear();
            kept.left_out = kept.left_out.saturating_add(lines);
        }
        if let Stderr::Latest(function) = &self.stderr {
            function(Said::LeftOut(lines));
        }
    }

    /// Takes the next piece, wherever it was cut.
    pub(super) fn feed(&self, piece: &[u8]) {
        let look = |line: &Line| self.terminal.look(&self.name, &line.bytes);
        let mut lines = self.tail.lines();
        match &self.stderr {
            Stderr::Keep => lines.feed(piece, look),
            Stderr::Pass => lines.feed(piece, |line| {
                pass::on(&self.name, &line.text(&self.tail.mask));
                look(line);
            }),
            Stderr::Call(_) | Stderr::Latest(_) => {
                let mut texts = vec![];
                lines.feed(piece, |line| {
                    texts.push(line.text(&self.tail.mask));
                    look(line);
                });
                drop(lines); // The function may ask for the tail.
                texts.iter().for_each(|text| match &self.stderr {
                    Stderr::Call(function) => function(text),
                    Stderr::Latest(function) => function(Said::Line(text)),
                    Stderr::Keep | Stderr::Pass => {}
                });
            }
        }
    }

    /// The server writes no more: an unfinished line is passed on as it is.
    pub(super) fn finish(&self) {
        let is_within_line = {
            let unfinished = &mut self.tail.lines().unfinished;
            unfinished.is_unfinished = !unfinished.is_empty();
            unfinished.is_unfinished
        };
        if is_within_line {
            self.feed(b"\n");
        }
    }
}

/// The parts of something that was read.
pub(super) struct Wanted<'a> {
    pub(super) first: &'a [u8],
    /// How many lines are skipped between them.
    pub(super) left_out: u64,
    pub(super) last: &'a [u8],
}

impl Tail {
    fn lines(&self) -> MutexGuard<'_, Lines> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The kept lines, escaped and masked; the last may be unfinished.
    pub(super) fn excerpt(&self) -> Excerpt {
        let lines = self.lines();
        let mut excerpt = Excerpt::new(lines.head.len(), TAIL_LINES + 1);
        lines.head.iter().for_each(|line| excerpt.push(line.text(&self.mask)));
        excerpt.leave_out(lines.left_out);
        lines.finished.iter().for_each(|line| excerpt.push(line.text(&self.mask)));
        if !lines.unfinished.is_empty() {
            let Line { bytes, is_cut, .. } = &lines.unfinished;
            let line = Line { bytes: bytes.clone(), is_cut: *is_cut, is_unfinished: true };
            excerpt.push(line.text(&self.mask));
        }
        excerpt
    }
}

#[derive(Default)]
struct Lines {
    head: Vec<Line>,
    /// In all lines of the head.
    head_bytes: usize,
    /// How many lines between the head and the tail are forgotten.
    left_out: u64,
    /// The tail.
    finished: VecDeque<Line>,
    /// In all lines of the tail.
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

    /// How many more lines the head takes at most.
    fn head_room(&self) -> usize {
        let is_open = self.finished.is_empty() && self.left_out == 0 && self.head_bytes < HEAD_BYTES;
        if is_open { HEAD_LINES - self.head.len() } else { 0 }
    }

    fn finish_line(&mut self) {
        if self.head_room() > 0 {
            self.head_bytes += self.unfinished.bytes.len();
            return self.head.push(std::mem::take(&mut self.unfinished));
        }
        // The room of a forgotten line serves the next one: a flood allocates nothing.
        let mut room = Line::default();
        self.bytes += self.unfinished.bytes.len();
        while self.finished.len() >= TAIL_LINES || self.bytes > TAIL_BYTES {
            let Some(oldest) = self.finished.pop_front() else { break };
            self.bytes -= oldest.bytes.len();
            self.left_out = self.left_out.saturating_add(1);
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
    /// The server has not written its end.
    is_unfinished: bool,
}

impl Line {
    fn push(&mut self, bytes: &[u8]) {
        let room = LINE_LIMIT - self.bytes.len();
        self.is_cut |= bytes.len() > room;
        self.bytes.extend_from_slice(&bytes[..bytes.len().min(room)]);
    }

    fn clear(&mut self) {
        self.bytes.clear();
        (self.is_cut, self.is_unfinished) = (false, false);
    }

    fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Escaped, and without secrets.
    fn text(&self, mask: &Mask) -> String {
        let bytes = self.bytes.strip_suffix(b"\r").unwrap_or(&self.bytes);
        let text = escape_except_tabs(&String::from_utf8_lossy(bytes));
        match (self.is_cut, self.is_unfinished) {
            (true, _) => mask.apply(&(text + CUT)),
            (false, true) => mask.apply_to_beginning(&text),
            (false, false) => mask.apply(&text),
        }
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

    fn texts(drain: &Drain) -> Vec<String> {
        drain.tail().excerpt().lines()
    }

    #[test]
    fn lines_are_put_together_from_pieces_and_the_last_may_be_unfinished() {
        let drain = drain();
        for piece in ["one\ntw", "o\r\n", "\nth", "ree"] {
            drain.feed(piece.as_bytes());
        }
        assert_eq!(texts(&drain), ["one", "two", "", "three"]);
    }

    #[test]
    fn the_first_twenty_and_the_last_hundred_lines_are_kept() {
        let drain = drain();
        for number in 0..1000 {
            drain.feed(format!("{number}\n").as_bytes());
        }
        let texts = texts(&drain);
        assert_eq!((texts.len(), texts[0].as_str(), texts[19].as_str()), (121, "0", "19"));
        assert_eq!(texts[20], "... (880 lines left out)");
        assert_eq!((texts[21].as_str(), texts[120].as_str()), ("900", "999"));
    }

    #[test]
    fn it_does_not_matter_in_which_pieces_a_flood_comes() {
        let flood: String = (0..5000).map(|number| format!("line {number}\n")).collect();
        let flood = flood + "unfin";
        for size in [1, 7, 100, 1000, 10_000, flood.len()] {
            let drain = drain();
            flood.as_bytes().chunks(size).for_each(|read| drain.take(read));
            let texts = texts(&drain);
            let starts = (texts[0].as_str(), texts[19].as_str(), texts[20].as_str());
            assert_eq!(starts, ("line 0", "line 19", "... (4880 lines left out)"), "in pieces of {size}");
            let ends = (texts.len(), texts[21].as_str(), texts[120].as_str(), texts[121].as_str());
            assert_eq!(ends, (122, "line 4900", "line 4999", "unfin"), "in pieces of {size}");
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
        let texts = texts(&drain);
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
        let kept: usize = texts(&drain).iter().filter(|line| line.starts_with('x')).map(String::len).sum();
        assert_eq!(kept, HEAD_BYTES + TAIL_BYTES);
    }

    #[test]
    fn who_keeps_an_excerpt_is_told_how_many_lines_a_flood_has_driven_out() {
        let heard = Arc::new(Mutex::new(Excerpt::new(HEAD_LINES, TAIL_LINES + 1)));
        let hears = heard.clone();
        let hear: Arc<dyn Fn(Said<'_>) + Send + Sync> =
            Arc::new(move |said| hears.lock().unwrap().take(said));
        let drain = Drain::new("test".into(), Stderr::Latest(hear), Mask::default());
        drain.take(b"before\nunfin");
        let flood: String = (0..5000).map(|number| format!("line {number}\n")).collect();
        drain.take(flood.as_bytes());
        let heard = heard.lock().unwrap().lines();
        assert_eq!((heard[0].as_str(), heard[1].as_str()), ("before", "unfinline 0"));
        assert_eq!(heard[20], "... (4881 lines left out)");
        assert_eq!((heard[21].as_str(), heard.last().unwrap().as_str()), ("line 4900", "line 4999"));
        assert_eq!(texts(&drain), heard);
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
        assert_eq!(texts(&drain).len(), 3);
    }

    #[test]
    fn a_secret_is_never_seen_however_it_is_encoded_and_split_into_lines_and_pieces() {
        use base64::Engine;
        use base64::engine::general_purpose::STANDARD;
        let letters: Vec<char> = "abcXYZ019+/=-_ \"\\%&öß日🌱\u{7f}".chars().collect();
        let in_url = |text: &String| -> String {
            let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._~".contains(byte);
            text.bytes()
                .map(|b| if is_plain(&b) { char::from(b).into() } else { format!("%{b:02X}") })
                .collect()
        };
        for seed in 0..100 {
            let mut random = fastrand::Rng::with_seed(seed);
            let secret: Vec<String> = (0..random.usize(1..6))
                .map(|_| (0..random.usize(6..90)).map(|_| letters[random.usize(..letters.len())]).collect())
                .map(|line: String| format!("{seed:06}{}", line.trim()))
                .collect();
            let value = secret.join(if random.bool() { "\n" } else { "\r\n" });
            let written = match seed % 5 {
                0 => value.clone(),
                1 => serde_json::to_string(&value).unwrap(),
                2 => secret.iter().map(in_url).collect::<Vec<_>>().join("%0A"),
                3 => STANDARD.encode(format!("user:{value}")),
                _ => {
                    let encoded = STANDARD.encode(&value);
                    let lines = encoded.as_bytes().chunks(76).map(String::from_utf8_lossy);
                    lines.collect::<Vec<_>>().join("\n")
                }
            };
            let mut bytes = format!("before {written}").into_bytes();
            if random.bool() {
                bytes.truncate(random.usize(1..=bytes.len())); // The server dies while it writes.
            }
            let heard = Told::default();
            let drain = Drain::new("test".into(), Stderr::Call(tell(&heard)), Mask::new([value]));
            let mut seen = vec![];
            while !bytes.is_empty() {
                let piece: Vec<u8> = bytes.drain(..random.usize(1..=bytes.len())).collect();
                drain.feed(&piece);
                seen.extend(texts(&drain));
            }
            drain.finish();
            seen.extend(texts(&drain));
            seen.extend(heard.lock().unwrap().clone());
            let seen = seen.join("\n");
            // Everything that was written is secret, and twelve characters are more than may be left over at an end.
            for line in written.lines().map(escape_except_tabs) {
                let line: Vec<char> = line.chars().collect();
                for part in line.windows(12).map(|part| part.iter().collect::<String>()) {
                    assert!(!seen.contains(&part), "seed {seed}: {part:?} in {seen}");
                }
            }
        }
    }
}
