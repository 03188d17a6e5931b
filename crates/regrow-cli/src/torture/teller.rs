//! How far the torture is, on standard error: one line that changes on a terminal, a line now and then elsewhere.

use std::io::{self, IsTerminal, Write};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use regrow_chaos::torture::{Options, Progress};

/// How often a log hears of it.
const EVERY: Duration = Duration::from_secs(10);

pub(super) struct Teller {
    cycles: Option<u64>,
    seed: u64,
    began: Instant,
    is_terminal: bool,
    last: Mutex<Instant>,
}

impl Teller {
    pub(super) fn new(options: &Options) -> Teller {
        let now = Instant::now();
        let is_terminal = io::stderr().is_terminal();
        Teller { cycles: options.cycles, seed: options.seed, began: now, is_terminal, last: Mutex::new(now) }
    }

    pub(super) fn tell(&self, progress: &Progress) {
        let line = self.line(progress);
        if self.is_terminal {
            // Who does not see it cannot be told.
            let _ = write!(io::stderr().lock(), "\r{line}\x1b[K");
            return;
        }
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if last.elapsed() >= EVERY {
            *last = Instant::now();
            eprintln!("{line}");
        }
    }

    /// What follows begins on a line of its own.
    pub(super) fn end(&self) {
        if self.is_terminal {
            eprintln!();
        }
    }

    fn line(&self, progress: &Progress) -> String {
        let of = self.cycles.map(|cycles| format!("/{cycles}")).unwrap_or_default();
        let worst = progress
            .worst
            .map(|(time, kind)| format!(", worst recovery {:.2} s ({})", time.as_secs_f64(), kind.name()));
        let broken = match progress.broken {
            0 => "nothing broken".to_owned(),
            broken => format!("BROKEN {broken}"),
        };
        format!(
            "torture: cycle {}{of}, {} calls, {} told of a fault{}, {:.1} MiB, {broken}, {} s, seed {}",
            progress.cycles,
            progress.calls,
            progress.faults,
            worst.unwrap_or_default(),
            progress.memory_kib as f64 / 1024.0,
            self.began.elapsed().as_secs(),
            self.seed,
        )
    }
}

#[cfg(test)]
mod tests {
    use regrow_chaos::torture::{Kind, Target};

    use super::*;

    #[test]
    fn the_line_says_how_far_it_is_and_what_is_broken() {
        let options = Options {
            program: "regrow".into(),
            target: Target::All,
            cycles: Some(60),
            time: None,
            seed: 7,
            patience: Duration::ZERO,
        };
        let progress = Progress {
            cycles: 12,
            calls: 345,
            faults: 6,
            worst: Some((Duration::from_millis(1500), Kind::Kill)),
            memory_kib: 10240,
            broken: 2,
        };
        let line = Teller::new(&options).line(&progress);
        assert_eq!(
            line,
            "torture: cycle 12/60, 345 calls, 6 told of a fault, worst recovery 1.50 s (kill), 10.0 MiB, BROKEN 2, 0 s, seed 7"
        );
    }
}
