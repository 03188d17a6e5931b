//! A remote server: its URL becomes `regrow wrap URL`. A header, or a URL that may hold a secret, moves into the
//! environment, never into arguments, which every user of a machine can see.

use jsonc_parser::ast::{Object, ObjectProp, StringLit, Value};
use jsonc_parser::common::{Range, Ranged};

use super::entry::{ADOPTED, Entry, may_be_secret};
use super::sign_in;
use super::source::{Edit, quoted};

/// Holds the URL where that may be secret.
const URL: &str = "REGROW_ADOPTED_URL";
/// Holds the host's own settings for sign-in, as they were written.
const OAUTH_TEXT: &str = "REGROW_ADOPTED_OAUTH";
/// What `regrow wrap` takes a header from.
const HEADER: &str = "REGROW_HEADER";

/// What says in [`ADOPTED`] that there were headers, and that the name of the header, or its value, was not in quotes.
const HEADERS: &str = "headers";
const BARE: &str = "-bare";
const PLAIN: &str = "-plain";
/// That there was the name of a bearer token's variable; that there was an empty object of variables.
const BEARER: &str = "bearer";
const OWN_ENV: &str = "env";

const TYPES: [&str; 6] = ["http", "streamable-http", "streamableHttp", "streamable_http", "sse", "remote"];
/// How hosts say that they sign in to a server themselves.
const SIGN_IN: [&str; 6] = [
    "oauth_resource",
    "authorization",
    "authorization_token",
    "requiresOAuth",
    "headersHelper",
    "authProviderType",
];
/// How hosts say how they connect, which would be lost.
const CONNECTION: [&str; 4] = ["ssl_verify", "client_cert", "client_key", "proxy"];

const HEADER_FILE: &str = "it has several headers, or headers that its host puts together, which other users could read in the arguments; \
                           write them to a file, one per line, and use `regrow wrap --header-file FILE URL`";
/// What the user of an adopted remote server should know.
pub(super) const LOGIN: &str = "if it requires sign-in (OAuth), run `regrow login URL` once: regrow does not use the tokens of your host";
const BY_HAND: &str = "it was changed since it was put behind regrow; restore it by hand";

pub(super) fn adopt(entry: &Entry<'_>, program: &str) -> Result<Vec<Edit>, String> {
    let (names, source) = (entry.names, entry.source);
    let url = entry.any(names.urls).ok_or("it has neither a command nor a URL; correct it first")?;
    let address = url.value.as_string_lit().ok_or("its URL is not a string; correct it first")?;
    let colon = source.colon(url);
    if colon.contains('/') {
        return Err("there is a comment before its URL; move it away first".into());
    }
    may_be_moved(entry)?;
    let kind = kind_of(entry)?;
    let bearer = match names.bearer_variable.and_then(|name| entry.get(name)) {
        Some(member) => {
            let wrong = "the name of its token's variable is not a string; correct it first";
            Some((member, member.value.as_string_lit().ok_or(wrong)?))
        }
        None => None,
    };
    let headers = match entry.get(names.headers) {
        Some(member) => Some((Headers::read(entry, member)?, member)),
        None => None,
    };
    let own_env = entry.get(names.env).and_then(|env| env.value.as_object());
    let oauth = sign_in::read(entry)?;
    if oauth.is_some() && (headers.is_some() || own_env.is_some() || bearer.is_some()) {
        return Err(sign_in::OWN.into());
    }

    let mut what = vec![url.name.as_str().to_owned()];
    what.extend(kind.map(|kind| kind.value.to_string()));
    what.extend(bearer.map(|_| BEARER.to_owned()));
    match (own_env, &headers) {
        (Some(_), _) => what.push(OWN_ENV.to_owned()),
        (None, Some((headers, _))) => what.push(headers.word(entry)),
        (None, None) => what.extend(oauth.as_ref().map(|(member, _)| member.name.as_str().to_owned())),
    }
    let mut variables = vec![source.member(ADOPTED, &quoted(&what.join(" ")))];
    let mut arguments = vec![quoted("wrap")];
    let mut edits = vec![];
    if let Some((member, variable)) = bearer {
        let raw = source.raw(variable.range);
        arguments.extend([quoted("--bearer-env"), raw.to_owned()]);
        // The host passes the variable on to what it starts.
        edits.push(Edit::replace(
            member.name.range(),
            source.name(names.passed_variables.unwrap_or_default()),
        ));
        edits.push(Edit::replace(variable.range, format!("[{raw}]")));
    }
    if let Some((member, settings)) = &oauth {
        variables.push(source.member(OAUTH_TEXT, &quoted(source.raw(member.value.range()))));
        arguments.extend(settings.iter().map(|argument| quoted(argument)));
    }
    if may_be_secret(&address.value) {
        variables.push(source.member(URL, source.raw(address.range)));
        arguments.push(quoted(&format!("env:{URL}")));
    } else {
        arguments.push(source.raw(address.range).to_owned());
    }
    if let Some(kind) = kind {
        let raw = source.raw(kind.range).replacen(&*kind.value, names.local, 1);
        edits.push(Edit::replace(kind.range, raw));
    }
    let member = |name: &str, value: &str| format!("{}{colon}{value}", source.name(name));
    let (program, arguments) = (quoted(program), arguments.join(", "));
    let mut new = match names.args {
        Some(args) => vec![member(names.command, &program), member(args, &format!("[{arguments}]"))],
        None => vec![member(names.command, &format!("[{program}, {arguments}]"))],
    };
    match (own_env, headers) {
        (Some(env), headers) => {
            if let Some((Headers::One(_, header, value), _)) = headers {
                let header = format!("{}: {}", header.name.as_str(), value.value);
                variables.push(source.member(HEADER, &quoted(&header)));
            }
            edits.push(Edit::insert(env.start() + 1, variables.join(", ")));
        }
        (None, None) => {
            let variables = format!("{{ {} }}", variables.join(", "));
            match oauth {
                Some((oauth, _)) => edits.extend([
                    Edit::replace(oauth.name.range(), source.name(names.env)),
                    Edit::replace(oauth.value.range(), variables),
                ]),
                None => new.push(member(names.env, &variables)),
            }
        }
        (None, Some((headers, member))) => {
            edits.push(Edit::replace(member.name.range(), source.name(names.env)));
            edits.extend(headers.into_variables(entry, variables));
        }
    }
    let separator = source.separator(entry.object, url);
    edits.push(Edit::replace(Range::new(url.name.start(), url.value.end()), new.join(&separator)));
    Ok(edits)
}

