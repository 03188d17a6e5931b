//! The entry of one server in a host's configuration, with the places of everything that may change.

use std::ops::Range;
use std::path::Path;

use jsonc_parser::ast::{Object, ObjectProp, StringLit, Value};
use jsonc_parser::common::Ranged;
use regrow::Mask;

use super::remote;

/// A member of the entry.
#[derive(Clone, Copy)]
pub(super) struct Member<'a> {
    pub(super) name: &'a str,
    property: &'a ObjectProp<'a>,
}

/// A server's entry.
pub(super) struct Entry<'a> {
    pub(super) text: &'a str,
    object: &'a Object<'a>,
    pub(super) command: Option<(Member<'a>, &'a StringLit<'a>)>,
    /// The arguments, which are all texts; none where there is no such member.
    pub(super) args: Option<(Member<'a>, Vec<&'a StringLit<'a>>)>,
}

impl<'a> Entry<'a> {
    /// Says what is wrong with an entry that we should not touch.
    pub(super) fn read(text: &'a str, value: &'a Value<'a>) -> Result<Entry<'a>, String> {
        let Value::Object(object) = value else { return Err("it is no object; correct it first".into()) };
        let mut seen: Vec<&str> = vec![];
        for property in &object.properties {
            if seen.contains(&property.name.as_str()) {
                return Err("one of its members is written twice; correct it first".into());
            }
            seen.push(property.name.as_str());
        }
        let mut entry = Entry { text, object, command: None, args: None };
        if let Some(member) = entry.member("command") {
            let text = member.text().ok_or("its command is no text; correct it first")?;
            entry.command = Some((member, text));
        }
        if let Some(member) = entry.member("args") {
            let texts = member.value().as_array().map(|list| list.elements.iter().map(Value::as_string_lit));
            let texts = texts.and_then(Iterator::collect::<Option<Vec<_>>>);
            entry.args = Some((member, texts.ok_or("its args are no list of texts; correct them first")?));
        }
        Ok(entry)
    }

    pub(super) fn member(&self, name: &str) -> Option<Member<'a>> {
        let property = self.object.properties.iter().find(|property| property.name.as_str() == name)?;
        Some(Member { name: property.name.as_str(), property })
    }

    /// The first of these members.
    pub(super) fn any(&self, names: &[&str]) -> Option<Member<'a>> {
        names.iter().find_map(|name| self.member(name))
    }

    /// Whether its command is ours.
    pub(super) fn is_ours(&self, program: &str) -> bool {
        self.command.as_ref().is_some_and(|(_, command)| {
            command.value == program
                || Path::new(&*command.value).file_name().is_some_and(|it| it == "regrow")
        })
    }

    /// Whether it runs `regrow wrap`, if its command is ours.
    pub(super) fn is_wrapped(&self) -> bool {
        self.arg(0) == Some("wrap")
    }

    /// Whether we have put it there: people write `regrow`, we write where it is.
    pub(super) fn is_adopted(&self) -> bool {
        self.command.as_ref().is_some_and(|(_, command)| Path::new(&*command.value).is_absolute())
    }

    pub(super) fn arg(&self, number: usize) -> Option<&str> {
        self.args.as_ref().and_then(|(_, args)| args.get(number)).map(|arg| &*arg.value)
    }

    /// How it is written.
    pub(super) fn raw(&self, value: &impl Ranged) -> &'a str {
        &self.text[value.range().start..value.range().end]
    }

    /// The places of values that should not be shown: variables, headers, some URLs, and what follows an option that sounds secret.
    pub(super) fn secrets(&self) -> Vec<Range<usize>> {
        let objects =
            ["env", "headers"].into_iter().filter_map(|name| self.member(name)?.value().as_object());
        let values = objects.flat_map(|object| &object.properties).map(|property| bytes(&property.value));
        let mut secrets: Vec<Range<usize>> = values.collect();
        let url = self.any(&remote::URLS).and_then(|url| url.text());
        secrets.extend(url.filter(|url| remote::may_be_secret(&url.value)).map(bytes));
        let args = self.args.as_ref().map_or(&[][..], |(_, args)| args);
        for (number, arg) in args.iter().enumerate().filter(|(_, arg)| arg.value.starts_with('-')) {
            let (option, value, at) = match (arg.value.split_once('='), args.get(number + 1)) {
                (Some((option, value)), _) => (option, value, *arg),
                (None, Some(next)) => (&*arg.value, &*next.value, *next),
                (None, None) => continue,
            };
            if Mask::secrets_of([(option.to_owned(), value.to_owned())]).next().is_some() {
                secrets.push(bytes(at));
            }
        }
        secrets
    }
}

impl<'a> Member<'a> {
    pub(super) fn value(&self) -> &'a Value<'a> {
        &self.property.value
    }

    pub(super) fn text(&self) -> Option<&'a StringLit<'a>> {
        self.property.value.as_string_lit()
    }

    /// Where its name stands.
    pub(super) fn key(&self) -> Range<usize> {
        bytes(&self.property.name)
    }

    /// From its name to the end of its value.
    pub(super) fn whole(&self) -> Range<usize> {
        self.key().start..self.value().range().end
    }

    /// What stands between its name and its value.
    pub(super) fn colon(&self, text: &'a str) -> &'a str {
        &text[self.key().end..self.value().range().start]
    }
}

/// Where something stands, in bytes.
pub(super) fn bytes(value: &impl Ranged) -> Range<usize> {
    value.range().start..value.range().end
}
