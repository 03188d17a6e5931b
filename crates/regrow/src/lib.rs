//! Supervised MCP connections.

pub mod transport;
