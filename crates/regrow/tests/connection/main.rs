//! Whole connections in simulated time: a real engine, in-memory pipes, and servers that misbehave to a plan.

#![allow(clippy::unwrap_used, missing_docs, unreachable_pub)]

mod answers;
mod calls;
mod eras;
mod handle;
mod hangs;
mod hours;
mod lists;
mod orders;
mod panics;
mod patience;
mod pipelining;
mod pressure;
mod restore;
mod storm;
mod streams;
mod suspended;
mod threads;
