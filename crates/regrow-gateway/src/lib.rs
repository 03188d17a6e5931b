//! Many MCP servers behind one endpoint. So far: durations and sizes as people write them.

#![forbid(unsafe_code)]

pub mod units;
