//! What tests of several crates share: an in-memory server, on pipes or behind a network, and a harness for seeded storms.
//!
//! Only ever a dev-dependency.

#![allow(clippy::unwrap_used, missing_docs)] // All of it is test code.

pub mod chance;
pub mod client;
pub mod log;
pub mod process;
pub mod remote;
pub mod script;
pub mod server;
pub mod signal;
pub mod storm;
pub mod world;
