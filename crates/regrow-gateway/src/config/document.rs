//! One file of configuration: its text, what it says, and where things stand in it.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use jsonc_parser::ast::Object;

use super::message::{Message, Place};
use super::syntax;

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
        match syntax::parse(&self.path, &self.text) {
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
const MARK: char = '\u{feff}';
