//! The whole gateway in simulated time: clients of both eras in front of servers of both eras, all in memory.

#![allow(missing_docs, unreachable_pub)]

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
