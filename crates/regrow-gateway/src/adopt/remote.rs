//! A remote server: its URL becomes `regrow wrap URL`. A header, or a URL that may hold a secret, moves into the
//! environment, never into arguments, which every user of a machine can see.

use jsonc_parser::ast::{Object, ObjectProp, StringLit};

use super::Outcome;
use super::edit::Edit;
use super::entry::{Entry, Member, bytes};
use super::place::{is_only, quoted, separator};

/// Says what the entry was: the name of its URL, its type where it had one, and whether it had headers.
const ADOPTED: &str = "REGROW_ADOPTED";
/// Holds the URL where that may be secret.
const URL: &str = "REGROW_ADOPTED_URL";
/// What `regrow wrap` takes a header from.
const HEADER: &str = "REGROW_HEADER";

pub(super) const URLS: [&str; 3] = ["url", "serverUrl", "httpUrl"];
const TYPES: [&str; 5] = ["http", "streamable-http", "streamableHttp", "streamable_http", "sse"];
/// How hosts say that they sign in to a server themselves.
const SIGN_IN: [&str; 6] =
    ["oauth", "auth", "authorization", "authorization_token", "headersHelper", "authProviderType"];
/// A longer part of a path may be a key.
const LONGEST_WORD: usize = 20;

const LOGIN: &str = "if your host signs in to it (OAuth), undo this: regrow cannot sign in";
const BY_HAND: &str = "it was changed since it was put behind regrow; put it back by hand";

pub(super) fn adopt(entry: &Entry<'_>, program: &str) -> (Outcome, Vec<Edit>) {
    match edits(entry, program) {
        Ok(edits) => (Outcome::ChangedWith(LOGIN), edits),
        Err(problem) => (Outcome::Refused(problem.into()), vec![]),
    }
}

fn edits(entry: &Entry<'_>, program: &str) -> Result<Vec<Edit>, &'static str> {
    let url = entry.any(&URLS).ok_or("it has neither a command nor a URL; correct it first")?;
    let address = url.text().ok_or("its URL is no text; correct it first")?;
    if entry.any(&SIGN_IN).is_some() {
        return Err("its host signs in to it, which regrow cannot; leave it as it is");
    }
    if entry.member("env").is_some() || entry.args.is_some() {
        return Err("it has a URL, and env or args as well; correct it first");
    }
    if !is_only(url.colon(entry.text), ":") {
        return Err("there is a comment before its URL; move it away first");
    }
    let kind = kind_of(entry)?;
    let headers = match entry.member("headers") {
        Some(member) => Some((member, headers_of(&member)?)),
        None => None,
    };

    let mut what = vec![url.name];
    what.extend(kind.map(|(_, word)| &*word.value));
    what.extend(headers.as_ref().map(|_| "headers"));
    let may_be_secret = may_be_secret(&address.value);
    let mut variables = vec![(ADOPTED, quoted(&what.join(" ")), None)];
    if may_be_secret {
        variables.push((URL, entry.raw(address).to_owned(), Some("\"***\"")));
    }
    let variables = |secret: bool, separator: &str| {
        let pairs = variables.iter().map(|(name, value, shown)| {
            let value = shown.filter(|_| secret).unwrap_or(value);
            format!("\"{name}\": {value}")
        });
        pairs.collect::<Vec<_>>().join(&format!(",{separator}"))
    };

    let (colon, gap) = (url.colon(entry.text), separator(entry.text, url.whole().start));
    let argument = if may_be_secret { quoted(&format!("env:{URL}")) } else { entry.raw(address).to_owned() };
    let new = |secret: bool| {
        let mut new =
            format!("\"command\"{colon}{},{gap}\"args\"{colon}[\"wrap\", {argument}]", quoted(program));
        if headers.is_none() {
            new.push_str(&format!(",{gap}\"env\"{colon}{{ {} }}", variables(secret, " ")));
        }
        new
    };
    let mut edits = vec![Edit::replace(url.whole(), new(false)).shown_as(new(true))];
    edits.extend(kind.map(|(_, word)| Edit::replace(bytes(word), "\"stdio\"")));
    if let Some((member, header)) = headers {
        edits.push(Edit::replace(member.key(), "\"env\""));
        match header {
            Some((property, value)) => {
                let at = bytes(&property.name).start;
                let gap = separator(entry.text, at);
                let put = |secret| format!("{},{gap}\"{HEADER}\"", variables(secret, gap));
                edits.push(Edit::replace(bytes(&property.name), put(false)).shown_as(put(true)));
                let name = property.name.as_str();
                let value_text = &entry.raw(value)[1..];
                let shown = format!("\"{name}: ***\"");
                edits.push(Edit::replace(bytes(value), format!("\"{name}: {value_text}")).shown_as(shown));
            }
            None => {
                let at = bytes(member.value()).start + 1;
                edits.push(Edit::insert(at, variables(false, " ")).shown_as(variables(true, " ")));
            }
        }
    }
    Ok(edits)
}

/// Its type or transport, which must be one that we know.
fn kind_of<'a>(entry: &Entry<'a>) -> Result<Option<(Member<'a>, &'a StringLit<'a>)>, &'static str> {
    let Some(member) = entry.any(&["type", "transport"]) else { return Ok(None) };
    match member.text() {
        Some(word) if TYPES.contains(&&*word.value) => Ok(Some((member, word))),
        _ => Err("its type is not one of http, streamable-http and sse; correct it first"),
    }
}

/// The one header, if there is any. More cannot be told to `regrow wrap` without a file.
fn headers_of<'a>(
    member: &Member<'a>,
) -> Result<Option<(&'a ObjectProp<'a>, &'a StringLit<'a>)>, &'static str> {
    let headers: &Object<'_> =
        member.value().as_object().ok_or("its headers are no object; correct them first")?;
    match &headers.properties[..] {
        [] => Ok(None),
        [header] => {
            let is_name = |name: &str| name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
            let value = header.value.as_string_lit().filter(|_| is_name(header.name.as_str()));
            value.map(|value| Some((header, value))).ok_or("its header is no text; correct it first")
        }
        _ => Err("it has several headers, which must not stand among arguments, where others can see them; \
                  write them into a file, a line each, and use `regrow wrap --header-file FILE URL`"),
    }
}

