//! Lines on a terminal that are redrawn in place. Each drawing is one write that leaves the terminal as it found it, so that nothing has to
//! be restored at the end, however that comes.

use std::io::{self, Write};
use std::time::Duration;

use super::{Screen, Size, Stream};

/// How often lines are redrawn when nothing happens, so that time is seen to pass.
pub(crate) const TICK: Duration = Duration::from_millis(200);

/// Hides the cursor, and cuts what is too long for a line instead of wrapping it.
const BEGIN: &str = "\x1b[?25l\x1b[?7l";
const END: &str = "\x1b[?7h\x1b[?25h";
const CLEAR_SCREEN: &str = "\x1b[H\x1b[2J";
const CLEAR_LINE: &str = "\x1b[K";
const CLEAR_BELOW: &str = "\x1b[J";

pub(crate) struct Live {
    screen: Screen,
    drawn: usize,
    size: Size,
}

impl Live {
    pub(crate) fn new(screen: Screen) -> Live {
        Live { screen, drawn: 0, size: screen.size() }
    }

    /// Whether lines are drawn at all: only where somebody watches.
    pub(crate) fn is_shown(&self) -> bool {
        self.screen.is_terminal
    }

    /// How many lines fit.
    pub(crate) fn rows(&self) -> usize {
        self.screen.size().rows.saturating_sub(1).max(1)
    }

    /// Replaces what was drawn before. Lines that do not fit are left out, and the last line says so.
    pub(crate) fn draw(&mut self, lines: &[String]) -> io::Result<()> {
        if !self.is_shown() {
            return Ok(());
        }
        let size = self.screen.size();
        // The terminal has moved what was drawn, nobody knows where to.
        let start = match size == self.size {
            true => up(self.drawn),
            false => CLEAR_SCREEN.to_owned(),
        };
        self.size = size;
        let lines = within(lines, self.rows());
        self.drawn = lines.len();
        // Cleared first: after a line as wide as the terminal, the cursor stands on its last character.
        let body: String = lines.iter().map(|line| format!("{CLEAR_LINE}{line}\n")).collect();
        self.write(&format!("{BEGIN}{start}{body}{CLEAR_BELOW}{END}"))
    }

    /// Removes what was drawn.
    pub(crate) fn clear(&mut self) -> io::Result<()> {
        if !self.is_shown() {
            return Ok(());
        }
        let start = up(std::mem::take(&mut self.drawn));
        self.write(&format!("{start}{CLEAR_BELOW}"))
    }

    fn write(&self, text: &str) -> io::Result<()> {
        match self.screen.stream {
            Stream::Output => {
                let mut output = io::stdout().lock();
                output.write_all(text.as_bytes())?;
                output.flush()
            }
            Stream::Error => io::stderr().write_all(text.as_bytes()),
        }
    }
}

/// To the start of the line that is this many lines up.
fn up(lines: usize) -> String {
    match lines {
        0 => "\r".to_owned(),
        lines => format!("\r\x1b[{lines}A"),
    }
}

fn within(lines: &[String], rows: usize) -> Vec<String> {
    match lines.len() > rows {
        true => {
            let shown = rows - 1;
            let rest = format!("… and {} more lines", lines.len() - shown);
            lines.iter().take(shown).cloned().chain([rest]).collect()
        }
        false => lines.to_vec(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_is_counted() {
        let lines: Vec<String> = (1..=5).map(|number| number.to_string()).collect();
        assert_eq!(within(&lines, 5), lines);
        assert_eq!(within(&lines, 3), ["1", "2", "… and 3 more lines"]);
        assert_eq!(within(&lines, 1), ["… and 5 more lines"]);
    }
}
