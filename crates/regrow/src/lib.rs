//! Supervised MCP connections: a server may die, the connection does not.
//!
//! A [`Connection`] is the handle to one server. It starts the server with the first call, finds out which era of the
//! protocol it speaks, watches it, and starts it again when it dies or hangs; the new session is told what the old one
//! was told. Every call ends by its deadline with the server's answer or a [`CallError`] that says what happened and
//! whether the call may have run. What may have run is not sent again, unless that is safe.
//!
//! ```no_run
//! # #[cfg(unix)]
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! use regrow::core::{Delivery, Policy};
//! use regrow::transport::stdio::Stdio;
//! use regrow::{Connection, ErrorKind};
//! use serde_json::json;
//! use std::time::Duration;
//!
//! let server = Stdio::new("files", "mcp-server-filesystem").args(["/data"]);
//! let files = Connection::builder("files", server)
//!     .policy(Policy { call_timeout: Some(Duration::from_secs(30)), ..Policy::default() })
//!     .safe_tools(|tool| tool.starts_with("read_")) // These may be called again if a server dies of one.
//!     .build();
//!
//! // What happens to it, for a log.
//! let mut notices = files.notices();
//! tokio::spawn(async move {
//!     while let Some(notice) = notices.next().await {
//!         eprintln!("{}: {}", notice.server, notice.text());
//!     }
//! });
//!
//! // A call. If there is no session it waits for one, within its deadline.
//! let params = json!({ "name": "write_file", "arguments": { "path": "/data/a", "content": "hello" } });
//! match files.request("tools/call", Some(params)).await {
//!     Ok(answer) => println!("{:?}", answer.into_result()), // A result, or an error of the server's own.
//!     Err(error) if error.delivery == Delivery::NotSent => eprintln!("it did not run: {error}"),
//!     Err(error) if error.kind == ErrorKind::Timeout => eprintln!("it may still run: {error}"),
//!     Err(error) => eprintln!("{error}"),
//! }
//!
//! // Ends the server, by force if it must, and says what that took.
//! let closed = files.close().await;
//! assert!(!closed.abandoned);
//! # }
//! # #[cfg(not(unix))]
//! # fn main() {}
//! ```
//!
//! - [`Connection::status`] is where it stands, [`Connection::notices`] what happens to it.
//! - [`Connection::incoming`] is what the server sends on its own; [`Connection::respond`] answers its requests.
//! - [`Connection::reconnect`] puts a fresh session in the place of this one, [`Connection::drain`] lets calls finish
//!   and closes, [`Connection::close`] closes. A connection whose last handle is dropped closes, too.
//! - A dropped request is cancelled.
//! - Other ways to reach a server implement [`transport::Transport`].
//! - To put a connection behind a client that greets the server itself, see [`Port`] and [`relay()`]; where the two may
//!   speak different eras of the protocol, a [`Bridge`] goes between them.
//!
//! The decisions are made in [`core`], without I/O or a clock of its own; this crate carries them out.

#[doc(hidden)]
pub mod fuzzing;

pub mod client;
pub mod folder;
pub mod transport;
pub mod watch;

mod approval;
mod bridge;
mod call;
mod connection;
mod eras;
mod error;
mod excerpt;
mod ids;
mod inbox;
mod lines;
mod mask;
mod notice;
#[cfg(unix)]
mod questions;
mod relay;
mod turn;
mod upstream;
mod within;
mod writer;

pub use approval::Approver;
pub use bridge::Bridge;
pub use call::{Outcome, Reply, Request};
pub use client::{ErrorStyle, ResponseFormat};
pub use connection::{Answer, Builder, CloseReport, Connection};
pub use eras::EraFile;
pub use error::{CallError, ErrorKind, Gap, Unapproved};
pub use excerpt::{Excerpt, Said};
pub use folder::cache_folder;
pub use ids::{SealingKey, random_id};
pub use inbox::{AutoReply, CallInbox, Inbox, Incoming, IncomingMessages};
pub use mask::Mask;
pub use notice::{Anomalies, Notice, Notices, Status};
#[cfg(unix)]
pub use questions::Questions;
pub use regrow_core as core;
pub use regrow_protocol as protocol;
pub use regrow_protocol::version::Era;
pub use relay::{Port, relay};
pub use transport::MAX_LINE;
pub use upstream::{ClientParams, HandshakeResult, ServerSide, Upstream};
pub use within::within;
