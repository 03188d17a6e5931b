//! One file of configuration: its text, what it says as JSON with comments, and where things stand in it.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use jsonc_parser::ast::{Object, Value};
use jsonc_parser::common::Ranged;
use jsonc_parser::{CollectOptions, ParseOptions, parse_to_ast};

use super::message::{Message, Place};

/// A larger file is no configuration. Some hosts keep their history in the same file.
const MAX_BYTES: u64 = 32 << 20;

pub(crate) struct Document {
    pub(crate) path: PathBuf,
    text: String,
    shown: Arc<str>,
    /// Where each line begins.
    lines: Vec<usize>,
}

impl Document {
    /// Reads the file.
    pub(crate) fn open(path: &Path) -> Result<Document, Message> {
        let shown: Arc<str> = super::message::printable(&path.to_string_lossy()).into();
        let whole = |text: String| Message::at(Place { file: shown.clone(), line: 0, column: 0 }, text);
        let mut bytes = vec![];
        // One byte more than allowed tells that there is more.
        let read =
            std::fs::File::open(path).and_then(|file| file.take(MAX_BYTES + 1).read_to_end(&mut bytes));
        match read {
            Err(error) => Err(whole(format!("the file cannot be read: {error}; name another file"))),
            Ok(length) if length as u64 > MAX_BYTES => {
                Err(whole(format!("the file is larger than {} MiB; is it a configuration?", MAX_BYTES >> 20)))
            }
            Ok(_) => {
                let text = String::from_utf8(bytes)
                    .map_err(|_| whole("the file is not UTF-8; save it as UTF-8".into()))?;
                let text = text.strip_prefix(MARK).map(str::to_owned).unwrap_or(text);
                let newlines = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n');
                let lines = std::iter::once(0).chain(newlines.map(|(at, _)| at + 1)).collect();
                Ok(Document { path: path.to_owned(), text, shown, lines })
            }
        }
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// The file's one value, which must be an object.
    pub(crate) fn root(&self) -> Result<Object<'_>, Message> {
        match parse(&self.text) {
            Ok(root) => Ok(root),
            Err((offset, text)) => Err(Message::at(self.place(offset), text)),
        }
    }

    /// The place of this byte.
    pub(crate) fn place(&self, offset: usize) -> Place {
        let line = self.lines.partition_point(|start| *start <= offset);
        let start = self.lines.get(line.wrapping_sub(1)).copied().unwrap_or(0);
        let before = self.text.get(start..offset).unwrap_or_default();
        let column = before.chars().count() + 1;
        Place { file: self.shown.clone(), line, column }
    }
}

/// What some editors put at the beginning of a file; no part of its text.
pub(crate) const MARK: char = '\u{feff}';

/// Comments and trailing commas are let pass. Everything else is JSON, as the hosts that share the file read it.
pub(crate) const OPTIONS: ParseOptions = ParseOptions {
    allow_comments: true,
    allow_trailing_commas: true,
    allow_loose_object_property_names: false,
    allow_missing_commas: false,
    allow_single_quoted_strings: false,
    allow_hexadecimal_numbers: false,
    allow_unary_plus_numbers: false,
    allow_bare_decimal_point_numbers: false,
    allow_non_finite_numbers: false,
    allow_extended_string_escapes: false,
};

/// The object that a text is, with positions in bytes; or where it is none, and why.
pub(crate) fn parse(text: &str) -> Result<Object<'_>, (usize, String)> {
    let parsed = parse_to_ast(text, &CollectOptions::default(), &OPTIONS);
    let value = match parsed {
        Ok(parsed) => parsed.value,
        Err(error) => {
            let what = error.kind().to_string();
            return Err((error.range().start, format!("this is not JSON: {}; fix it here", lowered(&what))));
        }
    };
    match value {
        Some(Value::Object(object)) => Ok(object),
        Some(other) => Err((other.start(), "the file must be an object; begin it with {".into())),
        None => Err((0, "the file is empty; write { \"mcpServers\": { } } with your servers in it".into())),
    }
}

fn lowered(sentence: &str) -> String {
    let mut letters = sentence.chars();
    letters.next().map(|first| first.to_lowercase().chain(letters).collect()).unwrap_or_default()
}
