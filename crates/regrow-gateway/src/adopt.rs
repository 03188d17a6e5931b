//! Puts `regrow wrap` in front of the servers of a host's configuration, and takes it away again.
//!
//! Text in, text out: what is not edited stays as it is, byte for byte. An adopted entry holds all that is needed to
//! undo it, so no backup is.

mod difference;
mod entry;
mod process;
mod remote;
mod sign_in;
mod source;

use std::path::{Path, PathBuf};

use jsonc_parser::ast::{Object, Value};
use jsonc_parser::common::Ranged;

use crate::config::members::Member;
use crate::config::{sections, syntax};
use crate::hosts::Host;
use entry::Entry;
use source::{Edit, Source, apply};

/// Why a server in a sandbox is not adopted.
const SANDBOXED: &str = "it has a sandbox, which `regrow wrap` does not set up; run it behind `regrow serve`, or remove the sandbox";
/// Why what several servers share is not changed.
const ANCHORED: &str = "it has an anchor (&) or an alias (*), so that other parts of the file would change as well; write it out first";
/// Why an edit is not made although it could be.
const INEXACT: &str = "regrow could not undo the change exactly; put it behind `regrow wrap` by hand";

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
    /// No server has a name that was asked for.
    #[error("no server has this name; there are {}", .names.join(", "))]
    NoSuchServer {
        /// Those that there are, safe to print.
        names: Vec<String>,
    },
}

/// How to put every server, or those of these names, behind `program`, which is what the host is to call us by. The path of the file tells
/// whose it is.
pub fn adopt(path: &Path, text: &str, program: &str, only: &[String]) -> Result<Plan, PlanError> {
    let edit = |entry: &Entry<'_>| match entry.is_ours(program) {
        true if entry.is_wrapped() => left("it already runs behind regrow"),
        true => left("it is regrow itself"),
        false if entry.has_sandbox() => (Outcome::Refused(SANDBOXED.into()), vec![]),
        false if entry.command.is_some() => changed(process::adopt(entry, program), Outcome::Changed),
        false => changed(remote::adopt(entry, program), Outcome::ChangedWith(remote::LOGIN)),
    };
    let comes_back = |adopted: &str, numbers: &[usize]| {
        let undone = take_out(path, adopted, program, |number, _| numbers.contains(&number));
        undone.is_ok_and(|undone| undone.text == text)
    };
    plan(path, text, |_, name| is_wanted(only, name), edit, comes_back)
}

/// How to undo that.
pub fn undo(path: &Path, text: &str, program: &str, only: &[String]) -> Result<Plan, PlanError> {
    take_out(path, text, program, |_, name| is_wanted(only, name))
}

/// Whether a server of this name is one of these; of none, all are.
fn is_wanted(only: &[String], name: &str) -> bool {
    only.is_empty() || only.iter().any(|only| only == name)
}

/// Undoes it for those servers, by number and name.
fn take_out(
    path: &Path,
    text: &str,
    program: &str,
    is_wanted: impl Fn(usize, &str) -> bool,
) -> Result<Plan, PlanError> {
    let edit = |entry: &Entry<'_>| {
        if !entry.is_ours(program) || !entry.is_wrapped() {
            left("it is not behind regrow")
        } else if remote::is_adopted(entry) {
            changed(remote::undo(entry), Outcome::Changed)
        } else {
            changed(process::undo(entry), Outcome::Changed)
        }
    };
    let can_be_read = |undone: &str, _: &[usize]| syntax::parse(path, undone).is_ok();
    plan(path, text, is_wanted, edit, can_be_read)
}

fn left(why: &'static str) -> (Outcome, Vec<Edit>) {
    (Outcome::Left(why), vec![])
}

fn changed(edits: Result<Vec<Edit>, String>, outcome: Outcome) -> (Outcome, Vec<Edit>) {
    match edits {
        Ok(edits) => (outcome, edits),
        Err(problem) => (Outcome::Refused(problem), vec![]),
    }
}

