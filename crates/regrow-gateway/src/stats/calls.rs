//! How calls ended, in a table of counters: what happened, and how far the call got.

use std::sync::atomic::{AtomicU64, Ordering};

use regrow::core::Delivery;
use regrow::{ErrorKind, Outcome};

/// How a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ending {
    what: usize,
    delivery: Delivery,
}

/// How many calls ended in this way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallCount {
    /// What happened: `answered`, `tool-error`, `rpc-error`, `cancelled`, or the kind of a failure.
    pub outcome: &'static str,
    /// How far the calls got.
    pub delivery: Delivery,
    /// How many.
    pub count: u64,
}

const ANSWERED: usize = 0;
const TOOL_ERROR: usize = 1;
const RPC_ERROR: usize = 2;
const CANCELLED: usize = 3;
/// The first four are answers and cancellations; the rest are the kinds of failures, by their names.
const OUTCOMES: [&str; 15] = [
    "answered",
    "tool-error",
    "rpc-error",
    "cancelled",
    "interrupted",
    "unavailable",
    "timeout",
    "overloaded",
    "too-large",
    "malformed",
    "closed",
    "refused",
    "not-bridged",
    "not-approved",
    "other",
];
const DELIVERIES: [Delivery; 3] = [Delivery::NotSent, Delivery::Unknown, Delivery::Answered];

impl Ending {
    /// As the server or the connection told it.
    pub fn of(outcome: &Outcome) -> Ending {
        match outcome {
            Outcome::Answered(frame) if frame.is_error() => Ending::answered(RPC_ERROR),
            Outcome::Answered(frame) if frame.is_tool_error() => Ending::answered(TOOL_ERROR),
            Outcome::Answered(_) => Ending::answered(ANSWERED),
            // The caller is told "method not found".
            Outcome::Refused => Ending { what: RPC_ERROR, delivery: Delivery::Unknown },
            Outcome::Failed(error) => Ending { what: number(error.kind), delivery: error.delivery },
        }
    }

    /// Its client has cancelled the call, or left. Whether it ran is not known.
    pub const CANCELLED: Ending = Ending { what: CANCELLED, delivery: Delivery::Unknown };

    /// The name of what happened.
    pub fn outcome(self) -> &'static str {
        OUTCOMES[self.what]
    }

    /// How far the call got.
    pub fn delivery(self) -> Delivery {
        self.delivery
    }

    fn answered(what: usize) -> Ending {
        Ending { what, delivery: Delivery::Answered }
    }
}

fn number(kind: ErrorKind) -> usize {
    let number = OUTCOMES.iter().position(|name| *name == kind.name());
    number.unwrap_or(OUTCOMES.len() - 1)
}

#[derive(Debug, Default)]
pub(super) struct CallCounts([[AtomicU64; DELIVERIES.len()]; OUTCOMES.len()]);

impl CallCounts {
    pub(super) fn count(&self, ending: Ending) {
        let column = DELIVERIES.iter().position(|delivery| *delivery == ending.delivery);
        let column = column.expect("all three are listed above");
        self.0[ending.what][column].fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn counts(&self) -> Vec<CallCount> {
        let cells = OUTCOMES.iter().zip(&self.0).flat_map(|(outcome, row)| {
            DELIVERIES.iter().zip(row).map(|(delivery, count)| CallCount {
                outcome,
                delivery: *delivery,
                count: count.load(Ordering::Relaxed),
            })
        });
        cells.filter(|cell| cell.count > 0).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use regrow::{Gap, Unapproved};

    #[test]
    fn every_kind_of_failure_has_a_counter_of_its_own() {
        use ErrorKind::*;
        let kinds = [
            Interrupted,
            Unavailable,
            Timeout,
            Overloaded,
            TooLarge { bytes: 1 },
            Malformed,
            Closed,
            Refused,
        ];
        let others = [NotBridged(Gap::Tasks), NotApproved(Unapproved::Command)];
        let numbers: Vec<usize> = kinds.into_iter().chain(others).map(number).collect();
        assert_eq!(numbers, (4..OUTCOMES.len() - 1).collect::<Vec<_>>());
    }
}
