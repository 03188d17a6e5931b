//! How a server is reached: a command that we start, or a URL.

use std::collections::BTreeMap;
use std::path::PathBuf;

use jsonc_parser::ast::{Object, Value};
use jsonc_parser::common::{Range, Ranged};
use regrow::transport::http::{Headers, Http};

use super::env_file;
use super::members::{self, Member};
use super::message::Problems;
use super::reading::Reading;
use super::secret::Secret;

/// How a server is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reach {
    /// We start it.
    Process(Process),
    /// It runs elsewhere.
    Remote(Remote),
    /// Not at all: its entry has these problems.
    Broken(Problems),
}

/// A server that we start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    /// A path, or a name to be looked up in `PATH`.
    pub program: String,
    /// Its arguments. People do put secrets there.
    pub args: Vec<Secret>,
    /// What the file adds to its environment: `envFile`, and `env` above it.
    pub variables: BTreeMap<String, Secret>,
    /// What it must not find in its environment (`null` in `env`).
    pub removed: Vec<String>,
    /// Its working directory.
    pub directory: Option<PathBuf>,
}

/// A server that runs elsewhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remote {
    /// Its URL. Secrets may stand in it.
    pub url: Secret,
    /// The headers of every request.
    pub headers: Vec<(String, Secret)>,
    /// The way to speak to it, where the file says.
    pub dialect: Option<Dialect>,
}

/// A way to speak over HTTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// Each message is a request (from 2025-03-26).
    Streamable,
    /// The older one: a stream of events, and a place to send to.
    Sse,
}

/// What `type` or `transport` says.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Stdio,
    Http(Dialect),
}

/// The words for each kind, in all spellings that hosts have.
const KINDS: [(&str, Kind); 7] = [
    ("stdio", Kind::Stdio),
    ("http", Kind::Http(Dialect::Streamable)),
    ("streamable-http", Kind::Http(Dialect::Streamable)),
    ("streamableHttp", Kind::Http(Dialect::Streamable)),
    ("streamable_http", Kind::Http(Dialect::Streamable)),
    ("sse", Kind::Http(Dialect::Sse)),
    ("local", Kind::Stdio),
];

/// Reads how this server is reached. None if that cannot be told; then a problem was noted.
pub(super) fn read(reading: &mut Reading<'_>, entry: &Object<'_>) -> Option<Reach> {
    let kind = kind(reading, entry);
    let [command] = members::known(reading, entry, ["command"]);
    let urls = members::known(reading, entry, ["url", "serverUrl", "httpUrl"]);
    let mut urls = urls.into_iter().flatten();
    let url = urls.next();
    for another in urls {
        reading.problem(another.at, another.name, "it has another URL as well; keep one of them");
    }
    match (command, url, kind) {
        (Some(_), Some(url), _) => {
            reading.problem(url.at, url.name, "it has a \"command\" as well; keep one of them");
            None
        }
        (Some(command), None, Some(Kind::Http(_))) => {
            reading.problem(
                command.at,
                "command",
                "its type is a remote one; give a \"url\" or change the type",
            );
            None
        }
        (None, Some(url), Some(Kind::Stdio)) => {
            reading.problem(
                url.at,
                url.name,
                "its type is stdio; give a \"command\" or change the type to http",
            );
            None
        }
        (Some(command), None, _) => process(reading, entry, command).map(Reach::Process),
        (None, Some(url), kind) => remote(reading, entry, url, kind).map(Reach::Remote),
        (None, None, _) => {
            let text = "it has neither a \"command\" nor a \"url\"; give it one, or \"disabled\": true";
            reading.problem(entry.range, "", text);
            None
        }
    }
}

fn kind(reading: &mut Reading<'_>, entry: &Object<'_>) -> Option<Kind> {
    let [kind, transport] = members::known(reading, entry, ["type", "transport"]);
    let member = kind.or(transport)?;
    let word = member.value.as_string_lit().map(|word| &*word.value);
    let kind = KINDS.iter().find(|(name, _)| Some(*name) == word).map(|(_, kind)| *kind);
    if kind.is_none() {
        let text = "it must be one of \"stdio\", \"http\" (or \"streamable-http\") and \"sse\"";
        reading.problem(member.value.range(), member.name, text);
    }
    kind
}

