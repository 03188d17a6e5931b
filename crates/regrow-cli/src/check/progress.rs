//! Where the check stands, on a terminal: a line for each server, redrawn in place.

use std::time::{Duration, Instant};

use regrow_gateway::config::ServerConfig;

use super::finding::Finding;
use crate::table::printable;
use crate::terminal::{Live, Screen, Style, TICK, fit};

pub(super) struct CheckProgress {
    began: Instant,
    screen: Screen,
    shown: Live,
    servers: Vec<(String, Stand)>,
}

enum Stand {
    Waiting,
    Starting(Instant),
    Ready(String),
    Failed(String),
}

impl CheckProgress {
    pub(super) fn new(servers: &[ServerConfig]) -> CheckProgress {
        let screen = Screen::stderr();
        let servers = servers.iter().map(|server| (printable(&server.name), Stand::Waiting)).collect();
        CheckProgress { began: Instant::now(), screen, shown: Live::new(screen), servers }
    }

    pub(super) fn begin(&mut self, number: usize) {
        self.set(number, Stand::Starting(Instant::now()));
    }

    pub(super) fn done(&mut self, number: usize, finding: &Finding) {
        let stand = match &finding.problem {
            Some(problem) => Stand::Failed(problem.text.lines().next().unwrap_or_default().to_owned()),
            None => Stand::Ready(ready(finding)),
        };
        self.set(number, stand);
    }

    fn set(&mut self, number: usize, stand: Stand) {
        // A quick check may be done before its beginning is heard of.
        let is_late = matches!(stand, Stand::Starting(_)) && self.servers[number].1.is_done();
        if !is_late {
            self.servers[number].1 = stand;
        }
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
        let width = self.screen.width().unwrap_or(usize::MAX);
        let lines = self.lines(Instant::now(), self.shown.rows(), width);
        let _ = self.shown.draw(&lines); // It is only for the eye.
    }

    /// A line for each server; where there are too many for the terminal, those that need attention, and how many are done.
    fn lines(&self, now: Instant, rows: usize, width: usize) -> Vec<String> {
        let longest = self.servers.iter().map(|(name, _)| name.chars().count()).max().unwrap_or_default();
        let line = |(name, stand): &(String, Stand)| {
            let (style, text) = stand.shown(now);
            self.screen.paint(style, &fit(&format!("{name:longest$}  {text}"), width))
        };
        if self.servers.len() <= rows {
            return self.servers.iter().map(line).collect();
        }
        let done = self.servers.iter().filter(|(_, stand)| stand.is_done()).count();
        let passed = now.saturating_duration_since(self.began);
        let count = format!("{done} of {} servers checked ({})", self.servers.len(), seconds(passed));
        let mut left: Vec<_> =
            self.servers.iter().filter(|(_, stand)| !matches!(stand, Stand::Ready(_))).collect();
        left.sort_by_key(|(_, stand)| stand.urgency());
        [fit(&count, width)].into_iter().chain(left.into_iter().map(line)).collect()
    }
}

impl Stand {
    fn is_done(&self) -> bool {
        matches!(self, Stand::Ready(_) | Stand::Failed(_))
    }

    fn urgency(&self) -> u8 {
        match self {
            Stand::Failed(_) => 0,
            Stand::Starting(_) => 1,
            Stand::Waiting => 2,
            Stand::Ready(_) => 3,
        }
    }

    fn shown(&self, now: Instant) -> (Style, String) {
        match self {
            Stand::Waiting => (Style::Faint, "waiting".into()),
            Stand::Starting(since) => {
                (Style::Warning, format!("starting ({})", seconds(now.saturating_duration_since(*since))))
            }
            Stand::Ready(text) => (Style::Good, text.clone()),
            Stand::Failed(text) => (Style::Bad, format!("failed: {text}")),
        }
    }
}

fn ready(finding: &Finding) -> String {
    let start = finding.start.unwrap_or_default().as_millis();
    match finding.tools.unwrap_or_default() {
        1 => format!("ready in {start} ms, 1 tool"),
        tools => format!("ready in {start} ms, {tools} tools"),
    }
}

fn seconds(passed: Duration) -> String {
    format!("{} s", passed.as_secs())
}

#[cfg(test)]
mod tests {
    use super::super::finding::{Problem, State};
    use super::*;

    fn progress(servers: usize) -> CheckProgress {
        let screen = Screen::plain();
        let servers = (0..servers).map(|number| (format!("server-{number}"), Stand::Waiting)).collect();
        CheckProgress { began: Instant::now(), screen, shown: Live::new(screen), servers }
    }

    fn works() -> Finding {
        let start = Some(Duration::from_millis(412));
        Finding { state: State::Ok, start, tools: Some(1), ..Finding::disabled(String::new()) }
    }

    fn fails() -> Finding {
        let text = "the server process exited with code 1\nand more".to_owned();
        let problem = Some(Problem { text, fault: None, stderr: vec![], entry: vec![] });
        Finding { state: State::Broken, problem, ..Finding::disabled(String::new()) }
    }

    #[test]
    fn each_server_has_a_line_that_fits() {
        let mut progress = progress(4);
        progress.done(0, &works());
        progress.begin(0);
        progress.begin(1);
        progress.done(2, &fails());
        let lines = progress.lines(Instant::now() + Duration::from_millis(3500), 23, 40);
        let expected = [
            "server-0  ready in 412 ms, 1 tool",
            "server-1  starting (3 s)",
            "server-2  failed: the server process ex…",
            "server-3  waiting",
        ];
        assert_eq!(lines, expected);
    }

    #[test]
    fn where_there_are_too_many_those_that_work_are_counted_only() {
        let mut progress = progress(30);
        (0..20).for_each(|number| progress.done(number, &works()));
        progress.begin(25);
        progress.done(29, &fails());
        let lines = progress.lines(Instant::now(), 23, 80);
        assert_eq!(lines[0], "21 of 30 servers checked (0 s)");
        assert!(lines[1].starts_with("server-29  failed: "), "{lines:?}");
        assert_eq!(&lines[2..4], ["server-25  starting (0 s)", "server-20  waiting"]);
        assert_eq!(lines.len(), 11);
    }
}
