//! A remote server: its URL becomes `regrow wrap URL`. A header, or a URL that may hold a secret, moves into the
//! environment, never into arguments, which every user of a machine can see.

use jsonc_parser::cst::{CstNode, CstObject, CstObjectProp, CstStringLit};

use super::Outcome;
use super::entry::{ADOPTED, Entry, decoded, may_be_secret, text};
use super::tree::{quoted, separator, splice};

/// Holds the URL where that may be secret.
const URL: &str = "REGROW_ADOPTED_URL";
/// What `regrow wrap` takes a header from.
const HEADER: &str = "REGROW_HEADER";

const TYPES: [&str; 6] = ["http", "streamable-http", "streamableHttp", "streamable_http", "sse", "remote"];
/// How hosts say that they sign in to a server themselves.
const SIGN_IN: [&str; 6] =
    ["oauth", "auth", "authorization", "authorization_token", "headersHelper", "authProviderType"];

const LOGIN: &str = "if your host signs in to it (OAuth), undo this: regrow cannot sign in";
const BY_HAND: &str = "it was changed since it was put behind regrow; restore it by hand";

pub(super) fn adopt(entry: &Entry, program: &str) -> Outcome {
    match put_behind(entry, program) {
        Ok(()) => Outcome::ChangedWith(LOGIN),
        Err(problem) => Outcome::Refused(problem.into()),
    }
}

fn put_behind(entry: &Entry, program: &str) -> Result<(), &'static str> {
    let names = entry.names;
    let url = entry.any(names.urls).ok_or("it has neither a command nor a URL; correct it first")?;
    let address = text(&url).ok_or("its URL is not a string; correct it first")?;
    if entry.any(&SIGN_IN).is_some() {
        return Err("its host signs in to it (OAuth), which regrow cannot; leave it as it is");
    }
    if entry.object.get(names.env).is_some() || entry.args.is_some() {
        return Err("it has a URL, and env or args as well; correct it first");
    }
    if url.children().iter().any(CstNode::is_comment) {
        return Err("there is a comment before its URL; move it away first");
    }
    let kind = kind_of(entry)?;
    let headers = match entry.object.get(names.headers) {
        Some(member) => Some((Headers::read(&member)?, member)),
        None => None,
    };

    let mut what = vec![url.decoded_name().unwrap_or_default()];
    what.extend(kind.as_ref().map(decoded));
    what.extend(headers.as_ref().map(|_| "headers".to_owned()));
    let mut variables = vec![format!("\"{ADOPTED}\": {}", quoted(&what.join(" ")))];
    let mut argument = address.raw_value();
    if may_be_secret(&decoded(&address)) {
        variables.push(format!("\"{URL}\": {argument}"));
        argument = quoted(&format!("env:{URL}"));
    }
    let (colon, gap) = (colon(&url), separator(url.previous_siblings()));
    let (command, program) = (names.command, quoted(program));
    let mut new = match names.args {
        Some(args) => format!("\"{command}\"{colon}{program},{gap}\"{args}\"{colon}[\"wrap\", {argument}]"),
        None => format!("\"{command}\"{colon}[{program}, \"wrap\", {argument}]"),
    };

    if let Some(kind) = kind {
        kind.set_raw_value(quoted(names.local));
    }
    match headers {
        None => new.push_str(&format!(",{gap}\"{}\"{colon}{{ {} }}", names.env, variables.join(", "))),
        Some((headers, member)) => {
            rename(&member, quoted(names.env));
            match headers {
                Headers::None(object) => splice(object, 1..1, &variables.join(", ")),
                Headers::One(header, value) => {
                    let gap = separator(header.previous_siblings());
                    let name = header.decoded_name().unwrap_or_default();
                    variables.push(format!("\"{HEADER}\""));
                    rename(&header, variables.join(&format!(",{gap}")));
                    value.set_raw_value(format!("\"{name}: {}", &value.raw_value()[1..]));
                }
            }
        }
    }
    splice(entry.object.clone(), url.child_index()..url.child_index() + 1, &new);
    Ok(())
}

