//! What was measured, and its medians.

use serde_json::{Value, json};

use crate::case::Case;
use crate::load::Tally;
use crate::options::Shape;

/// One measurement of one contestant in one case.
#[derive(Clone, Debug)]
pub(crate) struct Sample {
    pub(crate) calls_per_second: f64,
    pub(crate) p50_us: f64,
    pub(crate) p99_us: f64,
    /// None without a proxy.
    pub(crate) cpu_us: Option<f64>,
    pub(crate) instructions: Option<f64>,
    /// The most memory that the proxy has used.
    pub(crate) peak_mib: Option<f64>,
}

impl Sample {
    pub(crate) fn new(tally: &Tally, peak_kib: Option<u64>) -> Sample {
        let calls = tally.calls as f64;
        Sample {
            calls_per_second: calls / tally.seconds,
            p50_us: tally.p50.as_secs_f64() * 1e6,
            p99_us: tally.p99.as_secs_f64() * 1e6,
            cpu_us: tally.usage.map(|usage| usage.cpu.as_secs_f64() * 1e6 / calls),
            instructions: tally.usage.and_then(|usage| Some(usage.instructions? as f64 / calls)),
            peak_mib: peak_kib.map(|kib| kib as f64 / 1024.0),
        }
    }
}

/// All rounds of one contestant in one case.
pub(crate) struct Row {
    pub(crate) case: Case,
    pub(crate) contestant: String,
    /// In the order of rounds.
    pub(crate) samples: Vec<Sample>,
}

impl Row {
    pub(crate) fn median(&self, of: impl Fn(&Sample) -> Option<f64>) -> Option<f64> {
        median(self.samples.iter().filter_map(of).collect())
    }

    /// The median of the ratios within each round: what disturbs the machine for longer than a round is in both.
    pub(crate) fn ratio(&self, other: &Row, of: impl Fn(&Sample) -> Option<f64>) -> Option<f64> {
        let pairs = self.samples.iter().zip(&other.samples);
        median(pairs.filter_map(|(own, other)| Some(of(own)? / of(other)?)).collect())
    }
}

pub(crate) fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => None,
        length if length % 2 == 0 => Some(f64::midpoint(values[middle - 1], values[middle])),
        _ => Some(values[middle]),
    }
}

/// Start and memory of one contestant, once.
#[derive(Clone, Debug)]
pub(crate) struct Rest {
    pub(crate) shape: Shape,
    pub(crate) contestant: String,
    /// From the start of the process to the response to `tools/list`, with nothing on disk.
    pub(crate) first_list_ms: f64,
    /// The same again, with what the first start left on disk.
    pub(crate) warm_list_ms: f64,
    pub(crate) memory: Option<Memory>,
}

/// Of the proxy's process, in MiB.
#[derive(Clone, Debug)]
pub(crate) struct Memory {
    pub(crate) at_rest: f64,
    pub(crate) after_calls: f64,
    pub(crate) peak: f64,
}

#[derive(Default)]
pub(crate) struct Results {
    pub(crate) rows: Vec<Row>,
    pub(crate) rests: Vec<Rest>,
}

impl Results {
    pub(crate) fn add(&mut self, case: Case, contestant: &str, sample: Sample) {
        match self.rows.iter_mut().find(|row| row.case == case && row.contestant == contestant) {
            Some(row) => row.samples.push(sample),
            None => self.rows.push(Row { case, contestant: contestant.to_owned(), samples: vec![sample] }),
        }
    }

    pub(crate) fn row(&self, case: Case, contestant: &str) -> Option<&Row> {
        self.rows.iter().find(|row| row.case == case && row.contestant == contestant)
    }

    pub(crate) fn json(&self) -> Value {
        let sample = |sample: &Sample| {
            json!({
                "callsPerSecond": sample.calls_per_second,
                "p50Us": sample.p50_us,
                "p99Us": sample.p99_us,
                "cpuUsPerCall": sample.cpu_us,
                "instructionsPerCall": sample.instructions,
                "peakMib": sample.peak_mib,
            })
        };
        let row = |row: &Row| {
            json!({
                "shape": row.case.shape.to_string(),
                "size": row.case.size,
                "inFlight": row.case.in_flight,
                "era": row.case.era.to_string(),
                "format": row.case.shape.server_is_http().then(|| row.case.format.to_string()),
                "contestant": row.contestant,
                "rounds": row.samples.iter().map(sample).collect::<Vec<_>>(),
            })
        };
        let rest = |rest: &Rest| {
            json!({
                "shape": rest.shape.to_string(),
                "contestant": rest.contestant,
                "firstListMs": rest.first_list_ms,
                "warmListMs": rest.warm_list_ms,
                "restMib": rest.memory.as_ref().map(|memory| memory.at_rest),
                "afterCallsMib": rest.memory.as_ref().map(|memory| memory.after_calls),
                "peakMib": rest.memory.as_ref().map(|memory| memory.peak),
            })
        };
        json!({
            "calls": self.rows.iter().map(row).collect::<Vec<_>>(),
            "rest": self.rests.iter().map(rest).collect::<Vec<_>>(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_in_the_middle() {
        assert_eq!(median(vec![]), None);
        assert_eq!(median(vec![9.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(vec![9.0, 1.0, 2.0, 4.0]), Some(3.0));
    }
}
