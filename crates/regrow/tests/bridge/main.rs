//! The bridge between eras, in simulated time: a scripted client of either era, a fake server of either era.

#![allow(clippy::unwrap_used, missing_docs, unreachable_pub)]

#[allow(dead_code)] // Other tests use the rest of these three.
#[path = "../connection/process.rs"]
mod process;
#[allow(dead_code)]
#[path = "../connection/server.rs"]
mod server;
#[allow(dead_code)]
#[path = "../connection/signal.rs"]
mod signal;
#[allow(dead_code)]
#[path = "../connection/world.rs"]
mod world;

mod client;
mod end_of_input;
mod ends;
mod greeting;
mod inputs;
mod listening;
mod onto_legacy;
mod onto_modern;
mod questions;
mod same;
mod storm;
mod streams;
