//! The formats that a file of configuration may have, read into one tree with positions in bytes.

mod json;
mod toml;
mod yaml;

use std::path::Path;

use jsonc_parser::ast::Object;
use jsonc_parser::common::Range;

use crate::hosts::Format;

/// The object that a file of this name is; or where it is none, and why.
pub(crate) fn parse<'a>(path: &Path, text: &'a str) -> Result<Object<'a>, (usize, String)> {
    match Format::named(path) {
        Some(Format::Json) => json::parse(text),
        Some(Format::Toml) => toml::parse(text),
        Some(Format::Yaml) => yaml::parse(text).map(|parsed| parsed.root),
        // Most hosts write JSON, whatever they call the file.
        None => json::parse(text).map_err(|(at, problem)| {
            (at, format!("{problem}. Regrow reads {}; rename the file if it is one of these", Format::ALL))
        }),
    }
}

/// The parts of a text that other parts refer to: an edit of one also changes what refers to it.
pub(crate) fn anchored(path: &Path, text: &str) -> Vec<Range> {
    match Format::of(path) {
        Format::Json | Format::Toml => vec![],
        Format::Yaml => yaml::parse(text).map(|parsed| parsed.anchored).unwrap_or_default(),
    }
}
