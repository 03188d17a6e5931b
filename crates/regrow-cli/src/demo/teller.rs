//! Tells the story as it happens: a line for each event, with the time since the beginning, in 80 columns.

use std::io::{ErrorKind, Write};
use std::sync::Mutex;
use std::time::Instant;

use regrow_chaos::sync::lock;
use tokio::sync::watch;

use super::summary::Summary;

const WIDTH: usize = 80;
/// What precedes the text of an event: its time and who speaks.
const MARGIN: usize = 19;

pub(super) struct Teller {
    began: Instant,
    colour: bool,
    output: Mutex<Box<dyn Write + Send>>,
    reader_left: watch::Sender<bool>,
}

/// Who speaks, or what is done.
#[derive(Clone, Copy, Debug)]
pub(super) enum Voice {
    Call,
    Answer,
    /// What the caller is told instead of a response.
    Told,
    Signal,
    Regrow,
    Server,
    Kept,
    Broken,
}

impl Voice {
    fn name_and_colour(self) -> (&'static str, &'static str) {
        match self {
            Voice::Call => ("call", "36"),
            Voice::Answer => ("answer", "36"),
            Voice::Told => ("told", "33"),
            Voice::Signal => ("signal", "31"),
            Voice::Regrow => ("regrow", "2"),
            Voice::Server => ("server", "2"),
            Voice::Kept => ("kept", "32"),
            Voice::Broken => ("BROKEN", "1;31"),
        }
    }
}

impl Teller {
    pub(super) fn new(output: impl Write + Send + 'static, is_terminal: bool) -> Teller {
        let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty())
            || std::env::var_os("TERM").is_some_and(|terminal| terminal == "dumb");
        Teller {
            began: Instant::now(),
            colour: is_terminal && !refused,
            output: Mutex::new(Box::new(output)),
            reader_left: watch::channel(false).0,
        }
    }

    pub(super) fn prologue(&self, options: &[&str]) {
        self.print(&format!(
            "{}\n\n\
             The demo is a client. Its server runs behind regrow, as it would in your\n\
             configuration; only the options are chosen for a short demo:\n\n  \
             regrow wrap {} \\\n    -- regrow chaos-server\n\n",
            self.paint("1", "regrow demo: what a caller notices when its server dies"),
            options.join(" "),
        ));
    }

    pub(super) fn act(&self, number: usize, title: &str) {
        self.print(&format!("\n{}\n", self.paint("1", &format!("{number}  {title}"))));
    }

    /// One event, now.
    pub(super) fn say(&self, voice: Voice, text: &str) {
        let (name, colour) = voice.name_and_colour();
        let mut output = lock(&self.output);
        // The time is taken under the lock, so that it never runs backwards down the page.
        let time = format!("{:8.3}s", self.began.elapsed().as_secs_f64());
        let mut told = format!("{}  {}", self.paint("2", &time), self.paint(colour, &format!("{name:6}  ")));
        let text = wrapped(text, WIDTH - MARGIN);
        for (number, line) in text.iter().enumerate() {
            let indent = if number == 0 { 0 } else { MARGIN };
            let line = match voice {
                Voice::Call | Voice::Answer => line.clone(),
                _ => self.paint(colour, line),
            };
            told.push_str(&format!("{:indent$}{line}\n", ""));
        }
        self.write(&mut **output, &told);
    }

    /// A line of the log of `regrow wrap`, or of the server's stderr in it.
    pub(super) fn log(&self, line: &str) {
        match line.strip_prefix("regrow: ") {
            Some(line) => self.say(Voice::Regrow, line.strip_prefix("demo: ").unwrap_or(line)),
            None => self.say(Voice::Server, line),
        }
    }

    pub(super) fn epilogue(&self, summary: &Summary) {
        self.print(&format!("\n{}\n{}", self.paint("1", "Measured"), summary.text()));
        let broken = summary.broken();
        if broken.is_empty() {
            self.print(&format!("\n{}\n", self.paint("32", "Every promise was kept.")));
        } else {
            self.print(&format!("\n{}\n", self.paint("1;31", "Broken:")));
            broken.iter().for_each(|promise| self.print(&format!("  {promise}\n")));
        }
        self.print(&format!(
            "\nNow try your own: in the configuration of your MCP host, put `regrow wrap --`\n\
             in front of a server's command:\n\n  {}\n\n\
             Options: `regrow wrap --help`. More: README.md for MCP hosts, and docs/errors.md\n\
             for the errors that a caller gets.\n",
            self.paint("1", "regrow wrap -- your-server its-arguments"),
        ));
    }

    /// Resolves when nobody reads the story any more.
    pub(super) async fn reader_left(&self) {
        let mut reader_left = self.reader_left.subscribe();
        let _ = reader_left.wait_for(|left| *left).await; // We hold the sender, so this cannot fail.
    }

    fn print(&self, text: &str) {
        let mut output = lock(&self.output);
        self.write(&mut **output, text);
    }

    fn write(&self, output: &mut dyn Write, text: &str) {
        let written = output.write_all(text.as_bytes()).and_then(|()| output.flush());
        if written.is_err_and(|error| error.kind() == ErrorKind::BrokenPipe) {
            self.reader_left.send_replace(true);
        }
    }

    fn paint(&self, colour: &str, text: &str) -> String {
        if self.colour { format!("\x1b[{colour}m{text}\x1b[0m") } else { text.to_owned() }
    }
}

/// The text in lines of at most so many characters, broken between words.
fn wrapped(text: &str, width: usize) -> Vec<String> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_wrapped_between_words() {
        assert_eq!(wrapped("one two  three", 7), ["one two", "three"]);
        assert_eq!(wrapped("", 7), [""]);
        assert_eq!(wrapped("unbreakable a", 4), ["unbreakable", "a"]);
    }
}
