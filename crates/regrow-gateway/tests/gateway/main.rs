//! The whole gateway in simulated time: clients of both eras in front of servers of both eras, all in memory.

#![allow(missing_docs, unreachable_pub)]

#[allow(clippy::unwrap_used, dead_code)] // Other tests use the rest of these.
#[path = "../../../regrow/tests/remote/link.rs"]
mod link;
#[path = "../../../regrow/tests/simulation/panics.rs"]
mod panics;
#[allow(clippy::unwrap_used, dead_code)]
#[path = "../../../regrow/tests/remote/remote.rs"]
mod remote;
#[allow(dead_code)]
#[path = "../../../regrow/tests/simulation/seeds.rs"]
mod seeds;
#[allow(clippy::unwrap_used)]
#[path = "../../../regrow/tests/connection/signal.rs"]
mod signal;

mod eras;
mod fake;
mod guest;
mod house;
mod leaving;
mod limits;
mod listing;
mod naming;
mod network;
mod questions;
mod reloading;
mod resting;
mod sessions;
mod storm;
mod streams;
