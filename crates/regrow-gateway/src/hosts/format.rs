//! The formats of configuration files.

use std::path::Path;

/// How a file is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// JSON, with comments and trailing commas.
    Json,
    /// TOML.
    Toml,
    /// YAML, one document.
    Yaml,
}

impl Format {
    /// All of them, for people.
    pub const ALL: &'static str = "JSON with comments (.json, .jsonc), TOML (.toml) and YAML (.yaml, .yml)";

    /// The format of a file of this name, if the name tells.
    pub fn named(path: &Path) -> Option<Format> {
        match path.extension()?.to_str()? {
            "json" | "jsonc" => Some(Format::Json),
            "toml" => Some(Format::Toml),
            "yaml" | "yml" => Some(Format::Yaml),
            _ => None,
        }
    }

    /// The format of a file of this name. If the name does not tell, it is JSON, as most hosts write it.
    pub fn of(path: &Path) -> Format {
        Format::named(path).unwrap_or(Format::Json)
    }
}