/// Whether all that its host does to reach it can be left to us.
fn may_be_moved(entry: &Entry<'_>) -> Result<(), &'static str> {
    let names = entry.names;
    if entry.any(&SIGN_IN).is_some() {
        return Err(sign_in::OWN);
    }
    if entry.any(&CONNECTION).is_some() {
        return Err(
            "it has certificates or a proxy of its own; see `regrow wrap --help` for how to give them to regrow",
        );
    }
    if [names.header_variables, names.headers_in].iter().flatten().any(|name| entry.get(name).is_some()) {
        return Err(HEADER_FILE);
    }
    let is_in_the_way = |name: &&str| match entry.get(name).map(|member| &member.value) {
        Some(Value::Object(object)) => !names.has_env_always || !object.properties.is_empty(),
        Some(Value::Array(list)) => !names.has_env_always || !list.elements.is_empty(),
        other => other.is_some(),
    };
    if [Some(names.env), names.args, names.passed_variables].iter().flatten().any(is_in_the_way) {
        return Err("it has a URL, and env or args as well; correct it first");
    }
    Ok(())
}

/// Its type or transport, which must be one that we know.
fn kind_of<'a>(entry: &Entry<'a>) -> Result<Option<&'a StringLit<'a>>, &'static str> {
    let Some(member) = entry.any(&["type", "transport"]) else { return Ok(None) };
    match member.value.as_string_lit().filter(|word| TYPES.contains(&&*word.value)) {
        Some(word) => Ok(Some(word)),
        None => Err("its type is not one of http, streamable-http and sse; correct it first"),
    }
}

/// The one header, if there is any. More cannot be told to `regrow wrap` without a file.
enum Headers<'a> {
    None(&'a Object<'a>),
    One(&'a Object<'a>, &'a ObjectProp<'a>, &'a StringLit<'a>),
}

impl<'a> Headers<'a> {
    fn read(entry: &Entry<'a>, member: &'a ObjectProp<'a>) -> Result<Headers<'a>, &'static str> {
        let object = member.value.as_object().ok_or("its headers are not an object; correct them first")?;
        let header = match &object.properties[..] {
            [] => return Ok(Headers::None(object)),
            [header] => header,
            _ => return Err(HEADER_FILE),
        };
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        let value = header.value.as_string_lit().filter(|_| header.name.as_str().bytes().all(is_name));
        let value = value.ok_or("its header is not a string; correct it first")?;
        // For each of its users, or in headers only.
        let is_filled_in =
            value.value.contains("{{") || entry.names.has_env_always && value.value.contains('$');
        match is_filled_in {
            true => Err("its host fills in its header, which regrow cannot; leave it as it is"),
            false => Ok(Headers::One(object, header, value)),
        }
    }

    /// What says afterwards that there were headers, and how the one header was written.
    fn word(&self, entry: &Entry<'_>) -> String {
        let Headers::One(_, header, value) = self else { return HEADERS.into() };
        let mark = |at: Range, mark| if is_quoted(entry.source.raw(at)) { "" } else { mark };
        format!("{HEADERS}{}{}", mark(header.name.range(), BARE), mark(value.range, PLAIN))
    }

