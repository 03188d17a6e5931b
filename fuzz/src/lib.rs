//! Fuzz targets: each takes any bytes, and panics where a promise about them is broken.
//!
//! The corpus in `corpus/` is replayed as ordinary tests, and a seeded mutator goes on from it for a few seconds. Both run on
//! stable Rust, so they run wherever the other tests do. A target is a plain function of bytes, so that a
//! coverage-guided engine can call it, too: see docs/verification.md.

#![forbid(unsafe_code)]

mod corpus;
pub mod mutator;
mod pieces;
mod targets;

pub use corpus::corpus;
pub use targets::{TARGETS, Target};
