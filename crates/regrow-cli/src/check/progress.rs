//! Where the check stands, in one line on a terminal that is written anew as servers are done.

use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

use regrow_gateway::config::Server;

use crate::table::printable;

/// How often the line is written anew when nothing happens, so that time is seen to pass.
const TICK: Duration = Duration::from_millis(200);
/// The line fits on every terminal.
const WIDTH: usize = 78;

/// Nothing is shown where nobody watches.
pub(super) struct Progress {
    began: Instant,
    is_shown: bool,
    waiting: Vec<(usize, String)>,
    all: usize,
    broken: usize,
}

impl Progress {
    pub(super) fn new(servers: &[Server]) -> Progress {
        let waiting = servers.iter().enumerate().map(|(number, server)| (number, printable(&server.name)));
        let progress = Progress {
            began: Instant::now(),
            is_shown: io::stderr().is_terminal(),
            waiting: waiting.collect(),
            all: servers.len(),
            broken: 0,
        };
        progress.show();
        progress
    }

    pub(super) fn done(&mut self, number: usize, is_broken: bool) {
        self.waiting.retain(|(waiting, _)| *waiting != number);
        self.broken += usize::from(is_broken);
        self.show();
    }

    /// Resolves after a moment, having shown that time passes. Never where nothing is shown.
    pub(super) async fn tick(&self) {
        if !self.is_shown {
            return std::future::pending().await;
        }
        tokio::time::sleep(TICK).await;
        self.show();
    }

    pub(super) fn clear(&self) {
        self.write("\r\x1b[K");
    }

    fn show(&self) {
        self.write(&format!("\r\x1b[K{}", self.line(self.began.elapsed())));
    }

    fn line(&self, passed: Duration) -> String {
        let done = self.all - self.waiting.len();
        let mut line = format!("{done} of {} checked", self.all);
        if self.broken > 0 {
            line.push_str(&format!(", {} broken", self.broken));
        }
        line.push_str(&format!(" ({:.0} s)", passed.as_secs_f64()));
        let names: Vec<&str> = self.waiting.iter().map(|(_, name)| &**name).collect();
        if !names.is_empty() {
            line.push_str(&format!("; waiting for {}", names.join(", ")));
        }
        if line.chars().count() > WIDTH {
            line = line.chars().take(WIDTH - 1).chain(['…']).collect();
        }
        line
    }

    fn write(&self, text: &str) {
        if self.is_shown {
            let _ = io::stderr().write_all(text.as_bytes()); // It is only for the eye.
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_says_what_is_waited_for_and_fits() {
        let waiting = (0..30).map(|number| (number, format!("server-{number}"))).collect();
        let mut progress = Progress { began: Instant::now(), is_shown: false, waiting, all: 30, broken: 0 };
        progress.done(0, true);
        let line = progress.line(Duration::from_secs(3));
        assert!(
            line.starts_with("1 of 30 checked, 1 broken (3 s); waiting for server-1, server-2, "),
            "{line}"
        );
        assert_eq!(line.chars().count(), WIDTH);
        (1..30).for_each(|number| progress.done(number, false));
        assert_eq!(progress.line(Duration::ZERO), "30 of 30 checked, 1 broken (0 s)");
    }
}
