//! The promises, and what breaks them: pure, so that tests can feed it histories that never happened.

mod flat;

use std::collections::HashMap;
use std::fmt;
use std::time::Duration;

pub use self::flat::{Growth, growth};
use super::call::{Call, Delivery, Told};
use super::{Sample, Stall, stalls};

/// What Regrow promises.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Promise {
    /// Every call gets exactly one answer, its own.
    OneAnswer,
    /// It comes by the deadline.
    InTime,
    /// Nothing runs twice, unless it was declared safe.
    NeverTwice,
    /// What a caller is told about it is true.
    Truth,
    /// The connection comes back.
    Recovers,
    /// At most one server at a time.
    OneServer,
    /// No process is left behind.
    NoOrphans,
    /// No child waits to be reaped.
    NoZombies,
    /// Memory, open files and threads do not grow.
    Flat,
    /// What it says about its own state is true.
    Status,
    /// It ends when its client leaves or it is told to, and in good order.
    EndsClean,
}

impl Promise {
    /// All of them.
    pub const ALL: [Promise; 11] = [
        Promise::OneAnswer,
        Promise::InTime,
        Promise::NeverTwice,
        Promise::Truth,
        Promise::Recovers,
        Promise::OneServer,
        Promise::NoOrphans,
        Promise::NoZombies,
        Promise::Flat,
        Promise::Status,
        Promise::EndsClean,
    ];

    /// As a sentence.
    pub fn text(self) -> &'static str {
        match self {
            Promise::OneAnswer => "every call gets exactly one answer, its own",
            Promise::InTime => "every call is answered in time",
            Promise::NeverTwice => "nothing runs twice unless it was declared safe",
            Promise::Truth => "what callers are told is true",
            Promise::Recovers => "the connection comes back",
            Promise::OneServer => "there is at most one server at a time",
            Promise::NoOrphans => "no process is left behind",
            Promise::NoZombies => "no child waits to be reaped",
            Promise::Flat => "memory, open files and threads do not grow",
            Promise::Status => "what it says about its state is true",
            Promise::EndsClean => "it ends in good order when its client leaves or it is told to",
        }
    }
}

/// A broken promise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    /// Which one.
    pub promise: Promise,
    /// In which lane.
    pub lane: usize,
    /// What was seen.
    pub what: String,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "lane {}: {}: {}", self.lane, self.promise.text(), self.what)
    }
}

/// Judges all calls of a lane by what the server's journal says: how often each key ran. While the machine stood still
/// nobody could answer in time.
pub(super) fn judge_calls(
    lane: usize,
    calls: &[Call],
    runs: &HashMap<usize, u32>,
    limit: Duration,
    stalls: &[Stall],
) -> Vec<Broken> {
    let mut broken = vec![];
    for (key, call) in calls.iter().enumerate() {
        let ran = runs.get(&key).copied().unwrap_or(0);
        let mut breaks = |promise, what: String| {
            let what =
                format!("call {key} ({:?}, begun at {:.3}s) {what}", call.tool, call.begun.as_secs_f64());
            broken.push(Broken { promise, lane, what });
        };
        match call.answers {
            0 => breaks(Promise::OneAnswer, "was never answered".into()),
            1 => {}
            many => breaks(Promise::OneAnswer, format!("was answered {many} times")),
        }
        if call.told == Told::Wrong {
            breaks(Promise::OneAnswer, "got an answer that cannot be its own".into());
        }
        if let Some(ended) = call.ended {
            let took = ended.saturating_sub(call.begun);
            if took > limit + stalls::within(stalls, call.begun, ended) {
                breaks(Promise::InTime, format!("was answered after {:.3}s", took.as_secs_f64()));
            }
        }
        if ran > call.tool.most_runs() {
            breaks(Promise::NeverTwice, format!("ran {ran} times"));
        }
        match &call.told {
            Told::Fault { kind, delivery: Delivery::NotSent } if ran > 0 => {
                breaks(Promise::Truth, format!("was told that it did not run ({kind}), but it did"));
            }
            Told::Fault { kind, delivery: Delivery::Answered } if ran == 0 && call.tool.leaves_evidence() => {
                breaks(Promise::Truth, format!("was told that it ran ({kind}), but it did not"));
            }
            Told::Right if ran == 0 && call.tool.leaves_evidence() => {
                breaks(Promise::Truth, "was answered, but the server never ran it".into());
            }
            _ => {}
        }
    }
    broken
}

/// What may grow a little before it counts, over a whole run.
const MEMORY_KIB: f64 = 2048.0;
const FILES: f64 = 3.0;
const THREADS: f64 = 2.0;

/// Judges whether a lane's program grew.
pub(super) fn judge_growth(lane: usize, samples: &[Sample]) -> Vec<Broken> {
    type Reading = fn(&Sample) -> u64;
    let readings: [(&str, f64, Reading); 3] = [
        ("KiB of memory", MEMORY_KIB, |sample| sample.memory_kib),
        ("open files", FILES, |sample| sample.files),
        ("threads", THREADS, |sample| sample.threads),
    ];
    let mut broken = vec![];
    for (name, allowed, reading) in readings {
        let values: Vec<f64> = samples.iter().map(|sample| reading(sample) as f64).collect();
        if let Some(growth) = growth(&values).filter(|growth| growth.at_least > allowed) {
            let what = format!(
                "{name} grew by {:.0} over {} cycles (at least {:.0}, from {:.0} to {:.0})",
                growth.total,
                values.len(),
                growth.at_least,
                growth.from,
                growth.to
            );
            broken.push(Broken { promise: Promise::Flat, lane, what });
        }
    }
    broken
}

/// Judges processes that should be gone: how each was started.
pub(super) fn judge_orphans(lane: usize, when: &str, left: &[(u32, String)]) -> Option<Broken> {
    let what: Vec<String> = left.iter().map(|(pid, command)| format!("{pid} ({command})")).collect();
    let what = format!("{when}: {}", what.join(", "));
    (!left.is_empty()).then_some(Broken { promise: Promise::NoOrphans, lane, what })
}

#[cfg(test)]
mod tests;
