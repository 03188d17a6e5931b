//! What is said about a configuration: where, about which server and field, and what to do.

use std::fmt;
use std::sync::Arc;

use serde::Serialize;

/// At most this many problems are shown; the rest is counted.
const SHOWN: usize = 50;

/// Where something stands in a file. Lines and columns count from one; 0 is the file as a whole.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Place {
    /// The file as it was named, safe to print.
    #[serde(serialize_with = "text")]
    pub file: Arc<str>,
    /// The line.
    pub line: usize,
    /// The column, in characters.
    pub column: usize,
}

fn text<S: serde::Serializer>(text: &str, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(text)
}

/// Something to say about a place. It quotes no value of the file, since that may be a secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Message {
    /// Where.
    #[serde(flatten)]
    pub place: Place,
    /// Which server is meant, if one is. Safe to print.
    pub server: Option<String>,
    /// Which field of it, such as `env.TOKEN`. Safe to print.
    pub field: Option<String>,
    /// What is to be said, and the next step.
    pub text: String,
}

impl Message {
    pub(super) fn at(place: Place, text: impl Into<String>) -> Message {
        Message { place, server: None, field: None, text: text.into() }
    }

    pub(super) fn of_server(mut self, name: &str) -> Message {
        self.server = Some(printable(name));
        self
    }

    pub(super) fn of_field(mut self, field: &str) -> Message {
        self.field = Some(printable(field));
        self
    }
}

impl Message {
    /// Whether it is about an input that the host asks a person for, and that Regrow cannot.
    pub fn is_of_input(&self) -> bool {
        self.text.starts_with(super::inputs::CANNOT_ASK)
    }

    /// Without file and server: for clients, who know which server they called and should not learn of our files.
    pub fn brief(&self) -> String {
        match &self.field {
            Some(field) => format!("line {}, field \"{field}\": {}", self.place.line, self.text),
            None => format!("line {}: {}", self.place.line, self.text),
        }
    }
}

/// `file:line:column: server "x", field "y": text`.
impl fmt::Display for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.place)?;
        match (&self.server, &self.field) {
            (Some(server), Some(field)) => write!(f, "server \"{server}\", field \"{field}\": ")?,
            (Some(server), None) => write!(f, "server \"{server}\": ")?,
            (None, Some(field)) => write!(f, "field \"{field}\": ")?,
            (None, None) => {}
        }
        f.write_str(&self.text)
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => f.write_str(&self.file),
            _ => write!(f, "{}:{}:{}", self.file, self.line, self.column),
        }
    }
}

/// Everything that is wrong with a configuration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct Problems(pub Vec<Message>);

impl Problems {
    /// The first of them in a few words, and how many more there are.
    pub fn brief(&self) -> String {
        let first = self.0.first().map(Message::brief).unwrap_or_default();
        match self.0.len() {
            0 | 1 => first,
            2 => format!("{first}; and another problem"),
            many => format!("{first}; and {} more problems", many - 1),
        }
    }
}

/// A line for each.
impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, problem) in self.0.iter().take(SHOWN).enumerate() {
            let end = if number == 0 { "" } else { "\n" };
            write!(f, "{end}{problem}")?;
        }
        match self.0.len().saturating_sub(SHOWN) {
            0 => Ok(()),
            more => write!(f, "\nand {more} more problems; fix these first"),
        }
    }
}

/// A name from a file as it can stand in a line: nothing that acts on a terminal, and not endless.
pub(super) fn printable(name: &str) -> String {
    let mut text: String = name.chars().take(100).collect::<String>().escape_debug().to_string();
    if name.chars().count() > 100 {
        text.push('…');
    }
    text
}
