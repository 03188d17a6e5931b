//! TOML, as the same tree that JSON is read into.

use std::borrow::Cow;
use std::ops::Range as Bytes;

use jsonc_parser::ast::{Array, BooleanLit, NumberLit, Object, ObjectProp, ObjectPropName, StringLit, Value};
use jsonc_parser::common::{Range, Ranged};
use toml_edit::{Document, Item, Key, TableLike, Value as Toml};

/// The table that a text is, with positions in bytes; or where it is none, and why. Its depth is bounded by the parser.
pub(super) fn parse(text: &str) -> Result<Object<'_>, (usize, String)> {
    let document = Document::parse(text).map_err(|error| {
        let what = error.message().lines().collect::<Vec<_>>().join(", ");
        (error.span().map_or(0, |span| span.start), format!("this is not TOML: {what}; fix it here"))
    })?;
    let root = table(text, document.as_table(), 0);
    Ok(Object { range: Range::new(0, text.len()), ..root })
}

/// A table reaches from its first key to the end of its last value, which may be in another part of the file.
fn table<'a>(text: &'a str, table: &dyn TableLike, start: usize) -> Object<'a> {
    let members = table.iter().filter_map(|(name, item)| Some((table.key(name)?, item)));
    let properties: Vec<ObjectProp<'a>> = members.map(|(key, item)| member(text, key, item)).collect();
    let end = properties.iter().map(|property| property.value.end()).max().unwrap_or(start);
    Object { range: Range::new(start, end), properties }
}

fn member<'a>(text: &'a str, key: &Key, item: &Item) -> ObjectProp<'a> {
    let at = key.span().unwrap_or_default();
    let value = match item {
        Item::Value(value) => self::value(text, value, at.end),
        Item::Table(inner) => Value::Object(table(text, inner, at.end)),
        Item::ArrayOfTables(tables) => {
            let elements: Vec<_> =
                tables.iter().map(|inner| Value::Object(table(text, inner, at.end))).collect();
            let end = elements.iter().map(|element| element.end()).max().unwrap_or(at.end);
            Value::Array(Array { range: Range::new(at.end, end), elements })
        }
        Item::None => Value::Array(Array { range: range(at.clone()), elements: vec![] }),
    };
    let name = StringLit { range: range(at.clone()), value: Cow::Owned(key.get().to_owned()) };
    ObjectProp { range: Range::new(at.start, value.end()), name: ObjectPropName::String(name), value }
}

fn value<'a>(text: &'a str, value: &Toml, start: usize) -> Value<'a> {
    let at = range(value.span().unwrap_or(start..start));
    match value {
        Toml::String(string) => {
            Value::StringLit(StringLit { range: at, value: Cow::Owned(string.value().clone()) })
        }
        Toml::Boolean(flag) => Value::BooleanLit(BooleanLit { range: at, value: *flag.value() }),
        // A date is nothing that is read here; as a number, it is at least no text.
        Toml::Integer(_) | Toml::Float(_) | Toml::Datetime(_) => {
            Value::NumberLit(NumberLit { range: at, value: text.get(at.start..at.end).unwrap_or_default() })
        }
        Toml::Array(list) => {
            let elements = list.iter().map(|element| self::value(text, element, at.start)).collect();
            Value::Array(Array { range: at, elements })
        }
        // The keys of `a.b = 1` in braces make a table without braces of its own.
        Toml::InlineTable(inner) => {
            let object = table(text, inner, start);
            let range = inner.span().filter(|_| !inner.is_dotted()).map_or(object.range, range);
            Value::Object(Object { range, ..object })
        }
    }
}

fn range(bytes: Bytes<usize>) -> Range {
    Range::new(bytes.start, bytes.end)
}
