//! The members that we know, and how they are found in an object: each at most once.

use jsonc_parser::ast::{Object, ObjectProp, Value};
use jsonc_parser::common::{Range, Ranged};

use super::names::nearest;
use super::reading::Reading;
use crate::hosts::Host;

/// The members that hold servers in most files.
pub(super) const SECTIONS: [&str; 2] = ["mcpServers", "servers"];
/// The member that holds our own options.
pub(super) const KEY: &str = "regrow";
/// The members of a server's entry that have the same name in every host.
const OF_SERVER: [&str; 7] = ["envFile", "cwd", "type", "transport", "disabled", "enabled", KEY];

/// All members of a server's entry that we know, as this host writes them.
pub(super) fn of_server(host: &Host) -> Vec<&'static str> {
    let members = host.members;
    members
        .of_reach()
        .into_iter()
        .chain(members.name)
        .chain(OF_SERVER)
        .chain(members.own.iter().copied())
        .collect()
}

/// A member: its name as it is written, where that stands, and its value.
#[derive(Clone, Copy)]
pub(crate) struct Member<'a> {
    pub(crate) name: &'a str,
    pub(crate) at: Range,
    pub(crate) value: &'a Value<'a>,
}

/// The members of these names, the first of each. A second one is a problem: programs differ in which of them they take.
pub(super) fn known<'a, const N: usize>(
    reading: &mut Reading<'_>,
    object: &'a Object<'a>,
    names: [&str; N],
) -> [Option<Member<'a>>; N] {
    names.map(|name| {
        let mut found = all(object).filter(|member| member.name == name);
        let first = found.next();
        for again in found {
            reading.problem(again.at, name, "it is written twice; keep one of them");
        }
        first
    })
}

/// The members of an option that is an object, and that only a server can have. `form` says how to write it, and `about` what it is about. None if
/// it cannot be read; then a problem was noted.
pub(super) fn of_option<'a, const N: usize>(
    reading: &mut Reading<'_>,
    value: &'a Value<'a>,
    field: &str,
    names: [&str; N],
    (form, about): (&str, &str),
) -> Option<[Option<Member<'a>>; N]> {
    let Some(object) = value.as_object().filter(|object| !object.properties.is_empty()) else {
        reading.problem(value.range(), field, form);
        return None;
    };
    if !reading.is_in_server() {
        let text = format!("it {about} one server; move it into \"regrow\" of that server");
        reading.problem(value.range(), field, text);
        return None;
    }
    refuse_others(reading, object, field, names, form);
    Some(known(reading, object, names))
}

/// Members of other names are problems. `form` says how to write the object.
pub(super) fn refuse_others<const N: usize>(
    reading: &mut Reading<'_>,
    object: &Object<'_>,
    field: &str,
    names: [&str; N],
    form: &str,
) {
    for member in all(object).filter(|member| !names.contains(&member.name)) {
        let text = match nearest(member.name, names) {
            Some(meant) => format!("there is no such member; did you mean \"{meant}\"?"),
            None => format!("there is no such member; {form}"),
        };
        reading.problem(member.at, &format!("{field}.{}", member.name), text);
    }
}

/// All members in their order.
pub(crate) fn all<'a>(object: &'a Object<'a>) -> impl Iterator<Item = Member<'a>> {
    let member = |property: &'a ObjectProp<'a>| Member {
        name: property.name.as_str(),
        at: property.name.range(),
        value: &property.value,
    };
    object.properties.iter().map(member)
}
