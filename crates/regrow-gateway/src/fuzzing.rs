//! What the fuzz targets need of the inside. No part of the interface.

pub use crate::face::http::fuzzing::pages;
