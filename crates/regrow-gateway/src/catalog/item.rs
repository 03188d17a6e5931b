//! One thing that a server offers: carried as it was written, with only its key understood.

use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Range;

use regrow::transport::http::MirroredArguments;
use regrow_protocol::list::List;
use regrow_protocol::text::escape;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

/// An item that nests deeper is not offered,
const MAX_DEPTH: usize = 64;
/// nor a tool or prompt with a longer name.
const MAX_NAME: usize = 256;
/// Of a longer key a defect gives the beginning.
const MAX_TOLD: usize = 64;

/// A tool, prompt, resource or template.
#[derive(Clone, Debug)]
pub struct Item {
    key: String,
    raw: Box<RawValue>,
    /// Where the key stands in it, with its quotes.
    span: Range<usize>,
    revision: u64,
    mirrored: MirroredArguments,
    is_held: bool,
    is_read_only: bool,
}

/// Why an item is not offered: some reader of the list would refuse the whole of it, or take the item for another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Defect {
    /// What its server calls it, or the beginning of that, if it is known.
    pub key: Option<String>,
    /// What is wrong with it.
    pub reason: String,
}

impl Defect {
    pub(super) fn of(key: &str, reason: impl Into<String>) -> Defect {
        let key = match key.len() > MAX_TOLD {
            true => format!("{}...", &key[..key.floor_char_boundary(MAX_TOLD)]),
            false => key.to_owned(),
        };
        Defect { key: Some(key), reason: reason.into() }
    }
}

impl fmt::Display for Defect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.key {
            Some(key) => write!(f, "\"{}\" {}", escape(key), self.reason),
            None => write!(f, "an item {}", self.reason),
        }
    }
}

#[derive(Deserialize)]
struct Keys<'a> {
    #[serde(borrow)]
    name: Option<&'a RawValue>,
    #[serde(borrow)]
    uri: Option<&'a RawValue>,
    #[serde(borrow, rename = "uriTemplate")]
    uri_template: Option<&'a RawValue>,
}

impl Item {
    /// Reads an item that every client can read.
    pub fn read(list: List, raw: &RawValue) -> Result<Item, Defect> {
        let raw = raw.to_owned();
        let unnamed = || Defect { key: None, reason: "has no name, or two".to_owned() };
        let keys: Keys<'_> = serde_json::from_str(raw.get()).map_err(|_| unnamed())?;
        let value = match list {
            List::Tools | List::Prompts => keys.name,
            List::Resources => keys.uri,
            List::Templates => keys.uri_template,
        };
        let value = value.ok_or_else(unnamed)?;
        let key: String = serde_json::from_str(value.get()).map_err(|_| unnamed())?;
        if key.is_empty() {
            return Err(unnamed());
        }
        if key.len() > MAX_NAME && matches!(list, List::Tools | List::Prompts) {
            return Err(Defect::of(&key, format!("has a name longer than {MAX_NAME} bytes")));
        }
        let whole: Value = serde_json::from_str(raw.get())
            .map_err(|error| Defect::of(&key, format!("cannot be read by every client: {error}")))?;
        if !is_within(MAX_DEPTH, &whole) {
            return Err(Defect::of(&key, format!("is nested more than {MAX_DEPTH} levels deep")));
        }
        // The value is borrowed from the text, so this is where it stands there.
        let start = value.get().as_ptr().addr() - raw.get().as_ptr().addr();
        let span = start..start + value.get().len();
        let schema = (list == List::Tools).then(|| &whole["inputSchema"]);
        let mirrored = schema.and_then(MirroredArguments::of).unwrap_or_default();
        let is_read_only = whole["annotations"]["readOnlyHint"] == true;
        Ok(Item { key, raw, span, revision: revision(&whole), mirrored, is_held: false, is_read_only })
    }

    /// An item as it was approved. Where it is held, its server now means something else by it.
    pub(super) fn approved(list: List, raw: &str, is_held: bool) -> Option<Item> {
        let item = Item::read(list, serde_json::from_str(raw).ok()?).ok()?;
        Some(Item { is_held, ..item })
    }

    /// Whether it has changed since it was approved, and must not be called.
    pub fn is_held(&self) -> bool {
        self.is_held
    }

    /// Of a tool: whether its server declares that it changes nothing.
    pub fn is_read_only(&self) -> bool {
        self.is_read_only
    }

