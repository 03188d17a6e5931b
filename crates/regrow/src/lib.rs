//! Supervised MCP connections.

pub mod frame;
pub mod lines;
pub mod transport;
