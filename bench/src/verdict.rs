//! Whether the short run found Regrow far from where it should be.

use crate::case::Case;
use crate::contestant::{REGROW, RELAY};
use crate::report::{cpu, throughput};
use crate::results::Results;

/// Wide margins: a busy machine must not fail a run, a change that makes calls several times as expensive must.
const MOST_CPU: f64 = 8.0;
const LEAST_THROUGHPUT: f64 = 0.1;

/// One sentence for each ratio against the relay that is out of bounds.
pub(crate) fn complaints(results: &Results, cases: &[Case]) -> Vec<String> {
    let mut complaints = vec![];
    for case in cases {
        let (Some(regrow), Some(relay)) = (results.row(*case, REGROW), results.row(*case, RELAY)) else {
            continue;
        };
        if let Some(ratio) = regrow.ratio(relay, cpu).filter(|ratio| *ratio > MOST_CPU) {
            complaints
                .push(format!("{case}: {ratio:.1} times the relay's CPU time, at most {MOST_CPU} is fine"));
        }
        if let Some(ratio) = regrow.ratio(relay, throughput).filter(|ratio| *ratio < LEAST_THROUGHPUT) {
            complaints.push(format!(
                "{case}: {ratio:.2} of the relay's calls, at least {LEAST_THROUGHPUT} is fine"
            ));
        }
    }
    complaints
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::{Era, Format, Shape};
    use crate::results::Sample;

    #[test]
    fn only_ratios_far_off_are_reported() {
        let case =
            Case { shape: Shape::HttpHttp, size: 100, in_flight: 1, era: Era::Modern, format: Format::Json };
        let sample = |cpu, calls_per_second| Sample {
            calls_per_second,
            p50_us: 1.0,
            p99_us: 1.0,
            cpu_us: Some(cpu),
            instructions: None,
            peak_mib: None,
        };
        let mut results = Results::default();
        results.add(case, RELAY, sample(10.0, 100.0));
        results.add(case, REGROW, sample(79.0, 11.0));
        assert_eq!(complaints(&results, &[case]), [""; 0]);
        let mut results = Results::default();
        results.add(case, RELAY, sample(10.0, 100.0));
        results.add(case, REGROW, sample(81.0, 9.0));
        assert_eq!(complaints(&results, &[case]).len(), 2);
    }
}
