//! Puts `regrow wrap` in front of the servers of a host's configuration, and takes it away again.
//!
//! Text in, text out: what is not edited stays as it is, byte for byte. An adopted entry holds all that is needed to
//! undo it, so no backup is.

mod difference;
mod entry;
mod process;
mod remote;
mod tree;

use jsonc_parser::ast::Object;
use jsonc_parser::cst::{CstObject, CstObjectProp, CstRootNode};

use crate::config::document;
use entry::Entry;

/// What is to be done to a text.
#[derive(Debug)]
pub struct Plan {
    /// What becomes of each server, in the order of the text.
    pub steps: Vec<Step>,
    /// The text as it will be.
    pub text: String,
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
        true if entry.is_wrapped() => Outcome::Left("it already runs behind regrow"),
        true => Outcome::Left("it is regrow itself"),
        false if entry.command.is_some() => process::adopt(entry, program),
        false => remote::adopt(entry, program),
    })
}

/// How to undo that.
pub fn undo(text: &str, program: &str, only: Option<&str>) -> Result<Plan, PlanError> {
    plan(text, only, |entry| {
        if !entry.is_ours(program) || !entry.is_wrapped() {
            Outcome::Left("it is not behind regrow")
        } else if !entry.is_adopted() {
            Outcome::Left("it was put behind regrow by hand")
        } else if remote::is_adopted(entry) {
            remote::undo(entry)
        } else {
            process::undo(entry)
        }
    })
}

/// Whether a copy from before an adoption is not needed any more: no server in `text` is behind `program` by adoption, and the servers are the
/// same as in the copy. What else the host keeps in the file may have changed.
pub fn is_spent(copy: &str, text: &str, program: &str) -> bool {
    let undone = |text: &str| {
        let plan = undo(text, program, None).ok()?;
        let (tree, _) = parse(&plan.text).ok()?;
        let servers: Vec<String> = servers(&tree).iter().map(CstObjectProp::to_string).collect();
        Some((plan.is_empty(), servers))
    };
    // A copy may be older than another adoption in the same file, so that is undone in it, too.
    let (copy, text) = (undone(copy), undone(text));
    matches!((copy, text), (Some((_, copied)), Some((true, servers))) if copied == servers)
}

fn plan(text: &str, only: Option<&str>, edit: impl Fn(&Entry) -> Outcome) -> Result<Plan, PlanError> {
    let (tree, lines) = parse(text)?;
    let (mut names, mut steps) = (vec![], vec![]);
    for (server, line) in servers(&tree).into_iter().zip(lines) {
        let name = server.decoded_name().unwrap_or_default();
        names.push(name.escape_debug().to_string());
        if only.is_some_and(|only| only != name) {
            continue;
        }
        let outcome = Entry::read(server.value()).map_or_else(Outcome::Refused, |entry| edit(&entry));
        steps.push(Step { server: name, line, outcome });
    }
    match (names.is_empty(), steps.is_empty()) {
        (true, _) => Err(PlanError::NoServers),
        (false, true) => Err(PlanError::NoSuchServer { names }),
        (false, false) => Ok(Plan { steps, text: tree.to_string() }),
    }
}

/// The tree, which knows no positions, and the line in which each server begins.
fn parse(text: &str) -> Result<(CstRootNode, Vec<usize>), PlanError> {
    let line_of = |offset: usize| text[..offset].matches('\n').count() + 1;
    let wrong = |(offset, text)| PlanError::Text { line: line_of(offset), text };
    let root = document::parse(text).map_err(wrong)?;
    let properties = sections(
        &root,
        |place: &&Object<'_>, name| place.get_object(name),
        |place| place.properties.iter().filter_map(|property| property.value.as_object()).collect(),
    );
    let lines =
        properties.iter().flat_map(|section| &section.properties).map(|server| line_of(server.range.start));
    let tree = CstRootNode::parse(text, &document::OPTIONS)
        .map_err(|error| wrong((error.range().start, error.kind().to_string())))?;
    Ok((tree, lines.collect()))
}

/// Where hosts keep servers: at top level, per project (Claude Code), or among other settings (VS Code).
fn sections<T: Clone>(
    root: T,
    member: impl Fn(&T, &str) -> Option<T>,
    members: impl Fn(&T) -> Vec<T>,
) -> Vec<T> {
    let projects = member(&root, "projects").map(|projects| members(&projects)).unwrap_or_default();
    let places = [root.clone()].into_iter().chain(member(&root, "mcp")).chain(projects);
    places.flat_map(|place| ["mcpServers", "servers"].map(|name| member(&place, name))).flatten().collect()
}

fn servers(tree: &CstRootNode) -> Vec<CstObjectProp> {
    let objects =
        |place: &CstObject| place.properties().iter().filter_map(CstObjectProp::object_value).collect();
    let root = tree.object_value();
    let sections =
        root.map(|root| sections(root, |place, name| place.object_value(name), |place| objects(place)));
    sections.into_iter().flatten().flat_map(|section| section.properties()).collect()
}

impl Plan {
    /// Whether nothing is to be changed.
    pub fn is_empty(&self) -> bool {
        let changes = |step: &Step| matches!(step.outcome, Outcome::Changed | Outcome::ChangedWith(_));
        !self.steps.iter().any(changes)
    }

    /// What changes in `text`, line by line, for people; without the values of variables and headers.
    pub fn difference(&self, text: &str) -> String {
        difference::text(&without_secrets(text), &without_secrets(&self.text))
    }
}

/// Nothing at all if it cannot be read, so that no secret is shown.
fn without_secrets(text: &str) -> String {
    let Ok(tree) = CstRootNode::parse(text, &document::OPTIONS) else { return String::new() };
    for entry in servers(&tree).iter().filter_map(|server| Entry::read(server.value()).ok()) {
        entry.hide_secrets();
    }
    tree.to_string()
}

#[cfg(test)]
mod tests;
