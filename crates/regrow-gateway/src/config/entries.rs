//! Reads the servers of one file.

use std::path::Path;

use jsonc_parser::ast::{Object, Value};
use jsonc_parser::common::Ranged;

use super::members::{self, KEY, Member};
use super::message::{Message, Place, Problems};
use super::options::{self, Options};
use super::reach::{self, Reach};
use super::reading::Reading;
use super::sections::{self, Section};
use super::strays;
use super::surroundings::Surroundings;
use super::written;
use super::{MAX_SERVERS, ServerConfig};
use crate::hosts::Format;

/// Longer names fit in no list of tools.
const MAX_NAME: usize = 128;

/// A server of a file; none if it is switched off.
pub(super) struct Entry {
    pub(super) name: String,
    pub(super) place: Place,
    pub(super) server: Option<ServerConfig>,
    /// How it is reached, as it is written.
    pub(super) written: Vec<String>,
    /// Whether it is for one project of those in the file.
    is_of_project: bool,
}

/// What an entry says.
enum Described {
    Disabled,
    /// How it is reached, if that can be told.
    Wanted(Option<Reach>, Box<Options>),
}

/// All servers of the file that can be made out.
pub(super) fn read(mut reading: Reading<'_>) -> Vec<Entry> {
    let root = match reading.document.root() {
        Ok(root) => root,
        Err(message) => {
            reading.problems.push(message);
            return vec![];
        }
    };
    let [inputs, ours, among_settings] = members::known(&mut reading, &root, ["inputs", KEY, "mcp"]);
    read_inputs(&mut reading, inputs);
    if let Some(settings) = among_settings.and_then(|settings| settings.value.as_object()) {
        let [inputs] = members::known(&mut reading, settings, ["inputs"]);
        read_inputs(&mut reading, inputs);
    }
    let mut defaults = Options::default();
    options::read(&mut reading, ours, &mut defaults);
    strays::in_file(&mut reading, &root);

    let sections = sections::find(&root, &reading.document.path);
    for section in sections.iter().filter(|section| section.project.is_none()) {
        members::known(&mut reading, &root, [section.name]); // Says so if it is there twice.
    }
    if sections.is_empty() {
        let none = "there are no servers in this file";
        match strays::section_meant(&root) {
            Some((member, meant)) => {
                let text = format!("{none}; did you mean \"{meant}\"?");
                reading.problem(member.at, member.name, text);
            }
            None => {
                let example = match Format::of(&reading.document.path) {
                    Format::Json => "\"mcpServers\": { \"name\": { \"command\": ... } }",
                    Format::Toml => "[mcp_servers.name] with command = \"...\"",
                    Format::Yaml => "mcp_servers: with name: below it, and command: below that",
                };
                reading.problem(root.range, "", format!("{none}; add {example}"));
            }
        }
    }
    let mut entries: Vec<Entry> = vec![];
    for section in sections {
        if section.project.is_some_and(|project| !reading.surroundings.is_project(project)) {
            continue;
        }
        reading.host = section.host;
        let Some(servers) = sections::servers(&section) else {
            let text = match section.host.members.name {
                Some(_) => "it must be a list of servers, each with its name; write - name: ...",
                None => "it must be an object; write { \"name\": { \"command\": ... } }",
            };
            reading.problem(section.value.range(), section.name, text);
            continue;
        };
        for member in servers {
            if entries.len() > MAX_SERVERS {
                return entries; // Its reader says so.
            }
            if strays::among_servers(&mut reading, &member) || is_built_in(&section, &member) {
                continue;
            }
            let again = entries.iter().position(|entry| entry.name == member.name);
            let mut before = again.map(|again| entries.remove(again));
            if before.as_ref().is_some_and(|before| section.project.is_some() && !before.is_of_project) {
                let text = "this server of the project is used instead of the user's server of this name";
                reading.remark(member.at, member.name, text);
                before = None;
            }
            let at = again.unwrap_or(entries.len());
            let read = entry(&mut reading, member, &defaults, before);
            entries.insert(at, Entry { is_of_project: section.project.is_some(), ..read });
        }
    }
    entries
}

fn is_built_in(section: &Section<'_>, member: &Member<'_>) -> bool {
    member.value.as_object().is_some_and(|entry| sections::is_built_in(section.host, entry))
}