/// Its type or transport, which must be one that we know.
fn kind_of(entry: &Entry) -> Result<Option<CstStringLit>, &'static str> {
    let Some(member) = entry.any(&["type", "transport"]) else { return Ok(None) };
    match text(&member).filter(|word| TYPES.contains(&&*decoded(word))) {
        Some(word) => Ok(Some(word)),
        None => Err("its type is not one of http, streamable-http and sse; correct it first"),
    }
}

/// The one header, if there is any. More cannot be told to `regrow wrap` without a file.
enum Headers {
    None(CstObject),
    One(CstObjectProp, CstStringLit),
}

impl Headers {
    fn read(member: &CstObjectProp) -> Result<Headers, &'static str> {
        let object = member.object_value().ok_or("its headers are not an object; correct them first")?;
        match &object.properties()[..] {
            [] => Ok(Headers::None(object)),
            [header] => {
                let is_name =
                    |name: String| name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
                let value = text(header).filter(|_| header.decoded_name().is_some_and(is_name));
                value
                    .map(|value| Headers::One(header.clone(), value))
                    .ok_or("its header is not a string; correct it first")
            }
            _ => Err("it has several headers, which other users could read in the arguments; \
                      write them to a file, one per line, and use `regrow wrap --header-file FILE URL`"),
        }
    }
}

/// Whether this entry was a remote server.
pub(super) fn is_adopted(entry: &Entry) -> bool {
    entry.object.object_value(entry.names.env).is_some_and(|env| env.get(ADOPTED).is_some())
}

pub(super) fn undo(entry: &Entry) -> Outcome {
    match take_out(entry) {
        Some(()) => Outcome::Changed,
        None => Outcome::Refused(BY_HAND.into()),
    }
}

/// None, and nothing is changed, if it is not as we have left it.
fn take_out(entry: &Entry) -> Option<()> {
    let ((command, _), args) = (entry.command.as_ref()?, entry.args.as_ref()?);
    let names = entry.names;
    let env = entry.object.get(names.env)?;
    let variables = env.object_value()?;
    let what = decoded(&text(&variables.get(ADOPTED)?)?);
    let mut what: Vec<&str> = what.split(' ').collect();
    let had_headers = what.last() == Some(&"headers");
    what.truncate(what.len() - usize::from(had_headers));
    let (&key, kind) = what.split_first()?;
    let hidden = variables.get(URL);
    let address = match &hidden {
        Some(property) => text(property)?,
        None => args.texts.get(1).filter(|_| args.texts.len() == 2)?.clone(),
    };
    let ours = 1 + usize::from(hidden.is_some());
    let is_whole = names.urls.contains(&key)
        && (names.args.is_none() || entry.follows(command, &args.member))
        && (had_headers || entry.follows(&args.member, &env));
    let all = variables.properties();
    if !is_whole || all.len() > ours + usize::from(had_headers) {
        return None;
    }
    let kind = match kind.first() {
        Some(kind) => Some((text(&entry.any(&["type", "transport"])?)?, kind)),
        None => None,
    };
    let header = match all.get(ours) {
        Some(header) => {
            let value = text(header)?;
            let raw = value.raw_value();
            let (name, rest) = raw.strip_prefix('"')?.split_once(": ")?;
            Some((header, value, quoted(name), format!("\"{rest}")))
        }
        None => None,
    };

    let restored = format!("\"{key}\"{}{}", colon(command), address.raw_value());
    if let Some((word, kind)) = kind {
        word.set_raw_value(quoted(kind));
    }
    let mut last = &env;
    if had_headers {
        last = &args.member;
        rename(&env, quoted(names.headers));
        let first = all.first()?.child_index();
        let end = match header {
            Some((header, value, name, rest)) => {
                rename(header, name);
                value.set_raw_value(rest);
                header.child_index()
            }
            None => all.last()?.child_index() + 1,
        };
        splice(variables, first..end, "");
    }
    splice(entry.object.clone(), command.child_index()..last.child_index() + 1, &restored);
    Some(())
}

/// What stands between the name of a member and its value.
fn colon(member: &CstObjectProp) -> String {
    let children = member.children();
    let end = member.value().map_or(children.len(), |value| value.child_index());
    children[1..end].iter().map(ToString::to_string).collect()
}

/// Writes this where the name of a member stands.
fn rename(member: &CstObjectProp, raw: String) {
    if let Some(name) = member.name().and_then(|name| name.as_string_lit()) {
        name.set_raw_value(raw);
    }
}
