//! Rows of tables.

use std::time::Duration;

pub(crate) fn p(times: &[Duration], percent: usize) -> Duration {
    let mut sorted = times.to_vec();
    sorted.sort();
    sorted[(sorted.len() - 1) * percent / 100]
}

pub(crate) fn show(time: Duration) -> String {
    format!("{:.3} ms", time.as_secs_f64() * 1000.0)
}

pub(crate) fn row(name: &str, times: &[Duration]) {
    println!("| {name} | {} | {} |", show(p(times, 50)), show(p(times, 99)));
}

pub(crate) fn row3(name: &str, times: &[Duration]) {
    println!("| {name} | {} | {} | {} |", show(p(times, 50)), show(p(times, 99)), show(p(times, 100)));
}
