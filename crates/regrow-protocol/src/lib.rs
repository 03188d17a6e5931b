//! MCP on the wire: what client and server write, and how it is read and written again.
//!
//! Bytes in, bytes out: no I/O, no clock, no async. A message is carried as it was written; only the envelope is read.

#![forbid(unsafe_code)]

pub mod error_code;
pub mod events;
pub mod frame;
pub mod header;
pub mod lines;
pub mod list;
pub mod logging_level;
pub mod meta;
pub mod method;
pub mod notification;
pub mod oauth;
pub mod text;
pub mod version;
