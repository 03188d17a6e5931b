//! The terminal: whether output is coloured, how wide it may be, and text that is redrawn in place.

mod footer;
mod live;

use std::io::{self, IsTerminal};
use std::sync::OnceLock;

use rustix::termios::tcgetwinsize;

use crate::arguments::Colour;
pub(crate) use footer::{remove_footer, set_footer, stderr_is_ready, write_above_footer};
pub(crate) use live::{Live, TICK};

/// The size of a terminal that does not tell its own.
const USUAL_SIZE: Size = Size { columns: 80, rows: 24 };
/// Narrower text cannot be read, so it is not cut any further.
const NARROWEST: usize = 20;

/// What `--color` says.
static COLOUR: OnceLock<Colour> = OnceLock::new();

/// Sets what `--color` says, once, before anything is printed.
pub(crate) fn set_colour(choice: Colour) {
    let _ = COLOUR.set(choice); // Later choices do not count.
}

/// One of our output streams, as the person at the other end sees it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Screen {
    stream: Stream,
    /// Whether text may be coloured.
    pub(crate) colour: bool,
    is_terminal: bool,
}

#[derive(Clone, Copy, Debug)]
enum Stream {
    Output,
    Error,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Size {
    columns: usize,
    rows: usize,
}

/// What a piece of text means, which decides its colour.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Style {
    Good,
    Bad,
    Alarm,
    Warning,
    Accent,
    Faint,
    Strong,
}

impl Screen {
    pub(crate) fn stdout() -> Screen {
        Screen::of(Stream::Output, io::stdout().is_terminal())
    }

    pub(crate) fn stderr() -> Screen {
        Screen::of(Stream::Error, io::stderr().is_terminal())
    }

    fn of(stream: Stream, is_terminal: bool) -> Screen {
        let choice = COLOUR.get().copied().unwrap_or_default();
        Screen {
            stream,
            colour: wants_colour(choice, is_terminal, |name| std::env::var(name).ok()),
            is_terminal,
        }
    }

    /// Neither a terminal nor coloured, as in a pipe.
    #[cfg(test)]
    pub(crate) fn plain() -> Screen {
        Screen { stream: Stream::Output, colour: false, is_terminal: false }
    }

    pub(crate) fn is_terminal(&self) -> bool {
        self.is_terminal
    }

    /// How many columns a line may have. None where nobody looks: there nothing is cut or wrapped.
    pub(crate) fn width(&self) -> Option<usize> {
        self.is_terminal.then(|| self.size().columns.max(NARROWEST))
    }

    fn size(&self) -> Size {
        let size = match self.stream {
            Stream::Output => tcgetwinsize(io::stdout()),
            Stream::Error => tcgetwinsize(io::stderr()),
        };
        match size {
            Ok(size) if size.ws_col > 0 && size.ws_row > 0 => {
                Size { columns: size.ws_col.into(), rows: size.ws_row.into() }
            }
            _ => USUAL_SIZE,
        }
    }

    pub(crate) fn paint(&self, style: Style, text: &str) -> String {
        match self.colour {
            true => format!("\x1b[{}m{text}\x1b[0m", style.code()),
            false => text.to_owned(),
        }
    }

    /// A paragraph, each line after this prefix.
    pub(crate) fn paragraph(&self, prefix: &str, text: &str) -> String {
        self.lines(prefix, text, wrapped)
    }

    /// The lines of a difference, in the colours that they usually have.
    pub(crate) fn difference(&self, text: &str) -> String {
        let painted = |line: &str| match line.bytes().next() {
            Some(b'+') => self.paint(Style::Good, line),
            Some(b'-') => self.paint(Style::Bad, line),
            _ => line.to_owned(),
        };
        text.split('\n').map(painted).collect::<Vec<_>>().join("\n")
    }

    /// A line that someone else wrote, as it is: where it is too long, it is broken anywhere.
    pub(crate) fn quote(&self, prefix: &str, text: &str) -> String {
        self.lines(prefix, text, broken)
    }

    fn lines(&self, prefix: &str, text: &str, into: fn(&str, usize) -> Vec<String>) -> String {
        let lines = match self.width() {
            Some(width) => into(text, width.saturating_sub(prefix.chars().count()).max(1)),
            None => vec![text.to_owned()],
        };
        lines.iter().map(|line| format!("{prefix}{line}\n")).collect()
    }
}

