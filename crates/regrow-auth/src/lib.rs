//! OAuth sign-in for MCP servers.
//!
//! [`records`] are the values that an account consists of, [`guarded`] is the one HTTP client of all OAuth traffic, and [`token`] gets
//! tokens and renews them.

mod place;

pub mod guarded;
pub mod records;
pub mod token;