/// An entry with any problem is broken, whatever else could be made out: it must not run otherwise than its file says.
fn entry(reading: &mut Reading<'_>, member: Member<'_>, defaults: &Options, before: Option<Entry>) -> Entry {
    let name = member.name.to_owned();
    let place = reading.document.place(member.at.start);
    let written = member.value.as_object().map(|it| written::lines(reading.host, it)).unwrap_or_default();
    reading.server = Some((name.clone(), vec![]));
    if let Some(before) = before {
        let said = before.server.and_then(|server| server.problems().cloned());
        reading
            .server
            .iter_mut()
            .for_each(|(_, problems)| problems.extend(said.clone().into_iter().flat_map(|said| said.0)));
        reading.problem(member.at, "", "this file has a server of this name already; rename one of them");
    }
    let described = described(reading, member, defaults);
    let mut problems = reading.server.take().map(|(_, problems)| problems).unwrap_or_default();
    let (reach, options) = match (described, problems.is_empty()) {
        (Described::Disabled, true) => {
            return Entry { name, place, server: None, written, is_of_project: false };
        }
        (Described::Wanted(Some(reach), options), true) => (reach, options),
        (described, is_unexplained) => {
            if is_unexplained {
                let text = "it has no valid \"command\" or \"url\"; give it one";
                problems.push(Message::at(place.clone(), text).of_server(&name));
            }
            let options = match described {
                Described::Wanted(_, options) => options,
                Described::Disabled => Box::new(defaults.clone()),
            };
            (Reach::Broken(Problems(problems)), options)
        }
    };
    let file = reading.document.path.clone();
    let server = ServerConfig {
        name: name.clone(),
        file,
        place: place.clone(),
        reach,
        options: *options,
        account_is_of: None,
    };
    Entry { name, place, server: Some(server), written, is_of_project: false }
}

fn described(reading: &mut Reading<'_>, member: Member<'_>, defaults: &Options) -> Described {
    let mut options = Box::new(defaults.clone());
    if member.name.trim().is_empty() || member.name.chars().count() > MAX_NAME {
        let text = format!("a server needs a name of at most {MAX_NAME} characters; give it one");
        reading.problem(member.at, "", text);
    }
    let Value::Object(entry) = member.value else {
        reading.problem(member.value.range(), "", "it must be an object; write { \"command\": ... }");
        return Described::Wanted(None, options);
    };
    if is_disabled(reading, entry) {
        return Described::Disabled;
    }
    let [ours] = members::known(reading, entry, [KEY]);
    options::read(reading, ours, &mut options);
    let reach = match strays::in_server(reading, entry) {
        true => None,
        false => reach::read(reading, entry),
    };
    if matches!(reach, Some(Reach::Remote(_))) {
        options.sign_in = options.sign_in.over_host(reading, entry);
    }
    let own = ours.and_then(|ours| members::all(ours.value.as_object()?).find(|it| it.name == "sandbox"));
    if let (Some(Reach::Remote(_)), Some(own)) = (&reach, own.filter(|_| options.sandbox.is_some())) {
        let text = "a remote server does not run here, so it cannot be in a sandbox; remove it";
        reading.problem(own.at, "regrow.sandbox", text);
    }
    Described::Wanted(reach, options)
}

fn is_disabled(reading: &mut Reading<'_>, entry: &Object<'_>) -> bool {
    let switches = members::known(reading, entry, ["disabled", "enabled"]);
    let [disabled, enabled] = switches.map(|member| {
        let member = member?;
        let Value::BooleanLit(flag) = member.value else {
            reading.problem(member.value.range(), member.name, "it must be true or false");
            return None;
        };
        Some(flag.value)
    });
    disabled == Some(true) || enabled == Some(false)
}

fn read_inputs(reading: &mut Reading<'_>, member: Option<Member<'_>>) {
    let Some(member) = member else { return };
    let Value::Array(list) = member.value else {
        reading.problem(member.value.range(), "inputs", "it must be a list; write [ ] around the inputs");
        return;
    };
    for value in &list.elements {
        let object = value.as_object();
        let [id, password, default] = match object {
            Some(object) => members::known(reading, object, ["id", "password", "default"]),
            None => [None; 3],
        };
        let Some(id) = id.and_then(|id| id.value.as_string_lit()) else {
            reading.problem(value.range(), "inputs", "an input needs an \"id\"; give it one");
            continue;
        };
        let is_password = password.is_some_and(|it| it.value.as_boolean_lit().is_some_and(|it| it.value));
        let default = default.and_then(|it| it.value.as_string_lit()).map(|it| it.value.to_string());
        reading.inputs.declare(id.value.to_string(), is_password, default);
    }
}

/// Whether there is any server in the file that would be read.
pub(super) fn has_servers(root: &Object<'_>, path: &Path, surroundings: &Surroundings) -> bool {
    let is_read =
        |section: &Section<'_>| section.project.is_none_or(|project| surroundings.is_project(project));
    let has_servers = |section: Section<'_>| {
        let servers = sections::servers(&section).unwrap_or_default();
        servers.iter().any(|server| !is_built_in(&section, server))
    };
    sections::find(root, path).into_iter().filter(is_read).any(has_servers)
}
