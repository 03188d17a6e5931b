//! MCP servers that misbehave on command.

pub mod journal;
pub mod plan;

pub use journal::Journal;
