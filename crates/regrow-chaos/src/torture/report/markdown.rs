//! The report as Markdown.

use std::fmt::Write as _;
use std::time::Duration;

use super::super::Outcome;
use super::figures::Figures;
use super::{promises, replay};

/// More broken promises would only repeat these.
const MOST_BROKEN: usize = 30;

pub(super) fn page(outcome: &Outcome, figures: &Figures) -> String {
    let mut page = String::new();
    // Writing to a String cannot fail.
    let _ = write(&mut page, outcome, figures);
    page
}

fn write(page: &mut String, outcome: &Outcome, figures: &Figures) -> std::fmt::Result {
    let machine = &figures.machine;
    writeln!(
        page,
        "# Torture: {}\n",
        if outcome.broken.is_empty() { "every promise was kept" } else { "a promise was broken" }
    )?;
    writeln!(
        page,
        "{} cycles in {:.0} s{}, {} calls, seed {}; {} cores, {} GiB of memory.\n",
        outcome.cycles.len(),
        outcome.took.as_secs_f64(),
        if outcome.stopped { " (stopped early)" } else { "" },
        figures.calls,
        outcome.seed,
        machine.cores,
        machine.memory_mib.div_ceil(1024),
    )?;
    if figures.stood_still > Duration::ZERO {
        writeln!(page, "The machine stood still for {:.1} s of that.\n", figures.stood_still.as_secs_f64())?;
    }
    writeln!(page, "| promise | broken |\n|---|---:|")?;
    for (promise, broken) in promises(outcome) {
        writeln!(page, "| {} | {broken} |", promise.text())?;
    }
    if !outcome.broken.is_empty() {
        writeln!(page, "\nThe same plan again: `{}`\n", replay(outcome))?;
        for broken in outcome.broken.iter().take(MOST_BROKEN) {
            writeln!(page, "- {broken}")?;
        }
        if let Some(more @ 1..) = outcome.broken.len().checked_sub(MOST_BROKEN) {
            writeln!(page, "- and {more} more")?;
        }
    }
    writeln!(page, "\n| calls | |\n|---|---:|")?;
    for (name, count) in [
        ("answered by the server", figures.right),
        ("answered by the server with an error", figures.refused),
        ("told that they did not run", figures.not_sent),
        ("told that they may have run", figures.unknown),
        ("told that they ran, without a usable answer", figures.answered),
    ] {
        writeln!(page, "| {name} | {count} |")?;
    }
    for (name, share) in [("median", 0.5), ("99 %", 0.99), ("worst", 1.0)] {
        writeln!(page, "| time to an answer, {name} | {:.0} ms |", figures.latency(share))?;
    }
    writeln!(page, "\n| fault | cycles | median ms | 95 % | worst |\n|---|---:|---:|---:|---:|")?;
    for row in &figures.recoveries {
        let count = row.times.len() + row.failed;
        writeln!(
            page,
            "| {} | {count} | {:.0} | {:.0} | {:.0} |",
            row.name(),
            row.at(0.5),
            row.at(0.95),
            row.at(1.0)
        )?;
    }
    writeln!(
        page,
        "\n| program | cycles | memory KiB | open files | threads | tasks | waited s |\n|---|---:|---:|---:|---:|---:|---:|"
    )?;
    for (subject, held) in outcome.subjects.iter().zip(&figures.subjects) {
        let span = |[from, to]: [u64; 2]| format!("{from} → {to}");
        let (memory, files, threads) = (span(held.memory), span(held.files), span(held.threads));
        let (name, tasks) = (&subject.name, held.tasks.map(span).unwrap_or_default());
        let waited = subject.waited.as_secs_f64();
        writeln!(
            page,
            "| {name} | {} | {memory} | {files} | {threads} | {tasks} | {waited:.1} |",
            held.cycles
        )?;
    }
    for (subject, asked) in outcome.subjects.iter().filter_map(|subject| Some((subject, subject.asked?))) {
        writeln!(
            page,
            "\n{} was asked about itself {} times; in {} of them nothing changed meanwhile, and all pages had to agree. \
             `/livez` took {:.0} ms at most.",
            subject.name,
            asked.readings,
            asked.steady,
            asked.slowest.as_secs_f64() * 1e3
        )?;
    }
    Ok(())
}