/// Whether a copy from before an adoption is not needed any more: no server in `text` is behind `program` by adoption, and the servers are the
/// same as in the copy. What else the host keeps in the file may have changed.
pub fn is_spent(path: &Path, copy: &str, text: &str, program: &str) -> bool {
    let undone = |text: &str| {
        let plan = undo(path, text, program, &[]).ok()?;
        let root = syntax::parse(path, &plan.text).ok()?;
        let servers = servers(&root, path).into_iter();
        // What an alias stands for is elsewhere.
        let written = |server: &Server<'_>| plan.text.get(server.at..server.value.end()).map(str::to_owned);
        let texts: Vec<_> = servers.map(|server| (server.name.to_owned(), written(&server))).collect();
        Some((plan.is_empty(), texts))
    };
    // A copy may be older than another adoption in the same file, so that is undone in it, too.
    let (copy, text) = (undone(copy), undone(text));
    matches!((copy, text), (Some((_, copied)), Some((true, servers))) if copied == servers)
}

/// Of the servers that are wanted, by number and name: what becomes of each. An edit is made only if the text that results is sound, given the
/// numbers of the servers that change in it.
fn plan(
    path: &Path,
    text: &str,
    is_wanted: impl Fn(usize, &str) -> bool,
    edit: impl Fn(&Entry<'_>) -> (Outcome, Vec<Edit>),
    is_sound: impl Fn(&str, &[usize]) -> bool,
) -> Result<Plan, PlanError> {
    let line_of = |offset: usize| text[..offset].matches('\n').count() + 1;
    let root = syntax::parse(path, text)
        .map_err(|(offset, text)| PlanError::Text { line: line_of(offset), text })?;
    let servers = servers(&root, path);
    let anchored = syntax::anchored(path, text);
    let (mut steps, mut changes) = (vec![], vec![]);
    for (number, server) in servers.iter().enumerate().filter(|(number, it)| is_wanted(*number, it.name)) {
        let (outcome, edits) = match server.is_built_in {
            true => left("its host provides it"),
            false => match Entry::read(Source::new(path, text), server.host, server.value) {
                Ok(entry) => edit(&entry),
                Err(problem) => (Outcome::Refused(problem), vec![]),
            },
        };
        let (outcome, edits) = match edits.iter().all(|edit| edit.is_apart_from(&anchored)) {
            true => (outcome, edits),
            false => (Outcome::Refused(ANCHORED.into()), vec![]),
        };
        if !edits.is_empty() {
            changes.push((number, steps.len(), edits));
        }
        steps.push(Step { server: server.name.to_owned(), line: line_of(server.at), outcome });
    }
    if steps.is_empty() {
        let names = servers.iter().map(|server| server.name.escape_debug().to_string()).collect();
        return Err(if servers.is_empty() {
            PlanError::NoServers
        } else {
            PlanError::NoSuchServer { names }
        });
    }
    let edited = |changes: &[Change]| {
        let numbers: Vec<usize> = changes.iter().map(|(number, ..)| *number).collect();
        let new = apply(text, changes.iter().flat_map(|(.., edits)| edits.clone()).collect());
        (is_sound(&new, &numbers), new)
    };
    let mut result = edited(&changes);
    if !result.0 {
        changes.retain(|change| {
            let is_sound = edited(std::slice::from_ref(change)).0;
            if !is_sound {
                steps[change.1].outcome = Outcome::Refused(INEXACT.into());
            }
            is_sound
        });
        result = edited(&changes);
    }
    if !result.0 {
        // Each alone would do, but not all of them together.
        changes.iter().for_each(|change| steps[change.1].outcome = Outcome::Refused(INEXACT.into()));
        result.1 = text.to_owned();
    }
    Ok(Plan { steps, text: result.1, path: path.to_owned() })
}

/// The number of a server, the number of its step, and its edits.
type Change = (usize, usize, Vec<Edit>);

/// A server in the text.
struct Server<'a> {
    host: &'static Host,
    name: &'a str,
    /// Where it begins.
    at: usize,
    value: &'a Value<'a>,
    is_built_in: bool,
}

/// The servers, in the order of the table of hosts.
fn servers<'a>(root: &'a Object<'a>, path: &Path) -> Vec<Server<'a>> {
    let mut found = vec![];
    for section in sections::find(root, path) {
        for Member { name, at, value } in sections::servers(&section).unwrap_or_default() {
            let is_built_in = value.as_object().is_some_and(|it| sections::is_built_in(section.host, it));
            found.push(Server { host: section.host, name, at: at.start, value, is_built_in });
        }
    }
    found
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
    let Ok(root) = syntax::parse(path, text) else { return String::new() };
    let entries = servers(&root, path).into_iter();
    let entries = entries.filter_map(|it| Entry::read(Source::new(path, text), it.host, it.value).ok());
    apply(text, entries.flat_map(|entry| entry.hide_secrets()).collect())
}

#[cfg(test)]
mod tests;
