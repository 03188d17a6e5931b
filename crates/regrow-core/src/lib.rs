//! Decides what becomes of a supervised MCP connection; does nothing itself.
//!
//! No I/O, no clock, no async, no randomness of its own: time is a plain number that comes in as an argument, so
//! states compare and hash, lives are simulated in microseconds, and a model checker can step through this very code.

#![forbid(unsafe_code)]

mod backoff;
mod budget;
mod client;
mod event;
mod expiry;
mod fault;
mod grace;
mod ledger;
mod lifecycle;
mod nature;
mod notes;
mod policy;
mod state;
mod supervisor;
mod time;
mod watch;

pub use backoff::Backoff;
pub use budget::Budget;
pub use client::{ClientStreams, Relaying};
pub use event::{Effect, Event, Notice, Patience, Pulse, Requester};
pub use expiry::Ruling;
pub use fault::{Again, Evidence, Fault, Phase, Reach, Remedy, Verdict, seconds, signal_name};
pub use grace::Grace;
pub use ledger::{Admission, CallId, Delivery, Ended, Ledger, Refusal};
pub use lifecycle::Lifecycle;
pub use nature::{Nature, ToolSafety, timeout_of};
pub use notes::{Bearing, Notes};
pub use policy::{BackoffPolicy, BudgetPolicy, FirstStartPolicy, Ladder, Ladders, Manner, Policy, Replay};
pub use state::{Intent, State, Step, Watch};
pub use supervisor::{Facts, Failure, FailureKind, Missed, Outlook, Output, Supervisor, Transition};
pub use time::{Epoch, Time};
