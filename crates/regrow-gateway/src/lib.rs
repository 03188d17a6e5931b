//! Many MCP servers behind one endpoint, each supervised, none able to harm another.
//!
//! - [`adopt`] puts `regrow wrap` in front of the servers of a host.
//! - [`config`] reads files and says everything that is wrong with them in one go.
//! - [`hosts`] is the table of the MCP hosts whose files these are.
//! - [`connect()`] makes a connection of a server that is described there.
//! - [`units`] are durations and sizes as people write them.

#![forbid(unsafe_code)]

pub mod admit;
pub mod adopt;
mod answers;
pub mod audit;
pub mod catalog;
mod client;
pub mod config;
mod connect;
mod context;
pub mod directory;
pub mod face;
#[doc(hidden)]
pub mod fuzzing;
pub mod gate;
mod gateway;
pub mod hosts;
mod latch;
pub mod operate;
mod route;
mod server;
mod servers;
mod session_record;
pub mod share;
pub mod shares;
pub mod stats;
pub mod tool_filter;
pub mod units;
mod upstream;
mod usage;

pub use connect::{ConnectError, connect, environment_of};
pub use context::{Clients, Connect, Settings};
pub use gateway::{Changes, Gateway};
