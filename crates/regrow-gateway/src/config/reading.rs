//! Reads one file: its servers, and everything that is wrong with it.

use std::path::PathBuf;

use jsonc_parser::ast::{Object, Value};
use jsonc_parser::common::{Range, Ranged};

use super::document::Document;
use super::expansion::Scope;
use super::inputs::Inputs;
use super::members::{self, Member};
use super::message::{Message, Place};
use super::options::{self, Options};
use super::surroundings::Surroundings;
use super::{MAX_SERVERS, Server, reach, workspace_of};

/// The members that hold servers.
const SECTIONS: [&str; 2] = ["mcpServers", "servers"];
/// Longer names fit in no list of tools.
const MAX_NAME: usize = 128;
/// Nobody mends more than these at once.
const MAX_PROBLEMS: usize = 1000;

/// A file while it is read.
pub(super) struct Reading<'a> {
    document: &'a Document,
    surroundings: &'a Surroundings,
    workspace: PathBuf,
    inputs: Inputs,
    problems: &'a mut Vec<Message>,
    /// Whose entry is being read.
    server: Option<String>,
}

/// A server of a file; none if it is switched off.
pub(super) struct Entry {
    pub(super) name: String,
    pub(super) place: Place,
    pub(super) server: Option<Server>,
}

impl<'a> Reading<'a> {
    pub(super) fn new(
        document: &'a Document,
        surroundings: &'a Surroundings,
        problems: &'a mut Vec<Message>,
    ) -> Reading<'a> {
        let workspace = workspace_of(&document.path, surroundings);
        Reading { document, surroundings, workspace, inputs: Inputs::default(), problems, server: None }
    }

    /// All servers of the file that can be made out.
    pub(super) fn entries(mut self) -> Vec<Entry> {
        let root = match self.document.root() {
            Ok(root) => root,
            Err(message) => {
                self.problems.push(message);
                return vec![];
            }
        };
        let [inputs, ours] = members::known(&mut self, &root, ["inputs", options::KEY]);
        self.inputs = Inputs::read(&mut self, inputs);
        let mut defaults = Options::default();
        options::read(&mut self, ours, &mut defaults);

        let sections = members::known(&mut self, &root, SECTIONS);
        if sections.iter().all(Option::is_none) {
            let text =
                "there are no servers in this file; add \"mcpServers\": { \"name\": { \"command\": ... } }";
            self.problem(root.range, "", text);
        }
        let mut entries: Vec<Entry> = vec![];
        for section in sections.into_iter().flatten() {
            let Value::Object(servers) = section.value else {
                let text = "it must be an object; write { \"name\": { \"command\": ... } }";
                self.problem(section.value.range(), section.name, text);
                continue;
            };
            for member in members::all(servers) {
                if entries.len() > MAX_SERVERS {
                    return entries; // Its reader says so.
                }
                self.server = Some(member.name.to_owned());
                if entries.iter().any(|entry| entry.name == member.name) {
                    self.problem(
                        member.at,
                        "",
                        "this file has a server of this name already; rename one of them",
                    );
                }
                entries.extend(self.entry(member, &defaults));
                self.server = None;
            }
        }
        entries
    }

    fn entry(&mut self, member: Member<'_>, defaults: &Options) -> Option<Entry> {
        let name = member.name.to_owned();
        let place = self.document.place(member.at.start);
        if name.trim().is_empty() || name.chars().count() > MAX_NAME {
            let text = format!("a server needs a name of at most {MAX_NAME} characters; give it one");
            self.problem(member.at, "", text);
        }
        let Value::Object(entry) = member.value else {
            self.problem(member.value.range(), "", "it must be an object; write { \"command\": ... }");
            return None;
        };
        if self.is_disabled(entry) {
            return Some(Entry { name, place, server: None });
        }
        let mut options = defaults.clone();
        let [ours] = members::known(self, entry, [options::KEY]);
        options::read(self, ours, &mut options);
        let reach = reach::read(self, entry)?;
        let server = Server { name: name.clone(), place: place.clone(), reach, options };
        Some(Entry { name, place, server: Some(server) })
    }

    fn is_disabled(&mut self, entry: &Object<'_>) -> bool {
        let switches = members::known(self, entry, ["disabled", "enabled"]);
        let [disabled, enabled] = switches.map(|member| {
            let member = member?;
            let Value::BooleanLit(flag) = member.value else {
                self.problem(member.value.range(), member.name, "it must be true or false");
                return None;
            };
            Some(flag.value)
        });
        disabled == Some(true) || enabled == Some(false)
    }

    /// A text with its references replaced. None if it is none; then a problem was noted.
    pub(super) fn text(&mut self, value: &Value<'_>, field: &str) -> Option<String> {
        let Value::StringLit(text) = value else {
            self.problem(value.range(), field, "it must be a text; write it in quotes");
            return None;
        };
        let scope =
            Scope { surroundings: self.surroundings, workspace: &self.workspace, inputs: &self.inputs };
        match scope.expand(&text.value) {
            Ok(text) if text.contains('\0') => {
                self.problem(
                    value.range(),
                    field,
                    "it contains a NUL, which no program can be given; take it out",
                );
                None
            }
            Ok(text) => Some(text),
            Err(problems) => {
                problems.into_iter().for_each(|problem| self.problem(value.range(), field, problem));
                None
            }
        }
    }

    /// A path; `~` is the home folder, and a relative one starts in the folder of the project.
    pub(super) fn path(&mut self, value: &Value<'_>, field: &str) -> Option<PathBuf> {
        let text = self.text(value, field)?;
        let at_home = if text == "~" { Some("") } else { text.strip_prefix("~/") };
        match (at_home, &self.surroundings.home) {
            (Some(rest), Some(home)) => Some(home.join(rest)),
            _ => Some(self.workspace.join(text)),
        }
    }

    /// Notes a problem. An empty field is the server, or the file, as a whole.
    pub(super) fn problem(&mut self, at: Range, field: &str, text: impl Into<String>) {
        let mut message = Message::at(self.document.place(at.start), text);
        if let Some(server) = &self.server {
            message = message.of_server(server);
        }
        if !field.is_empty() {
            message = message.of_field(field);
        }
        if self.problems.len() < MAX_PROBLEMS {
            self.problems.push(message);
        }
    }
}

/// Whether there is any server in the file.
pub(super) fn has_servers(root: &Object<'_>) -> bool {
    let sections = members::all(root).filter(|member| SECTIONS.contains(&member.name));
    sections.filter_map(|section| section.value.as_object()).any(|servers| !servers.properties.is_empty())
}
