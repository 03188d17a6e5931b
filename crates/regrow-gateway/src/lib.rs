//! Many MCP servers behind one endpoint. So far: the configuration that describes them, in the forms that users already
//! have, and the way from a described server to a connection.
//!
//! - [`adopt`] puts `regrow wrap` in front of the servers of a host.
//! - [`config`] reads files and says everything that is wrong with them in one go.
//! - [`connect()`] makes a connection of a server that is described there.
//! - [`units`] are durations and sizes as people write them.

#![forbid(unsafe_code)]

pub mod adopt;
pub mod config;
mod connect;
pub mod units;

pub use connect::connect;
