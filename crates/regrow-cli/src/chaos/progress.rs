//! Where the suite stands, in one line on a terminal.

use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use regrow_chaos::suite::Event;

use crate::terminal::{Live, Screen, TICK, fit};

pub(super) struct ChaosProgress {
    began: Instant,
    screen: Screen,
    shown: Live,
    all: usize,
    done: usize,
    broken: usize,
    playing: Vec<&'static str>,
}

impl ChaosProgress {
    /// Of all scenarios, or of those named and the first.
    pub(super) fn new(all: usize, names: &[String]) -> ChaosProgress {
        let named = names.iter().filter(|name| *name != "healthy").count() + 1;
        let all = if names.is_empty() { all } else { named };
        ChaosProgress {
            began: Instant::now(),
            screen: Screen::stderr(),
            shown: Live::new(Screen::stderr()),
            all,
            done: 0,
            broken: 0,
            playing: vec![],
        }
    }

    /// Shows what happens until nothing does any more.
    pub(super) fn follow(&mut self, hears: &Receiver<Event>) {
        loop {
            match hears.recv_timeout(TICK) {
                Ok(Event::Begun(name)) => self.playing.push(name),
                Ok(Event::Done(name, broken)) => {
                    self.playing.retain(|playing| *playing != name);
                    self.done += 1;
                    self.broken += broken;
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            let width = self.screen.width().unwrap_or(usize::MAX);
            let line = self.line(self.began.elapsed(), width);
            let _ = self.shown.draw(&[line]); // It is only for the eye.
        }
        let _ = self.shown.clear();
    }

    fn line(&self, passed: Duration, width: usize) -> String {
        let mut line = format!("{} of {} scenarios", self.done, self.all);
        if self.broken > 0 {
            line.push_str(&format!(", {} promises broken", self.broken));
        }
        line.push_str(&format!(" ({:.0} s)", passed.as_secs_f64()));
        if !self.playing.is_empty() {
            line.push_str(&format!("; now {}", self.playing.join(", ")));
        }
        fit(&line, width)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_says_what_is_played_and_fits() {
        let mut progress = ChaosProgress::new(30, &[]);
        progress.playing = vec!["killed-idle", "a-name-that-is-far-too-long-for-any-terminal-line-to-hold"];
        progress.broken = 2;
        let line = progress.line(Duration::from_secs(3), 80);
        assert!(line.starts_with("0 of 30 scenarios, 2 promises broken (3 s); now killed-idle, "), "{line}");
        assert_eq!(line.chars().count(), 80);
    }
}
