//! What a scenario asks of the program under test, whichever way that is driven.

mod exchange;
mod lines;
mod remote;
mod stdio;

use std::time::Duration;

use serde_json::Value;

pub(super) use self::lines::Lines;
pub(super) use self::remote::{ENDED_EARLY, Place, Remote};
pub(super) use self::stdio::Pipe;
use super::process::Process;

/// Something to do.
#[derive(Clone, Debug)]
pub(super) enum Task {
    Connect { timeout: Duration },
    List,
    Call { tool: &'static str, arguments: Value, timeout: Duration },
    Status,
    Close,
}

/// The number of a task that was begun.
pub(super) type Ticket = u64;

/// How a task ended.
#[derive(Clone, Debug)]
pub(super) struct Answer {
    pub(super) ok: bool,
    /// The result's text, or the error's.
    pub(super) text: String,
}

/// What came of waiting for an answer.
#[derive(Clone, Debug)]
pub(super) enum Outcome {
    Answered(Answer),
    /// None within the limit.
    Silent,
    /// None, and there will be none: the program has ended, or its output has.
    Over(String),
}

/// A program under test, and the way to talk with it.
pub(super) trait Driver {
    /// Begins a task and goes on.
    fn begin(&mut self, task: Task) -> Ticket;

    /// Waits at most so long for its end.
    fn outcome(&mut self, ticket: Ticket, limit: Duration) -> Outcome;

    /// Stops waiting for a task and says so, where the protocol lets us.
    fn give_up(&mut self, ticket: Ticket);

    /// Ends its input, or whatever tells it that we have left.
    fn leave(&mut self);

    /// The program's process.
    fn process(&mut self) -> &mut Process;

    /// What it calls itself.
    fn version(&self) -> Option<String>;
}

/// How a program ended that should not have.
fn end_of(process: &mut Process) -> String {
    match process.exit_within(Duration::from_millis(500)) {
        Some(status) => format!("it ended itself ({status})"),
        None => "it closed its output".to_owned(),
    }
}
