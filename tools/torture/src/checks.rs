//! The promises, and what breaks them: pure, so that tests can feed it histories that never happened.

mod flat;
mod lies;

use std::collections::HashMap;
use std::fmt;
use std::time::Duration;

pub(crate) use self::flat::growth;
pub(crate) use self::lies::{Reading, Standing, judge_down, judge_readings, judge_restarts};
use super::call::{Call, Delivery, Told};
use super::{Sample, stalls};
use crate::stalls::Stall;

/// What Regrow promises. `PROMISES` says each as a sentence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs, reason = "the sentences are below")]
pub enum Promise {
    OneAnswer,
    InTime,
    NeverTwice,
    Truth,
    Recovers,
    OneServer,
    NoOrphans,
    NoZombies,
    Flat,
    Unharmed,
    Status,
    EndsClean,
}

/// All promises, as sentences.
pub(crate) const PROMISES: [(Promise, &str); 12] = [
    (Promise::OneAnswer, "every call gets exactly one answer, its own"),
    (Promise::InTime, "every call is answered in time"),
    (Promise::NeverTwice, "nothing runs twice unless it was declared safe"),
    (Promise::Truth, "what callers are told is true"),
    (Promise::Recovers, "the connection comes back"),
    (Promise::OneServer, "there is at most one server at a time"),
    (Promise::NoOrphans, "no process is left behind"),
    (Promise::NoZombies, "no child waits to be reaped"),
    (Promise::Flat, "memory, open files, threads and tasks do not grow"),
    (Promise::Unharmed, "a server that nothing is done to answers every call"),
    (Promise::Status, "what it says about its state is true"),
    (Promise::EndsClean, "it ends cleanly when its client leaves or on a signal"),
];

/// A broken promise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    /// Which one.
    pub promise: Promise,
    /// Whose: a lane's, or the program's of several.
    pub whose: String,
    /// What was seen.
    pub what: String,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = PROMISES.iter().find(|(promise, _)| *promise == self.promise).map_or("", |(_, text)| text);
        write!(f, "{}: {text}: {}", self.whose, self.what)
    }
}

/// Judges all calls of a lane by what the server's journal says: how often each key ran. While the machine stood still
/// nobody could answer in time.
pub(crate) fn judge_calls(
    whose: &str,
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
            broken.push(Broken { promise, whose: whose.into(), what });
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

/// Judges the calls to a server that nothing is done to: none may fail.
pub(crate) fn judge_spared(whose: &str, calls: &[Call]) -> Vec<Broken> {
    let failed = |call: &&Call| matches!(call.told, Told::Refused | Told::Fault { .. });
    let broken = |call: &Call| {
        let what = format!(
            "a call ({:?}, begun at {:.3}s) failed: {:?}",
            call.tool,
            call.begun.as_secs_f64(),
            call.told
        );
        Broken { promise: Promise::Unharmed, whose: whose.into(), what }
    };
    calls.iter().filter(failed).map(broken).collect()
}

/// What may grow a little before it counts, over a whole run.
const MEMORY_KIB: f64 = 2048.0;
const FILES: f64 = 3.0;
const THREADS: f64 = 2.0;
const TASKS: f64 = 5.0;

/// Judges whether a program with so many lanes grew.
pub(crate) fn judge_growth(whose: &str, lanes: usize, samples: &[Sample]) -> Vec<Broken> {
    type Holds = fn(&Sample) -> Option<u64>;
    let holdings: [(&str, f64, Holds); 4] = [
        ("KiB of memory", MEMORY_KIB, |sample| Some(sample.memory_kib)),
        ("open files", FILES, |sample| Some(sample.files)),
        ("threads", THREADS, |sample| Some(sample.threads)),
        ("tasks", TASKS, |sample| sample.tasks),
    ];
    let mut broken = vec![];
    for (name, allowed, holds) in holdings {
        let values: Vec<f64> = samples.iter().filter_map(holds).map(|value| value as f64).collect();
        if let Some(growth) = growth(&values, lanes).filter(|growth| growth.at_least > allowed) {
            let what = format!(
                "{name} grew by {:.0} over {} cycles (at least {:.0}, from {:.0} to {:.0})",
                growth.total,
                values.len(),
                growth.at_least,
                growth.from,
                growth.to
            );
            broken.push(Broken { promise: Promise::Flat, whose: whose.into(), what });
        }
    }
    broken
}

/// Judges processes that should be gone: how each was started.
pub(crate) fn judge_orphans(whose: &str, when: &str, left: &[(u32, String)]) -> Option<Broken> {
    let what: Vec<String> = left.iter().map(|(pid, command)| format!("{pid} ({command})")).collect();
    let what = format!("{when}: {}", what.join(", "));
    (!left.is_empty()).then(|| Broken { promise: Promise::NoOrphans, whose: whose.into(), what })
}

#[cfg(test)]
mod tests;
