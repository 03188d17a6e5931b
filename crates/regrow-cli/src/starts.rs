//! How servers start, for the eye: a line for each, in the state that it is in.

use std::time::{Duration, Instant};

use crate::table::printable;
use crate::terminal::{Screen, Style, fit};

pub(crate) struct Starts {
    began: Instant,
    screen: Screen,
    servers: Vec<(String, StartState)>,
}

pub(crate) enum StartState {
    Waiting,
    Starting(Instant),
    Ready {
        start: Duration,
        /// How many it has, if that is known yet.
        tools: Option<u64>,
    },
    Failed(String),
}

impl Starts {
    /// Of the servers of these names, shown here.
    pub(crate) fn new<'a>(names: impl Iterator<Item = &'a str>, screen: Screen) -> Starts {
        let servers = names.map(|name| (printable(name), StartState::Waiting)).collect();
        Starts { began: Instant::now(), screen, servers }
    }

    /// A server that is done does not start again here.
    pub(crate) fn set(&mut self, number: usize, state: StartState) {
        let old = &mut self.servers[number].1;
        if state.is_done() || !old.is_done() {
            *old = state;
        }
    }

    pub(crate) fn are_done(&self) -> bool {
        self.servers.iter().all(|(_, state)| state.is_done())
    }

    /// A line for each server; where there are too many for the terminal, those that need attention, and how many are done.
    pub(crate) fn lines(&self, now: Instant, rows: usize) -> Vec<String> {
        let width = self.screen.width().unwrap_or(usize::MAX);
        let longest = self.servers.iter().map(|(name, _)| name.chars().count()).max().unwrap_or_default();
        let line = |(name, state): &(String, StartState)| {
            let (style, text) = state.shown(now);
            self.screen.paint(style, &fit(&format!("{name:longest$}  {text}"), width))
        };
        if self.servers.len() <= rows {
            return self.servers.iter().map(line).collect();
        }
        let done = self.servers.iter().filter(|(_, state)| state.is_done()).count();
        let passed = now.saturating_duration_since(self.began);
        let count = format!("{done} of {} servers done ({})", self.servers.len(), seconds(passed));
        let mut left: Vec<_> =
            self.servers.iter().filter(|(_, state)| !matches!(state, StartState::Ready { .. })).collect();
        left.sort_by_key(|(_, state)| state.urgency());
        [fit(&count, width)].into_iter().chain(left.into_iter().map(line)).collect()
    }
}

impl StartState {
    fn is_done(&self) -> bool {
        matches!(self, StartState::Ready { .. } | StartState::Failed(_))
    }

    fn urgency(&self) -> u8 {
        match self {
            StartState::Failed(_) => 0,
            StartState::Starting(_) => 1,
            StartState::Waiting => 2,
            StartState::Ready { .. } => 3,
        }
    }

    fn shown(&self, now: Instant) -> (Style, String) {
        match self {
            StartState::Waiting => (Style::Faint, "waiting".into()),
            StartState::Starting(since) => {
                (Style::Warning, format!("starting ({})", seconds(now.saturating_duration_since(*since))))
            }
            StartState::Ready { start, tools } => {
                let tools = match tools {
                    None => String::new(),
                    Some(1) => ", 1 tool".to_owned(),
                    Some(tools) => format!(", {tools} tools"),
                };
                (Style::Good, format!("ready in {} ms{tools}", start.as_millis()))
            }
            StartState::Failed(text) => {
                (Style::Bad, format!("failed: {}", text.lines().next().unwrap_or_default()))
            }
        }
    }
}

fn seconds(passed: Duration) -> String {
    format!("{} s", passed.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn starts(servers: usize) -> Starts {
        let names: Vec<String> = (0..servers).map(|number| format!("server-{number}")).collect();
        Starts::new(names.iter().map(String::as_str), Screen::plain())
    }

    fn ready() -> StartState {
        StartState::Ready { start: Duration::from_millis(412), tools: Some(1) }
    }

    fn failed() -> StartState {
        StartState::Failed("the server process exited with code 1\nand more".into())
    }

    #[test]
    fn each_server_has_a_line() {
        let mut starts = starts(4);
        starts.set(0, ready());
        starts.set(0, StartState::Starting(Instant::now()));
        starts.set(1, StartState::Starting(Instant::now()));
        starts.set(2, failed());
        let expected = [
            "server-0  ready in 412 ms, 1 tool",
            "server-1  starting (3 s)",
            "server-2  failed: the server process exited with code 1",
            "server-3  waiting",
        ];
        assert_eq!(starts.lines(Instant::now() + Duration::from_millis(3500), 23), expected);
        assert!(!starts.are_done());
    }

    #[test]
    fn where_there_are_too_many_those_that_work_are_counted_only() {
        let mut starts = starts(30);
        (0..20).for_each(|number| starts.set(number, ready()));
        starts.set(25, StartState::Starting(Instant::now()));
        starts.set(29, failed());
        let lines = starts.lines(Instant::now(), 23);
        assert_eq!(lines[0], "21 of 30 servers done (0 s)");
        assert!(lines[1].starts_with("server-29  failed: "), "{lines:?}");
        assert_eq!(&lines[2..4], ["server-25  starting (0 s)", "server-20  waiting"]);
        assert_eq!(lines.len(), 11);
    }
}
