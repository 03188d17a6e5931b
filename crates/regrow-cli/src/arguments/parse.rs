//! Parses the command line. What the parser knows of all commands takes longer to build than a start may take, so `wrap` and `serve`, for which
//! clients wait, are parsed without the others.

use std::ffi::OsString;

use clap::{Arg, Args, CommandFactory, FromArgMatches, Parser};

use super::words::start_of_command;
use super::{Arguments, Command, Everywhere, Serve, Wrap};

/// Parses these words, of which the first names the program.
pub(crate) fn parse(words: Vec<OsString>) -> Result<Arguments, clap::Error> {
    match alone(&words) {
        Some(arguments) => Ok(arguments),
        None => whole(words), // Also says what is wrong, and shows help.
    }
}

/// The arguments of one command without those of the others.
#[derive(Parser)]
struct Alone<T: Args> {
    #[command(flatten)]
    options: T,
    #[command(flatten)]
    everywhere: Everywhere,
}

/// `None` for other commands, and where something is wrong.
fn alone(words: &[OsString]) -> Option<Arguments> {
    let mut words = words.get(1..)?.to_vec();
    let (command, everywhere) = match words.first()?.to_str()? {
        "wrap" => {
            let parser = Alone::<Wrap>::command();
            let ours: Vec<&Arg> = parser.get_arguments().collect();
            if let Some(start) = start_of_command(&ours, &words, 1) {
                words.insert(start, "--".into());
            }
            let parsed: Alone<Wrap> = parsed(parser, words)?;
            (Command::Wrap(Box::new(parsed.options)), parsed.everywhere)
        }
        "serve" => {
            let parsed: Alone<Serve> = parsed(Alone::<Serve>::command(), words)?;
            (Command::Serve(Box::new(parsed.options)), parsed.everywhere)
        }
        _ => return None,
    };
    Some(Arguments { command, everywhere })
}

fn parsed<T: FromArgMatches>(parser: clap::Command, words: Vec<OsString>) -> Option<T> {
    T::from_arg_matches(&parser.try_get_matches_from(words).ok()?).ok()
}

fn whole(mut words: Vec<OsString>) -> Result<Arguments, clap::Error> {
    let mut parser = Arguments::command();
    if let Some(start) = start_after_wrap(&parser, &words) {
        words.insert(start, "--".into());
    }
    let matches = parser.try_get_matches_from_mut(words)?;
    Arguments::from_arg_matches(&matches).map_err(|error| error.format(&mut parser))
}

/// Where the server's command begins if this is a command line of `wrap`.
fn start_after_wrap(parser: &clap::Command, words: &[OsString]) -> Option<usize> {
    let everywhere: Vec<&Arg> = parser.get_arguments().collect();
    let wrap = super::words::after_options(&everywhere, words, 1).filter(|at| words[*at] == "wrap")?;
    let ours: Vec<&Arg> = parser.find_subcommand("wrap")?.get_arguments().chain(everywhere).collect();
    start_of_command(&ours, words, wrap + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<OsString> {
        line.split(' ').map(OsString::from).collect()
    }

    #[test]
    fn a_command_is_parsed_alone_as_it_is_with_all_others() {
        let lines = [
            "regrow wrap npx -y foo -- --name x",
            "regrow wrap --name x -e A=1 --color never -- server --help",
            "regrow wrap --color=always --era legacy https://example.com/mcp --name x",
            "regrow serve",
            "regrow serve --port 0 --color never a.json --config b.json",
        ];
        for line in lines {
            let alone = alone(&words(line)).expect(line);
            assert_eq!(format!("{alone:?}"), format!("{:?}", whole(words(line)).unwrap()), "{line}");
        }
    }

    #[test]
    fn help_errors_and_other_commands_are_those_of_the_whole_program() {
        let lines = [
            "regrow wrap --help",
            "regrow wrap -V",
            "regrow wrap",
            "regrow wrap --nmae x server",
            "regrow serve --port x",
            "regrow serve -h",
            "regrow check a.json",
            "regrow --color never serve",
            "regrow",
        ];
        for line in lines {
            assert!(alone(&words(line)).is_none(), "{line}");
            match (parse(words(line)), Arguments::try_parse_from(words(line))) {
                (Ok(parsed), Ok(expected)) => assert_eq!(format!("{parsed:?}"), format!("{expected:?}")),
                (Err(error), Err(expected)) => assert_eq!(error.to_string(), expected.to_string()),
                (parsed, _) => panic!("{line}: {parsed:?}"),
            }
        }
    }
}
