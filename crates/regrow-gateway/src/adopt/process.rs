//! A server that its host starts: `command args` becomes `regrow wrap -- command args`.

use super::Outcome;
use super::edit::Edit;
use super::entry::{Entry, bytes};
use super::place::{is_only, quoted, separator};

pub(super) fn adopt(entry: &Entry<'_>, program: &str) -> (Outcome, Vec<Edit>) {
    let Some((member, command)) = &entry.command else {
        return (Outcome::Refused("it has no command".into()), vec![]);
    };
    if entry.any(&["url", "serverUrl", "httpUrl"]).is_some() {
        return (Outcome::Refused("it has a command and a URL; keep the one that is meant".into()), vec![]);
    }
    let old = entry.raw(*command);
    let into_args = match &entry.args {
        Some((member, args)) => {
            let list = bytes(member.value());
            match args.first() {
                Some(first) => {
                    let at = bytes(*first).start;
                    let separator = separator(entry.text, at);
                    let new = ["\"wrap\"", "\"--\"", old].map(|arg| format!("{arg},{separator}"));
                    Edit::insert(at, new.concat())
                }
                None => Edit::insert(list.start + 1, format!("\"wrap\", \"--\", {old}")),
            }
        }
        // The spaces in the brackets are how we know again that there was no list.
        None => {
            let separator = separator(entry.text, member.whole().start);
            Edit::insert(member.whole().end, format!(",{separator}\"args\": [ \"wrap\", \"--\", {old} ]"))
        }
    };
    (Outcome::Changed, vec![Edit::replace(bytes(*command), quoted(program)), into_args])
}

/// Options that were put between `wrap` and `--` since then go with it.
pub(super) fn undo(entry: &Entry<'_>) -> (Outcome, Vec<Edit>) {
    let (Some((command_member, command)), Some((args_member, args))) = (&entry.command, &entry.args) else {
        return (Outcome::Refused("it has no command and args".into()), vec![]);
    };
    // Dashes after the first word of a command are the command's own.
    let is_option = args.get(1).is_some_and(|arg| arg.value.starts_with('-'));
    let dashes = args.iter().position(|arg| is_option && arg.value == "--");
    let Some((old, rest)) = dashes.and_then(|dashes| args[dashes + 1..].split_first()) else {
        let text = "there is no server's command after \"--\" in its args; put it back by hand";
        return (Outcome::Refused(text.into()), vec![]);
    };
    let restore = Edit::replace(bytes(*command), entry.raw(*old));
    let first = bytes(args[0]).start;
    let list = bytes(args_member.value());
    let between = entry.text.get(command_member.whole().end..args_member.key().start).unwrap_or("no");
    let was_absent = rest.is_empty()
        && &entry.text[list.start..first] == "[ "
        && &entry.text[bytes(*old).end..list.end] == " ]"
        && is_only(between, ",");
    let from_args = match rest.first() {
        Some(next) => first..bytes(*next).start,
        None if was_absent => command_member.whole().end..list.end,
        None => first..bytes(*old).end,
    };
    (Outcome::Changed, vec![restore, Edit::replace(from_args, "")])
}
