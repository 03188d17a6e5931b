//! Private parsers, for the fuzz targets alone. No part of the interface.

use regrow_protocol::frame::Frame;

use crate::connection::greet;
pub use crate::transport::http::fuzzing::{headers, meaning};

/// Whether this answer to `server/discover` is taken for one of the modern era.
pub fn speaks_modern(answer: &Frame) -> bool {
    greet::speaks_modern(answer)
}
