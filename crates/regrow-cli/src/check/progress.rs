//! Where the check stands, on a terminal: a line for each server, redrawn in place.

use std::time::Instant;

use regrow_gateway::config::ServerConfig;

use super::finding::Finding;
use crate::starts::{StartState, Starts};
use crate::terminal::{Live, Screen, TICK};

pub(super) struct CheckProgress {
    starts: Starts,
    shown: Live,
}

impl CheckProgress {
    pub(super) fn new(servers: &[ServerConfig]) -> CheckProgress {
        let screen = Screen::stderr();
        let starts = Starts::new(servers.iter().map(|server| &*server.name), screen);
        CheckProgress { starts, shown: Live::new(screen) }
    }

    pub(super) fn begin(&mut self, number: usize) {
        self.set(number, StartState::Starting(Instant::now()));
    }

    pub(super) fn done(&mut self, number: usize, finding: &Finding) {
        let state = match &finding.problem {
            Some(problem) => StartState::Failed(problem.text.clone()),
            None => StartState::Ready {
                start: finding.start.unwrap_or_default(),
                tools: finding.tools.map(|tools| tools as u64),
            },
        };
        self.set(number, state);
    }

    fn set(&mut self, number: usize, state: StartState) {
        self.starts.set(number, state);
        self.show();
    }

    /// Resolves after a moment, having shown that time passes. Never where nothing is shown.
    pub(super) async fn tick(&mut self) {
        if !self.shown.is_shown() {
            return std::future::pending().await;
        }
        tokio::time::sleep(TICK).await;
        self.show();
    }

    pub(super) fn clear(&mut self) {
        let _ = self.shown.clear(); // It is only for the eye.
    }

    fn show(&mut self) {
        let lines = self.starts.lines(Instant::now(), self.shown.rows());
        let _ = self.shown.draw(&lines); // It is only for the eye.
    }
}
