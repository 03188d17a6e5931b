//! Bar charts of the medians, one panel for each table.

use std::fmt::Write as _;

use crate::case::Case;
use crate::report::show;
use crate::results::{Results, Sample};

const WIDTH: f64 = 460.0;
const HEIGHT: f64 = 240.0;
const COLUMNS: usize = 2;
const LEGEND: f64 = 60.0;
/// For values above bars, and for the names below them.
const TOP: f64 = 44.0;
const BOTTOM: f64 = 26.0;
const COLOURS: [&str; 8] =
    ["#8da0cb", "#a6d854", "#66c2a5", "#d95f02", "#e7298a", "#7570b3", "#a6761d", "#666666"];

/// One chart. Each panel has its own scale, which starts at zero.
pub(crate) fn chart(
    results: &Results,
    cases: &[Case],
    contestants: &[String],
    what: &str,
    of: fn(&Sample) -> Option<f64>,
) -> String {
    let mut panels: Vec<(String, Vec<Case>)> = vec![];
    for case in cases {
        match panels.last_mut().filter(|(title, _)| *title == case.title()) {
            Some((_, cases)) => cases.push(*case),
            None => panels.push((case.title(), vec![*case])),
        }
    }
    let rows = panels.len().div_ceil(COLUMNS);
    let (width, height) = (WIDTH * COLUMNS as f64, LEGEND + HEIGHT * rows as f64);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
         font-family=\"sans-serif\" font-size=\"11\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n{}",
        text(10.0, 20.0, "start", &format!("{what}, by calls in flight"))
    );
    for (number, name) in contestants.iter().enumerate() {
        let x = 10.0 + 100.0 * number as f64;
        svg.push_str(&bar(x, 32.0, 10.0, 10.0, number));
        svg.push_str(&text(x + 15.0, 41.0, "start", name));
    }
    for (number, (title, cases)) in panels.iter().enumerate() {
        let (x, y) = ((number % COLUMNS) as f64 * WIDTH, LEGEND + (number / COLUMNS) as f64 * HEIGHT);
        writeln!(svg, "<g transform=\"translate({x},{y})\">").expect("written");
        svg.push_str(&text(10.0, 15.0, "start", title));
        panel(&mut svg, results, cases, contestants, of);
        svg.push_str("</g>\n");
    }
    svg.push_str("</svg>\n");
    svg
}

fn panel(
    svg: &mut String,
    results: &Results,
    cases: &[Case],
    contestants: &[String],
    of: fn(&Sample) -> Option<f64>,
) {
    let value = |case: &Case, name: &str| results.row(*case, name).and_then(|row| row.median(of));
    let all = cases.iter().flat_map(|case| contestants.iter().filter_map(|name| value(case, name)));
    let highest = all.fold(f64::MIN_POSITIVE, f64::max);
    let group_width = (WIDTH - 20.0) / cases.len() as f64;
    for (group, case) in cases.iter().enumerate() {
        let left = 10.0 + group as f64 * group_width;
        svg.push_str(&text(left + group_width / 2.0, HEIGHT - 10.0, "middle", &case.in_flight.to_string()));
        let bars = contestants.iter().enumerate().filter_map(|(at, name)| Some((at, value(case, name)?)));
        let bars: Vec<(usize, f64)> = bars.collect();
        let bar_width = (group_width - 12.0) / bars.len().max(1) as f64;
        for (place, (contestant, value)) in bars.into_iter().enumerate() {
            let height = value / highest * (HEIGHT - TOP - BOTTOM);
            let (x, y) = (left + 6.0 + place as f64 * bar_width, HEIGHT - BOTTOM - height);
            svg.push_str(&bar(x, y, bar_width - 1.0, height, contestant));
            svg.push_str(&text(x + bar_width / 2.0, y - 3.0, "middle", &short(value)));
        }
    }
}

fn short(value: f64) -> String {
    if value >= 10_000.0 { format!("{:.0}k", value / 1000.0) } else { show(Some(value)) }
}

fn bar(x: f64, y: f64, width: f64, height: f64, contestant: usize) -> String {
    let colour = COLOURS[contestant % COLOURS.len()];
    format!(
        "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" fill=\"{colour}\"/>\n"
    )
}

pub(crate) fn text(x: f64, y: f64, anchor: &str, text: &str) -> String {
    let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    format!("<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{text}</text>\n")
}
