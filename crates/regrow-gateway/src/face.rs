//! The sides that clients see.

pub mod http;
