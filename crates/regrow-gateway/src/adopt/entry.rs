//! The entry of one server in a host's configuration.

use std::path::Path;

use jsonc_parser::ast::{Array, Object, ObjectProp, StringLit, Value};
use jsonc_parser::common::Ranged;
use regrow::Mask;

use super::source::{Edit, Source};
use crate::hosts::{Host, Members};

/// The variable that says what an adopted entry was: the name of its URL, its type where it had one, and whether it had headers.
pub(super) const ADOPTED: &str = "REGROW_ADOPTED";
/// A longer part of a path may be a key.
const LONGEST_WORD: usize = 20;

/// A server's entry.
pub(super) struct Entry<'a> {
    pub(super) source: Source<'a>,
    /// How its host writes it.
    pub(super) names: &'static Members,
    pub(super) object: &'a Object<'a>,
    pub(super) command: Option<(&'a ObjectProp<'a>, &'a StringLit<'a>)>,
    pub(super) args: Option<Args<'a>>,
}

/// Its arguments, which are all texts. Where they follow the program in one list, the list is the command's.
pub(super) struct Args<'a> {
    pub(super) member: &'a ObjectProp<'a>,
    pub(super) list: &'a Array<'a>,
    pub(super) texts: Vec<&'a StringLit<'a>>,
}

impl<'a> Args<'a> {
    /// None if it is no list of texts.
    fn read(member: &'a ObjectProp<'a>) -> Option<Args<'a>> {
        let list = member.value.as_array()?;
        let texts = list.elements.iter().map(Value::as_string_lit).collect::<Option<_>>()?;
        Some(Args { member, list, texts })
    }
}

impl<'a> Entry<'a> {
    /// The error says what is wrong with an entry that we should not touch.
    pub(super) fn read(source: Source<'a>, host: &Host, value: &'a Value<'a>) -> Result<Entry<'a>, String> {
        let object = value.as_object().ok_or("it is not an object; correct it first")?;
        let mut seen: Vec<&str> = vec![];
        for property in &object.properties {
            if seen.contains(&property.name.as_str()) {
                return Err("one of its members is written twice; correct it first".into());
            }
            seen.push(property.name.as_str());
        }
        let names = host.members;
        let mut entry = Entry { source, names, object, command: None, args: None };
        let command = entry.get(names.command);
        let Some(args) = names.args else {
            if let Some(member) = command {
                let wrong = "its command is not a list of strings with a program; correct it first";
                let mut args = Args::read(member).ok_or(wrong)?;
                let program = (!args.texts.is_empty()).then(|| args.texts.remove(0)).ok_or(wrong)?;
                (entry.command, entry.args) = (Some((member, program)), Some(args));
            }
            return Ok(entry);
        };
        if let Some(member) = command {
            let text = member.value.as_string_lit().ok_or("its command is not a string; correct it first")?;
            entry.command = Some((member, text));
        }
        if let Some(member) = entry.get(args) {
            let wrong = "its args are not a list of strings; correct them first";
            entry.args = Some(Args::read(member).ok_or(wrong)?);
        }
        Ok(entry)
    }

    /// The member of this name.
    pub(super) fn get(&self, name: &str) -> Option<&'a ObjectProp<'a>> {
        self.object.properties.iter().find(|property| property.name.as_str() == name)
    }

    /// The first of these members.
    pub(super) fn any(&self, names: &[&str]) -> Option<&'a ObjectProp<'a>> {
        names.iter().find_map(|name| self.get(name))
    }

    /// Whether it must run in a sandbox of ours.
    pub(super) fn has_sandbox(&self) -> bool {
        let options = self.get("regrow").and_then(|options| options.value.as_object());
        options.is_some_and(|options| options.get("sandbox").is_some())
    }

    /// Whether its command is ours.
    pub(super) fn is_ours(&self, program: &str) -> bool {
        self.command.is_some_and(|(_, command)| {
            command.value == program
                || Path::new(&*command.value).file_name().is_some_and(|it| it == "regrow")
        })
    }

    /// Whether it runs `regrow wrap`, if its command is ours.
    pub(super) fn is_wrapped(&self) -> bool {
        let first = self.args.as_ref().and_then(|args| args.texts.first());
        first.is_some_and(|first| first.value == "wrap")
    }

    /// Hides what should not be shown: variables, headers, some URLs, and what follows an option that sounds secret.
    pub(super) fn hide_secrets(&self) -> Vec<Edit> {
        let object = |object: &'a Object<'a>, name: &str| object.get(name)?.value.as_object();
        let holder = match self.names.headers_in {
            Some(name) => object(self.object, name),
            None => Some(self.object),
        };
        let headers = holder.and_then(|holder| object(holder, self.names.headers));
        let objects = object(self.object, self.names.env).into_iter().chain(headers);
        let variables = objects.flat_map(|object| &object.properties);
        let mut secrets: Vec<_> = variables
            .filter(|property| property.name.as_str() != ADOPTED)
            .map(|property| property.value.range())
            .collect();
        let url = self.any(self.names.urls).and_then(|url| url.value.as_string_lit());
        secrets.extend(url.filter(|url| may_be_secret(&url.value)).map(|url| url.range));
        let args = self.args.as_ref().map_or(&[][..], |args| &args.texts);
        for (number, arg) in args.iter().enumerate() {
            let words = &*arg.value;
            let (option, value, at) = match (words.split_once('='), args.get(number + 1)) {
                _ if !words.starts_with('-') => continue,
                (Some((option, value)), _) => (option, value, arg),
                (None, Some(next)) => (words, &*next.value, next),
                (None, None) => continue,
            };
            if Mask::secrets_of([(option.to_owned(), value.to_owned())]).next().is_some() {
                secrets.push(at.range);
            }
        }
        secrets.dedup();
        secrets.into_iter().map(|at| Edit::replace(at, "\"***\"")).collect()
    }
}

/// Whether the URL must not be seen by everybody: it has a user, a query, something to be filled in, or a long part
/// that may be a key.
pub(super) fn may_be_secret(url: &str) -> bool {
    let long = url.split(['/', ':', '.', '-', '_']).any(|word| word.chars().count() > LONGEST_WORD);
    long || url.contains(['@', '?', '#']) || url.contains("${")
}
