//! How a server is reached: a command that we start, or a URL.

use std::collections::BTreeMap;
use std::path::PathBuf;

use jsonc_parser::ast::{Object, Value};
use jsonc_parser::common::{Range, Ranged};
use regrow::transport::http::{Headers, Http};

use super::env_file;
use super::members::{self, Member};
use super::message::{Problems, printable};
use super::reading::Reading;
use super::secret::Secret;
use crate::tool_filter::Glob;

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
    /// What it gets of our environment beyond what every server gets (`inherit` in `env`).
    pub inherit: Inherit,
    /// What it must not find in its environment (`null` in `env`).
    pub removed: Vec<String>,
    /// Its working directory.
    pub directory: Option<PathBuf>,
}

/// What a server gets of our environment beyond what every server gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Inherit {
    /// All of it.
    All,
    /// The variables of these names.
    Named(Vec<Glob>),
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

/// The member of `env` that says what is inherited.
const INHERIT: &str = "inherit";

/// What `type` or `transport` says.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Stdio,
    Http(Option<Dialect>),
}

/// The words for each kind, in all spellings that hosts have.
const KINDS: [(&str, Kind); 8] = [
    ("stdio", Kind::Stdio),
    ("http", Kind::Http(Some(Dialect::Streamable))),
    ("streamable-http", Kind::Http(Some(Dialect::Streamable))),
    ("streamableHttp", Kind::Http(Some(Dialect::Streamable))),
    ("streamable_http", Kind::Http(Some(Dialect::Streamable))),
    ("sse", Kind::Http(Some(Dialect::Sse))),
    ("local", Kind::Stdio),
    ("remote", Kind::Http(None)),
];

