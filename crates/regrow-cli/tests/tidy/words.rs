//! Words that nobody uses for these things: in what users and developers read.

use crate::source::Source;

/// What is not written, and what is written instead.
const BANNED: [(&str, &str); 33] = [
    ("for ever", "forever"),
    ("anew", "again"),
    ("in good order", "cleanly"),
    ("is borne", "is allowed"),
    ("are borne", "are allowed"),
    ("still borne", "left"),
    ("mended", "fixed"),
    ("mends", "fixes"),
    ("by itself", "on its own"),
    ("gave no answer", "did not respond"),
    ("no answer in the time", "timed out"),
    ("is told so", "gets an error"),
    ("are told so", "get an error"),
    ("whoever", "the caller, the client ..."),
    ("its own accord", "on its own"),
    ("so many may", "at most N may"),
    ("So many ", "At most N"),
    ("is found out", "is detected"),
    ("found out:", "detected:"),
    ("is out of order", "is broken"),
    ("costs nothing", "is not counted"),
    ("what is wanted", "what is requested"),
    ("takes the place of", "replaces"),
    ("of no use", "useless, not valid"),
    ("Whoever", "the caller, the client ..."),
    ("sign of life", "probe, response"),
    ("signs of life", "keep-alives"),
    ("shake hands", "complete the handshake"),
    ("shakes hands", "completes the handshake"),
    ("so many seconds", "this many seconds"),
    ("of before", "from before, out of date"),
    ("keep the one that is meant", "keep one of them"),
    ("told to end", "shutting down"),
];

/// In string literals, which end up in errors, logs and help.
pub(crate) fn in_strings(source: &Source) -> Vec<String> {
    let code = source.text.split("\n#[cfg(test)]\nmod ").next().unwrap_or_default();
    let strings = code.lines().filter(|line| !line.trim_start().starts_with("//") && line.contains('"'));
    banned(&source.path, strings)
}

pub(crate) fn in_comments(source: &Source) -> Vec<String> {
    banned(&source.path, source.text.lines().filter(|line| line.contains("//")))
}

pub(crate) fn in_document(path: &str, text: &str) -> Vec<String> {
    banned(path, text.lines())
}

fn banned<'a>(path: &str, lines: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut found = vec![];
    for line in lines {
        for (word, instead) in BANNED {
            if has_words(line, word) {
                found.push(format!("{path}: \"{word}\" (write: {instead}) in: {}", line.trim()));
            }
        }
    }
    found
}

/// Whether these words are in the line as words, not as parts of others.
fn has_words(line: &str, words: &str) -> bool {
    line.match_indices(words).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = line[at + words.len()..].chars().next();
        let is_letter =
            |letter: Option<char>| letter.is_some_and(|letter| letter.is_alphanumeric() || letter == '_');
        !is_letter(before) && (words.ends_with(' ') || !is_letter(after))
    })
}

#[test]
fn words_are_found_as_words() {
    assert!(has_words("it waits for ever.", "for ever"));
    assert!(!has_words("wait for every call", "for ever"));
}
