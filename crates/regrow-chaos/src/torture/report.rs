//! What a run has shown, for people and machines: Markdown, JSON, and one HTML page that needs nothing else.

mod figures;
mod html;
mod markdown;
mod plot;

use std::fs;
use std::io;
use std::path::Path;

use serde_json::{Value, json};

use self::figures::Figures;
use super::checks::Promise;
use super::{Outcome, Target};

/// A report on a run.
pub struct Report<'a> {
    outcome: &'a Outcome,
    figures: Figures,
}

impl<'a> Report<'a> {
    /// Counts and measures.
    pub fn new(outcome: &'a Outcome) -> Report<'a> {
        Report { outcome, figures: Figures::of(outcome) }
    }

    /// For a terminal or a document.
    pub fn markdown(&self) -> String {
        markdown::page(self.outcome, &self.figures)
    }

    /// A page with plots and no outside resources.
    pub fn html(&self) -> String {
        html::page(self.outcome, &self.figures)
    }

    /// For machines.
    pub fn json(&self) -> Value {
        let (outcome, figures) = (self.outcome, &self.figures);
        let recoveries = figures.recoveries.iter().map(|row| {
            json!({ "kind": row.name(), "cycles": row.times.len() + row.failed, "failed": row.failed,
                "medianMs": row.at(0.5), "p95Ms": row.at(0.95), "worstMs": row.at(1.0) })
        });
        let subjects = outcome.subjects.iter().zip(&figures.subjects).map(|(subject, held)| {
            let asked = subject.asked.map(|asked| {
                json!({ "readings": asked.readings, "steady": asked.steady,
                    "slowestLivezMs": asked.slowest.as_secs_f64() * 1e3 })
            });
            json!({ "name": subject.name, "lanes": subject.lanes, "cycles": held.cycles, "memoryKiB": held.memory,
                "files": held.files, "threads": held.threads, "tasks": held.tasks, "asked": asked,
                "waitedMs": subject.waited.as_millis() as u64 })
        });
        let cycles = outcome.cycles.iter().map(|cycle| {
            json!({ "lane": cycle.lane, "kind": cycle.kind.name(), "life": cycle.life.name(), "next": cycle.next.name(),
                "atMs": cycle.at.as_millis() as u64,
                "recoveryMs": cycle.recovery.map(|time| time.as_millis() as u64) })
        });
        let broken = outcome.broken.iter().map(
            |broken| json!({ "promise": broken.promise.text(), "whose": broken.whose, "what": broken.what }),
        );
        json!({
            "seed": outcome.seed,
            "target": outcome.target.name(),
            "kept": outcome.broken.is_empty(),
            "broken": broken.collect::<Vec<_>>(),
            "stopped": outcome.stopped,
            "tookMs": outcome.took.as_millis() as u64,
            "stoodStillMs": figures.stood_still.as_millis() as u64,
            "machine": { "cores": figures.machine.cores, "memoryMiB": figures.machine.memory_mib },
            "calls": {
                "made": figures.calls, "right": figures.right, "serverErrors": figures.refused,
                "didNotRun": figures.not_sent, "mayHaveRun": figures.unknown, "ranWithoutAnswer": figures.answered,
                "medianMs": figures.latency(0.5), "p99Ms": figures.latency(0.99), "worstMs": figures.latency(1.0),
            },
            "recovery": recoveries.collect::<Vec<_>>(),
            "programs": subjects.collect::<Vec<_>>(),
            "cycles": cycles.collect::<Vec<_>>(),
        })
    }

    /// Writes `torture.md`, `torture.json` and `torture.html` into this folder; and, where a promise was broken, the last
    /// lines of each log.
    pub fn write(&self, folder: &Path) -> io::Result<()> {
        fs::create_dir_all(folder)?;
        fs::write(folder.join("torture.md"), self.markdown())?;
        fs::write(folder.join("torture.json"), format!("{:#}\n", self.json()))?;
        fs::write(folder.join("torture.html"), self.html())?;
        if !self.outcome.broken.is_empty() {
            for subject in &self.outcome.subjects {
                let file = format!("{}.log", subject.name.replace(' ', "-"));
                fs::write(folder.join(file), subject.log.join("\n") + "\n")?;
            }
        }
        Ok(())
    }
}

/// Each promise, and how often it was broken.
fn promises(outcome: &Outcome) -> impl Iterator<Item = (Promise, usize)> {
    let count = |promise| outcome.broken.iter().filter(|broken| broken.promise == promise).count();
    Promise::ALL.into_iter().map(move |promise| (promise, count(promise)))
}

/// How to do the same again.
fn replay(outcome: &Outcome) -> String {
    let target = match outcome.target {
        Target::All => String::new(),
        target => format!(" --target {}", target.name()),
    };
    format!("regrow torture --seed {} --cycles {}{target}", outcome.seed, outcome.cycles.len())
}

#[cfg(test)]
mod tests;
