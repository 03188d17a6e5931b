//! A server that its host starts: `command args` becomes `regrow wrap -- command args`.

use jsonc_parser::common::Ranged;

use super::entry::Entry;
use super::source::{Edit, quoted};
use crate::hosts::Format;

pub(super) fn adopt(entry: &Entry<'_>, program: &str) -> Result<Vec<Edit>, String> {
    let (member, command) = entry.command.ok_or("it has no command")?;
    if entry.any(entry.names.urls).is_some() {
        return Err("it has a command and a URL; keep one of them".into());
    }
    let (source, new) = (entry.source, quoted(program));
    let old = source.raw(command.range);
    let Some(args) = &entry.args else {
        // The spaces in the brackets are how we know again that there was no list.
        let list = format!("[ \"wrap\", \"--\", {old} ]");
        let (gap, name) = (source.separator(entry.object, member), entry.names.args.unwrap_or_default());
        return Ok(match source.format {
            Format::Json => {
                vec![Edit::replace(command.range, format!("{new}{gap}{}", source.member(name, &list)))]
            }
            // A comment may follow the command in its line.
            Format::Toml | Format::Yaml => vec![
                Edit::insert(member.name.start(), format!("{}{gap}", source.member(name, &list))),
                Edit::replace(command.range, new),
            ],
        });
    };
    if entry.names.args.is_none() {
        let comma = source.comma(args.list, command.start());
        return Ok(vec![Edit::replace(
            command.range,
            format!("{new}{comma}\"wrap\"{comma}\"--\"{comma}{old}"),
        )]);
    }
    let ours = match args.list.elements.first() {
        Some(first) => {
            let comma = source.comma(args.list, first.start());
            Edit::insert(first.start(), format!("\"wrap\"{comma}\"--\"{comma}{old}{comma}"))
        }
        None => Edit::insert(args.list.start() + 1, format!("\"wrap\", \"--\", {old}")),
    };
    Ok(vec![ours, Edit::replace(command.range, new)])
}

/// Options that were put between `wrap` and `--` since then go with it.
pub(super) fn undo(entry: &Entry<'_>) -> Result<Vec<Edit>, String> {
    let (Some((member, command)), Some(args)) = (entry.command, &entry.args) else {
        return Err("it has no command and args".into());
    };
    let texts = &args.texts;
    // Dashes after the first word of a command are the command's own.
    let is_option = texts.get(1).is_some_and(|arg| arg.value.starts_with('-'));
    let dashes = texts.iter().position(|arg| is_option && arg.value == "--");
    let Some((old, rest)) = dashes.and_then(|dashes| texts[dashes + 1..].split_first()) else {
        return Err("its args have no server command after \"--\"; restore it by hand".into());
    };
    if entry.names.args.is_none() {
        return Ok(vec![Edit::remove(command.start(), old.start())]);
    }
    let source = entry.source;
    let (first, list) = (texts[0].start(), source.raw(args.list.range));
    let was_absent = rest.is_empty() && list.starts_with("[ \"") && list.ends_with(" ]");
    let restored = Edit::replace(command.range, source.raw(old.range));
    let taken = match rest.first() {
        Some(next) => Edit::remove(first, next.start()),
        None if was_absent && source.follows(entry.object, member, args.member) => {
            Edit::remove(member.value.end(), args.list.end())
        }
        None if was_absent && source.follows(entry.object, args.member, member) => {
            Edit::remove(args.member.name.start(), member.name.start())
        }
        None => Edit::remove(first, old.end()),
    };
    Ok(vec![restored, taken])
}
