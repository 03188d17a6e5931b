//! Many MCP servers behind one endpoint. So far: the configuration that describes them, in the forms that users already
//! have, and the way from a described server to a connection.
//!
//! - [`config`] reads files and says everything that is wrong with them in one go.
//! - [`units`] are durations and sizes as people write them.

#![forbid(unsafe_code)]

pub mod config;
pub mod units;
