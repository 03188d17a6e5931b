//! How a program leaves, and what it leaves behind.

use std::time::Duration;

use super::{Stage, Task};
use crate::suite::process::what_is;
use crate::suite::verdict::{Group, Verdict};

/// From the end of our part to the end of the program, and of all that it started.
pub(super) const LEAVE: Duration = Duration::from_secs(10);
/// What the program left has so long to go on its own.
const REST: Duration = Duration::from_secs(3);

impl Stage<'_> {
    /// Leaves nothing: closes, ends the program's input, and looks for what is still there.
    pub(in crate::suite) fn leave(&mut self, promise: &'static str, limit: Duration) {
        let ticket = self.begin(Task::Close);
        // An answer is polite; what counts is what is left.
        let _ = self.answer(ticket, limit);
        self.driver.leave();
        self.nothing_left(promise, limit);
    }

    /// Leaves nothing: the program ends, and nothing that carries its mark is left.
    pub(in crate::suite) fn nothing_left(&mut self, promise: &'static str, limit: Duration) {
        self.has_left = true;
        let limit = self.scaled(limit);
        let ended = self.driver.process.program.exit_within(limit).is_some();
        let gone = self.wait(REST, |stage| stage.mark.alive().is_none_or(|alive| alive.is_empty()));
        let verdict = match self.mark.alive() {
            _ if !ended => Verdict::Fail(format!("it still ran after {} s and was killed", limit.as_secs())),
            None => Verdict::NotApplicable("there is no /proc here to look for processes".into()),
            Some(_) if gone => Verdict::Pass,
            Some(left) => {
                let names: Vec<String> = left.into_iter().map(what_is).collect();
                Verdict::Fail(format!(
                    "still there {} s after its end: {}",
                    self.scaled(REST).as_secs(),
                    names.join(", ")
                ))
            }
        };
        self.find(Group::LeavesNothing, promise, verdict);
    }
}
