//! The numbers of a report.

use std::collections::BTreeMap;
use std::fs;
use std::thread;
use std::time::Duration;

use super::super::call::{Call, Delivery, Told};
use super::super::checks::growth;
use super::super::{Habit, Kind, Outcome, Sample, Subject};

/// The plot of latencies has so many points at most.
const SLICES: usize = 200;

pub(super) struct Figures {
    pub(super) machine: Machine,
    /// How long the machine stood still, in all.
    pub(super) stood_still: Duration,
    pub(super) calls: usize,
    pub(super) right: usize,
    pub(super) refused: usize,
    pub(super) not_sent: usize,
    pub(super) unknown: usize,
    pub(super) answered: usize,
    /// In milliseconds, sorted.
    latencies: Vec<f64>,
    pub(super) slices: Vec<Slice>,
    pub(super) recoveries: Vec<Recovery>,
    /// Of each program.
    pub(super) subjects: Vec<Held>,
}

pub(super) struct Machine {
    pub(super) cores: usize,
    pub(super) memory_mib: u64,
}

/// The latencies of calls that ended about the same time, in milliseconds.
pub(super) struct Slice {
    pub(super) second: f64,
    pub(super) median: f64,
    pub(super) p99: f64,
    pub(super) worst: f64,
}

/// The recoveries from one kind of fault.
pub(super) struct Recovery {
    kind: Kind,
    /// What was closed is held open by a helper, so that only silence tells.
    held: bool,
    /// In milliseconds, sorted.
    pub(super) times: Vec<f64>,
    pub(super) failed: usize,
}

impl Recovery {
    pub(super) fn name(&self) -> String {
        format!("{}{}", self.kind.name(), if self.held { ", held open" } else { "" })
    }

    pub(super) fn at(&self, share: f64) -> f64 {
        quantile(&self.times, share)
    }
}

/// What a program held: its median at first and at last, after the warm-up.
pub(super) struct Held {
    pub(super) cycles: usize,
    pub(super) memory: [u64; 2],
    pub(super) files: [u64; 2],
    pub(super) threads: [u64; 2],
    /// Where it tells.
    pub(super) tasks: Option<[u64; 2]>,
}

impl Figures {
    pub(super) fn of(outcome: &Outcome) -> Figures {
        let calls = &outcome.calls;
        let count = |told: fn(&Told) -> bool| calls.iter().filter(|call| told(&call.told)).count();
        let mut latencies: Vec<f64> = calls.iter().filter_map(latency).collect();
        latencies.sort_by(f64::total_cmp);
        Figures {
            machine: Machine::this(),
            stood_still: outcome.stalls.iter().map(|stall| stall.to - stall.from).sum(),
            calls: calls.len(),
            right: count(|told| *told == Told::Right),
            refused: count(|told| *told == Told::Refused),
            not_sent: count(|told| matches!(told, Told::Fault { delivery: Delivery::NotSent, .. })),
            unknown: count(|told| matches!(told, Told::Fault { delivery: Delivery::Unknown, .. })),
            answered: count(|told| matches!(told, Told::Fault { delivery: Delivery::Answered, .. })),
            latencies,
            slices: slices(calls, outcome.took),
            recoveries: recoveries(outcome),
            subjects: outcome.subjects.iter().map(|subject| held(outcome, subject)).collect(),
        }
    }

    /// In milliseconds.
    pub(super) fn latency(&self, share: f64) -> f64 {
        quantile(&self.latencies, share)
    }
}

impl Machine {
    fn this() -> Machine {
        let memory = fs::read_to_string("/proc/meminfo").unwrap_or_default();
        let total = memory
            .lines()
            .find_map(|line| line.strip_prefix("MemTotal:")?.split_whitespace().next()?.parse().ok());
        let cores = thread::available_parallelism().map_or(1, usize::from);
        Machine { cores, memory_mib: total.unwrap_or(0_u64) / 1024 }
    }
}

fn latency(call: &Call) -> Option<f64> {
    Some(millis(call.ended?.saturating_sub(call.begun)))
}

fn slices(calls: &[Call], took: Duration) -> Vec<Slice> {
    let width = (took.as_secs_f64() / SLICES as f64).max(0.1);
    let mut grouped: BTreeMap<usize, Vec<f64>> = BTreeMap::new();
    for call in calls {
        if let (Some(ended), Some(latency)) = (call.ended, latency(call)) {
            grouped.entry((ended.as_secs_f64() / width) as usize).or_default().push(latency);
        }
    }
    let slice = |(number, mut times): (usize, Vec<f64>)| {
        times.sort_by(f64::total_cmp);
        let at = |share| quantile(&times, share);
        Slice { second: (number as f64 + 0.5) * width, median: at(0.5), p99: at(0.99), worst: at(1.0) }
    };
    grouped.into_iter().map(slice).collect()
}

fn recoveries(outcome: &Outcome) -> Vec<Recovery> {
    let mut grouped: BTreeMap<(Kind, bool), (Vec<f64>, usize)> = BTreeMap::new();
    for cycle in &outcome.cycles {
        let closes = matches!(cycle.kind, Kind::CloseOutput | Kind::CloseInput);
        let held = closes && matches!(cycle.life, Habit::Helper | Habit::Setsid);
        let (times, failed) = grouped.entry((cycle.kind, held)).or_default();
        match cycle.recovery {
            Some(time) => times.push(millis(time)),
            None => *failed += 1,
        }
    }
    let row = |((kind, held), (mut times, failed)): ((Kind, bool), (Vec<f64>, usize))| {
        times.sort_by(f64::total_cmp);
        Recovery { kind, held, times, failed }
    };
    grouped.into_iter().map(row).collect()
}

fn held(outcome: &Outcome, subject: &Subject) -> Held {
    let span = |holds: fn(&Sample) -> Option<u64>| {
        let values: Vec<f64> = subject.samples.iter().filter_map(holds).map(|value| value as f64).collect();
        let ends = values.first().copied().zip(values.last().copied());
        let (from, to) =
            growth(&values, subject.lanes.len()).map(|growth| (growth.from, growth.to)).or(ends)?;
        Some([from as u64, to as u64])
    };
    Held {
        cycles: outcome.cycles.iter().filter(|cycle| subject.lanes.contains(&cycle.lane)).count(),
        memory: span(|sample| Some(sample.memory_kib)).unwrap_or_default(),
        files: span(|sample| Some(sample.files)).unwrap_or_default(),
        threads: span(|sample| Some(sample.threads)).unwrap_or_default(),
        tasks: span(|sample| sample.tasks),
    }
}

fn millis(time: Duration) -> f64 {
    (time.as_secs_f64() * 1e6).round() / 1e3
}

/// Of sorted values.
fn quantile(sorted: &[f64], share: f64) -> f64 {
    let last = sorted.len().saturating_sub(1);
    sorted.get((last as f64 * share).round() as usize).copied().unwrap_or(0.0)
}