impl Style {
    fn code(self) -> &'static str {
        match self {
            Style::Good => "32",
            Style::Bad => "31",
            Style::Alarm => "1;31",
            Style::Warning => "33",
            Style::Accent => "36",
            Style::Faint => "2",
            Style::Strong => "1",
        }
    }
}

/// What `--color` says counts most; then NO_COLOR, CLICOLOR_FORCE and CLICOLOR; then whether it is a terminal that knows colours.
fn wants_colour(choice: Colour, is_terminal: bool, variable: impl Fn(&str) -> Option<String>) -> bool {
    let is_on = |name: &str| variable(name).map(|value| value != "0");
    let is_set = |name: &str| variable(name).is_some_and(|value| !value.is_empty());
    match choice {
        Colour::Always => true,
        Colour::Never => false,
        Colour::Auto if is_set("NO_COLOR") => false,
        Colour::Auto if is_set("CLICOLOR_FORCE") && is_on("CLICOLOR_FORCE") == Some(true) => true,
        Colour::Auto if is_on("CLICOLOR") == Some(false) => false,
        Colour::Auto => is_terminal && variable("TERM").is_none_or(|terminal| terminal != "dumb"),
    }
}

/// The text in lines of at most this many characters, broken between words; longer words are not broken.
pub(crate) fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let last = lines.last_mut().expect("there is a first line, and none is taken away");
        if last.is_empty() {
            last.push_str(word);
        } else if last.chars().count() + 1 + word.chars().count() <= width {
            last.push(' ');
            last.push_str(word);
        } else {
            lines.push(word.to_owned());
        }
    }
    lines
}

/// The text in lines of exactly this many characters, but for the last.
fn broken(text: &str, width: usize) -> Vec<String> {
    let characters: Vec<char> = text.chars().collect();
    match characters.is_empty() {
        true => vec![String::new()],
        false => characters.chunks(width).map(|line| line.iter().collect()).collect(),
    }
}

/// As much of a line as fits.
pub(crate) fn fit(line: &str, width: usize) -> String {
    match line.chars().count() > width {
        true => line.chars().take(width.saturating_sub(1)).chain(['…']).collect(),
        false => line.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_option_counts_most_then_the_variables_then_the_terminal() {
        let wants = |choice, is_terminal, set: &[(&str, &str)]| {
            let value =
                |name: &str| set.iter().find(|(set, _)| *set == name).map(|(_, value)| (*value).to_owned());
            wants_colour(choice, is_terminal, value)
        };
        let (auto, no) = (Colour::Auto, ("NO_COLOR", "1"));
        assert!(wants(auto, true, &[]) && !wants(auto, false, &[]));
        assert!(wants(Colour::Always, false, &[no]) && !wants(Colour::Never, true, &[]));
        assert!(!wants(auto, true, &[no]) && wants(auto, true, &[("NO_COLOR", "")]));
        assert!(wants(auto, false, &[("CLICOLOR_FORCE", "1")]), "also in a pipe");
        assert!(
            !wants(auto, false, &[("CLICOLOR_FORCE", "0")]) && !wants(auto, false, &[("CLICOLOR_FORCE", "")])
        );
        assert!(!wants(auto, true, &[("CLICOLOR_FORCE", "1"), no]), "NO_COLOR wins");
        assert!(!wants(auto, true, &[("CLICOLOR", "0")]) && !wants(auto, true, &[("TERM", "dumb")]));
        assert!(wants(auto, true, &[("TERM", "xterm")]));
    }

    #[test]
    fn text_is_wrapped_between_words_and_quotes_anywhere() {
        assert_eq!(wrapped("one two  three", 7), ["one two", "three"]);
        assert_eq!(wrapped("", 7), [""]);
        assert_eq!(wrapped("unbreakable a", 4), ["unbreakable", "a"]);
        assert_eq!(broken("a  bcd", 4), ["a  b", "cd"]);
        assert_eq!(broken("", 4), [""]);
    }

    #[test]
    fn a_line_that_is_too_long_is_cut_and_says_so() {
        assert_eq!(fit("12345", 5), "12345");
        assert_eq!(fit("123456", 5), "1234…");
    }
}