/// Reads how this server is reached. None if that cannot be told; then a problem was noted.
pub(super) fn read(reading: &mut Reading<'_>, entry: &Object<'_>) -> Option<Reach> {
    let kind = kind(reading, entry);
    let names = reading.host.members;
    let [command] = members::known(reading, entry, [names.command]);
    let mut url = None;
    for name in names.urls {
        let [found] = members::known(reading, entry, [name]);
        if let (Some(_), Some(another)) = (url, found) {
            reading.problem(another.at, another.name, "it has another URL as well; keep one of them");
        }
        url = url.or(found);
    }
    let (program, address) = (names.command, names.urls[0]);
    match (command, url, kind) {
        (Some(_), Some(url), _) => {
            reading.problem(url.at, url.name, format!("it has a \"{program}\" as well; keep one of them"));
            None
        }
        (Some(command), None, Some(Kind::Http(_))) => {
            let text = format!("its type is a remote one; give a \"{address}\" or change the type");
            reading.problem(command.at, program, text);
            None
        }
        (None, Some(url), Some(Kind::Stdio)) => {
            let text = format!("its type is stdio; give a \"{program}\" or change the type to http");
            reading.problem(url.at, url.name, text);
            None
        }
        (Some(command), None, _) => process(reading, entry, command).map(Reach::Process),
        (None, Some(url), kind) => remote(reading, entry, url, kind).map(Reach::Remote),
        (None, None, _) => {
            let text = format!(
                "it has neither a \"{program}\" nor a \"{address}\"; give it one, or \"disabled\": true"
            );
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
    let names = reading.host.members;
    let [cwd, env, env_file] = members::known(reading, entry, ["cwd", names.env, "envFile"]);
    let (program, args) = match names.args {
        Some(args) => {
            let [args] = members::known(reading, entry, [args]);
            let program = reading.text(command.value, names.command);
            (program, args.map(|args| texts(reading, args)).unwrap_or_default())
        }
        None => {
            let mut words = texts(reading, command).into_iter();
            (words.next().or_else(|| command.value.as_array().map(|_| String::new())), words.collect())
        }
    };
    if program.as_deref().is_some_and(|program| program.trim().is_empty()) {
        let text = "it is empty; name the program that is the server";
        reading.problem(command.value.range(), names.command, text);
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
    if let Some(passed) = names.passed_variables {
        let [passed] = members::known(reading, entry, [passed]);
        passed_variables(reading, passed, &mut variables);
    }
    let inherit = inherit(reading, env, names.env);
    let mut removed = vec![];
    for (name, at, value) in pairs(reading, env, names.env, is_inherit) {
        if name.is_empty() || name.contains(['=', '\0']) {
            reading.problem(
                at,
                names.env,
                "this is not a valid name of a variable; use letters, digits and _",
            );
        }
        match value {
            Some(value) => drop(variables.insert(name, Secret::new(value))),
            None => {
                variables.remove(&name);
                removed.push(name);
            }
        }
    }
    let args = args.into_iter().map(Secret::new).collect();
    Some(Process { program: program?, args, variables, inherit, removed, directory })
}

/// Whether this member of `env` is not a variable, but says what is inherited. A variable that is called so has a text.
fn is_inherit(member: &Member<'_>) -> bool {
    member.name == INHERIT && matches!(member.value, Value::BooleanLit(_) | Value::Array(_))
}

fn inherit(reading: &mut Reading<'_>, env: Option<Member<'_>>, field: &str) -> Inherit {
    let object = env.and_then(|env| env.value.as_object());
    let member = object.and_then(|object| members::all(object).find(is_inherit));
    let list = match member.map(|member| member.value) {
        Some(Value::BooleanLit(all)) if all.value => return Inherit::All,
        Some(Value::Array(list)) => &list.elements[..],
        _ => &[],
    };
    let mut names = vec![];
    for (number, value) in list.iter().enumerate() {
        let field = format!("{field}.{INHERIT}[{number}]");
        match value {
            Value::StringLit(name) if !name.value.is_empty() => {
                let glob = Glob::new(&name.value);
                if !reading.surroundings.variables.keys().any(|name| glob.matches(name)) {
                    reading.remark(
                        value.range(),
                        &field,
                        "no variable of Regrow's environment has this name",
                    );
                }
                names.push(glob);
            }
            _ => reading.problem(value.range(), &field, "write the name of a variable in quotes"),
        }
    }
    Inherit::Named(names)
}

/// A list of texts.
fn texts(reading: &mut Reading<'_>, member: Member<'_>) -> Vec<String> {
    let Value::Array(list) = member.value else {
        if !is_nothing(member.value) {
            let text = "it must be a list; write [\"one\", \"two\"]";
            reading.problem(member.value.range(), member.name, text);
        }
        return vec![];
    };
    let texts = list.elements.iter().enumerate();
    texts.filter_map(|(number, value)| reading.text(value, &format!("{}[{number}]", member.name))).collect()
}

/// Adds the variables of our own environment that are named in a list, as texts or as objects with a name.
fn passed_variables(
    reading: &mut Reading<'_>,
    member: Option<Member<'_>>,
    variables: &mut BTreeMap<String, Secret>,
) {
    let Some(member) = member.filter(|member| !is_nothing(member.value)) else { return };
    let Value::Array(list) = member.value else {
        reading.problem(member.value.range(), member.name, "it must be a list of names");
        return;
    };
    for element in &list.elements {
        let name = element.as_object().and_then(|it| it.get_string("name")).or(element.as_string_lit());
        let Some(name) = name.map(|name| &*name.value) else {
            reading.problem(element.range(), member.name, "it must be the name of a variable, in quotes");
            continue;
        };
        match reading.surroundings.variable(name) {
            Some(value) => drop(variables.insert(name.to_owned(), Secret::new(value.to_owned()))),
            None => {
                let text = format!(
                    "the variable {} is not set here; set it if the server needs it",
                    printable(name)
                );
                reading.remark(element.range(), member.name, text);
            }
        }
    }
}

/// What some hosts write for a list or an object that is not there.
fn is_nothing(value: &Value<'_>) -> bool {
    matches!(value, Value::NullKeyword(_))
}

fn remote(
    reading: &mut Reading<'_>,
    entry: &Object<'_>,
    url: Member<'_>,
    kind: Option<Kind>,
) -> Option<Remote> {
    let names = reading.host.members;
    let [within] = members::known(reading, entry, [names.headers_in.unwrap_or_default()]);
    let holder =
        if names.headers_in.is_some() { within.and_then(|it| it.value.as_object()) } else { Some(entry) };
    let [headers] = holder.map_or([None], |holder| members::known(reading, holder, [names.headers]));
    let mut all_headers = vec![];
    for (name, at, value) in pairs(reading, headers, names.headers, |_| false) {
        let Some(value) = value else { continue };
        if let Err(error) = Headers::new([(&*name, &*value)]) {
            reading.problem(at, &format!("{}.{name}", names.headers), format!("{error}; correct it"));
        }
        all_headers.push((name, Secret::new(value)));
    }
    all_headers.extend(headers_from_variables(reading, entry));
    let text = reading.text(url.value, url.name)?;
    if let Err(error) = Http::new(&text) {
        reading.problem(url.value.range(), url.name, format!("{error}; write it as https://host/path"));
    }
    let dialect = match kind {
        Some(Kind::Http(dialect)) => dialect,
        _ => (url.name == "httpUrl").then_some(Dialect::Streamable),
    };
    Some(Remote { url: Secret::new(text), headers: all_headers, dialect })
}

/// The headers whose values the entry takes from variables that it names. A variable that is not set is a problem.
fn headers_from_variables(reading: &mut Reading<'_>, entry: &Object<'_>) -> Vec<(String, Secret)> {
    let names = reading.host.members;
    let mut found: Vec<(String, Range, String, &str)> = vec![];
    if let Some(name) = names.bearer_variable {
        let [member] = members::known(reading, entry, [name]);
        if let Some(variable) = member.and_then(|member| reading.text(member.value, name)) {
            let at = member.map_or(entry.range, |member| member.at);
            found.push(("Authorization".into(), at, variable, name));
        }
    }
    if let Some(name) = names.header_variables {
        let [member] = members::known(reading, entry, [name]);
        let pairs = pairs(reading, member, name, |_| false).into_iter();
        found.extend(pairs.filter_map(|(header, at, variable)| Some((header, at, variable?, name))));
    }
    let mut headers = vec![];
    for (header, at, variable, field) in found {
        let Some(value) = reading.surroundings.variable(&variable) else {
            let text =
                format!("the variable {} is not set; set it before you start Regrow", printable(&variable));
            reading.problem(at, field, text);
            continue;
        };
        let value =
            if Some(field) == names.bearer_variable { format!("Bearer {value}") } else { value.to_owned() };
        if let Err(error) = Headers::new([(&*header, &*value)]) {
            reading.problem(at, field, format!("{error}; correct it"));
        }
        headers.push((header, Secret::new(value)));
    }
    headers
}

/// The members of an object whose values are texts or, as some hosts allow, numbers or `null`; but for those that mean something else.
fn pairs(
    reading: &mut Reading<'_>,
    member: Option<Member<'_>>,
    field: &str,
    is_other: fn(&Member<'_>) -> bool,
) -> Vec<(String, Range, Option<String>)> {
    let Some(member) = member.filter(|member| !is_nothing(member.value)) else { return vec![] };
    let Value::Object(object) = member.value else {
        reading.problem(member.value.range(), field, "it must be an object; write { \"NAME\": \"value\" }");
        return vec![];
    };
    let mut pairs: Vec<(String, Range, Option<String>)> = vec![];
    let mut seen = vec![];
    for pair in members::all(object) {
        if seen.contains(&pair.name) {
            reading.problem(
                pair.at,
                &format!("{field}.{}", pair.name),
                "it is written twice; keep one of them",
            );
        }
        seen.push(pair.name);
        if is_other(&pair) {
            continue;
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
