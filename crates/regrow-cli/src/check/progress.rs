//! Where the check stands, in one line on a terminal that is rewritten as servers are done.

use std::time::{Duration, Instant};

use regrow_gateway::config::ServerConfig;

use crate::live_line::{LiveLine, TICK, fit};
use crate::table::printable;

pub(super) struct CheckProgress {
    began: Instant,
    shown: LiveLine,
    waiting: Vec<(usize, String)>,
    all: usize,
    broken: usize,
}

impl CheckProgress {
    pub(super) fn new(servers: &[ServerConfig]) -> CheckProgress {
        let waiting = servers.iter().enumerate().map(|(number, server)| (number, printable(&server.name)));
        let progress = CheckProgress {
            began: Instant::now(),
            shown: LiveLine::new(),
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
        if !self.shown.is_shown {
            return std::future::pending().await;
        }
        tokio::time::sleep(TICK).await;
        self.show();
    }

    pub(super) fn clear(&self) {
        self.shown.clear();
    }

    fn show(&self) {
        self.shown.show(&self.line(self.began.elapsed()));
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
        fit(line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::live_line::WIDTH;

    #[test]
    fn the_line_says_what_is_waited_for_and_fits() {
        let waiting = (0..30).map(|number| (number, format!("server-{number}"))).collect();
        let shown = LiveLine { is_shown: false };
        let mut progress = CheckProgress { began: Instant::now(), shown, waiting, all: 30, broken: 0 };
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
