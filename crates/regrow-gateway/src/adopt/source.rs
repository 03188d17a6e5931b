//! The text of a configuration, as it is edited: pieces of it are replaced, and every other byte stays as it is.

use std::path::Path;

use jsonc_parser::ast::{Array, Object, ObjectProp};
use jsonc_parser::common::{Range, Ranged};

use crate::hosts::Format;

/// A piece of the text, and what takes its place.
#[derive(Clone, Debug)]
pub(super) struct Edit {
    at: Range,
    text: String,
}

impl Edit {
    pub(super) fn replace(at: Range, text: impl Into<String>) -> Edit {
        Edit { at, text: text.into() }
    }

    pub(super) fn insert(at: usize, text: impl Into<String>) -> Edit {
        Edit::replace(Range::new(at, at), text)
    }

    pub(super) fn remove(start: usize, end: usize) -> Edit {
        Edit::replace(Range::new(start, end), "")
    }

    /// Whether it is a piece of the text, and touches none of these.
    pub(super) fn is_apart_from(&self, others: &[Range]) -> bool {
        let touches = |other: &Range| other.start <= self.at.end && self.at.start <= other.end;
        self.at.start <= self.at.end && !others.iter().any(touches)
    }
}

/// The text with these edits. Of two at the same place, the first one comes first; one that overlaps another is left out.
pub(super) fn apply(text: &str, mut edits: Vec<Edit>) -> String {
    edits.sort_by_key(|edit| edit.at.start);
    let mut edited = String::with_capacity(text.len());
    let mut end = 0;
    for edit in edits.into_iter().filter(|edit| edit.at.start <= edit.at.end) {
        if edit.at.start < end {
            continue;
        }
        edited.push_str(&text[end..edit.at.start]);
        edited.push_str(&edit.text);
        end = edit.at.end;
    }
    edited.push_str(&text[end..]);
    edited
}

/// A text that was parsed, with what is needed to write something into it.
#[derive(Clone, Copy)]
pub(super) struct Source<'a> {
    pub(super) text: &'a str,
    pub(super) format: Format,
}

impl<'a> Source<'a> {
    pub(super) fn new(path: &Path, text: &'a str) -> Source<'a> {
        Source { text, format: Format::of(path) }
    }

    /// What is written there.
    pub(super) fn raw(&self, at: Range) -> &'a str {
        &self.text[at.start..at.end]
    }

    /// What stands between the name of a member and its value. Empty if the value is elsewhere.
    pub(super) fn colon(&self, member: &ObjectProp<'_>) -> &'a str {
        self.text.get(member.name.end()..member.value.start()).unwrap_or_default()
    }

    /// The name of a new member.
    pub(super) fn name(&self, name: &str) -> String {
        match self.format {
            Format::Json => quoted(name),
            Format::Toml | Format::Yaml => name.to_owned(),
        }
    }

    /// A new member, as it is written in braces.
    pub(super) fn member(&self, name: &str, value: &str) -> String {
        match self.format {
            Format::Json => format!("{}: {value}", self.name(name)),
            Format::Toml => format!("{name} = {value}"),
            Format::Yaml => format!("{name}: {value}"),
        }
    }

    /// What goes between a new element of a list and the one that begins here.
    pub(super) fn comma(&self, list: &Array<'_>, element: usize) -> String {
        match self.raw(list.range).starts_with('[') {
            true => format!(",{}", self.gap(element)),
            false => format!("{}{}", self.line_break(element), self.line_before(element)),
        }
    }

    /// What goes between this member of an object and a new neighbour.
    pub(super) fn separator(&self, object: &Object<'_>, member: &ObjectProp<'_>) -> String {
        let start = member.name.start();
        match self.format {
            Format::Json => format!(",{}", self.gap(start)),
            _ if self.raw(object.range).starts_with('{') => ", ".into(),
            Format::Toml => format!("{}{}", self.line_break(start), self.line_before(start)),
            // The first member of a mapping in a list follows a dash.
            Format::Yaml => {
                let column = self.line_before(start).chars().count();
                format!("{}{:column$}", self.line_break(start), "")
            }
        }
    }

    /// Whether one member follows another with nothing but a separator between them.
    pub(super) fn follows(
        &self,
        object: &Object<'_>,
        before: &ObjectProp<'_>,
        after: &ObjectProp<'_>,
    ) -> bool {
        let between = self.text.get(before.value.end()..after.name.start());
        between.is_some_and(|between| match self.format {
            Format::Json => between.chars().all(|it| it.is_ascii_whitespace() || it == ','),
            Format::Toml | Format::Yaml => between == self.separator(object, after),
        })
    }

    /// The line break and the indentation if what is here begins a line, otherwise a space.
    fn gap(&self, at: usize) -> &'a str {
        let before = &self.text[..at];
        let line = before.trim_end_matches([' ', '\t']);
        let line_end = line.strip_suffix("\r\n").or_else(|| line.strip_suffix('\n'));
        line_end.map_or(" ", |line| &before[line.len()..])
    }

    /// What stands before this place in its line: the indentation, and in TOML the beginning of a dotted name, in YAML a dash.
    fn line_before(&self, at: usize) -> &'a str {
        let start = self.text[..at].rfind('\n').map_or(0, |end| end + 1);
        &self.text[start..at]
    }

    /// As the line ends that this is in, or else the one before.
    fn line_break(&self, at: usize) -> &'static str {
        let end =
            self.text[at..].find('\n').map(|length| at + length).or_else(|| self.text[..at].rfind('\n'));
        match end {
            Some(end) if self.text[..end].ends_with('\r') => "\r\n",
            _ => "\n",
        }
    }
}

/// The text in double quotes. What JSON takes, TOML and YAML do, too.
pub(super) fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
