//! How a server is reached, as its entry says it: for a person who decides whether it may run.

use jsonc_parser::ast::{Object, Value};
use regrow_protocol::text::escape;

use super::members::{self, KEY};
use crate::hosts::Host;

/// A line for each member that says this, as it is written: references such as `${TOKEN}` are not replaced. Safe to print on a terminal.
pub(super) fn lines(host: &Host, entry: &Object<'_>) -> Vec<String> {
    // The members that decide what runs, or which address is contacted.
    let names = host.members.of_reach().into_iter().chain(["envFile", "cwd"]);
    let members = names.flat_map(|name| members::all(entry).filter(move |member| member.name == name));
    let members = members.map(|member| escape(&format!("{}: {}", member.name, json(member.value))));
    // What decides where secrets and tokens go.
    let ours = members::all(entry).filter(|member| member.name == KEY);
    let ours = ours.filter_map(|member| member.value.as_object()).flat_map(members::all);
    let sign_in = ours.filter(|member| member.name == "signIn");
    let sign_in = sign_in
        .chain(members::all(entry).filter(|member| ["oauth", "auth", "scopes"].contains(&member.name)));
    members.chain(sign_in.map(|member| escape(&format!("{}: {}", member.name, json(member.value))))).collect()
}

pub(crate) fn json(value: &Value<'_>) -> String {
    let joined = |parts: Vec<String>| parts.join(", ");
    match value {
        Value::StringLit(text) => serde_json::Value::from(&*text.value).to_string(),
        Value::NumberLit(number) => number.value.to_owned(),
        Value::BooleanLit(flag) => flag.value.to_string(),
        Value::NullKeyword(_) => "null".to_owned(),
        Value::Array(list) => format!("[{}]", joined(list.elements.iter().map(json).collect())),
        Value::Object(object) => {
            let pairs = members::all(object)
                .map(|member| format!("{}: {}", serde_json::Value::from(member.name), json(member.value)));
            format!("{{{}}}", joined(pairs.collect()))
        }
    }
}
