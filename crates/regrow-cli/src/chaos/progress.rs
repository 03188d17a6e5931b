//! Where the suite stands, in one line on a terminal.

use std::io::{self, IsTerminal, Write};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use regrow_chaos::suite::Event;

/// How often the line is written anew when nothing happens, so that time is seen to pass.
const TICK: Duration = Duration::from_millis(200);
/// The line fits on every terminal.
const WIDTH: usize = 78;

/// Nothing is shown where nobody watches.
pub(super) struct Progress {
    began: Instant,
    is_shown: bool,
    all: usize,
    done: usize,
    broken: usize,
    playing: Vec<&'static str>,
}

impl Progress {
    /// Of all scenarios, or of those named and the first.
    pub(super) fn new(all: usize, names: &[String]) -> Progress {
        let named = names.iter().filter(|name| *name != "healthy").count() + 1;
        let all = if names.is_empty() { all } else { named };
        let is_shown = io::stderr().is_terminal();
        Progress { began: Instant::now(), is_shown, all, done: 0, broken: 0, playing: vec![] }
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
            self.write(&format!("\r\x1b[K{}", self.line(self.began.elapsed())));
        }
        self.write("\r\x1b[K");
    }

    fn line(&self, passed: Duration) -> String {
        let mut line = format!("{} of {} scenarios", self.done, self.all);
        if self.broken > 0 {
            line.push_str(&format!(", {} promises broken", self.broken));
        }
        line.push_str(&format!(" ({:.0} s)", passed.as_secs_f64()));
        if !self.playing.is_empty() {
            line.push_str(&format!("; now {}", self.playing.join(", ")));
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
    fn the_line_says_what_is_played_and_fits() {
        let mut progress = Progress::new(30, &[]);
        progress.playing = vec!["killed-idle", "a-name-that-is-far-too-long-for-any-terminal-line-to-hold"];
        progress.broken = 2;
        let line = progress.line(Duration::from_secs(3));
        assert!(line.starts_with("0 of 30 scenarios, 2 promises broken (3 s); now killed-idle, "), "{line}");
        assert_eq!(line.chars().count(), WIDTH);
    }
}
