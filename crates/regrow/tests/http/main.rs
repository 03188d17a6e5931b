//! The HTTP transport against real sockets, whose every byte the test writes.

#![allow(clippy::unwrap_used)]

mod carry;
mod credentials;
mod dedicated;
mod ear;
mod ends;
mod limits;
mod listen;
mod modern;
mod multiplexed;
mod older;
mod pool;
mod reach;
mod refusals;
mod self_signed;
mod server;
mod streams;
mod tls;
