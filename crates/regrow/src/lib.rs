//! Supervised MCP connections.
