//! Reads one file: its servers, and everything that is wrong with it.

use std::path::PathBuf;

use jsonc_parser::ast::{Object, Value};
use jsonc_parser::common::{Range, Ranged};

use super::document::Document;
use super::expansion::Scope;
use super::inputs::Inputs;
use super::members::{self, Member};
use super::message::{Message, Place, Problems};
use super::options::{self, Options};
use super::reach::{self, Reach};
use super::strays;
use super::surroundings::Surroundings;
use super::{MAX_SERVERS, Server, workspace_of};

/// The members that hold servers.
pub(super) const SECTIONS: [&str; 2] = ["mcpServers", "servers"];
/// Longer names fit in no list of tools.
const MAX_NAME: usize = 128;
/// Nobody fixes more than these at once.
const MAX_PROBLEMS: usize = 1000;
/// Nor more than these in one server.
const MAX_PROBLEMS_OF_SERVER: usize = 50;
/// More is not said that is no problem.
const MAX_REMARKS: usize = 100;

/// A file while it is read.
pub(super) struct Reading<'a> {
    document: &'a Document,
    surroundings: &'a Surroundings,
    workspace: PathBuf,
    inputs: Inputs,
    /// What is wrong with the file as a whole.
    problems: &'a mut Vec<Message>,
    remarks: &'a mut Vec<Message>,
    /// Whose entry is being read, and what is wrong with it.
    server: Option<(String, Vec<Message>)>,
}

/// What an entry says.
enum Described {
    Disabled,
    /// How it is reached, if that can be told.
    Wanted(Option<Reach>, Box<Options>),
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
        remarks: &'a mut Vec<Message>,
    ) -> Reading<'a> {
        let workspace = workspace_of(&document.path, surroundings);
        let inputs = Inputs::default();
        Reading { document, surroundings, workspace, inputs, problems, remarks, server: None }
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
        strays::in_file(&mut self, &root);

        let sections = members::known(&mut self, &root, SECTIONS);
        if sections.iter().all(Option::is_none) {
            let none = "there are no servers in this file";
            match strays::section_meant(&root) {
                Some((member, meant)) => {
                    let text = format!("{none}; did you mean \"{meant}\"?");
                    self.problem(member.at, member.name, text);
                }
                None => {
                    let text = format!("{none}; add \"mcpServers\": {{ \"name\": {{ \"command\": ... }} }}");
                    self.problem(root.range, "", text);
                }
            }
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
                if strays::among_servers(&mut self, &member) {
                    continue;
                }
                let again = entries.iter().position(|entry| entry.name == member.name);
                let before = again.map(|again| entries.remove(again));
                let at = again.unwrap_or(entries.len());
                entries.insert(at, self.entry(member, &defaults, before));
            }
        }
        entries
    }

    /// An entry with any problem is broken, whatever else could be made out: it must not run otherwise than its file says.
    fn entry(&mut self, member: Member<'_>, defaults: &Options, before: Option<Entry>) -> Entry {
        let name = member.name.to_owned();
        let place = self.document.place(member.at.start);
        self.server = Some((name.clone(), vec![]));
        if let Some(before) = before {
            let said = before.server.and_then(|server| server.problems().cloned());
            self.server
                .iter_mut()
                .for_each(|(_, problems)| problems.extend(said.clone().into_iter().flat_map(|said| said.0)));
            self.problem(member.at, "", "this file has a server of this name already; rename one of them");
        }
        let described = self.described(member, defaults);
        let mut problems = self.server.take().map(|(_, problems)| problems).unwrap_or_default();
        let (reach, options) = match (described, problems.is_empty()) {
            (Described::Disabled, true) => return Entry { name, place, server: None },
            (Described::Wanted(Some(reach), options), true) => (reach, options),
            (described, is_unexplained) => {
                if is_unexplained {
                    let text = "it has no valid \"command\" or \"url\"; give it a \"command\" or a \"url\"";
                    problems.push(Message::at(place.clone(), text).of_server(&name));
                }
                let options = match described {
                    Described::Wanted(_, options) => options,
                    Described::Disabled => Box::new(defaults.clone()),
                };
                (Reach::Broken(Problems(problems)), options)
            }
        };
        let server = Server { name: name.clone(), place: place.clone(), reach, options: *options };
        Entry { name, place, server: Some(server) }
    }

    fn described(&mut self, member: Member<'_>, defaults: &Options) -> Described {
        let mut options = Box::new(defaults.clone());
        if member.name.trim().is_empty() || member.name.chars().count() > MAX_NAME {
            let text = format!("a server needs a name of at most {MAX_NAME} characters; give it one");
            self.problem(member.at, "", text);
        }
        let Value::Object(entry) = member.value else {
            self.problem(member.value.range(), "", "it must be an object; write { \"command\": ... }");
            return Described::Wanted(None, options);
        };
        if self.is_disabled(entry) {
            return Described::Disabled;
        }
        let [ours] = members::known(self, entry, [options::KEY]);
        options::read(self, ours, &mut options);
        let reach = match strays::in_server(self, entry) {
            true => None,
            false => reach::read(self, entry),
        };
        Described::Wanted(reach, options)
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
            self.problem(value.range(), field, "it must be a string; write it in quotes");
            return None;
        };
        let scope =
            Scope { surroundings: self.surroundings, workspace: &self.workspace, inputs: &self.inputs };
        match scope.expand(&text.value) {
            Ok(text) if text.contains('\0') => {
                self.problem(value.range(), field, "it contains a NUL character; remove it");
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

    /// Whether the entry of a server is being read.
    pub(super) fn is_in_server(&self) -> bool {
        self.server.is_some()
    }

    /// Notes a problem. An empty field is the server, or the file, as a whole.
    pub(super) fn problem(&mut self, at: Range, field: &str, text: impl Into<String>) {
        let message = self.message(at, field, text);
        let (problems, most) = match &mut self.server {
            Some((_, problems)) => (problems, MAX_PROBLEMS_OF_SERVER),
            None => (&mut *self.problems, MAX_PROBLEMS),
        };
        if problems.len() < most {
            problems.push(message);
        }
    }

    /// Notes what is no problem.
    pub(super) fn remark(&mut self, at: Range, field: &str, text: impl Into<String>) {
        let message = self.message(at, field, text);
        if self.remarks.len() < MAX_REMARKS {
            self.remarks.push(message);
        }
    }

    fn message(&self, at: Range, field: &str, text: impl Into<String>) -> Message {
        let mut message = Message::at(self.document.place(at.start), text);
        if let Some((server, _)) = &self.server {
            message = message.of_server(server);
        }
        if !field.is_empty() {
            message = message.of_field(field);
        }
        message
    }
}

/// Whether there is any server in the file.
pub(super) fn has_servers(root: &Object<'_>) -> bool {
    let sections = members::all(root).filter(|member| SECTIONS.contains(&member.name));
    sections.filter_map(|section| section.value.as_object()).any(|servers| !servers.properties.is_empty())
}
