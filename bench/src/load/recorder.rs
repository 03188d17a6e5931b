//! When each call began and ended, and what the proxy used meanwhile.

use std::io;
use std::time::{Duration, Instant};

use super::Stop;
use crate::system::{Meter, Usage};

/// What was measured in one go.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) calls: usize,
    pub(crate) seconds: f64,
    pub(crate) p50: Duration,
    pub(crate) p99: Duration,
    /// What the proxy used for these calls.
    pub(crate) usage: Option<Usage>,
}

/// Fewer calls than this are no measurement, however long they take.
const FEWEST_CALLS: usize = 40;

pub(super) struct Recorder {
    meter: Option<Meter>,
    stop: Stop,
    start: Instant,
    /// Since when calls count, and what the proxy had used by then.
    counting: Option<(Instant, Option<Usage>)>,
    times: Vec<Duration>,
    tally: Tally,
    pub(super) is_done: bool,
}

impl Recorder {
    pub(super) fn new(stop: Stop, meter: Option<Meter>) -> Recorder {
        let start = Instant::now();
        Recorder {
            meter,
            stop,
            start,
            counting: None,
            times: vec![],
            tally: Tally::default(),
            is_done: false,
        }
    }

    /// The first call begins now.
    pub(super) fn start(&mut self) -> io::Result<()> {
        self.start = Instant::now();
        if let Stop::Calls(_) = self.stop {
            self.count_from(self.start)?;
        }
        Ok(())
    }

    fn count_from(&mut self, now: Instant) -> io::Result<()> {
        self.counting = Some((now, self.meter.as_ref().map(Meter::read).transpose()?));
        Ok(())
    }

    /// A call that was sent at `sent` has its response.
    pub(super) fn ended(&mut self, sent: Instant) -> io::Result<()> {
        if self.is_done {
            return Ok(());
        }
        let now = Instant::now();
        let Some((from, before)) = &self.counting else {
            if let Stop::After(time) = self.stop
                && now.duration_since(self.start) >= time / 2
            {
                self.count_from(now)?;
            }
            return Ok(());
        };
        self.times.push(now.duration_since(sent));
        let seconds = now.duration_since(*from);
        self.is_done = match self.stop {
            Stop::After(time) => seconds >= time && self.times.len() >= FEWEST_CALLS,
            Stop::Calls(calls) => self.times.len() >= calls,
        };
        if self.is_done {
            let after = self.meter.as_ref().map(Meter::read).transpose()?;
            self.tally.usage = before.zip(after).map(|(before, after)| after.since(before));
            self.tally.seconds = seconds.as_secs_f64();
        }
        Ok(())
    }

    pub(super) fn finish(mut self) -> Tally {
        self.times.sort_unstable();
        self.tally.calls = self.times.len();
        let last = self.times.len().saturating_sub(1);
        let at = |percent: usize| self.times.get(last * percent / 100).copied().unwrap_or_default();
        (self.tally.p50, self.tally.p99) = (at(50), at(99));
        self.tally
    }
}