/// Whether the URL must not be seen by everybody: it has a user, a query, something to be filled in, or a long part
/// that may be a key.
pub(super) fn may_be_secret(url: &str) -> bool {
    let long = url.split(['/', ':', '.', '-', '_']).any(|word| word.chars().count() > LONGEST_WORD);
    long || url.contains(['@', '?', '#']) || url.contains("${")
}

/// Whether this entry was a remote server.
pub(super) fn is_adopted(entry: &Entry<'_>) -> bool {
    entry.member("env").is_some_and(|env| variable(&env, ADOPTED).is_some())
}

fn variable<'a>(env: &Member<'a>, name: &str) -> Option<&'a ObjectProp<'a>> {
    env.value().as_object()?.properties.iter().find(|property| property.name.as_str() == name)
}

pub(super) fn undo(entry: &Entry<'_>) -> (Outcome, Vec<Edit>) {
    match undo_edits(entry) {
        Some(edits) => (Outcome::Changed, edits),
        None => (Outcome::Refused(BY_HAND.into()), vec![]),
    }
}

fn undo_edits(entry: &Entry<'_>) -> Option<Vec<Edit>> {
    let (command, _) = entry.command.as_ref()?;
    let (args, texts) = entry.args.as_ref()?;
    let env = entry.member("env")?;
    let what = variable(&env, ADOPTED)?.value.as_string_lit()?.value.to_string();
    let mut what: Vec<&str> = what.split(' ').collect();
    let had_headers = what.last() == Some(&"headers");
    what.truncate(what.len() - usize::from(had_headers));
    let (&key, kind) = what.split_first()?;
    let hidden = variable(&env, URL);
    let address = match hidden {
        Some(property) => property.value.as_string_lit()?,
        None => texts.get(1).copied().filter(|_| texts.len() == 2)?,
    };
    let follows = |before: &Member<'_>, after: &Member<'_>| {
        entry.text.get(before.whole().end..after.key().start).is_some_and(|between| is_only(between, ","))
    };
    let variables = &env.value().as_object()?.properties;
    let ours = 1 + usize::from(hidden.is_some());
    let is_whole = URLS.contains(&key) && follows(command, args) && (had_headers || follows(args, &env));
    if !is_whole || variables.len() > ours + usize::from(had_headers) {
        return None;
    }

    let end = if had_headers { args.whole().end } else { env.whole().end };
    let restored = format!("\"{key}\"{}{}", command.colon(entry.text), entry.raw(address));
    let shown = format!("\"{key}\"{}\"***\"", command.colon(entry.text));
    let mut restore = Edit::replace(command.whole().start..end, restored);
    if hidden.is_some() {
        restore = restore.shown_as(shown);
    }
    let mut edits = vec![restore];
    if let Some(kind) = kind.first() {
        let word = entry.any(&["type", "transport"])?.text()?;
        edits.push(Edit::replace(bytes(word), quoted(kind)));
    }
    if had_headers {
        edits.push(Edit::replace(env.key(), "\"headers\""));
        let first = bytes(&variables.first()?.name).start;
        match variables.get(ours) {
            Some(header) => {
                let value = header.value.as_string_lit()?;
                let (name, rest) = entry.raw(value).strip_prefix('"')?.split_once(": ")?;
                edits.push(Edit::replace(first..bytes(&header.name).end, quoted(name)));
                edits.push(Edit::replace(bytes(value), format!("\"{rest}")).shown_as("\"***\""));
            }
            None => edits.push(Edit::replace(first..bytes(&variables.last()?.value).end, "")),
        }
    }
    Some(edits)
}
