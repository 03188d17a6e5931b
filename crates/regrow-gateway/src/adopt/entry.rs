//! The entry of one server in a host's configuration.

use std::path::Path;

use jsonc_parser::cst::{CstArray, CstInputValue, CstNode, CstObject, CstObjectProp, CstStringLit};
use regrow::Mask;

use crate::hosts::{Host, Members};

/// The variable that says what an adopted entry was: the name of its URL, its type where it had one, and whether it had headers.
pub(super) const ADOPTED: &str = "REGROW_ADOPTED";
/// A longer part of a path may be a key.
const LONGEST_WORD: usize = 20;

/// A server's entry.
pub(super) struct Entry {
    /// How its host writes it.
    pub(super) names: &'static Members,
    pub(super) object: CstObject,
    pub(super) command: Option<(CstObjectProp, CstStringLit)>,
    pub(super) args: Option<Args>,
}

/// Its arguments, which are all texts. Where they follow the program in one list, the list is the command's.
pub(super) struct Args {
    pub(super) member: CstObjectProp,
    pub(super) list: CstArray,
    pub(super) texts: Vec<CstStringLit>,
}

impl Args {
    /// None if it is no list of texts.
    fn read(member: CstObjectProp) -> Option<Args> {
        let list = member.array_value()?;
        let texts = list.elements().iter().map(CstNode::as_string_lit).collect::<Option<_>>()?;
        Some(Args { member, list, texts })
    }
}

impl Entry {
    /// The error says what is wrong with an entry that we should not touch.
    pub(super) fn read(host: &Host, value: Option<CstNode>) -> Result<Entry, String> {
        let object =
            value.and_then(|value| value.as_object()).ok_or("it is not an object; correct it first")?;
        let mut seen: Vec<Option<String>> = vec![];
        for property in object.properties() {
            if seen.contains(&property.decoded_name()) {
                return Err("one of its members is written twice; correct it first".into());
            }
            seen.push(property.decoded_name());
        }
        let names = host.members;
        let mut entry = Entry { names, object, command: None, args: None };
        let command = entry.object.get(names.command);
        let Some(args) = names.args else {
            if let Some(member) = command {
                let wrong = "its command is not a list of strings with a program; correct it first";
                let mut args = Args::read(member.clone()).ok_or(wrong)?;
                let program = (!args.texts.is_empty()).then(|| args.texts.remove(0)).ok_or(wrong)?;
                (entry.command, entry.args) = (Some((member, program)), Some(args));
            }
            return Ok(entry);
        };
        if let Some(member) = command {
            let text = text(&member).ok_or("its command is not a string; correct it first")?;
            entry.command = Some((member, text));
        }
        if let Some(member) = entry.object.get(args) {
            let wrong = "its args are not a list of strings; correct them first";
            entry.args = Some(Args::read(member).ok_or(wrong)?);
        }
        Ok(entry)
    }

    /// The first of these members.
    pub(super) fn any(&self, names: &[&str]) -> Option<CstObjectProp> {
        names.iter().find_map(|name| self.object.get(name))
    }

    /// Whether it must run in a sandbox of ours.
    pub(super) fn has_sandbox(&self) -> bool {
        let options = self.object.get("regrow").and_then(|options| options.object_value());
        options.is_some_and(|options| options.get("sandbox").is_some())
    }

    /// Whether its command is ours.
    pub(super) fn is_ours(&self, program: &str) -> bool {
        self.command.as_ref().is_some_and(|(_, command)| {
            let command = decoded(command);
            command == program || Path::new(&command).file_name().is_some_and(|it| it == "regrow")
        })
    }

    /// Whether it runs `regrow wrap`, if its command is ours.
    pub(super) fn is_wrapped(&self) -> bool {
        let first = self.args.as_ref().and_then(|args| args.texts.first());
        first.is_some_and(|first| decoded(first) == "wrap")
    }

    /// Whether we have put it there: people write `regrow`, we write where it is.
    pub(super) fn is_adopted(&self) -> bool {
        self.command.as_ref().is_some_and(|(_, command)| Path::new(&decoded(command)).is_absolute())
    }

    /// Whether one member follows another with nothing but a comma between them.
    pub(super) fn follows(&self, before: &CstObjectProp, after: &CstObjectProp) -> bool {
        let children = self.object.children();
        let between = children.get(before.child_index() + 1..after.child_index());
        between.is_some_and(|nodes| {
            nodes.iter().all(|node| node.is_whitespace() || node.is_newline() || node.is_comma())
        })
    }

    /// Hides what should not be shown: variables, headers, some URLs, and what follows an option that sounds secret.
    pub(super) fn hide_secrets(&self) {
        let objects = [self.names.env, self.names.headers]
            .into_iter()
            .filter_map(|name| self.object.object_value(name));
        for property in objects.flat_map(|object| object.properties()) {
            if property.decoded_name().is_none_or(|name| name != ADOPTED) {
                property.set_value(CstInputValue::String("***".into()));
            }
        }
        let url = self.any(self.names.urls).and_then(|url| text(&url));
        let mut secrets: Vec<CstStringLit> =
            url.into_iter().filter(|url| may_be_secret(&decoded(url))).collect();
        let args = self.args.as_ref().map_or(&[][..], |args| &args.texts);
        for (number, arg) in args.iter().enumerate() {
            let words = decoded(arg);
            let (option, value, at) = match (words.split_once('='), args.get(number + 1)) {
                _ if !words.starts_with('-') => continue,
                (Some((option, value)), _) => (option, value.to_owned(), arg),
                (None, Some(next)) => (&*words, decoded(next), next),
                (None, None) => continue,
            };
            if Mask::secrets_of([(option.to_owned(), value)]).next().is_some() {
                secrets.push(at.clone());
            }
        }
        secrets.iter().for_each(|secret| secret.set_raw_value("\"***\"".into()));
    }
}

/// Whether the URL must not be seen by everybody: it has a user, a query, something to be filled in, or a long part
/// that may be a key.
pub(super) fn may_be_secret(url: &str) -> bool {
    let long = url.split(['/', ':', '.', '-', '_']).any(|word| word.chars().count() > LONGEST_WORD);
    long || url.contains(['@', '?', '#']) || url.contains("${")
}

/// The text that a member is.
pub(super) fn text(member: &CstObjectProp) -> Option<CstStringLit> {
    member.value()?.as_string_lit()
}

/// What a literal means. It was parsed, so it means something.
pub(super) fn decoded(literal: &CstStringLit) -> String {
    literal.decoded_value().unwrap_or_default()
}
