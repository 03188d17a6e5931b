//! YAML, as the same tree that JSON is read into.
//!
//! An alias is read as a copy of what it stands for. Size, depth and the number of nodes are bounded, so that no file can make us
//! copy without end.

use std::borrow::Cow;
use std::collections::BTreeMap;

use jsonc_parser::ast::{
    Array, BooleanLit, NullKeyword, NumberLit, Object, ObjectProp, ObjectPropName, StringLit, Value,
};
use jsonc_parser::common::{Range, Ranged};
use saphyr_parser::{Event, Marker, Parser, ScalarStyle, Span};

/// A larger file is no configuration: hosts keep nothing else in such files.
const MAX_BYTES: usize = 1 << 20;
const MAX_DEPTH: usize = 64;
/// Copies count, too.
const MAX_NODES: usize = 100_000;

/// Where something is wrong, and what.
type Problem = (usize, String);

/// A file, and which parts of it others refer to.
pub(super) struct Parsed<'a> {
    pub(super) root: Object<'a>,
    /// What has an anchor.
    pub(super) anchored: Vec<Range>,
}

/// The mapping that a text is, with positions in bytes; or where it is none, and why.
pub(super) fn parse(text: &str) -> Result<Parsed<'_>, Problem> {
    if text.len() > MAX_BYTES {
        let limit = MAX_BYTES >> 20;
        return Err((0, format!("the file is larger than {limit} MiB; is it a configuration?")));
    }
    let mut tree = Tree { text, bytes: bytes(text), ..Tree::default() };
    for event in Parser::new_from_str(text) {
        let (event, span) = event.map_err(|error| {
            let at = tree.byte(error.marker());
            (at, format!("this is not YAML: {}; fix it here", error.info()))
        })?;
        tree.take(event, span)?;
    }
    match tree.root {
        Some(Value::Object(root)) => Ok(Parsed { root, anchored: tree.anchored }),
        Some(Value::NullKeyword(_)) | None => {
            Err((0, "the file is empty; write your servers into it as its host does".into()))
        }
        Some(other) => Err((other.start(), "the file must be a mapping; begin it with `name:`".into())),
    }
}

/// The byte that each character begins at, if that is not its number.
fn bytes(text: &str) -> Vec<usize> {
    if text.is_ascii() { vec![] } else { text.char_indices().map(|(byte, _)| byte).collect() }
}

/// The tree as far as it is read.
#[derive(Default)]
struct Tree<'a> {
    text: &'a str,
    bytes: Vec<usize>,
    /// What is not complete yet, the innermost last.
    open: Vec<Open<'a>>,
    anchors: BTreeMap<usize, (Value<'a>, usize)>,
    anchored: Vec<Range>,
    nodes: usize,
    root: Option<Value<'a>>,
    has_ended: bool,
}

/// A mapping or a sequence that is not complete yet.
struct Open<'a> {
    at: usize,
    anchor: usize,
    /// How many nodes there were before it.
    nodes: usize,
    inside: Inside<'a>,
}

enum Inside<'a> {
    Mapping { key: Option<StringLit<'a>>, members: Vec<ObjectProp<'a>> },
    Sequence(Vec<Value<'a>>),
}

impl<'a> Tree<'a> {
    fn take(&mut self, event: Event<'a>, span: Span) -> Result<(), Problem> {
        let (start, end) = (self.byte(&span.start), self.byte(&span.end));
        match event {
            Event::DocumentStart(_) if self.has_ended => {
                Err((start, "there are several documents in this file; keep one".into()))
            }
            Event::DocumentEnd => {
                self.has_ended = true;
                Ok(())
            }
            Event::Scalar(value, style, anchor, tag) => {
                let is_text = tag.is_some_and(|tag| !tag.is_yaml_core_schema() || tag.suffix == "str");
                let start = after_properties(self.text, start);
                let end = match style {
                    ScalarStyle::Plain => start + self.text[start..end.max(start)].trim_end().len(),
                    _ => end_of_quotes(self.text, start).unwrap_or(end),
                };
                let at = Range::new(start, end.max(start));
                let value = match style {
                    ScalarStyle::Plain if !is_text => self.plain(value, at),
                    _ => Value::StringLit(StringLit { range: at, value }),
                };
                self.nodes += 1;
                self.complete(value, anchor, 1)
            }
            Event::Alias(anchor) => {
                let Some((value, nodes)) = self.anchors.get(&anchor) else {
                    return Err((start, "this alias stands for a part that it is in; write that out".into()));
                };
                let (value, nodes) = (value.clone(), *nodes);
                self.nodes += nodes;
                if self.nodes > MAX_NODES {
                    return Err((start, "its aliases (*name) repeat too much text; use fewer".into()));
                }
                self.complete(value, 0, nodes)
            }
            Event::MappingStart(anchor, _) => {
                self.begin(start, anchor, Inside::Mapping { key: None, members: vec![] })
            }
            Event::SequenceStart(anchor, _) => self.begin(start, anchor, Inside::Sequence(vec![])),
            Event::MappingEnd | Event::SequenceEnd => self.end(start),
            _ => Ok(()),
        }
    }

    fn begin(&mut self, at: usize, anchor: usize, inside: Inside<'a>) -> Result<(), Problem> {
        self.nodes += 1;
        if self.open.len() >= MAX_DEPTH || self.nodes > MAX_NODES {
            return Err((at, "this is nested too deeply, or the file has too many parts".into()));
        }
        let at = after_properties(self.text, at);
        self.open.push(Open { at, anchor, nodes: self.nodes - 1, inside });
        Ok(())
    }

