//! Tells the story as it happens: a line for each event, with the time since the beginning, in 80 columns.

use std::io::{ErrorKind, Write};
use std::sync::Mutex;
use std::time::Instant;

use regrow_chaos::sync::lock;
use tokio::sync::watch;

use super::summary::Summary;
use crate::terminal::{Screen, Style, wrapped};

/// The story is made for this width. It is narrower only on a terminal that is.
const WIDTH: usize = 80;
/// What precedes the text of an event: its time and who speaks.
const MARGIN: usize = 19;

pub(super) struct Teller {
    began: Instant,
    screen: Screen,
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
    /// What the caller gets without Regrow.
    Lost,
    Signal,
    Regrow,
    Server,
    Kept,
    Broken,
}

impl Voice {
    fn name_and_style(self) -> (&'static str, Style) {
        match self {
            Voice::Call => ("call", Style::Accent),
            Voice::Answer => ("answer", Style::Accent),
            Voice::Told => ("told", Style::Warning),
            Voice::Lost => ("lost", Style::Alarm),
            Voice::Signal => ("signal", Style::Bad),
            Voice::Regrow => ("regrow", Style::Faint),
            Voice::Server => ("server", Style::Faint),
            Voice::Kept => ("kept", Style::Good),
            Voice::Broken => ("BROKEN", Style::Alarm),
        }
    }
}

impl Teller {
    pub(super) fn new(output: impl Write + Send + 'static, screen: Screen) -> Teller {
        Teller {
            began: Instant::now(),
            screen,
            output: Mutex::new(Box::new(output)),
            reader_left: watch::channel(false).0,
        }
    }

    pub(super) fn prologue(&self, options: &[&str]) {
        self.print(&format!(
            "{}\n\n\
             The demo is a client. Its server runs alone first, and then behind regrow, as it\n\
             would in your configuration; only the options are chosen for a short demo:\n\n  \
             regrow wrap {} \\\n    -- regrow chaos-server\n",
            self.paint(Style::Strong, "regrow demo: what a caller notices when its server dies"),
            options.join(" "),
        ));
    }

    pub(super) fn act(&self, number: usize, title: &str) {
        self.print(&format!("\n{}\n", self.paint(Style::Strong, &format!("{number}  {title}"))));
    }

    /// A half of an act.
    pub(super) fn half(&self, title: &str) {
        self.print(&format!("   {}\n", self.paint(Style::Strong, title)));
    }

    /// One event, now.
    pub(super) fn say(&self, voice: Voice, text: &str) {
        let (name, style) = voice.name_and_style();
        let mut output = lock(&self.output);
        // The time is taken under the lock, so that it never runs backwards down the page.
        let time = format!("{:8.3}s", self.began.elapsed().as_secs_f64());
        let mut told =
            format!("{}  {}", self.paint(Style::Faint, &time), self.paint(style, &format!("{name:6}  ")));
        let text = wrapped(text, self.width().saturating_sub(MARGIN).max(MARGIN));
        for (number, line) in text.iter().enumerate() {
            let indent = if number == 0 { 0 } else { MARGIN };
            let line = match voice {
                Voice::Call | Voice::Answer => line.clone(),
                _ => self.paint(style, line),
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
        self.print(&format!("\n{}\n{}", self.paint(Style::Strong, "Measured"), summary.text()));
        let broken = summary.broken();
        if broken.is_empty() {
            self.print(&format!("\n{}\n", self.paint(Style::Good, "Every promise was kept.")));
        } else {
            self.print(&format!("\n{}\n", self.paint(Style::Alarm, "Broken:")));
            broken.iter().for_each(|promise| self.print(&format!("  {promise}\n")));
        }
        self.print(&format!(
            "\nNow try your own: in the configuration of your MCP host, put `regrow wrap --`\n\
             in front of a server's command:\n\n  {}\n\n\
             Options: `regrow wrap --help`. More: README.md for MCP hosts, and docs/errors.md\n\
             for the errors that a caller gets.\n",
            self.paint(Style::Strong, "regrow wrap -- your-server its-arguments"),
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

    fn paint(&self, style: Style, text: &str) -> String {
        self.screen.paint(style, text)
    }

    fn width(&self) -> usize {
        self.screen.width().unwrap_or(WIDTH).min(WIDTH)
    }
}
