//! The beginning and the end of what a server wrote on standard error: an error often stands first, with its usage after it.

use std::collections::VecDeque;

/// What a server wrote on standard error, for those who keep an excerpt of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Said<'a> {
    /// A line, masked and escaped.
    Line(&'a str),
    /// This many lines that came too fast.
    LeftOut(u64),
}

/// The first and the last lines of something longer, and how many were left out between them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Excerpt {
    first: Vec<String>,
    left_out: u64,
    last: VecDeque<String>,
    most_first: usize,
    most_last: usize,
}

impl Excerpt {
    /// Keeps this many of the first lines, and of the last.
    pub fn new(most_first: usize, most_last: usize) -> Excerpt {
        Excerpt { first: vec![], left_out: 0, last: VecDeque::new(), most_first, most_last }
    }

    /// Takes what comes next.
    pub fn take(&mut self, said: Said<'_>) {
        match said {
            Said::Line(line) => self.push(line.to_owned()),
            Said::LeftOut(lines) => self.leave_out(lines),
        }
    }

    /// Takes the next line.
    pub fn push(&mut self, line: String) {
        let is_first = self.last.is_empty() && self.left_out == 0 && self.first.len() < self.most_first;
        if is_first {
            return self.first.push(line);
        }
        self.last.push_back(line);
        while self.last.len() > self.most_last {
            self.last.pop_front();
            self.left_out = self.left_out.saturating_add(1);
        }
    }

    /// The next lines are not there. What came before them is not among the last any more.
    pub fn leave_out(&mut self, lines: u64) {
        if lines > 0 {
            self.left_out = self.left_out.saturating_add(lines).saturating_add(self.last.len() as u64);
            self.last.clear();
        }
    }

    /// A shorter excerpt of the same.
    pub fn cut(&self, most_first: usize, most_last: usize) -> Excerpt {
        let mut cut = Excerpt::new(most_first, most_last);
        self.first.iter().for_each(|line| cut.push(line.clone()));
        cut.leave_out(self.left_out);
        self.last.iter().for_each(|line| cut.push(line.clone()));
        cut
    }

    /// The same, with each line changed like this.
    pub fn map(mut self, change: impl Fn(&str) -> String) -> Excerpt {
        self.first.iter_mut().chain(&mut self.last).for_each(|line| *line = change(line));
        self
    }

    /// The lines, with one between them that says how many were left out.
    pub fn lines(&self) -> Vec<String> {
        let left_out = match self.left_out {
            0 => None,
            1 => Some("... (1 line left out)".to_owned()),
            lines => Some(format!("... ({lines} lines left out)")),
        };
        self.first.iter().cloned().chain(left_out).chain(self.last.iter().cloned()).collect()
    }
}

impl FromIterator<String> for Excerpt {
    /// All of these lines.
    fn from_iter<I: IntoIterator<Item = String>>(lines: I) -> Excerpt {
        let first: Vec<String> = lines.into_iter().collect();
        Excerpt { most_first: first.len(), first, ..Excerpt::new(0, 0) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(lines: std::ops::Range<u32>, first: usize, last: usize) -> Excerpt {
        let mut excerpt = Excerpt::new(first, last);
        lines.for_each(|number| excerpt.push(number.to_string()));
        excerpt
    }

    #[test]
    fn the_first_and_the_last_lines_are_kept_and_the_others_counted() {
        assert_eq!(numbers(0..5, 2, 3).lines(), ["0", "1", "2", "3", "4"]);
        assert_eq!(numbers(0..6, 2, 3).lines(), ["0", "1", "... (1 line left out)", "3", "4", "5"]);
        assert_eq!(numbers(0..200, 2, 2).lines(), ["0", "1", "... (196 lines left out)", "198", "199"]);
    }

    #[test]
    fn an_excerpt_of_an_excerpt_counts_all_that_was_left_out() {
        let cut = numbers(0..200, 20, 100).cut(1, 2);
        assert_eq!(cut.lines(), ["0", "... (197 lines left out)", "198", "199"]);
        assert_eq!(numbers(0..3, 2, 2).cut(9, 9).lines(), ["0", "1", "2"]);
    }

    #[test]
    fn what_came_too_fast_is_counted_where_it_was() {
        let mut excerpt = numbers(0..4, 1, 2);
        excerpt.take(Said::LeftOut(0));
        excerpt.take(Said::LeftOut(90));
        excerpt.take(Said::Line("the end"));
        assert_eq!(excerpt.lines(), ["0", "... (93 lines left out)", "the end"]);
    }
}
