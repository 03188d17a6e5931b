//! Members that are not where they belong, or not written as they should be.
//!
//! Hosts have members that we do not know, and those are left alone. But an option of ours that is not where we read it would
//! silently not hold, so that is a problem; and what looks like a slip of the pen is told.

use jsonc_parser::ast::{Object, Value};

use super::members::{self, KEY, Member, SECTIONS};
use super::names::{is_same, nearest};
use super::options::{self, Described, Kind, OPTIONS};
use super::reading::Reading;
use super::{sandbox, sign_in, tools};

/// Other words for members, as some hosts and people have them.
const OTHER_WORDS: [(&str, &str); 10] = [
    ("cmd", "command"),
    ("arguments", "args"),
    ("argv", "args"),
    ("environment", "env"),
    ("environmentVariables", "env"),
    ("uri", "url"),
    ("endpoint", "url"),
    ("workingDirectory", "cwd"),
    ("workdir", "cwd"),
    ("workingDir", "cwd"),
];

/// Looks through the entry of a server. Returns whether how it is reached was found under a wrong name.
pub(super) fn in_server(reading: &mut Reading<'_>, entry: &Object<'_>) -> bool {
    let has = |names: &[&str]| members::all(entry).any(|member| names.contains(&member.name));
    let known = members::of_server(reading.host);
    let ours = reading.host.members;
    let reaches: Vec<&str> = ours.urls.iter().copied().chain([ours.command]).collect();
    let mut reach_is_told = false;
    for member in members::all(entry).filter(|member| !known.contains(&member.name)) {
        if let Some(problem) = misplaced(&member) {
            reading.problem(member.at, member.name, problem);
        } else if let Some(meant) = meant(member.name, &known).filter(|meant| !has(&[meant])) {
            let text = format!("Regrow does not know this member; did you mean \"{meant}\"?");
            if reaches.contains(&meant) && !has(&reaches) {
                reading.problem(member.at, member.name, text);
                reach_is_told = true;
            } else {
                reading.remark(member.at, member.name, text);
            }
        }
    }
    reach_is_told
}

/// Looks through the top level of a file. Other programs keep much else there.
pub(super) fn in_file(reading: &mut Reading<'_>, root: &Object<'_>) {
    for member in members::all(root).filter(|member| member.name != KEY) {
        let ours = OPTIONS.iter().find(|option| is_same(option.name, member.name));
        if let Some(option) = ours.filter(|option| may_be(option, member.value)) {
            reading.problem(member.at, member.name, moved(option));
        } else if is_slip_of_key(&member) {
            reading.problem(member.at, member.name, format!("did you mean \"{KEY}\"?"));
        }
    }
}

/// The member that was probably meant to hold the servers.
pub(super) fn section_meant<'a>(root: &'a Object<'a>) -> Option<(Member<'a>, &'static str)> {
    let objects = members::all(root).filter(|member| member.value.as_object().is_some());
    objects.into_iter().find_map(|member| Some((member, nearest(member.name, SECTIONS)?)))
}

/// Options for all servers that stand among the servers: the servers would be served without them.
pub(super) fn among_servers(reading: &mut Reading<'_>, member: &Member<'_>) -> bool {
    let is_option = |name: &str| OPTIONS.iter().any(|option| is_same(option.name, name));
    let is_misplaced = match member.value {
        Value::Object(object) => {
            let mut inside = members::all(object).peekable();
            is_same(KEY, member.name) && inside.peek().is_some() && inside.all(|inner| is_option(inner.name))
        }
        _ => is_option(member.name) || is_same(KEY, member.name),
    };
    if is_misplaced {
        let text = "this is not a server: options for all servers belong in \"regrow\" at the top level of the file; move it there";
        reading.problem(member.at, member.name, text);
    }
    is_misplaced
}

/// What is to be said where a member is an option of ours, or holds them.
fn misplaced(member: &Member<'_>) -> Option<String> {
    if let Some(option) = OPTIONS.iter().find(|option| is_same(option.name, member.name)) {
        let is_other = matches!(option.kind, Kind::Sandbox | Kind::Tools | Kind::SignIn)
            && !may_be(option, member.value);
        return (!is_other).then(|| moved(option));
    }
    if is_slip_of_key(member) {
        return Some(format!("did you mean \"{KEY}\"?"));
    }
    // A name that is only near may be another program's; a value that fits as well is not.
    let meant = nearest(member.name, OPTIONS.iter().map(|option| option.name))?;
    let option = OPTIONS.iter().find(|option| option.name == meant)?;
    (option.kind != Kind::Path && options::accepts(option, member.value)).then(|| {
        format!("did you mean the option \"{meant}\"? It belongs in \"{KEY}\": {{ \"{meant}\": ... }}")
    })
}

fn moved(option: &Described) -> String {
    format!("this is an option of Regrow; move it into \"{KEY}\": {{ \"{}\": ... }}", option.name)
}

fn is_slip_of_key(member: &Member<'_>) -> bool {
    member.value.as_object().is_some() && nearest(member.name, [KEY]).is_some()
}

/// Whether this value, as far as its type goes, could be that of the option.
fn may_be(option: &Described, value: &Value<'_>) -> bool {
    match option.kind {
        Kind::Flag => matches!(value, Value::BooleanLit(_)),
        Kind::List => matches!(value, Value::Array(_)),
        Kind::Sandbox => value.as_object().is_some_and(sandbox::is_ours),
        Kind::Tools => value.as_object().is_some_and(tools::is_ours),
        Kind::SignIn => value.as_object().is_some_and(sign_in::is_ours),
        Kind::Number => matches!(value, Value::NumberLit(_)),
        Kind::NumberOrNone => matches!(value, Value::NumberLit(_) | Value::StringLit(_)),
        _ => matches!(value, Value::StringLit(_)),
    }
}

fn meant(name: &str, known: &[&'static str]) -> Option<&'static str> {
    let other_word = OTHER_WORDS.iter().find(|(word, _)| is_same(word, name)).map(|(_, meant)| *meant);
    let other_word = other_word.filter(|word| known.contains(word));
    other_word.or_else(|| nearest(name, known.iter().copied()))
}
