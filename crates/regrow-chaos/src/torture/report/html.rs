//! The report as one page, with its plots in it and nothing from elsewhere.

use super::super::{Outcome, Sample, Subject};
use super::figures::Figures;
use super::plot::{self, Series};
use super::{promises, replay};

const STYLE: &str = "
:root { color-scheme: light dark; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 900px; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; margin: 1rem 0; } th, td { text-align: right; padding: .15rem .8rem; border-bottom: 1px solid #8884; }
th:first-child, td:first-child { text-align: left; padding-left: 0; }
.kept { color: #1a7f37; } .broken { color: #cf222e; }
svg { width: 100%; height: auto; font: 11px system-ui, sans-serif; } svg text { fill: currentColor; }
polyline { fill: none; stroke-width: 1.4; stroke: currentColor; } .g { stroke: #8884; } .m { stroke: currentColor; stroke-width: 2; }
circle { fill: #0969da; opacity: .35; }
.c0 { color: #0969da; } .c1 { color: #bc4c00; } .c2 { color: #8250df; } .c3 { color: #1a7f37; } .c4 { color: #cf222e; } .c5 { color: #9a6700; } .c6 { color: #bf3989; }
";

pub(super) fn page(outcome: &Outcome, figures: &Figures) -> String {
    let (class, verdict) = match outcome.broken.is_empty() {
        true => ("kept", "every promise was kept"),
        false => ("broken", "a promise was broken"),
    };
    let machine = &figures.machine;
    let facts = format!(
        "{} cycles in {:.0} s, {} calls, seed {}; {} cores, {} GiB of memory. The same plan again: <code>{}</code>",
        outcome.cycles.len(),
        outcome.took.as_secs_f64(),
        figures.calls,
        outcome.seed,
        machine.cores,
        machine.memory_mib.div_ceil(1024),
        replay(outcome),
    );
    let broken: String =
        outcome.broken.iter().map(|broken| format!("<li>{}</li>", escaped(&broken.to_string()))).collect();
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>Regrow torture: {verdict}</title>\
         <style>{STYLE}</style></head><body>\n<h1>Torture: <span class=\"{class}\">{verdict}</span></h1>\n<p>{facts}</p>\n\
         {}<ul class=\"broken\">{broken}</ul>\n<h2>Recovery by kind of fault</h2>\n{}{}\
         <h2>Time to an answer while everything fails</h2>\n{}<h2>Memory</h2>\n{}<h2>Open files</h2>\n{}<h2>Tasks</h2>\n{}</body></html>\n",
        promise_table(outcome),
        plot::strips(&figures.recoveries),
        recovery_table(figures),
        plot::lines("ms", &latency_series(figures), true),
        plot::lines("KiB", &series(outcome, |sample| Some(sample.memory_kib)), false),
        plot::lines("", &series(outcome, |sample| Some(sample.files)), false),
        plot::lines("", &series(outcome, |sample| sample.tasks), false),
    )
}

fn promise_table(outcome: &Outcome) -> String {
    let row = |(promise, broken): (super::Promise, usize)| {
        let (class, word) = if broken == 0 {
            ("kept", "kept".to_owned())
        } else {
            ("broken", format!("broken {broken} times"))
        };
        format!("<tr><td>{}</td><td class=\"{class}\">{word}</td></tr>\n", promise.text())
    };
    format!("<table>{}</table>\n", promises(outcome).map(row).collect::<String>())
}

fn recovery_table(figures: &Figures) -> String {
    let rows = figures.recoveries.iter().map(|row| {
        let count = row.times.len() + row.failed;
        let (median, high, worst) = (row.at(0.5), row.at(0.95), row.at(1.0));
        format!(
            "<tr><td>{}</td><td>{count}</td><td>{median:.0}</td><td>{high:.0}</td><td>{worst:.0}</td></tr>\n",
            row.name()
        )
    });
    format!(
        "<table><tr><th>fault</th><th>cycles</th><th>median ms</th><th>95 %</th><th>worst</th></tr>\n{}</table>\n",
        rows.collect::<String>()
    )
}

fn latency_series(figures: &Figures) -> Vec<Series> {
    let series = |name: &str, value: fn(&super::figures::Slice) -> f64| Series {
        name: name.into(),
        points: figures.slices.iter().map(|slice| (slice.second, value(slice))).collect(),
    };
    vec![
        series("median", |slice| slice.median),
        series("99 %", |slice| slice.p99),
        series("worst", |slice| slice.worst),
    ]
}

/// What each program held, where it is known.
fn series(outcome: &Outcome, holds: fn(&Sample) -> Option<u64>) -> Vec<Series> {
    let of = |subject: &Subject| {
        let point = |sample: &Sample| Some((sample.at.as_secs_f64(), holds(sample)? as f64));
        Series { name: subject.name.clone(), points: subject.samples.iter().filter_map(point).collect() }
    };
    outcome.subjects.iter().map(of).filter(|series: &Series| !series.points.is_empty()).collect()
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
