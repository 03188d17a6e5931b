//! What is known of a server stays fresh: in simulated time, over a connection to a fake server.

#![allow(missing_docs, unreachable_pub)]

mod fake;
mod fetching;
mod refreshing;
