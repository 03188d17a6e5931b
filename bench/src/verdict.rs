//! Whether the short run found Regrow far from where it should be.

use std::fmt;

use crate::case::Case;
use crate::contestant::{REGROW, RELAY};
use crate::options::Shape;
use crate::report::{cpu, throughput};
use crate::results::Results;

/// How many calls get through depends on what else the machine does, so the margin is wide.
const LEAST_THROUGHPUT: f64 = 0.1;

/// The most CPU time in relation to the relay's: at least twice what each case took when this was written. A busy machine must not fail a
/// run, a change that makes calls several times as expensive must.
fn most_cpu(case: &Case) -> f64 {
    match (case.shape, case.size, case.in_flight) {
        (Shape::StdioStdio, 100, 1) => 4.5,
        (Shape::StdioStdio, 100, _) => 8.0,
        (Shape::HttpStdio, ..) => 8.0,
        (Shape::HttpHttp, ..) => 6.5,
        (Shape::StdioStdio | Shape::StdioHttp, ..) => 3.5,
    }
}

/// A ratio against the relay that is out of bounds.
pub(crate) struct Complaint {
    pub(crate) case: Case,
    cpu: Option<f64>,
    throughput: Option<f64>,
}

/// One for each case that has such a ratio.
pub(crate) fn complaints(results: &Results, cases: &[Case]) -> Vec<Complaint> {
    let complaint = |case: &Case| {
        let (regrow, relay) = (results.row(*case, REGROW)?, results.row(*case, RELAY)?);
        let cpu = regrow.ratio(relay, cpu).filter(|ratio| *ratio > most_cpu(case));
        let throughput = regrow.ratio(relay, throughput).filter(|ratio| *ratio < LEAST_THROUGHPUT);
        (cpu.is_some() || throughput.is_some()).then_some(Complaint { case: *case, cpu, throughput })
    };
    cases.iter().filter_map(complaint).collect()
}

impl fmt::Display for Complaint {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Complaint { case, cpu, throughput } = self;
        write!(out, "{case}")?;
        if let Some(ratio) = cpu {
            write!(out, ": {ratio:.1} times the relay's CPU time, at most {} is fine", most_cpu(case))?;
        }
        if let Some(ratio) = throughput {
            write!(out, ": {ratio:.2} of the relay's calls, at least {LEAST_THROUGHPUT} is fine")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::{Era, Format};
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
        let found = |cpu, calls_per_second| {
            let mut results = Results::default();
            results.add(case, RELAY, sample(10.0, 100.0));
            results.add(case, REGROW, sample(cpu, calls_per_second));
            complaints(&results, &[case]).iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(found(64.0, 11.0), [""; 0]);
        let start = "HTTP -> HTTP, 100 B, modern era, json, 1 in flight: ";
        assert_eq!(
            found(66.0, 11.0),
            [format!("{start}6.6 times the relay's CPU time, at most 6.5 is fine")]
        );
        assert_eq!(found(64.0, 9.0), [format!("{start}0.09 of the relay's calls, at least 0.1 is fine")]);
    }
}
