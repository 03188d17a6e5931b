//! The bridge between eras, in simulated time: a scripted client of either era, a fake server of either era.

#![allow(clippy::unwrap_used, missing_docs, unreachable_pub)]

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
