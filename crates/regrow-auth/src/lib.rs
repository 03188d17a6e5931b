//! OAuth sign-in for MCP servers.
//!
//! [`records`] are the values that an account consists of, [`guarded`] is the one HTTP client of all OAuth traffic, and [`token`] gets
//! tokens and renews them. [`account`] is what is known of an account, [`store`] keeps accounts on disk for all processes of a user, and
//! [`credential`] lets a connection use one: it refreshes tokens, and wakes when somebody has signed in.

mod place;
mod refresh;
mod renewal;

pub mod account;
pub mod credential;
pub mod guarded;
pub mod records;
pub mod store;
pub mod token;
