//! Reads the option `tools`: which tools of a server clients get, and what they are called.

use std::collections::BTreeMap;

use jsonc_parser::ast::{Object, Value};
use jsonc_parser::common::Ranged;

use super::members::{self, Member};
use super::reading::Reading;
use crate::directory::MAX_NAME;
use crate::tool_filter::{Glob, ToolFilter};

/// Its members.
const MEMBERS: [&str; 4] = ["allow", "deny", "rename", "prefix"];
/// How to write it.
const FORM: &str = "write { \"allow\": [\"get_*\"], \"deny\": [], \"rename\": {}, \"prefix\": \"x_\" }, or some of these members";
/// A longer prefix leaves too little of the name.
pub(super) const MAX_PREFIX: usize = 32;

/// None if it cannot be read; then a problem was noted.
pub(super) fn read(reading: &mut Reading<'_>, value: &Value<'_>, field: &str) -> Option<ToolFilter> {
    let [allow, deny, rename, prefix] =
        members::of_option(reading, value, field, MEMBERS, (FORM, "names the tools of"))?;
    let filter = ToolFilter {
        allow: allow.map(|allow| globs(reading, allow, field)),
        deny: deny.map(|deny| globs(reading, deny, field)).unwrap_or_default(),
        rename: rename.map(|rename| names(reading, rename, field)).unwrap_or_default(),
        prefix: prefix.and_then(|prefix| self::prefix(reading, prefix, field)),
        read_only: false,
    };
    if let Some(name) = filter.ambiguous_name() {
        let text = format!("two tools would be called \"{name}\"; give each a name of its own");
        reading.problem(value.range(), &format!("{field}.rename"), text);
    }
    Some(filter)
}

/// Whether an object was meant as a filter of ours. Some hosts have a member of this name, with other members.
pub(super) fn is_ours(object: &Object<'_>) -> bool {
    members::all(object).any(|member| {
        matches!(
            (member.name, member.value),
            ("allow" | "deny", Value::Array(_))
                | ("rename", Value::Object(_))
                | ("prefix", Value::StringLit(_))
        )
    })
}

fn globs(reading: &mut Reading<'_>, member: Member<'_>, field: &str) -> Vec<Glob> {
    let field = format!("{field}.{}", member.name);
    let Value::Array(list) = member.value else {
        reading.problem(member.value.range(), &field, "write a list of names, such as [\"get_*\"]");
        return vec![];
    };
    let mut globs = vec![];
    for (number, value) in list.elements.iter().enumerate() {
        match value {
            Value::StringLit(text) if !text.value.is_empty() => globs.push(Glob::new(&text.value)),
            _ => {
                let field = format!("{field}[{number}]");
                reading.problem(value.range(), &field, "write a name in quotes, such as \"get_*\"");
            }
        }
    }
    globs
}

fn names(reading: &mut Reading<'_>, member: Member<'_>, field: &str) -> BTreeMap<String, String> {
    let field = format!("{field}.{}", member.name);
    let Value::Object(object) = member.value else {
        reading.problem(member.value.range(), &field, "write { \"the server's name\": \"new_name\" }");
        return BTreeMap::new();
    };
    let mut names = BTreeMap::new();
    for tool in members::all(object) {
        let field = format!("{field}.{}", tool.name);
        match tool.value {
            Value::StringLit(name) if is_plain(&name.value, 1..=MAX_NAME) => {
                if names.insert(tool.name.to_owned(), name.value.to_string()).is_some() {
                    reading.problem(tool.at, &field, "it is written twice; keep one of them");
                }
            }
            value => {
                let text =
                    format!("write a name of 1 to {MAX_NAME} letters, digits, \"_\" and \"-\", in quotes");
                reading.problem(value.range(), &field, text);
            }
        }
    }
    names
}

fn prefix(reading: &mut Reading<'_>, member: Member<'_>, field: &str) -> Option<String> {
    match member.value {
        Value::StringLit(prefix) if is_plain(&prefix.value, 0..=MAX_PREFIX) => Some(prefix.value.to_string()),
        value => {
            let text = format!("write at most {MAX_PREFIX} letters, digits, \"_\" and \"-\", in quotes");
            reading.problem(value.range(), &format!("{field}.{}", member.name), text);
            None
        }
    }
}

fn is_plain(text: &str, lengths: std::ops::RangeInclusive<usize>) -> bool {
    lengths.contains(&text.len()) && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-')
}
