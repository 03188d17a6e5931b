//! The HTTP transport against real sockets, whose every byte the test writes.

#![allow(clippy::unwrap_used)]

mod carry;
mod ear;
mod ends;
mod reach;
mod refusals;
mod server;
