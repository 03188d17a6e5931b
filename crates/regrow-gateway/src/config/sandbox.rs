//! Reads the option `sandbox`: what a server may read and write, and whether it may use the network.

use std::path::PathBuf;

use jsonc_parser::ast::{Object, Value};
use jsonc_parser::common::Ranged;
use regrow::transport::stdio::Sandbox;

use super::members::{self, Member};
use super::reading::Reading;

/// Its members.
const MEMBERS: [&str; 4] = ["read", "write", "net", "required"];
/// How to write it.
const FORM: &str = "write { \"read\": [\"/data\"], \"write\": [], \"net\": false }, or \"none\"";

/// None if it cannot be read; then a problem was noted. `Some(None)` turns off one that holds for all servers.
pub(super) fn read(reading: &mut Reading<'_>, value: &Value<'_>, field: &str) -> Option<Option<Sandbox>> {
    let object = match value {
        Value::StringLit(word) if word.value == "none" => return Some(None),
        Value::Object(object) if !object.properties.is_empty() => object,
        _ => {
            reading.problem(value.range(), field, FORM);
            return None;
        }
    };
    members::refuse_others(reading, object, field, MEMBERS, FORM);
    let [read, write, net, required] = members::known(reading, object, MEMBERS);
    Some(Some(Sandbox {
        read: paths(reading, read, field),
        write: paths(reading, write, field),
        net: flag(reading, net, field),
        required: flag(reading, required, field),
    }))
}

/// Whether an object was meant as a sandbox of ours. Some hosts have a member of this name, with other members.
pub(super) fn is_ours(object: &Object<'_>) -> bool {
    members::all(object).any(|member| MEMBERS.contains(&member.name))
}

fn paths(reading: &mut Reading<'_>, member: Option<Member<'_>>, field: &str) -> Vec<PathBuf> {
    let Some(member) = member else { return vec![] };
    let field = format!("{field}.{}", member.name);
    let Value::Array(list) = member.value else {
        reading.problem(member.value.range(), &field, "write a list of paths, such as [\"/data\"]");
        return vec![];
    };
    let mut paths = vec![];
    for (number, value) in list.elements.iter().enumerate() {
        let field = format!("{field}[{number}]");
        let text = reading.text(value, &field);
        if text.is_some_and(|text| text.trim().is_empty()) {
            reading.problem(value.range(), &field, "it is empty; name a file or a folder");
        } else {
            paths.extend(value.as_string_lit().and_then(|_| reading.path(value, &field)));
        }
    }
    paths
}

/// Not set is false: what is not allowed is denied.
fn flag(reading: &mut Reading<'_>, member: Option<Member<'_>>, field: &str) -> bool {
    match member.map(|member| (member.name, member.value)) {
        None => false,
        Some((_, Value::BooleanLit(flag))) => flag.value,
        Some((name, value)) => {
            reading.problem(value.range(), &format!("{field}.{name}"), "write true or false");
            false
        }
    }
}
