//! What is measured: every combination of these is one case.

use std::fmt;

use crate::options::{Era, Format, Measure, Shape};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Case {
    pub(crate) shape: Shape,
    pub(crate) size: usize,
    pub(crate) in_flight: usize,
    pub(crate) era: Era,
    /// Of a server over HTTP.
    pub(crate) format: Format,
}

/// More bytes in flight than this are not measured: client, proxy and server hold them several times over.
const MOST_BYTES_IN_FLIGHT: usize = 256 * 1024 * 1024;

pub(crate) fn cases(options: &Measure) -> Vec<Case> {
    let mut cases = vec![];
    for &shape in &options.shapes {
        for &era in &options.eras {
            for &format in &options.formats {
                if !shape.server_is_http() && format != options.formats[0] {
                    continue; // A pipe has only one format.
                }
                for &size in &options.sizes {
                    for &in_flight in &options.in_flight {
                        let case = Case { shape, size, in_flight, era, format };
                        if size * in_flight <= MOST_BYTES_IN_FLIGHT && (!options.quick || is_quick(case)) {
                            cases.push(case);
                        }
                    }
                }
            }
        }
    }
    cases
}

/// One small case alone and under load for each shape, and large messages for two.
fn is_quick(case: Case) -> bool {
    match case.size {
        100 => matches!(case.in_flight, 1 | 16),
        100_000 => case.in_flight == 16 && matches!(case.shape, Shape::StdioStdio | Shape::HttpHttp),
        _ => false,
    }
}

impl Case {
    /// Cases with the same title differ only in the calls in flight.
    pub(crate) fn title(&self) -> String {
        let format = if self.shape.server_is_http() { format!(", {}", self.format) } else { String::new() };
        format!("{}, {}, {} era{format}", self.shape.title(), bytes(self.size), self.era)
    }
}

impl fmt::Display for Case {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}, {} in flight", self.title(), self.in_flight)
    }
}

fn bytes(size: usize) -> String {
    match size {
        1_000_000.. => format!("{} MB", size / 1_000_000),
        1_000.. => format!("{} kB", size / 1_000),
        _ => format!("{size} B"),
    }
}
