//! Growth as a table and as a plot with logarithmic axes, in which what is linear rises by one decade in each decade.

use std::fmt::Write as _;

use super::Dimension;
use super::points::Point;
use crate::plot::text;
use crate::report::show;

const WIDTH: f64 = 460.0;
const HEIGHT: f64 = 300.0;
const MARGIN: f64 = 50.0;

type Series = (&'static str, &'static str, fn(&Point) -> f64);
const SERIES: [Series; 3] = [
    ("setup CPU ms", "#d95f02", |point| point.setup_ms),
    ("CPU µs/call", "#7570b3", |point| point.call_us),
    ("MiB", "#66a61e", |point| point.mib),
];

pub(crate) fn table(points: &[Point]) -> String {
    let mut table =
        String::from("| | | setup CPU ms | growth | CPU µs/call | MiB |\n|---|---:|---:|---:|---:|---:|\n");
    let mut before: Option<&Point> = None;
    for point in points {
        let before = before.replace(point).filter(|before| before.dimension == point.dimension);
        let growth = before.map(|before| exponent(before, point));
        let (title, size) = (point.dimension.title(), point.size);
        let cells = [Some(point.setup_ms), growth, Some(point.call_us), Some(point.mib)].map(show);
        writeln!(table, "| {title} | {size} | {} |", cells.join(" | ")).expect("written");
    }
    table
}

/// 1 if the setup grows with the number, 2 if with its square.
fn exponent(before: &Point, point: &Point) -> f64 {
    (point.setup_ms / before.setup_ms).ln() / (point.size as f64 / before.size as f64).ln()
}

pub(crate) fn chart(points: &[Point]) -> String {
    let width = WIDTH * 2.0;
    let height = 30.0 + HEIGHT * Dimension::ALL.len().div_ceil(2) as f64;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" font-family=\"sans-serif\" font-size=\"11\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
    );
    for (number, (name, colour, _)) in SERIES.iter().enumerate() {
        let x = 10.0 + 110.0 * number as f64;
        writeln!(svg, "<rect x=\"{x}\" y=\"10\" width=\"10\" height=\"10\" fill=\"{colour}\"/>")
            .expect("written");
        svg.push_str(&text(x + 15.0, 19.0, "start", name));
    }
    for (number, dimension) in Dimension::ALL.into_iter().enumerate() {
        let (x, y) = ((number % 2) as f64 * WIDTH, 30.0 + (number / 2) as f64 * HEIGHT);
        let points: Vec<&Point> = points.iter().filter(|point| point.dimension == dimension).collect();
        writeln!(svg, "<g transform=\"translate({x},{y})\">").expect("written");
        svg.push_str(&text(MARGIN, 20.0, "start", dimension.title()));
        panel(&mut svg, &points);
        svg.push_str("</g>\n");
    }
    svg.push_str("</svg>\n");
    svg
}

fn panel(svg: &mut String, points: &[&Point]) {
    let values = || points.iter().flat_map(|point| SERIES.iter().map(|(_, _, of)| of(point)));
    let (low, high) = decades(values());
    let (left, right) = decades(points.iter().map(|point| point.size as f64));
    let x = |size: f64| MARGIN + (size.log10() - left) / (right - left) * (WIDTH - MARGIN - 20.0);
    let y = |value: f64| {
        let share = (value.max(1e-3).log10() - low) / (high - low);
        HEIGHT - 30.0 - share * (HEIGHT - 60.0)
    };
    let mut decade = low;
    while decade <= high {
        let value = 10_f64.powf(decade);
        let at = y(value);
        let line =
            format!("<line x1=\"{MARGIN}\" x2=\"{WIDTH}\" y1=\"{at:.1}\" y2=\"{at:.1}\" stroke=\"#ddd\"/>\n");
        svg.push_str(&line);
        svg.push_str(&text(MARGIN - 5.0, at + 4.0, "end", &value.to_string()));
        decade += 1.0;
    }
    for point in points {
        svg.push_str(&text(x(point.size as f64), HEIGHT - 12.0, "middle", &point.size.to_string()));
    }
    for (_, colour, of) in SERIES {
        let line = points.iter().map(|point| format!("{:.1},{:.1}", x(point.size as f64), y(of(point))));
        let line = line.collect::<Vec<_>>().join(" ");
        writeln!(svg, "<polyline points=\"{line}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>")
            .expect("written");
    }
}

/// The powers of ten around these values.
fn decades(values: impl Iterator<Item = f64> + Clone) -> (f64, f64) {
    let low = values.clone().fold(f64::MAX, f64::min).max(1e-3).log10().floor();
    let high = values.fold(f64::MIN_POSITIVE, f64::max).log10().ceil();
    (low, high.max(low + 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_exponent_tells_a_line_from_a_square() {
        let point =
            |size, setup_ms| Point { dimension: Dimension::Tools, size, setup_ms, call_us: 1.0, mib: 1.0 };
        assert!((exponent(&point(10, 5.0), &point(100, 50.0)) - 1.0).abs() < 1e-9);
        assert!((exponent(&point(10, 5.0), &point(100, 500.0)) - 2.0).abs() < 1e-9);
    }
}
