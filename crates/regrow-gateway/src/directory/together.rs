//! What clients are told of all servers at once: capabilities and instructions.

use serde_json::{Map, Value, json};

use super::Directory;
use crate::catalog::Catalog;

/// More instructions of all servers together are left out.
const MAX_INSTRUCTIONS: usize = 64 << 10;

impl Directory {
    /// What all servers together can do. A server that was never heard may have everything: a client asks only once, and what it
    /// was not offered then it never uses.
    pub fn capabilities(&self) -> Value {
        let any = |path: &[&str]| self.servers.iter().any(|entry| entry.catalog.has(path));
        let mut capabilities = Map::new();
        for name in ["tools", "prompts", "resources"] {
            if any(&[name]) {
                capabilities.insert(name.into(), json!({ "listChanged": true }));
            }
        }
        if any(&["resources", "subscribe"]) {
            capabilities["resources"]["subscribe"] = true.into();
        }
        for name in ["completions", "logging"] {
            if any(&[name]) {
                capabilities.insert(name.into(), json!({}));
            }
        }
        capabilities.into()
    }

    /// What the servers tell models about themselves: each under its name, unless there is only one.
    pub fn instructions(&self) -> Option<String> {
        let said = |catalog: &'_ Catalog| catalog.instructions.clone().filter(|text| !text.trim().is_empty());
        if let [only] = &self.servers[..] {
            return said(&only.catalog);
        }
        let mut together = String::new();
        for entry in &self.servers {
            let Some(text) = said(&entry.catalog) else { continue };
            // A name forges no heading.
            let name = entry.name.escape_debug();
            let part = format!("# {name}\n\n{}\n\n", text.trim());
            if together.len() + part.len() > MAX_INSTRUCTIONS {
                together.push_str("(Instructions of further servers are omitted.)");
                break;
            }
            together.push_str(&part);
        }
        Some(together.trim_end().to_owned()).filter(|text| !text.is_empty())
    }
}