    fn end(&mut self, end: usize) -> Result<(), Problem> {
        let Some(open) = self.open.pop() else { return Ok(()) };
        let is_flow = self.text[open.at..].starts_with(['{', '[']);
        let end = end + usize::from(is_flow);
        let value = match open.inside {
            Inside::Mapping { members, .. } => {
                let members = merged(members);
                let last = members.iter().map(|member| member.value.end()).filter(|last| *last <= end).max();
                let end = if is_flow { end } else { last.unwrap_or(open.at) };
                Value::Object(Object { range: Range::new(open.at, end), properties: members })
            }
            Inside::Sequence(elements) => {
                let last = elements.iter().map(|element| element.end()).filter(|last| *last <= end).max();
                let end = if is_flow { end } else { last.unwrap_or(open.at) };
                Value::Array(Array { range: Range::new(open.at, end), elements })
            }
        };
        self.complete(value, open.anchor, self.nodes - open.nodes)
    }

    /// A value of so many nodes goes where it belongs.
    fn complete(&mut self, value: Value<'a>, anchor: usize, nodes: usize) -> Result<(), Problem> {
        if anchor > 0 {
            self.anchored.push(value.range());
            self.anchors.insert(anchor, (value.clone(), nodes));
        }
        let text = self.text;
        match self.open.last_mut().map(|open| &mut open.inside) {
            None => self.root = Some(value),
            Some(Inside::Sequence(elements)) => elements.push(value),
            Some(Inside::Mapping { key, members }) => match key.take() {
                Some(name) => {
                    let value = placed(value, name.range.end);
                    let range = Range::new(name.range.start, value.end().max(name.range.end));
                    members.push(ObjectProp { range, name: ObjectPropName::String(name), value });
                }
                None => *key = Some(name(text, value)?),
            },
        }
        Ok(())
    }

    /// What a text without quotes is.
    fn plain(&self, value: Cow<'a, str>, range: Range) -> Value<'a> {
        match &*value {
            "" | "~" | "null" | "Null" | "NULL" => Value::NullKeyword(NullKeyword { range }),
            "true" | "True" | "TRUE" => Value::BooleanLit(BooleanLit { range, value: true }),
            "false" | "False" | "FALSE" => Value::BooleanLit(BooleanLit { range, value: false }),
            number if is_number(number) => {
                Value::NumberLit(NumberLit { range, value: &self.text[range.start..range.end] })
            }
            _ => Value::StringLit(StringLit { range, value }),
        }
    }

    fn byte(&self, marker: &Marker) -> usize {
        let (character, end) = (marker.index(), self.text.len());
        if self.bytes.is_empty() {
            return character.min(end);
        }
        self.bytes.get(character).copied().unwrap_or(end)
    }
}

/// Where a node begins, after its anchor and its tag, which the parser counts in.
fn after_properties(text: &str, start: usize) -> usize {
    let mut rest = &text[start..];
    while rest.starts_with(['&', '!']) {
        rest = rest.trim_start_matches(|letter: char| !letter.is_whitespace()).trim_start();
    }
    text.len() - rest.len()
}

/// Where a text in quotes ends, which begins here. The parser counts a comment in that follows.
fn end_of_quotes(text: &str, start: usize) -> Option<usize> {
    let quote = text[start..].chars().next().filter(|quote| ['"', '\''].contains(quote))?;
    let mut letters = text[start + 1..].char_indices().peekable();
    while let Some((at, letter)) = letters.next() {
        if letter == '\\' && quote == '"' {
            letters.next();
        } else if letter == quote && letters.next_if(|(_, next)| quote == '\'' && *next == quote).is_none() {
            return Some(start + 1 + at + 1);
        }
    }
    None
}

/// A value as the name of a member.
fn name<'a>(text: &'a str, value: Value<'a>) -> Result<StringLit<'a>, Problem> {
    match value {
        Value::StringLit(name) => Ok(name),
        Value::Object(_) | Value::Array(_) => {
            Err((value.start(), "a name must be a text; write it as one".into()))
        }
        other => {
            let range = other.range();
            Ok(StringLit { range, value: Cow::Borrowed(&text[range.start..range.end]) })
        }
    }
}

/// A value that is not written has no place of its own: it is where its name ends.
fn placed(value: Value<'_>, end_of_name: usize) -> Value<'_> {
    match value {
        Value::NullKeyword(it) if it.range.start == it.range.end => {
            Value::NullKeyword(NullKeyword { range: Range::new(end_of_name, end_of_name) })
        }
        value => value,
    }
}

/// The members, and those of mappings that are merged into them with `<<`, where no member has their name.
fn merged(mut members: Vec<ObjectProp<'_>>) -> Vec<ObjectProp<'_>> {
    while let Some(number) = members.iter().position(|member| member.name.as_str() == "<<") {
        let others = match members.remove(number).value {
            Value::Object(object) => vec![object],
            Value::Array(list) => list.elements.into_iter().filter_map(into_object).collect(),
            _ => vec![],
        };
        for member in others.into_iter().flat_map(|object| object.properties) {
            if members.iter().all(|own| own.name.as_str() != member.name.as_str()) {
                members.push(member);
            }
        }
    }
    members
}

fn into_object(value: Value<'_>) -> Option<Object<'_>> {
    match value {
        Value::Object(object) => Some(object),
        _ => None,
    }
}

fn is_number(text: &str) -> bool {
    let digits = text.trim_start_matches(['+', '-']);
    let is_decimal = digits.starts_with(|first: char| first.is_ascii_digit() || first == '.')
        && digits.contains(|digit: char| digit.is_ascii_digit())
        && text.parse::<f64>().is_ok();
    let is_of_base = |prefix: &str, base: u32| {
        digits.strip_prefix(prefix).is_some_and(|rest| u64::from_str_radix(rest, base).is_ok())
    };
    is_decimal || is_of_base("0x", 16) || is_of_base("0o", 8)
}
