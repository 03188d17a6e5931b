//! The members of a file that hold servers, as the table of hosts says.

use std::path::Path;

use jsonc_parser::ast::{Object, Value};
use jsonc_parser::common::Ranged;

use super::members::{self, Member};
use crate::hosts::{Format, Host};

/// A member that holds servers.
#[derive(Clone, Copy)]
pub(crate) struct Section<'a> {
    pub(crate) host: &'static Host,
    pub(crate) name: &'a str,
    pub(crate) value: &'a Value<'a>,
    /// The project that its servers are for, where the file has several.
    pub(crate) project: Option<&'a str>,
}

/// Those of a file, in the order of the table.
pub(crate) fn find<'a>(root: &'a Object<'a>, path: &Path) -> Vec<Section<'a>> {
    let found = of_hosts(root, Host::of_file(path));
    if found.is_empty() { of_hosts(root, Host::all_of(Format::of(path)).collect()) } else { found }
}

fn of_hosts<'a>(root: &'a Object<'a>, hosts: Vec<&'static Host>) -> Vec<Section<'a>> {
    let mut found: Vec<Section<'a>> = vec![];
    for host in hosts {
        for section in host.sections.iter().flat_map(|path| at_path(host, root, path)) {
            let range = section.value.range();
            let is_inside =
                |other: &Section<'_>| range.start <= other.value.start() && other.value.end() <= range.end;
            if !found.iter().any(is_inside) && is_of_host(&section) {
                found.push(section);
            }
        }
    }
    found
}

/// The members at this path; several where it has a `*`.
fn at_path<'a>(host: &'static Host, root: &'a Object<'a>, path: &str) -> Vec<Section<'a>> {
    let mut places: Vec<(Option<&'a str>, &'a Object<'a>)> = vec![(None, root)];
    let (folders, last) = path.rsplit_once('/').unwrap_or(("", path));
    for folder in folders.split('/').filter(|folder| !folder.is_empty()) {
        places = places
            .into_iter()
            .flat_map(|(project, object)| members::all(object).map(move |member| (project, member)))
            .filter(|(_, member)| folder == "*" || member.name == folder)
            .filter_map(|(project, member)| {
                let project = if folder == "*" { Some(member.name) } else { project };
                Some((project, member.value.as_object()?))
            })
            .collect();
    }
    let section = |(project, object): (Option<&'a str>, &'a Object<'a>)| {
        let Member { name, value, .. } = members::all(object).find(|member| member.name == last)?;
        Some(Section { host, name, value, project })
    };
    places.into_iter().filter_map(section).collect()
}

/// Other hosts have settings of their own under the short name that opencode has for its servers.
fn is_of_host(section: &Section<'_>) -> bool {
    let is_server = |value: &Value<'_>| {
        let names =
            |object: &Object<'_>| members::all(object).any(|it| ["type", "enabled"].contains(&it.name));
        value.as_object().is_some_and(names)
    };
    section.name != "mcp"
        || section
            .value
            .as_object()
            .is_some_and(|servers| members::all(servers).all(|it| is_server(it.value)))
}

/// The servers of a section, each with its name. None if the section is not an object, or not a list where its host has one.
pub(crate) fn servers<'a>(section: &Section<'a>) -> Option<Vec<Member<'a>>> {
    let Some(name) = section.host.members.name else {
        return Some(members::all(section.value.as_object()?).collect());
    };
    let named = |value: &'a Value<'a>| {
        let name = value.as_object().and_then(|entry| entry.get_string(name));
        Member { name: name.map_or("", |name| &*name.value), at: value.range(), value }
    };
    Some(section.value.as_array()?.elements.iter().map(named).collect())
}

/// Whether an extension of the host provides this server: then Regrow can neither start it nor connect to it.
pub(crate) fn is_built_in(host: &Host, entry: &Object<'_>) -> bool {
    let members = host.members;
    let has = |name: &str| members::all(entry).any(|member| member.name == name);
    members.has_extensions && !has(members.command) && !members.urls.iter().any(|url| has(url))
}
