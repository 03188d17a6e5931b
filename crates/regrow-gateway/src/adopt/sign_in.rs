//! A host's own settings for sign-in, as options of `regrow wrap`.

use std::path::Path;

use jsonc_parser::ast::{ObjectProp, Value};
use jsonc_parser::common::Ranged;

use crate::config::syntax;
use crate::hosts::Format;

use super::entry::Entry;

/// The members that have them: of most hosts, of Cursor, of Codex.
const MEMBERS: [&str; 3] = ["oauth", "auth", "scopes"];

/// Why an entry with settings that have no option is left alone.
pub(super) const OWN: &str = "its host signs in to it (OAuth) with settings of its own; to use regrow, run `regrow login URL` and have the host start `regrow wrap URL`";
const SECRET: &str = "its host signs in to it with a client secret, which other users could read in the arguments; \
                      put the secret into a variable and use `regrow wrap --client-id ID --client-secret-env NAME --issuer URL URL`";

/// The member of this entry, and the options for it.
pub(super) fn read<'a>(entry: &Entry<'a>) -> Result<Option<(&'a ObjectProp<'a>, Vec<String>)>, &'static str> {
    let mut found = MEMBERS.iter().filter_map(|name| entry.get(name));
    let Some(member) = found.next() else { return Ok(None) };
    let raw = entry.source.raw(member.value.range());
    // The lines of a table in TOML are no value that could stand elsewhere.
    let is_value = match &member.value {
        Value::Object(_) => raw.starts_with('{'),
        Value::Array(_) => raw.starts_with('['),
        _ => true,
    };
    if found.next().is_some() || !is_value || entry.source.format == Format::Yaml {
        return Err(OWN);
    }
    arguments(member.name.as_str(), &member.value).map(|arguments| Some((member, arguments)))
}

/// The options for a member of this name with this text as its value. None if there is no such member.
pub(super) fn arguments_of(format: Format, name: &str, text: &str) -> Option<Vec<String>> {
    let (path, text) = match format {
        Format::Json => ("it.json", format!("{{ \"{name}\": {text} }}")),
        Format::Toml | Format::Yaml => ("it.toml", format!("{name} = {text}")),
    };
    let object = syntax::parse(Path::new(path), &text).ok()?;
    arguments(name, &object.get(name)?.value).ok()
}

/// Whether this names such a member.
pub(super) fn is_member(name: &str) -> bool {
    MEMBERS.contains(&name)
}

fn arguments(name: &str, value: &Value<'_>) -> Result<Vec<String>, &'static str> {
    let settings = match value {
        Value::Object(settings) if name != "scopes" => settings,
        Value::Array(_) if name == "scopes" => return Ok(vec![format!("--scope={}", scopes(value)?)]),
        Value::BooleanLit(is_on) if name == "oauth" && !is_on.value => {
            return Ok(vec!["--sign-in=never".into()]);
        }
        _ => return Err(OWN),
    };
    let mut arguments: Vec<(&str, String)> = vec![];
    for member in &settings.properties {
        let (option, value) = match (member.name.as_str(), &member.value) {
            ("clientId" | "CLIENT_ID" | "client_id", Value::StringLit(id)) => {
                ("--client-id", id.value.to_string())
            }
            ("clientSecret" | "CLIENT_SECRET" | "client_secret", _) => return Err(SECRET),
            ("callbackPort", Value::NumberLit(port)) => ("--callback-port", port.value.to_owned()),
            ("authServerMetadataUrl", Value::StringLit(url)) => {
                ("--auth-server-metadata-url", url.value.to_string())
            }
            ("scope" | "scopes", value) => ("--scope", scopes(value)?),
            ("enabled", Value::BooleanLit(is_enabled)) if is_enabled.value => continue,
            _ => return Err(OWN),
        };
        if arguments.iter().any(|(other, _)| *other == option) {
            return Err(OWN);
        }
        arguments.push((option, value));
    }
    Ok(arguments.into_iter().map(|(option, value)| format!("{option}={value}")).collect())
}

/// Hosts write a list, or one text with spaces.
fn scopes(value: &Value<'_>) -> Result<String, &'static str> {
    let scopes = match value {
        Value::StringLit(scopes) => Some(scopes.value.to_string()),
        Value::Array(scopes) => {
            let scope = |scope: &Value<'_>| Some(scope.as_string_lit()?.value.to_string());
            scopes.elements.iter().map(scope).collect::<Option<Vec<_>>>().map(|scopes| scopes.join(" "))
        }
        _ => None,
    };
    scopes.ok_or(OWN)
}
