//! Every `regrow` command line in the documents is one that the parser accepts.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use clap::error::ErrorKind;

use super::parse;

#[test]
fn the_command_lines_in_the_documents_are_accepted() {
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    let documents = fs::read_dir(root.join("docs")).unwrap().map(|entry| entry.unwrap().path());
    let documents: Vec<PathBuf> = documents
        .chain(["README.md", "CONTRIBUTING.md", "packaging/about.md"].map(|name| root.join(name)))
        .filter(|path| path.extension().is_some_and(|extension| extension == "md"))
        .collect();
    let (mut accepted, mut refused) = (0, vec![]);
    for path in documents {
        let text = fs::read_to_string(&path).unwrap();
        for line in command_lines(&text) {
            match parse(words(&line).into_iter().map(OsString::from).collect()) {
                Err(error) if !is_only_named(error.kind()) && !has_placeholder(&line, error.kind()) => {
                    refused.push(format!("{}: {line}\n{error}", path.display()));
                }
                _ => accepted += 1,
            }
        }
    }
    assert!(refused.is_empty(), "{}", refused.join("\n"));
    assert!(accepted > 100, "only {accepted} were found");
}

/// A command may be named without its arguments, and help is no failure.
fn is_only_named(kind: ErrorKind) -> bool {
    use ErrorKind::{
        DisplayHelp, DisplayHelpOnMissingArgumentOrSubcommand, DisplayVersion, MissingRequiredArgument,
    };
    matches!(
        kind,
        DisplayHelp | DisplayVersion | DisplayHelpOnMissingArgumentOrSubcommand | MissingRequiredArgument
    )
}

/// Such as `LEVEL`, which stands for one of several words.
fn has_placeholder(line: &str, kind: ErrorKind) -> bool {
    let is_one = |word: &str| word.len() > 2 && word.bytes().all(|byte| byte.is_ascii_uppercase());
    matches!(kind, ErrorKind::InvalidValue | ErrorKind::ValueValidation) && line.split(' ').any(is_one)
}

/// What is in code blocks of shells, and between backticks in a line, from `regrow` on.
fn command_lines(text: &str) -> Vec<String> {
    let mut found = vec![];
    let mut block: Option<bool> = None;
    for line in text.lines() {
        if let Some(language) = line.trim_start().strip_prefix("```") {
            let is_shell = matches!(language, "console" | "sh" | "bash");
            block = if block.is_some() { None } else { Some(is_shell) };
            continue;
        }
        match block {
            Some(true) => found.push(line.split(" #").next().unwrap_or_default().to_owned()),
            Some(false) => {}
            None => found.extend(line.split('`').skip(1).step_by(2).map(str::to_owned)),
        }
    }
    let parts =
        found.iter().flat_map(|line| line.split("&&")).map(|part| part.trim().trim_start_matches("$ "));
    parts.filter_map(ours).collect()
}

/// The command of ours in this line, if there is one that is written out.
fn ours(line: &str) -> Option<String> {
    let start = if line.starts_with("regrow ") { 0 } else { line.find(" -- regrow ")? + " -- ".len() };
    let line = line[start..].split(['>', '|', ';']).next()?.trim();
    let is_open = ["...", "…", "[", "<", "\\", "{"].iter().any(|sign| line.contains(sign));
    let is_sentence =
        line.split(' ').nth(1).is_none_or(|word| !word.starts_with(|c: char| c.is_ascii_lowercase()));
    // What Regrow starts itself is not for people.
    let is_internal = ["regrow guard", "regrow chaos-server"].iter().any(|command| line.starts_with(command));
    (!is_open && !is_sentence && !is_internal).then(|| line.to_owned())
}

/// As a shell splits it, without all that these lines do not use.
fn words(line: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut quote = None;
    for character in line.chars() {
        match (character, quote) {
            ('\'' | '"', None) => quote = Some(character),
            (_, Some(open)) if open == character => quote = None,
            (' ', None) => words.push(String::new()),
            _ => words.last_mut().expect("there is a first word").push(character),
        }
    }
    words.retain(|word| !word.is_empty());
    words
}
