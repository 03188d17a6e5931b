//! Whole connections to servers that are reached by exchanges, in simulated time: a real engine, a network in memory,
//! and servers that are down, slow, silent, forgetful or far away.

#![allow(clippy::unwrap_used, missing_docs, unreachable_pub)]

mod attribution;
mod calls;
mod endings;
mod eras;
mod faults;
mod greetings;
mod inbox;
mod liveness;
mod outages;
mod refusals;
mod sessions;
mod streams;
mod threads;
