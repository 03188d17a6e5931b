//! One line on a terminal that is rewritten. Nothing is shown where nobody watches.

use std::io::{self, IsTerminal, Write};
use std::time::Duration;

/// How often it is rewritten when nothing happens, so that time is seen to pass.
pub(crate) const TICK: Duration = Duration::from_millis(200);
/// It fits on every terminal.
pub(crate) const WIDTH: usize = 78;

pub(crate) struct LiveLine {
    pub(crate) is_shown: bool,
}

impl LiveLine {
    pub(crate) fn new() -> LiveLine {
        LiveLine { is_shown: io::stderr().is_terminal() }
    }

    pub(crate) fn show(&self, line: &str) {
        self.write(&format!("\r\x1b[K{line}"));
    }

    pub(crate) fn clear(&self) {
        self.write("\r\x1b[K");
    }

    fn write(&self, text: &str) {
        if self.is_shown {
            let _ = io::stderr().write_all(text.as_bytes()); // It is only for the eye.
        }
    }
}

/// As much of a line as fits.
pub(crate) fn fit(line: String) -> String {
    match line.chars().count() > WIDTH {
        true => line.chars().take(WIDTH - 1).chain(['…']).collect(),
        false => line,
    }
}