    /// The object of headers becomes one of variables, these and the header.
    fn into_variables(self, entry: &Entry<'_>, mut variables: Vec<String>) -> Vec<Edit> {
        let source = entry.source;
        let (object, header, value) = match self {
            Headers::None(object) => return vec![Edit::insert(object.start() + 1, variables.join(", "))],
            Headers::One(object, header, value) => (object, header, value),
        };
        variables.push(source.name(HEADER));
        let variables = variables.join(&source.separator(object, header));
        let name = format!("{}: ", header.name.as_str());
        let value = match is_quoted(source.raw(value.range)) {
            true => Edit::insert(value.start() + 1, name),
            false => Edit::replace(value.range, quoted(&format!("{name}{}", value.value))),
        };
        vec![Edit::replace(header.name.range(), variables), value]
    }
}

fn is_quoted(raw: &str) -> bool {
    raw.starts_with(['"', '\''])
}

/// Whether this entry was a remote server.
pub(super) fn is_adopted(entry: &Entry<'_>) -> bool {
    let env = entry.get(entry.names.env).and_then(|env| env.value.as_object());
    env.is_some_and(|env| env.get(ADOPTED).is_some())
}

pub(super) fn undo(entry: &Entry<'_>) -> Result<Vec<Edit>, String> {
    take_out(entry).ok_or_else(|| BY_HAND.into())
}

/// None if it is not as we have left it.
fn take_out(entry: &Entry<'_>) -> Option<Vec<Edit>> {
    let ((command, _), args) = (entry.command?, entry.args.as_ref()?);
    let (names, source) = (entry.names, entry.source);
    let env = entry.get(names.env)?;
    let variables = env.value.as_object()?;
    let what = &*variables.get(ADOPTED)?.value.as_string_lit()?.value;
    let mut what: Vec<&str> = what.split(' ').collect();
    let headers = what.pop_if(|word| word.starts_with(HEADERS));
    let oauth = match what.pop_if(|word| sign_in::is_member(word)) {
        Some(name) => Some((name, &*variables.get(OAUTH_TEXT)?.value.as_string_lit()?.value)),
        None => None,
    };
    let settings = match oauth {
        Some((name, text)) => sign_in::arguments_of(source.format, name, text)?,
        None => vec![],
    };
    let had_env = what.pop_if(|word| *word == OWN_ENV).is_some();
    let had_bearer = what.pop_if(|word| *word == BEARER).is_some();
    let (&key, kind) = what.split_first()?;
    let hidden = variables.get(URL);
    let address = match hidden {
        Some(property) => property.value.as_string_lit()?,
        None => {
            let count = 2 + 2 * usize::from(had_bearer) + settings.len();
            args.texts.last().filter(|_| args.texts.len() == count)?
        }
    };
    let ours = 1 + usize::from(hidden.is_some()) + usize::from(oauth.is_some());
    let may_have_header = headers.is_some() || had_env;
    let is_apart = may_have_header || oauth.is_some();
    let is_whole = names.urls.contains(&key)
        && (names.args.is_none() || source.follows(entry.object, command, args.member))
        && (is_apart || source.follows(entry.object, args.member, env));
    let all = &variables.properties;
    if !is_whole || all.len() > ours + usize::from(may_have_header) {
        return None;
    }
    let mut edits = vec![];
    if let Some(kind) = kind.first() {
        let word = entry.any(&["type", "transport"])?.value.as_string_lit()?;
        edits.push(Edit::replace(word.range, source.raw(word.range).replacen(names.local, kind, 1)));
    }
    if had_bearer {
        let passed = entry.get(names.passed_variables?)?;
        let [variable] = &passed.value.as_array()?.elements[..] else { return None };
        edits.push(Edit::replace(passed.name.range(), source.name(names.bearer_variable?)));
        edits.push(Edit::replace(passed.value.range(), source.raw(variable.range())));
    }
    if had_env {
        edits.push(Edit::remove(variables.start() + 1, variables.end() - 1));
    }
    if let Some((name, text)) = oauth {
        edits.push(Edit::replace(env.name.range(), source.name(name)));
        edits.push(Edit::replace(env.value.range(), text));
    }
    if let Some(word) = headers {
        edits.push(Edit::replace(env.name.range(), source.name(names.headers)));
        let first = all.first()?.name.start();
        match all.get(ours) {
            Some(header) => {
                let value = header.value.as_string_lit()?;
                let (name, _) = source.raw(value.range).get(1..)?.split_once(": ")?;
                let raw = if word.contains(BARE) { name.to_owned() } else { quoted(name) };
                edits.push(Edit::replace(Range::new(first, header.name.end()), raw));
                edits.push(match word.contains(PLAIN) {
                    true => Edit::replace(value.range, value.value.get(name.len() + 2..)?),
                    false => Edit::remove(value.start() + 1, value.start() + 1 + name.len() + 2),
                });
            }
            None => edits.push(Edit::remove(first, all.last()?.value.end())),
        }
    }
    let last = if is_apart { args.member } else { env };
    let restored = format!("{}{}{}", source.name(key), source.colon(command), source.raw(address.range));
    edits.push(Edit::replace(Range::new(command.name.start(), last.value.end()), restored));
    Some(edits)
}
