//! Tables on standard output: columns that line up, and fit the terminal.

use std::io::{self, Write};

use crate::terminal::fit;

/// Longer names are cut.
const LONGEST_NAME: usize = 40;
/// Between two columns.
const GAP: usize = 2;

/// The columns of a table.
pub(crate) struct Columns<const N: usize> {
    pub(crate) heading: [&'static str; N],
    /// Columns of numbers stand at the right.
    pub(crate) numbers: &'static [usize],
    /// Which columns a narrow terminal does not show: the first of these first.
    pub(crate) optional: &'static [usize],
}

impl<const N: usize> Columns<N> {
    /// The heading and the rows as lines, within this width if there is one.
    pub(crate) fn lines(&self, rows: &[[String; N]], width: Option<usize>) -> Vec<String> {
        let widths: [usize; N] = std::array::from_fn(|column| {
            let cells = rows.iter().map(|row| row[column].chars().count());
            cells.chain([self.heading[column].len()]).max().unwrap_or_default()
        });
        let mut shown: Vec<usize> = (0..N).collect();
        let mut optional = self.optional.iter();
        let most = width.unwrap_or(usize::MAX);
        while shown.iter().map(|column| widths[*column] + GAP).sum::<usize>() - GAP > most {
            let Some(left_out) = optional.next() else { break };
            shown.retain(|column| column != left_out);
        }
        let line = |cells: [&str; N]| {
            let mut line = String::new();
            for column in &shown {
                let (cell, padding) =
                    (cells[*column], " ".repeat(widths[*column] - cells[*column].chars().count()));
                match self.numbers.contains(column) {
                    true => line.push_str(&format!("{padding}{cell}  ")),
                    false => line.push_str(&format!("{cell}{padding}  ")),
                }
            }
            fit(line.trim_end(), most) + "\n"
        };
        let rows = rows.iter().map(|row| line(row.each_ref().map(String::as_str)));
        [line(self.heading)].into_iter().chain(rows).collect()
    }
}

/// Prints to standard output. A reader that has left is no failure.
pub(crate) fn print(text: &str) -> io::Result<()> {
    match io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written,
    }
}

/// A name as it can stand in a line.
pub(crate) fn printable(name: &str) -> String {
    cut(name.escape_debug().to_string())
}

/// No longer than a column should be.
pub(crate) fn cut(text: String) -> String {
    fit(&text, LONGEST_NAME)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_narrow_terminal_shows_fewer_columns_and_cuts_the_rest() {
        let columns = Columns { heading: ["NAME", "ERA", "CALLS"], numbers: &[2], optional: &[1, 2] };
        let rows = [["files".to_owned(), "modern".to_owned(), "7".to_owned()]];
        assert_eq!(columns.lines(&rows, None).concat(), "NAME   ERA     CALLS\nfiles  modern      7\n");
        assert_eq!(columns.lines(&rows, Some(20)), columns.lines(&rows, None));
        assert_eq!(columns.lines(&rows, Some(19)).concat(), "NAME   CALLS\nfiles      7\n");
        assert_eq!(columns.lines(&rows, Some(11)).concat(), "NAME\nfiles\n");
        assert_eq!(columns.lines(&rows, Some(4)).concat(), "NAME\nfil…\n");
    }
}
