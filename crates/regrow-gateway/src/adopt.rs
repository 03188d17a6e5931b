//! Puts `regrow wrap` in front of the servers of a host's configuration, and takes it away again.
//!
//! Text in, edits out: what is not edited stays as it is, byte for byte. An adopted entry holds all that is needed to
//! undo it, so no backup is.

mod difference;
mod edit;
mod entry;
mod place;
mod process;
mod remote;

use jsonc_parser::ast::Object;

use crate::config::document;
use edit::Edit;
use entry::Entry;

/// What is to be done to a text.
#[derive(Debug)]
pub struct Plan {
    /// What becomes of each server, in the order of the text.
    pub steps: Vec<Step>,
    edits: Vec<Edit>,
    /// Values that should not be shown.
    secrets: Vec<std::ops::Range<usize>>,
}

/// What becomes of one server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// Its name, not yet safe to print.
    pub server: String,
    /// The line it begins in.
    pub line: usize,
    /// What is done.
    pub outcome: Outcome,
}

/// What is done with a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is changed.
    Changed,
    /// It is changed, and its user should know this.
    ChangedWith(&'static str),
    /// There is nothing to do, and why.
    Left(&'static str),
    /// It cannot be done, and what to do instead.
    Refused(String),
}

/// Why there is no plan.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// The text cannot be read.
    #[error("line {line}: {text}")]
    Text {
        /// Where.
        line: usize,
        /// Why, and what to do.
        text: String,
    },
    /// There are no servers in it.
    #[error("there are no servers in this file; name the configuration of an MCP host")]
    NoServers,
    /// No server has the name that was asked for.
    #[error("no server has this name; there are {}", .names.join(", "))]
    NoSuchServer {
        /// Those that there are, safe to print.
        names: Vec<String>,
    },
}

/// How to put every server, or the one of this name, behind `program`, which is the absolute path of ours.
pub fn adopt(text: &str, program: &str, only: Option<&str>) -> Result<Plan, PlanError> {
    plan(text, only, |entry| match entry.is_ours(program) {
        true if entry.is_wrapped() => (Outcome::Left("it is behind regrow already"), vec![]),
        true => (Outcome::Left("it is regrow itself"), vec![]),
        false if entry.command.is_some() => process::adopt(entry, program),
        false => remote::adopt(entry, program),
    })
}

/// How to undo that.
pub fn undo(text: &str, program: &str, only: Option<&str>) -> Result<Plan, PlanError> {
    plan(text, only, |entry| {
        if !entry.is_ours(program) || !entry.is_wrapped() {
            (Outcome::Left("it is not behind regrow"), vec![])
        } else if !entry.is_adopted() {
            (Outcome::Left("it was put behind regrow by hand"), vec![])
        } else if remote::is_adopted(entry) {
            remote::undo(entry)
        } else {
            process::undo(entry)
        }
    })
}

fn plan(
    text: &str,
    only: Option<&str>,
    decide: impl Fn(&Entry<'_>) -> (Outcome, Vec<Edit>),
) -> Result<Plan, PlanError> {
    let line_of = |offset: usize| text[..offset].bytes().filter(|byte| *byte == b'\n').count() + 1;
    let root =
        document::parse(text).map_err(|(offset, text)| PlanError::Text { line: line_of(offset), text })?;
    let mut plan = Plan { steps: vec![], edits: vec![], secrets: vec![] };
    let mut names = vec![];
    for section in sections(&root) {
        for property in &section.properties {
            let name = property.name.as_str();
            names.push(name.escape_debug().to_string());
            if only.is_some_and(|only| only != name) {
                continue;
            }
            let (outcome, edits) = match Entry::read(text, &property.value) {
                Ok(entry) => {
                    plan.secrets.extend(entry.secrets());
                    decide(&entry)
                }
                Err(problem) => (Outcome::Refused(problem), vec![]),
            };
            plan.edits.extend(edits);
            let line = line_of(property.range.start);
            plan.steps.push(Step { server: name.to_owned(), line, outcome });
        }
    }
    match (names.is_empty(), plan.steps.is_empty()) {
        (true, _) => Err(PlanError::NoServers),
        (false, true) => Err(PlanError::NoSuchServer { names }),
        (false, false) => {
            plan.edits.sort_by_key(|edit| (edit.range.start, edit.range.end));
            Ok(plan)
        }
    }
}

/// Where hosts keep servers: at top level, per project (Claude Code), or among other settings (VS Code).
fn sections<'a>(root: &'a Object<'a>) -> Vec<&'a Object<'a>> {
    let projects = root.get_object("projects").into_iter().flat_map(|projects| &projects.properties);
    let places = std::iter::once(root)
        .chain(root.get_object("mcp"))
        .chain(projects.filter_map(|project| project.value.as_object()));
    places.flat_map(|place| ["mcpServers", "servers"].map(|name| place.get_object(name))).flatten().collect()
}

impl Plan {
    /// Whether nothing is to be changed.
    pub fn is_empty(&self) -> bool {
        self.edits.is_empty()
    }

    /// The text as it will be.
    pub fn apply(&self, text: &str) -> String {
        edit::apply(text, 0..text.len(), self.edits.iter().map(|edit| (&edit.range, &*edit.text)))
    }

    /// What changes, line by line, for people; without the values of variables and headers.
    pub fn difference(&self, text: &str) -> String {
        difference::text(text, &self.edits, &self.secrets)
    }
}

#[cfg(test)]
mod tests;
