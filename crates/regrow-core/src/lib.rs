//! Decides what becomes of a supervised MCP connection; does nothing itself.
//!
//! No I/O, no clock, no async, no randomness of its own: time is a plain number that comes in as an argument, so
//! states compare and hash, lives are simulated in microseconds, and a model checker can step through this very code.

#![forbid(unsafe_code)]

mod fault;
mod policy;
mod time;

pub use fault::{Fault, Phase, Remedy, Verdict, seconds, signal_name};
pub use policy::{BackoffPolicy, BudgetPolicy, Ladder, Ladders, Manner, Policy, Replay};
pub use time::{Epoch, Time};
