//! A server that its host starts: `command args` becomes `regrow wrap -- command args`.

use super::Outcome;
use super::entry::{Entry, decoded};
use super::tree::{quoted, separator, splice};

pub(super) fn adopt(entry: &Entry, program: &str) -> Outcome {
    let Some((member, command)) = &entry.command else {
        return Outcome::Refused("it has no command".into());
    };
    if entry.any(entry.names.urls).is_some() {
        return Outcome::Refused("it has a command and a URL; keep one of them".into());
    }
    let (old, new) = (command.raw_value(), quoted(program));
    match &entry.args {
        Some(_) if entry.names.args.is_none() => {
            let gap = separator(command.previous_siblings());
            command.set_raw_value(format!("{new},{gap}\"wrap\",{gap}\"--\",{gap}{old}"));
        }
        Some(args) => {
            match args.texts.first() {
                Some(first) => {
                    let (gap, text) = (separator(first.previous_siblings()), first.raw_value());
                    first.set_raw_value(format!("\"wrap\",{gap}\"--\",{gap}{old},{gap}{text}"));
                }
                None => splice(args.list.clone(), 1..1, &format!("\"wrap\", \"--\", {old}")),
            }
            command.set_raw_value(new);
        }
        // The spaces in the brackets are how we know again that there was no list.
        None => {
            let gap = separator(member.previous_siblings());
            command.set_raw_value(format!("{new},{gap}\"args\": [ \"wrap\", \"--\", {old} ]"));
        }
    }
    Outcome::Changed
}

/// Options that were put between `wrap` and `--` since then go with it.
pub(super) fn undo(entry: &Entry) -> Outcome {
    let (Some((member, command)), Some(args)) = (&entry.command, &entry.args) else {
        return Outcome::Refused("it has no command and args".into());
    };
    let texts = &args.texts;
    // Dashes after the first word of a command are the command's own.
    let is_option = texts.get(1).is_some_and(|arg| decoded(arg).starts_with('-'));
    let dashes = texts.iter().position(|arg| is_option && decoded(arg) == "--");
    let Some((old, rest)) = dashes.and_then(|dashes| texts[dashes + 1..].split_first()) else {
        let text = "its args have no server command after \"--\"; restore it by hand";
        return Outcome::Refused(text.into());
    };
    if entry.names.args.is_none() {
        splice(args.list.clone(), command.child_index()..old.child_index(), "");
        return Outcome::Changed;
    }
    command.set_raw_value(old.raw_value());
    let (first, list) = (texts[0].child_index(), args.list.to_string());
    let was_absent = rest.is_empty() && list.starts_with("[ \"") && list.ends_with("\" ]");
    match rest.first() {
        Some(next) => splice(args.list.clone(), first..next.child_index(), ""),
        None if was_absent && entry.follows(member, &args.member) => {
            splice(entry.object.clone(), member.child_index() + 1..args.member.child_index() + 1, "");
        }
        None => splice(args.list.clone(), first..old.child_index() + 1, ""),
    }
    Outcome::Changed
}
