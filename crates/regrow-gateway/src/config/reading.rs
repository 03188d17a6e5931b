//! A file while it is read: its texts and paths with their references replaced, and everything that is wrong with it.

use std::path::PathBuf;

use jsonc_parser::ast::Value;
use jsonc_parser::common::{Range, Ranged};

use super::content::Content;
use super::document::Document;
use super::expansion::Scope;
use super::inputs::Inputs;
use super::message::Message;
use super::surroundings::Surroundings;
use super::workspace_of;
use crate::hosts::{HOSTS, Host};

/// Nobody fixes more than these at once.
const MAX_PROBLEMS: usize = 1000;
/// Nor more than these in one server.
const MAX_PROBLEMS_OF_SERVER: usize = 50;
/// More is not said that is no problem.
const MAX_REMARKS: usize = 100;

/// A file while it is read.
pub(super) struct Reading<'a> {
    pub(super) document: &'a Document,
    pub(super) surroundings: &'a Surroundings,
    workspace: PathBuf,
    /// The host whose servers are being read.
    pub(super) host: &'static Host,
    pub(super) inputs: Inputs,
    /// What is wrong with the file as a whole.
    pub(super) problems: &'a mut Vec<Message>,
    remarks: &'a mut Vec<Message>,
    /// Of all files that are read.
    pub(super) content: &'a mut Content,
    /// Whose entry is being read, and what is wrong with it.
    pub(super) server: Option<(String, Vec<Message>)>,
}

impl<'a> Reading<'a> {
    pub(super) fn new(
        document: &'a Document,
        surroundings: &'a Surroundings,
        problems: &'a mut Vec<Message>,
        remarks: &'a mut Vec<Message>,
        content: &'a mut Content,
    ) -> Reading<'a> {
        let workspace = workspace_of(&document.path, surroundings);
        let inputs = Inputs::default();
        let host = Host::of_file(&document.path).first().copied().unwrap_or(&HOSTS[0]);
        Reading { document, surroundings, workspace, host, inputs, problems, remarks, content, server: None }
    }

    /// A text with its references replaced. None if it is none; then a problem was noted.
    pub(super) fn text(&mut self, value: &Value<'_>, field: &str) -> Option<String> {
        let Value::StringLit(text) = value else {
            self.problem(value.range(), field, "it must be a string; write it in quotes");
            return None;
        };
        let scope = Scope {
            surroundings: self.surroundings,
            workspace: &self.workspace,
            inputs: &self.inputs,
            variables: self.host.variables,
        };
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
