//! One thing that a server offers: carried as it was written, with only its key understood.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Range;

use regrow::transport::http::MirroredArguments;
use regrow_protocol::list::List;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

/// A tool, prompt, resource or template.
#[derive(Clone, Debug)]
pub struct Item {
    key: String,
    raw: Box<RawValue>,
    /// Where the key stands in it, with its quotes.
    span: Range<usize>,
    revision: u64,
    mirrored: MirroredArguments,
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
    /// None where it has no key, or two: readers would not agree on what it is called.
    pub fn read(list: List, raw: &RawValue) -> Option<Item> {
        let raw = raw.to_owned();
        let keys: Keys<'_> = serde_json::from_str(raw.get()).ok()?;
        let value = match list {
            List::Tools | List::Prompts => keys.name,
            List::Resources => keys.uri,
            List::Templates => keys.uri_template,
        }?;
        let key: String = serde_json::from_str(value.get()).ok()?;
        // The value is borrowed from the text, so this is where it stands there.
        let start = value.get().as_ptr().addr() - raw.get().as_ptr().addr();
        let span = start..start + value.get().len();
        let whole: Option<Value> = serde_json::from_str(raw.get()).ok(); // It may be too deep to be understood.
        let revision = revision(whole.as_ref(), raw.get());
        let schema = whole.as_ref().filter(|_| list == List::Tools).map(|whole| &whole["inputSchema"]);
        let mirrored = schema.and_then(MirroredArguments::of).unwrap_or_default();
        (!key.is_empty()).then_some(Item { key, raw, span, revision, mirrored })
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

fn revision(whole: Option<&Value>, raw: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    match whole {
        Some(value) => value.to_string().hash(&mut hasher), // Members are sorted: objects are kept so.
        None => raw.hash(&mut hasher),
    }
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(list: List, text: &str) -> Option<Item> {
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
            assert!(item(List::Tools, text).is_none(), "{text}");
        }
    }
}
