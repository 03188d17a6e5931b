//! What a run has shown: one JSON value, and the same as text.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::thread;
use std::time::Duration;

use serde_json::{Map, Value, json};

use super::call::{Delivery, Told};
use super::checks::{PROMISES, growth};
use super::plan::Kind;
use super::{Outcome, Sample, Subject};

/// More broken promises would only repeat these.
const MOST_BROKEN: usize = 30;

impl Outcome {
    /// Everything that was counted and measured.
    pub fn report(&self) -> Value {
        let cycles = self.cycles.iter().map(|cycle| {
            json!({ "lane": cycle.lane, "kind": format!("{:?}", cycle.kind), "life": cycle.life, "next": cycle.next,
                "atMs": millis(cycle.at), "recoveryMs": cycle.recovery.map(millis) })
        });
        let count = |promise| self.broken.iter().filter(|broken| broken.promise == promise).count();
        let promises = PROMISES.map(|(promise, text)| json!({ "promise": text, "broken": count(promise) }));
        json!({
            "seed": self.seed,
            "target": self.target.name(),
            "kept": self.broken.is_empty(),
            "broken": self.broken.iter().map(ToString::to_string).collect::<Vec<_>>(),
            "promises": promises,
            "stopped": self.stopped,
            "seconds": self.took.as_secs_f64().round(),
            "stoodStillMs": millis(self.stalls.iter().map(|stall| stall.to - stall.from).sum()),
            "cores": thread::available_parallelism().map_or(1, usize::from),
            "calls": self.calls(),
            "recovery": self.recoveries(),
            "programs": self.subjects.iter().map(|subject| self.program(subject)).collect::<Vec<_>>(),
            "cycles": cycles.collect::<Vec<_>>(),
        })
    }

    fn calls(&self) -> Value {
        let count = |told: fn(&Told) -> bool| self.calls.iter().filter(|call| told(&call.told)).count();
        let latencies = self.calls.iter().filter_map(|call| Some(call.ended?.saturating_sub(call.begun)));
        let latencies = sorted(latencies);
        json!({
            "made": self.calls.len(),
            "right": count(|told| *told == Told::Right),
            "serverErrors": count(|told| *told == Told::Refused),
            "didNotRun": count(|told| matches!(told, Told::Fault { delivery: Delivery::NotSent, .. })),
            "mayHaveRun": count(|told| matches!(told, Told::Fault { delivery: Delivery::Unknown, .. })),
            "ranWithoutAnswer": count(|told| matches!(told, Told::Fault { delivery: Delivery::Answered, .. })),
            "medianMs": quantile(&latencies, 0.5),
            "p99Ms": quantile(&latencies, 0.99),
            "worstMs": quantile(&latencies, 1.0),
        })
    }

    fn recoveries(&self) -> Vec<Value> {
        let mut grouped: BTreeMap<(Kind, bool), Vec<Option<Duration>>> = BTreeMap::new();
        for cycle in &self.cycles {
            let closes = matches!(cycle.kind, Kind::CloseOut | Kind::CloseIn);
            // What was closed is held open by a helper, so that only silence tells.
            let held = closes && matches!(cycle.life, "helper" | "helper-setsid");
            grouped.entry((cycle.kind, held)).or_default().push(cycle.recovery);
        }
        let row = |((kind, held), all): ((Kind, bool), Vec<Option<Duration>>)| {
            let times = sorted(all.iter().flatten().copied());
            json!({ "kind": format!("{kind:?}{}", if held { ", held open" } else { "" }),
                "cycles": all.len(), "failed": all.len() - times.len(), "medianMs": quantile(&times, 0.5),
                "p95Ms": quantile(&times, 0.95), "worstMs": quantile(&times, 1.0) })
        };
        grouped.into_iter().map(row).collect()
    }

    fn program(&self, subject: &Subject) -> Value {
        // The median at first and at last, after the warm-up.
        let span = |holds: fn(&Sample) -> Option<u64>| {
            let values: Vec<f64> =
                subject.samples.iter().filter_map(holds).map(|value| value as f64).collect();
            let ends = values.first().copied().zip(values.last().copied());
            let growth = growth(&values, subject.lanes.len()).map(|growth| (growth.from, growth.to));
            growth.or(ends).map(|(from, to)| [from as u64, to as u64])
        };
        let asked = subject.asked.map(|asked| {
            json!({ "readings": asked.readings, "steady": asked.steady, "slowestLivezMs": millis(asked.slowest) })
        });
        json!({
            "name": subject.name,
            "cycles": self.cycles.iter().filter(|cycle| subject.lanes.contains(&cycle.lane)).count(),
            "memoryKiB": span(|sample| Some(sample.memory_kib)),
            "files": span(|sample| Some(sample.files)),
            "threads": span(|sample| Some(sample.threads)),
            "tasks": span(|sample| sample.tasks),
            "waitedMs": millis(subject.waited),
            "asked": asked,
            "log": (!self.broken.is_empty()).then_some(&subject.log),
        })
    }
}

