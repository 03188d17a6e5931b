//! MCP on the wire: what client and server write, and how it is read and written again.
//!
//! Bytes in, bytes out: no I/O, no clock, no async. A message is carried as it was written; only the envelope is read.

#![forbid(unsafe_code)]

pub mod events;
pub mod frame;
pub mod lines;
pub mod text;
