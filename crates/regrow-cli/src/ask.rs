//! Questions to the person at the terminal.

use std::io::{self, IsTerminal, Write};

/// Whether there is a person to ask: standard input and error are a terminal, and we are its foreground job (a background job that reads is
/// stopped).
pub(crate) fn can_ask() -> bool {
    let stdin = io::stdin();
    let foreground = rustix::termios::tcgetpgrp(&stdin).ok();
    // A terminal that nobody controls has no jobs.
    let is_ours = foreground.is_none_or(|group| group == rustix::process::getpgrp());
    stdin.is_terminal() && io::stderr().is_terminal() && is_ours
}

/// Whether the person at the terminal says yes to this.
pub(crate) fn ask(question: &str) -> io::Result<bool> {
    eprint!("{question}");
    io::stderr().flush()?;
    let mut answer = String::new();
    io::stdin().read_line(&mut answer)?;
    Ok(matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes"))
}