/// A report for people.
pub fn text(report: &Value) -> String {
    let rows = |name: &str| report[name].as_array().map_or(&[][..], |rows| rows);
    let (seed, cycles, target) =
        (&report["seed"], rows("cycles").len(), report["target"].as_str().unwrap_or("all"));
    let kept = report["kept"] == true;
    let mut text = format!(
        "{}\n{cycles} cycles in {} s{}, seed {seed}, {} cores; the machine stood still for {} ms\n\n",
        if kept { "every promise was kept" } else { "A PROMISE WAS BROKEN" },
        report["seconds"],
        if report["stopped"] == true { " (stopped early)" } else { "" },
        report["cores"],
        report["stoodStillMs"],
    );
    let mut line = |line: std::fmt::Arguments<'_>| {
        let _ = writeln!(text, "{line}"); // Writing to a String cannot fail.
    };
    for row in rows("promises") {
        line(format_args!("{} broken: {}", row["broken"], row["promise"].as_str().unwrap_or_default()));
    }
    if !kept {
        line(format_args!(
            "\nagain: cargo run -p torture -- --seed {seed} --cycles {cycles} --target {target}"
        ));
        for broken in rows("broken").iter().take(MOST_BROKEN) {
            line(format_args!("- {}", broken.as_str().unwrap_or_default()));
        }
    }
    line(format_args!("\ncalls"));
    for (name, value) in report["calls"].as_object().unwrap_or(&Map::new()) {
        line(format_args!("{name:>17}: {value}"));
    }
    line(format_args!(
        "\n{:>24} {:>7} {:>10} {:>10} {:>10}",
        "recovery", "cycles", "median ms", "p95", "worst"
    ));
    for row in rows("recovery") {
        let kind = row["kind"].as_str().unwrap_or_default();
        // A value ignores the width that it is given; a string does not.
        let [cycles, median, high, worst] =
            ["cycles", "medianMs", "p95Ms", "worstMs"].map(|column| row[column].to_string());
        line(format_args!("{kind:>24} {cycles:>7} {median:>10} {high:>10} {worst:>10}"));
    }
    line(format_args!("\nprograms, from the end of the warm-up to the end"));
    for program in rows("programs") {
        line(format_args!(
            "{}: {} cycles, memory {} KiB, files {}, threads {}, tasks {}, waited {} ms, asked {}",
            program["name"].as_str().unwrap_or_default(),
            program["cycles"],
            program["memoryKiB"],
            program["files"],
            program["threads"],
            program["tasks"],
            program["waitedMs"],
            program["asked"],
        ));
    }
    text
}

fn millis(time: Duration) -> u64 {
    time.as_millis() as u64
}

/// In milliseconds.
fn sorted(times: impl Iterator<Item = Duration>) -> Vec<u64> {
    let mut sorted: Vec<u64> = times.map(millis).collect();
    sorted.sort_unstable();
    sorted
}

fn quantile(sorted: &[u64], share: f64) -> Option<u64> {
    let last = sorted.len().checked_sub(1)?;
    sorted.get((last as f64 * share).round() as usize).copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::{Call, Tool};
    use crate::checks::{Broken, Promise};
    use crate::{Asked, Cycle, Target};

    fn outcome(broken: Vec<Broken>) -> Outcome {
        let second = Duration::from_secs(1);
        let call =
            Call { tool: Tool::Echo, begun: second, ended: Some(second * 2), told: Told::Right, answers: 1 };
        let recovery = Some(second / 4);
        let cycle = Cycle { lane: 0, kind: Kind::Kill, life: "", next: "", at: second, recovery };
        let subject = Subject {
            name: "serve".into(),
            lanes: vec![0],
            samples: vec![Sample { at: second, memory_kib: 9000, files: 11, threads: 3, tasks: Some(40) }],
            asked: Some(Asked { readings: 9, steady: 8, slowest: second / 100 }),
            waited: second / 2,
            log: vec!["a line".into()],
        };
        Outcome {
            broken,
            stopped: false,
            seed: 42,
            target: Target::Serve,
            took: second * 3,
            cycles: vec![cycle],
            subjects: vec![subject],
            calls: vec![call],
            stalls: vec![],
        }
    }

    #[test]
    fn a_kept_promise_and_a_broken_one_read_differently() {
        let lie = Broken { promise: Promise::Truth, whose: "lane 0".into(), what: "call 7 lied".into() };
        let (kept, broken) = (outcome(vec![]).report(), outcome(vec![lie]).report());
        assert_eq!(
            (&kept["programs"][0]["log"], &broken["programs"][0]["log"][0]),
            (&Value::Null, &json!("a line"))
        );
        let (kept, broken) = (text(&kept), text(&broken));
        assert!(kept.contains("every promise was kept") && !kept.contains("--seed"), "{kept}");
        assert!(kept.contains("tasks [40,40], waited 500 ms"), "{kept}");
        assert!(broken.contains("torture -- --seed 42 --cycles 1 --target serve\n- lane 0: "), "{broken}");
        assert!(broken.contains("1 broken: what callers are told is true"), "{broken}");
    }

    #[test]
    fn machines_read_the_figures() {
        let report = outcome(vec![]).report();
        assert_eq!((&report["seed"], &report["kept"]), (&json!(42), &json!(true)));
        assert_eq!(report["recovery"][0]["medianMs"], 250);
        assert_eq!(report["calls"]["worstMs"], 1000);
        assert_eq!(report["programs"][0]["asked"]["steady"], 8);
    }
}
