//! The tables that people read.

use std::fmt::Write as _;

use crate::case::Case;
use crate::contestant::{AGAINST, REGROW, RELAY};
use crate::options::Shape;
use crate::rest::{CALLS, IN_FLIGHT};
use crate::results::{Rest, Results, Row, Sample, median};

/// One table for each shape, size, era and format.
pub(crate) fn tables(results: &Results, cases: &[Case]) -> String {
    let mut text = String::new();
    let mut title = String::new();
    for case in cases {
        if case.title() != title {
            title = case.title();
            write!(text, "\n## {title}\n\n{}", header(results)).expect("written");
        }
        for row in results.rows.iter().filter(|row| row.case == *case) {
            text.push_str(&line(results, row));
        }
    }
    text
}

fn header(results: &Results) -> String {
    let mut columns = vec!["in flight", "", "CPU µs/call", "/ relay"];
    if has_against(results) {
        columns.push("/ against");
    }
    columns.extend(["calls/s", "/ relay", "p50 µs", "p99 µs", "peak MiB"]);
    if has_instructions(results) {
        columns.push("instructions/call");
    }
    format!("| {} |\n|{}\n", columns.join(" | "), "---|".repeat(columns.len()))
}

fn line(results: &Results, row: &Row) -> String {
    let ratio = |name: &str, of: fn(&Sample) -> Option<f64>| {
        let other = results.row(row.case, name).filter(|_| row.contestant != name);
        show(other.and_then(|other| row.ratio(other, of)))
    };
    let mut cells = vec![row.case.in_flight.to_string(), row.contestant.clone()];
    cells.extend([show(row.median(cpu)), ratio(RELAY, cpu)]);
    if has_against(results) {
        cells.push(if row.contestant == REGROW { ratio(AGAINST, cpu) } else { String::new() });
    }
    cells.extend([show(row.median(throughput)), ratio(RELAY, throughput)]);
    cells.extend([
        show(row.median(|sample| Some(sample.p50_us))),
        show(row.median(|sample| Some(sample.p99_us))),
    ]);
    cells.push(show(row.median(|sample| sample.peak_mib)));
    if has_instructions(results) {
        cells.push(show(row.median(|sample| sample.instructions)));
    }
    format!("| {} |\n", cells.join(" | "))
}

/// Start and memory.
pub(crate) fn rest_table(results: &Results, contestants: &[String]) -> String {
    let mut text = format!(
        "\n## Start and memory, {CALLS} calls of 100 B, {IN_FLIGHT} in flight\n\n\
         | shape | | first list ms | again ms | MiB at rest | after the calls | peak |\n|---|---|---|---|---|---|---|\n"
    );
    for shape in Shape::ALL {
        for name in contestants {
            let is_row = |rest: &&Rest| rest.shape == shape && rest.contestant == *name;
            let rests: Vec<&Rest> = results.rests.iter().filter(is_row).collect();
            if rests.is_empty() {
                continue;
            }
            let middle = |of: fn(&Rest) -> Option<f64>| {
                show(median(rests.iter().filter_map(|rest| of(rest)).collect()))
            };
            let cells = [
                middle(|rest| Some(rest.first_list_ms)),
                middle(|rest| Some(rest.warm_list_ms)),
                middle(|rest| Some(rest.memory.as_ref()?.at_rest)),
                middle(|rest| Some(rest.memory.as_ref()?.after_calls)),
                middle(|rest| Some(rest.memory.as_ref()?.peak)),
            ];
            writeln!(text, "| {} | {name} | {} |", shape.title(), cells.join(" | ")).expect("written");
        }
    }
    text
}

pub(crate) fn cpu(sample: &Sample) -> Option<f64> {
    sample.cpu_us
}

pub(crate) fn throughput(sample: &Sample) -> Option<f64> {
    Some(sample.calls_per_second)
}

fn has_against(results: &Results) -> bool {
    results.rows.iter().any(|row| row.contestant == AGAINST)
}

fn has_instructions(results: &Results) -> bool {
    results.rows.iter().flat_map(|row| &row.samples).any(|sample| sample.instructions.is_some())
}

/// Three digits.
pub(crate) fn show(value: Option<f64>) -> String {
    match value {
        None => String::new(),
        Some(value) if value >= 100.0 => format!("{value:.0}"),
        Some(value) if value >= 10.0 => format!("{value:.1}"),
        Some(value) => format!("{value:.2}"),
    }
}
