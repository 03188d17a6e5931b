//! MCP servers that misbehave on command.