fn process(reading: &mut Reading<'_>, entry: &Object<'_>, command: Member<'_>) -> Option<Process> {
    let [args, cwd, env, env_file] = members::known(reading, entry, ["args", "cwd", "env", "envFile"]);
    let program = reading.text(command.value, "command");
    if program.as_deref().is_some_and(|program| program.trim().is_empty()) {
        reading.problem(command.value.range(), "command", "it is empty; name the program that is the server");
    }
    let mut all_args = vec![];
    match args.map(|args| args.value) {
        None => {}
        Some(Value::Array(list)) => {
            for (number, value) in list.elements.iter().enumerate() {
                all_args.extend(reading.text(value, &format!("args[{number}]")).map(Secret::new));
            }
        }
        Some(other) => reading.problem(other.range(), "args", "it must be a list; write [\"one\", \"two\"]"),
    }
    let directory = cwd.and_then(|cwd| reading.path(cwd.value, "cwd"));
    let mut variables = BTreeMap::new();
    if let Some(member) = env_file
        && let Some(path) = reading.path(member.value, "envFile")
    {
        match env_file::read(&path, reading.content) {
            Ok(read) => variables = read,
            Err(problem) => reading.problem(member.value.range(), "envFile", problem),
        }
    }
    let mut removed = vec![];
    for (name, at, value) in pairs(reading, env, "env") {
        if name.is_empty() || name.contains(['=', '\0']) {
            reading.problem(at, "env", "this is not a valid name of a variable; use letters, digits and _");
        }
        match value {
            Some(value) => drop(variables.insert(name, Secret::new(value))),
            None => {
                variables.remove(&name);
                removed.push(name);
            }
        }
    }
    Some(Process { program: program?, args: all_args, variables, removed, directory })
}

fn remote(
    reading: &mut Reading<'_>,
    entry: &Object<'_>,
    url: Member<'_>,
    kind: Option<Kind>,
) -> Option<Remote> {
    let [headers] = members::known(reading, entry, ["headers"]);
    let mut all_headers = vec![];
    for (name, at, value) in pairs(reading, headers, "headers") {
        let Some(value) = value else { continue };
        if let Err(error) = Headers::new([(&*name, &*value)]) {
            reading.problem(at, &format!("headers.{name}"), format!("{error}; correct it"));
        }
        all_headers.push((name, Secret::new(value)));
    }
    let text = reading.text(url.value, url.name)?;
    if let Err(error) = Http::new(&text) {
        reading.problem(url.value.range(), url.name, format!("{error}; write it as https://host/path"));
    }
    let dialect = match kind {
        Some(Kind::Http(dialect)) => Some(dialect),
        _ => (url.name == "httpUrl").then_some(Dialect::Streamable),
    };
    Some(Remote { url: Secret::new(text), headers: all_headers, dialect })
}

/// The members of an object whose values are texts or, as some hosts allow, numbers or `null`.
fn pairs(
    reading: &mut Reading<'_>,
    member: Option<Member<'_>>,
    field: &str,
) -> Vec<(String, Range, Option<String>)> {
    let Some(member) = member else { return vec![] };
    let Value::Object(object) = member.value else {
        reading.problem(member.value.range(), field, "it must be an object; write { \"NAME\": \"value\" }");
        return vec![];
    };
    let mut pairs: Vec<(String, Range, Option<String>)> = vec![];
    for pair in members::all(object) {
        if pairs.iter().any(|(name, ..)| name == pair.name) {
            reading.problem(
                pair.at,
                &format!("{field}.{}", pair.name),
                "it is written twice; keep one of them",
            );
        }
        let value = match pair.value {
            Value::NullKeyword(_) => Some(None),
            Value::NumberLit(number) => Some(Some(number.value.to_owned())),
            value => reading.text(value, &format!("{field}.{}", pair.name)).map(Some),
        };
        pairs.extend(value.map(|value| (pair.name.to_owned(), pair.at, value)));
    }
    pairs
}
