//! Shares of one connection, in simulated time: a real engine, a fake server, and clients that are equal in everything.

mod calls;
mod client;
mod greeting;
mod server;
mod settings;
mod slow;
mod storm;
mod streams;
