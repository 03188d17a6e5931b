//! Many MCP servers behind one endpoint, each supervised, none able to harm another.
//!
//! - [`adopt`] puts `regrow wrap` in front of the servers of a host.
//! - [`config`] reads files and says everything that is wrong with them in one go.
//! - [`connect()`] makes a connection of a server that is described there.
//! - [`units`] are durations and sizes as people write them.

#![forbid(unsafe_code)]

pub mod admit;
pub mod adopt;
pub mod catalog;
pub mod config;
mod connect;
pub mod directory;
pub mod face;
pub mod gate;
pub mod operate;
pub mod share;
pub mod stats;
pub mod units;

pub use connect::connect;
