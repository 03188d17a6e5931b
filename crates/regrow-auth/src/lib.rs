//! OAuth sign-in for MCP servers.
//!
//! [`login::login`] does all of it, from the address of an MCP server to its tokens:
//!
//! 1. [`discovery`] finds out who issues them, from the server's [`challenge`] and the [`metadata`] of both sides.
//! 2. [`registration`] makes Regrow known there.
//! 3. [`authorize`] is the request that a [`browser`] carries, and [`listener`] waits for its return; [`device`] is sign-in on another
//!    device.
//! 4. [`token`] gets the tokens, and later renews them. [`revoke`] ends them.
//!
//! [`account`] is what is known after that. [`store`] keeps it on disk for all processes of a user, and [`credential`] lets a connection use
//! it: it refreshes tokens, and wakes when somebody has signed in. [`prompt`] opens a browser for that when a client waits.
//!
//! [`settings`] are what the operator sets about a sign-in.
//! [`records`] are the values that an account consists of. All requests go through [`guarded`], which checks where they go.

mod place;
mod refresh;
mod renewal;

pub mod account;
pub mod authorize;
pub mod browser;
pub mod challenge;
pub mod credential;
pub mod device;
pub mod discovery;
pub mod guarded;
pub mod listener;
pub mod login;
pub mod metadata;
pub mod prompt;
pub mod records;
pub mod registration;
pub mod revoke;
pub mod settings;
pub mod store;
pub mod token;
