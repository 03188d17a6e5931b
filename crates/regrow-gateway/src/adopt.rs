//! Puts `regrow wrap` in front of the servers of a host's configuration, and takes it away again.
//!
//! Text in, text out: what is not edited stays as it is, byte for byte. An adopted entry holds all that is needed to
//! undo it, so no backup is.

mod difference;
mod entry;
mod process;
mod remote;
mod tree;

use std::path::{Path, PathBuf};

use jsonc_parser::ast::Object;
use jsonc_parser::common::Ranged;
use jsonc_parser::cst::{CstObjectProp, CstRootNode};

use crate::config::{document, sections};
use crate::hosts::Host;
use entry::Entry;

/// Why a server in a sandbox is not adopted.
const SANDBOXED: &str = "it has a sandbox, which `regrow wrap` does not set up; run it behind `regrow serve`, or remove the sandbox";

/// What is to be done to a text.
#[derive(Debug)]
pub struct Plan {
    /// What becomes of each server, in the order of the text.
    pub steps: Vec<Step>,
    /// The text as it will be.
    pub text: String,
    /// The file that the text is from.
    path: PathBuf,
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

/// How to put every server, or the one of this name, behind `program`, which is the absolute path of ours. The path of the file tells
/// whose it is.
pub fn adopt(path: &Path, text: &str, program: &str, only: Option<&str>) -> Result<Plan, PlanError> {
    plan(path, text, only, |entry| match entry.is_ours(program) {
        true if entry.is_wrapped() => Outcome::Left("it already runs behind regrow"),
        true => Outcome::Left("it is regrow itself"),
        false if entry.has_sandbox() => Outcome::Refused(SANDBOXED.into()),
        false if entry.command.is_some() => process::adopt(entry, program),
        false => remote::adopt(entry, program),
    })
}

/// How to undo that.
pub fn undo(path: &Path, text: &str, program: &str, only: Option<&str>) -> Result<Plan, PlanError> {
    plan(path, text, only, |entry| {
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
pub fn is_spent(path: &Path, copy: &str, text: &str, program: &str) -> bool {
    let undone = |text: &str| {
        let plan = undo(path, text, program, None).ok()?;
        let (_, servers) = parse(path, &plan.text).ok()?;
        let servers: Vec<String> = servers.iter().map(|server| server.member.to_string()).collect();
        Some((plan.is_empty(), servers))
    };
    // A copy may be older than another adoption in the same file, so that is undone in it, too.
    let (copy, text) = (undone(copy), undone(text));
    matches!((copy, text), (Some((_, copied)), Some((true, servers))) if copied == servers)
}

fn plan(
    path: &Path,
    text: &str,
    only: Option<&str>,
    edit: impl Fn(&Entry) -> Outcome,
) -> Result<Plan, PlanError> {
    let (tree, servers) = parse(path, text)?;
    let (mut names, mut steps) = (vec![], vec![]);
    for server in servers {
        let name = server.member.decoded_name().unwrap_or_default();
        names.push(name.escape_debug().to_string());
        if only.is_some_and(|only| only != name) {
            continue;
        }
        let outcome = match server.is_built_in {
            true => Outcome::Left("its host provides it"),
            false => server.entry().map_or_else(Outcome::Refused, |entry| edit(&entry)),
        };
        steps.push(Step { server: name, line: server.line, outcome });
    }
    match (names.is_empty(), steps.is_empty()) {
        (true, _) => Err(PlanError::NoServers),
        (false, true) => Err(PlanError::NoSuchServer { names }),
        (false, false) => Ok(Plan { steps, text: tree.to_string(), path: path.to_owned() }),
    }
}

/// A server in the tree.
struct Server {
    host: &'static Host,
    member: CstObjectProp,
    /// The line it begins in.
    line: usize,
    is_built_in: bool,
}

impl Server {
    fn entry(&self) -> Result<Entry, String> {
        Entry::read(self.host, self.member.value())
    }
}

/// The tree, and the servers in it, in the order of the table of hosts.
fn parse(path: &Path, text: &str) -> Result<(CstRootNode, Vec<Server>), PlanError> {
    let line_of = |offset: usize| text[..offset].matches('\n').count() + 1;
    let wrong = |(offset, text)| PlanError::Text { line: line_of(offset), text };
    let root = document::parse(text).map_err(wrong)?;
    let tree = CstRootNode::parse(text, &document::OPTIONS)
        .map_err(|error| wrong((error.range().start, error.kind().to_string())))?;
    let mut servers = vec![];
    for section in sections::find(&root, path) {
        for server in sections::servers(&section).unwrap_or_default() {
            let is_built_in =
                server.value.as_object().is_some_and(|entry| sections::is_built_in(section.host, entry));
            let start = server.at.start;
            let member = property(&tree, &root, start);
            let server = |member| Server { host: section.host, member, line: line_of(start), is_built_in };
            servers.extend(member.map(server));
        }
    }
    Ok((tree, servers))
}

/// The property of the tree, which knows no positions, whose name begins here.
fn property(tree: &CstRootNode, root: &Object<'_>, start: usize) -> Option<CstObjectProp> {
    let (mut object, mut branch) = (root, tree.object_value()?);
    loop {
        let is_around = |range: jsonc_parser::common::Range| range.start <= start && start < range.end;
        let index = object.properties.iter().position(|property| is_around(property.range))?;
        let (found, member) = (&object.properties[index], branch.properties().into_iter().nth(index)?);
        if found.name.range().start == start {
            return Some(member);
        }
        (object, branch) = (found.value.as_object()?, member.object_value()?);
    }
}

impl Plan {
    /// Whether nothing is to be changed.
    pub fn is_empty(&self) -> bool {
        let changes = |step: &Step| matches!(step.outcome, Outcome::Changed | Outcome::ChangedWith(_));
        !self.steps.iter().any(changes)
    }

    /// What changes in `text`, line by line, for people; without the values of variables and headers.
    pub fn difference(&self, text: &str) -> String {
        difference::text(&without_secrets(&self.path, text), &without_secrets(&self.path, &self.text))
    }
}

/// Nothing at all if it cannot be read, so that no secret is shown.
fn without_secrets(path: &Path, text: &str) -> String {
    let Ok((tree, servers)) = parse(path, text) else { return String::new() };
    for entry in servers.iter().filter_map(|server| server.entry().ok()) {
        entry.hide_secrets();
    }
    tree.to_string()
}

#[cfg(test)]
mod tests;
