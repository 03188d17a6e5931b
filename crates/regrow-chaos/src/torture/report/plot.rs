//! Plots as inline SVG.

use std::fmt::Write as _;

use super::figures::Recovery;

const WIDTH: f64 = 860.0;
const HEIGHT: f64 = 240.0;
const LEFT: f64 = 64.0;
const BOTTOM: f64 = 28.0;
const TOP: f64 = 28.0;
const RIGHT: f64 = 12.0;
const ROW: f64 = 20.0;
const NAMES: f64 = 150.0;

/// Points that belong together, in the order of x.
pub(super) struct Series {
    pub(super) name: String,
    pub(super) points: Vec<(f64, f64)>,
}

/// Lines over time; a logarithmic scale shows milliseconds beside seconds.
pub(super) fn lines(unit: &str, series: &[Series], logarithmic: bool) -> String {
    let points = || series.iter().flat_map(|series| series.points.iter().copied());
    let last = points().map(|point| point.0).fold(1.0, f64::max);
    let highest = points().map(|point| point.1).fold(1.0, f64::max) * 1.05;
    let height = |value: f64| match logarithmic {
        true => value.max(1.0).log10() / highest.max(10.0).log10(),
        false => value / highest,
    };
    let x = |second: f64| LEFT + (WIDTH - LEFT - RIGHT) * second / last;
    let y = |value: f64| HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * height(value);
    let mut svg = open(WIDTH, HEIGHT, unit);
    let ticks: Vec<f64> = match logarithmic {
        true => (0..6).map(|power| 10_f64.powi(power)).filter(|tick| *tick <= highest).collect(),
        false => (0..=4).map(|step| (highest * f64::from(step) / 4.0).round()).collect(),
    };
    for tick in ticks {
        grid(&mut svg, LEFT, y(tick), WIDTH - RIGHT, y(tick));
        text(&mut svg, LEFT - 6.0, y(tick) + 4.0, "end", &format!("{tick:.0} {unit}"));
    }
    for step in 0..=4 {
        let second = last * f64::from(step) / 4.0;
        text(
            &mut svg,
            x(second),
            HEIGHT - 8.0,
            if step == 4 { "end" } else { "middle" },
            &format!("{second:.0} s"),
        );
    }
    for (number, series) in series.iter().enumerate() {
        let path: Vec<String> = series
            .points
            .iter()
            .map(|(second, value)| format!("{:.1},{:.1}", x(*second), y(*value)))
            .collect();
        put(&mut svg, format_args!(r#"<polyline class="c{}" points="{}"/>"#, number % 7, path.join(" ")));
        let at = LEFT + 10.0 + 110.0 * number as f64;
        put(
            &mut svg,
            format_args!(
                r#"<text class="n c{}" x="{at}" y="{}">{}</text>"#,
                number % 7,
                TOP - 14.0,
                series.name
            ),
        );
    }
    svg + "</svg>\n"
}

/// A row for each kind of fault, a dot for each recovery, time on a logarithmic scale.
pub(super) fn strips(rows: &[Recovery]) -> String {
    let height = TOP + ROW * rows.len() as f64 + BOTTOM;
    let worst = rows.iter().map(|row| row.at(1.0)).fold(10.0, f64::max) * 1.2;
    let x = |value: f64| NAMES + (WIDTH - NAMES - RIGHT) * value.max(1.0).log10() / worst.log10();
    let mut svg = open(WIDTH, height, "recovery by kind of fault");
    for tick in (0..6).map(|power| 10_f64.powi(power)).filter(|tick| *tick <= worst) {
        grid(&mut svg, x(tick), TOP, x(tick), height - BOTTOM);
        text(&mut svg, x(tick), height - 8.0, "middle", &format!("{tick} ms"));
    }
    for (number, row) in rows.iter().enumerate() {
        let y = TOP + ROW * (number as f64 + 0.5);
        text(&mut svg, NAMES - 8.0, y + 4.0, "end", &row.name());
        for time in &row.times {
            put(&mut svg, format_args!(r#"<circle cx="{:.1}" cy="{y:.1}" r="3"/>"#, x(*time)));
        }
        let at = x(row.at(0.5));
        put(
            &mut svg,
            format_args!(
                r#"<line class="m" x1="{at:.1}" y1="{:.1}" x2="{at:.1}" y2="{:.1}"/>"#,
                y - 8.0,
                y + 8.0
            ),
        );
    }
    svg + "</svg>\n"
}

fn open(width: f64, height: f64, label: &str) -> String {
    format!("<svg viewBox=\"0 0 {width} {height}\" role=\"img\" aria-label=\"{label}\">\n")
}

fn grid(svg: &mut String, x1: f64, y1: f64, x2: f64, y2: f64) {
    put(svg, format_args!(r#"<line class="g" x1="{x1:.1}" y1="{y1:.1}" x2="{x2:.1}" y2="{y2:.1}"/>"#));
}

fn text(svg: &mut String, x: f64, y: f64, anchor: &str, words: &str) {
    put(svg, format_args!(r#"<text x="{x:.1}" y="{y:.1}" text-anchor="{anchor}">{words}</text>"#));
}

fn put(svg: &mut String, element: std::fmt::Arguments<'_>) {
    let _ = writeln!(svg, "{element}"); // Writing to a String cannot fail.
}
