//! Supervised MCP connections: a server may die, the connection does not.

pub mod frame;
pub mod lines;
pub mod transport;

mod call;
mod connection;
mod desk;
mod error;
mod inbox;
mod mask;
mod memory;
mod messages;
mod notice;
mod owner;
mod relay;
mod restore;
mod session;
mod writer;

pub use call::{Outcome, Reply};
pub use connection::{Answer, Builder, Connection, Era, MAX_LINE};
pub use error::{CallError, ErrorKind, FAULT_KEY, Outlook};
pub use inbox::{Inbox, Incoming, IncomingMessages};
pub use mask::Mask;
pub use memory::Hello;
pub use notice::{Notice, Notices, Oddities, Status};
pub use owner::Farewell;
pub use regrow_core as core;
pub use relay::{ErrorStyle, Port, relay};
