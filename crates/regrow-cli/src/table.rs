//! What goes to standard output: columns that line up, in colour on a terminal that wants it.

use std::io::{self, IsTerminal, Write};

/// Longer names are cut.
const LONGEST_NAME: usize = 40;

/// The heading and the rows as lines. Columns of numbers stand at the right.
pub(crate) fn lines<const N: usize>(
    heading: [&str; N],
    is_number: impl Fn(usize) -> bool,
    rows: &[[String; N]],
) -> Vec<String> {
    let width = |column: usize| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.chain([heading[column].len()]).max().unwrap_or_default()
    };
    let widths: [usize; N] = std::array::from_fn(width);
    let line = |cells: [&str; N]| {
        let mut line = String::new();
        for (column, cell) in cells.into_iter().enumerate() {
            let padding = " ".repeat(widths[column] - cell.chars().count());
            match is_number(column) {
                true => line.push_str(&format!("{padding}{cell}  ")),
                false => line.push_str(&format!("{cell}{padding}  ")),
            }
        }
        line.trim_end().to_owned() + "\n"
    };
    let rows = rows.iter().map(|row| line(row.each_ref().map(String::as_str)));
    [line(heading)].into_iter().chain(rows).collect()
}

/// Prints to standard output. A reader that has left is no failure.
pub(crate) fn print(text: &str) -> io::Result<()> {
    match io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written,
    }
}

/// Whether standard output is a terminal whose user has nothing against colours.
pub(crate) fn wants_colour() -> bool {
    io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// A line in a colour: the number that terminals know it by.
pub(crate) fn painted(line: &str, colour: &str) -> String {
    format!("\x1b[{colour}m{}\x1b[0m\n", line.trim_end())
}

/// A name as it can stand in a line.
pub(crate) fn printable(name: &str) -> String {
    cut(name.escape_debug().to_string())
}

/// No longer than a column should be.
pub(crate) fn cut(text: String) -> String {
    match text.chars().count() > LONGEST_NAME {
        true => text.chars().take(LONGEST_NAME - 1).chain(['…']).collect(),
        false => text,
    }
}
