//! The last things that happened to a server, and the last that it said on standard error, in the order in which they came.

use std::collections::VecDeque;
use std::time::{SystemTime, UNIX_EPOCH};

use humantime::format_rfc3339_millis;
use regrow::{Excerpt, Said};

/// How many notices are kept, and how many lines of the server, on standard error or as log messages: if it says much, that
/// drives no notice out.
const NOTICES: usize = 200;
const SAID: usize = 100;
/// The lines of standard error that are a part of the status: of the first since the server was started,
const HEAD: usize = 5;
/// and of the last.
const TAIL: usize = 8;
/// Longer lines are cut.
const LONGEST: usize = 300;

#[derive(Debug)]
pub(super) struct Journal {
    notices: VecDeque<JournalEntry>,
    stderr: VecDeque<JournalEntry>,
    /// What the newest process said on standard error.
    said: Excerpt,
    /// A process was started, and has said nothing yet.
    is_new: bool,
    logged: VecDeque<JournalEntry>,
    /// How many there ever were, so that they can be told in one order although clocks may jump.
    entries: u64,
}

#[derive(Debug)]
struct JournalEntry {
    number: u64,
    at: SystemTime,
    text: String,
}

impl Default for Journal {
    fn default() -> Journal {
        Journal {
            notices: VecDeque::new(),
            stderr: VecDeque::new(),
            said: Excerpt::new(HEAD, TAIL),
            is_new: false,
            logged: VecDeque::new(),
            entries: 0,
        }
    }
}

impl Journal {
    /// A process is started. What the last one said is kept until this one says something.
    pub(super) fn started(&mut self) {
        self.is_new = true;
    }

    pub(super) fn notice(&mut self, at: SystemTime, text: &str) {
        let entry = self.entry(at, text);
        push(&mut self.notices, NOTICES, entry);
    }

    pub(super) fn stderr(&mut self, at: SystemTime, said: Said<'_>) {
        if std::mem::take(&mut self.is_new) {
            self.said = Excerpt::new(HEAD, TAIL);
        }
        match said {
            Said::Line(line) => {
                let entry = self.entry(at, line);
                self.said.push(entry.text.clone());
                push(&mut self.stderr, SAID, entry);
            }
            Said::LeftOut(lines) => {
                self.said.leave_out(lines);
                let entry = self.entry(at, &format!("... ({lines} lines left out)"));
                push(&mut self.stderr, SAID, entry);
            }
        }
    }

    pub(super) fn logged(&mut self, at: SystemTime, message: &str) {
        let entry = self.entry(at, message);
        push(&mut self.logged, SAID, entry);
    }

    pub(super) fn lines(&self) -> Vec<String> {
        let notices = self.notices.iter().chain(&self.logged).map(|entry| (entry, ""));
        let mut all: Vec<_> = notices.chain(self.stderr.iter().map(|entry| (entry, "| "))).collect();
        all.sort_by_key(|(entry, _)| entry.number);
        let line = |(entry, mark): (&JournalEntry, &str)| {
            let at = format_rfc3339_millis(entry.at.max(UNIX_EPOCH)); // It cannot show earlier times.
            format!("{at} {mark}{}", entry.text)
        };
        all.into_iter().map(line).collect()
    }

    pub(super) fn stderr_tail(&self) -> Vec<String> {
        self.said.lines()
    }

    fn entry(&mut self, at: SystemTime, text: &str) -> JournalEntry {
        self.entries += 1;
        let end = text.char_indices().nth(LONGEST).map_or(text.len(), |(end, _)| end);
        JournalEntry { number: self.entries, at, text: text[..end].to_owned() }
    }
}

fn push(ring: &mut VecDeque<JournalEntry>, room: usize, entry: JournalEntry) {
    if ring.len() == room {
        ring.pop_front();
    }
    ring.push_back(entry);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_drives_no_notice_out_and_the_order_stays() {
        let mut journal = Journal::default();
        journal.notice(SystemTime::UNIX_EPOCH, "starting the server");
        for number in 0..1000 {
            journal.logged(SystemTime::UNIX_EPOCH, &format!("message {number}"));
            let line = format!("line {number}{}", "x".repeat(1000));
            journal.stderr(SystemTime::UNIX_EPOCH, Said::Line(&line));
        }
        journal.notice(SystemTime::UNIX_EPOCH, "ready");
        let lines = journal.lines();
        assert_eq!(lines.len(), 2 * SAID + 2);
        assert_eq!(lines[0], "1970-01-01T00:00:00.000Z starting the server");
        assert_eq!(lines[1], "1970-01-01T00:00:00.000Z message 900");
        assert!(lines[2].starts_with("1970-01-01T00:00:00.000Z | line 900xx"));
        assert!(lines[2 * SAID + 1].ends_with(" ready"));
        let mut tail = journal.stderr_tail();
        assert_eq!(tail.remove(HEAD), "... (987 lines left out)");
        assert_eq!(tail.len(), HEAD + TAIL);
        assert!(tail.iter().all(|line| line.len() == LONGEST));
        assert!(tail[0].starts_with("line 0x") && tail[HEAD + TAIL - 1].starts_with("line 999x"));
    }

    #[test]
    fn the_status_shows_what_the_newest_process_said() {
        let mut journal = Journal::default();
        let say = |journal: &mut Journal, line| journal.stderr(SystemTime::UNIX_EPOCH, Said::Line(line));
        journal.started();
        say(&mut journal, "error: no such option");
        (0..200).for_each(|_| say(&mut journal, "usage"));
        journal.started();
        assert_eq!(journal.stderr_tail()[0], "error: no such option", "until the next one says something");
        say(&mut journal, "listening");
        assert_eq!(journal.stderr_tail(), ["listening"]);
    }
}