    /// What its server knows it by: `name`, `uri` or `uriTemplate`.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// The whole of it, as its server wrote it.
    pub fn raw(&self) -> &RawValue {
        &self.raw
    }

    /// Of a tool: the arguments that a client must also send in headers.
    pub fn mirrored(&self) -> &MirroredArguments {
        &self.mirrored
    }

    /// The same as long as what it says is. The order of its members does not count.
    pub(crate) fn revision(&self) -> u64 {
        self.revision
    }

    /// Writes it with another key; all else stays as it is, byte for byte.
    pub(crate) fn write_as(&self, key: &str, out: &mut String) {
        let raw = self.raw.get();
        if key == self.key {
            return out.push_str(raw);
        }
        out.push_str(&raw[..self.span.start]);
        out.push_str(&Value::from(key).to_string());
        out.push_str(&raw[self.span.end..]);
    }
}

fn revision(whole: &Value) -> u64 {
    let mut hasher = DefaultHasher::new();
    whole.to_string().hash(&mut hasher); // Members are sorted: objects are kept so.
    hasher.finish()
}

fn is_within(depth: usize, value: &Value) -> bool {
    let inner = |value: &Value| depth > 0 && is_within(depth - 1, value);
    match value {
        Value::Array(items) => depth > 0 && items.iter().all(inner),
        Value::Object(members) => depth > 0 && members.values().all(inner),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(list: List, text: &str) -> Result<Item, Defect> {
        Item::read(list, &RawValue::from_string(text.to_owned()).unwrap())
    }

    #[test]
    fn another_name_touches_nothing_but_the_name() {
        let text = r#"{ "title" : "name", "x":{"name":"inner"}, "na\u006de" :"t\u00f6ol" ,"n":1.0e5}"#;
        let tool = item(List::Tools, text).unwrap();
        assert_eq!(tool.key(), "töol");
        let mut out = String::new();
        tool.write_as("a\"b", &mut out);
        assert_eq!(out, r#"{ "title" : "name", "x":{"name":"inner"}, "na\u006de" :"a\"b" ,"n":1.0e5}"#);
        out.clear();
        tool.write_as("töol", &mut out);
        assert_eq!(out, text);
    }

    #[test]
    fn each_list_has_a_key_of_its_own() {
        let text = r#"{"name":"n","uri":"u:","uriTemplate":"t:{x}"}"#;
        let keys = List::ALL.map(|list| item(list, text).unwrap().key().to_owned());
        assert_eq!(keys, ["n", "n", "u:", "t:{x}"]);
    }

    #[test]
    fn what_has_no_key_or_two_is_no_item() {
        for text in [
            r#"{}"#,
            r#"{"name":1}"#,
            r#"{"name":""}"#,
            r#"{"name":"a","name":"b"}"#,
            "[]",
            "null",
            r#"{"name":"\ud800"}"#,
        ] {
            assert_eq!(
                item(List::Tools, text).unwrap_err().to_string(),
                "an item has no name, or two",
                "{text}"
            );
        }
    }

    #[test]
    fn security_25_what_a_strict_reader_refuses_is_no_item() {
        let nested =
            |depth: usize| format!(r#"{{"name":"a","x":{}{}}}"#, "[".repeat(depth), "]".repeat(depth));
        assert!(item(List::Tools, &nested(MAX_DEPTH - 1)).is_ok());
        let long = |length: usize| format!(r#"{{"name":"{}"}}"#, "n".repeat(length));
        assert!(item(List::Tools, &long(MAX_NAME)).is_ok());
        for (text, why) in [
            (nested(MAX_DEPTH), r#""a" is nested more than 64 levels deep"#),
            (nested(100_000), r#""a" cannot be read by every client: recursion limit exceeded"#),
            (
                long(MAX_NAME + 1),
                &format!("\"{}...\" has a name longer than 256 bytes", "n".repeat(MAX_TOLD)),
            ),
            (r#"{"name":"a","x":"\ud800"}"#.into(), r#""a" cannot be read by every client: "#),
            (
                r#"{"name":"a","x":1e999}"#.into(),
                r#""a" cannot be read by every client: number out of range"#,
            ),
        ] {
            let told = item(List::Tools, &text).unwrap_err().to_string();
            assert!(told.starts_with(why), "{told}");
        }
    }
}
