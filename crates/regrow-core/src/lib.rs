//! Decides what becomes of a supervised MCP connection; does nothing itself.
