//! Where the server's command begins on the command line of `wrap`: with the first word that is no option of ours, as with
//! `env` and `timeout`. It needs no `--` before it: some launchers swallow that.

use std::ffi::{OsStr, OsString};

use clap::Arg;

/// Where the command begins among these words, of which those before `from` are not about it. None where there is no command, where it has its
/// dashes, and where only the parser knows what is meant.
pub(super) fn start_of_command(ours: &[&Arg], words: &[OsString], from: usize) -> Option<usize> {
    after_options(ours, words, from).filter(|start| !is_url(&words[*start]))
}

/// The first word from here on that is neither an option nor the value of one.
pub(super) fn after_options(ours: &[&Arg], words: &[OsString], mut at: usize) -> Option<usize> {
    loop {
        match option(words.get(at)?) {
            Some(Word::End) => return None,
            None => return Some(at),
            Some(option) => at += if takes_next(ours, &option)? { 2 } else { 1 },
        }
    }
}

/// A word that begins with a dash.
enum Word<'a> {
    /// `--`
    End,
    /// `--name`, `--name=value`
    Long { name: &'a str, has_value: bool },
    /// `-x`, `-xyz`
    Short(&'a str),
}

fn option(word: &OsStr) -> Option<Word<'_>> {
    // A word that is no text is none of our options.
    let rest = word.to_str()?.strip_prefix('-').filter(|rest| !rest.is_empty())?;
    Some(match rest.strip_prefix('-') {
        None => Word::Short(rest),
        Some("") => Word::End,
        Some(long) => match long.split_once('=') {
            Some((name, _)) => Word::Long { name, has_value: true },
            None => Word::Long { name: long, has_value: false },
        },
    })
}

/// Whether the next word is the value of this option. None where it is not ours: the parser says so.
fn takes_next(ours: &[&Arg], option: &Word<'_>) -> Option<bool> {
    let takes_values = |argument: &&Arg| argument.get_action().takes_values();
    match option {
        Word::End => Some(false),
        Word::Long { name: "help", .. } => Some(false),
        Word::Long { name, has_value } => {
            let argument = ours.iter().find(|argument| argument.get_long() == Some(name))?;
            Some(takes_values(argument) && !has_value)
        }
        Word::Short(letters) => {
            // The first letter that takes a value takes the rest of its word, or else the next word.
            for (at, letter) in letters.char_indices() {
                if letter == 'h' {
                    continue;
                }
                let argument = ours.iter().find(|argument| argument.get_short() == Some(letter))?;
                if takes_values(argument) {
                    return Some(at + letter.len_utf8() == letters.len());
                }
            }
            Some(false)
        }
    }
}

/// The address of a server, well or badly written, or the variable that holds it; no program is called like that.
fn is_url(word: &OsStr) -> bool {
    let word = word.to_string_lossy();
    let has_port = |(host, rest): (&str, &str)| {
        let port = rest.split('/').next().unwrap_or_default();
        !host.contains(['/', '=', ' '])
            && !port.is_empty()
            && port.chars().all(|digit| digit.is_ascii_digit())
    };
    word.contains("://") || word.starts_with("env:") || word.split_once(':').is_some_and(has_port)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arguments::{Command, Wrap, parse};

    fn wrap(line: &str) -> Result<Box<Wrap>, clap::Error> {
        match parse(line.split(' ').map(OsString::from).collect())?.command {
            Command::Wrap(wrap) => Ok(wrap),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn everything_from_the_first_word_on_is_the_command() {
        let cases = [
            ("regrow wrap npx -y foo", None, "npx -y foo"),
            ("regrow wrap npx -y foo -- --name x", None, "npx -y foo -- --name x"),
            ("regrow wrap --name x npx --name y", Some("x"), "npx --name y"),
            ("regrow wrap --name=x -e A=1 -eB=2 --clean-env ./server --help", Some("x"), "./server --help"),
            ("regrow wrap --name x -- npx -y foo", Some("x"), "npx -y foo"),
            ("regrow wrap --name -- npx", None, ""),
            ("regrow wrap -- -odd --name", None, "-odd --name"),
            ("regrow wrap -H a:b -e A server", None, "server"),
            ("regrow wrap wrap", None, "wrap"),
            ("regrow wrap C:\\server.exe x", None, "C:\\server.exe x"),
            ("regrow --color never wrap --name x npx --color y", Some("x"), "npx --color y"),
            ("regrow --color=never wrap --color always npx -y foo", None, "npx -y foo"),
        ];
        for (line, name, command) in cases {
            let Ok(wrap) = wrap(line) else {
                assert_eq!(command, "", "{line}");
                continue;
            };
            let words: Vec<_> = wrap.command.iter().map(|word| word.to_str().unwrap()).collect();
            assert_eq!((wrap.name.as_deref(), &*words.join(" ")), (name, command), "{line}");
            assert_eq!(wrap.url, None, "{line}");
        }
    }

    #[test]
    fn a_url_stays_a_url_with_options_before_and_after_it() {
        for url in ["http://host/mcp", "HTTPS://host", "env:URL", "localhost:8000/mcp", "ftp://host"] {
            let wrapped = wrap(&format!("regrow wrap --era legacy {url} --name x")).unwrap();
            assert_eq!((wrapped.url.as_deref(), wrapped.name.as_deref()), (Some(url), Some("x")));
            assert!(wrap(&format!("regrow wrap {url} -- server")).is_err());
        }
    }

    #[test]
    fn an_unknown_option_before_the_command_is_refused() {
        for line in
            ["regrow wrap --nmae x server", "regrow wrap -z server", "regrow wrap", "regrow wrap --name x"]
        {
            assert!(wrap(line).is_err(), "{line}");
        }
    }
}
