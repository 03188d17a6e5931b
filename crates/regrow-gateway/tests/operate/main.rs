//! What an operator sees and orders over HTTP, of a gateway that only says what it is told to say.

#![allow(clippy::unwrap_used, unreachable_pub)] // This is a test, and its modules are seen by nobody else.

mod admin;
mod document;
mod fake;
mod health;
mod prometheus;
mod status;
