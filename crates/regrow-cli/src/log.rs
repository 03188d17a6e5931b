//! Logs on standard error, a line each. A reader that is slow or absent never holds us up.

use std::io::{self, Write};

use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{self, FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::reload;
use tracing_subscriber::util::SubscriberInitExt;

use crate::arguments::{LogFormat, LogLevel};
use crate::terminal::{stderr_is_ready, write_above_footer};

/// A pipe that can be written to takes so much without blocking.
const LONGEST: usize = 4096;

/// Makes the log say more or less.
pub(crate) type SetLevel = Box<dyn Fn(LogLevel) + Send + Sync>;

pub(crate) fn start(level: LogLevel, format: LogFormat) -> SetLevel {
    let (level, handle) = reload::Layer::new(filter(level));
    let registry = tracing_subscriber::registry().with(level);
    let lines = fmt::layer().with_writer(|| Stderr).with_ansi(false);
    match format {
        LogFormat::Text => registry.with(lines.event_format(Text)).init(),
        LogFormat::Json => registry.with(lines.json().flatten_event(true).with_target(false)).init(),
    }
    // It fails only if the log is gone, and that lives as long as we do.
    Box::new(move |level| handle.reload(filter(level)).unwrap_or_default())
}

fn filter(level: LogLevel) -> LevelFilter {
    match level {
        LogLevel::Off => LevelFilter::OFF,
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
    }
}

/// `regrow: NAME: what happened (key=value)`.
struct Text;

impl<S, N> FormatEvent<S, N> for Text
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        _: &FmtContext<'_, S, N>,
        mut line: Writer<'_>,
        event: &Event<'_>,
    ) -> std::fmt::Result {
        let mut parts = Parts::default();
        event.record(&mut parts);
        write!(line, "regrow: ")?;
        if let Some(server) = parts.server {
            write!(line, "{server}: ")?;
        }
        if *event.metadata().level() == Level::WARN {
            write!(line, "warning: ")?;
        }
        writeln!(line, "{}{}", parts.message, parts.others)
    }
}

#[derive(Default)]
struct Parts {
    server: Option<String>,
    message: String,
    others: String,
}

impl Visit for Parts {
    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "server" => self.server = Some(value.escape_debug().to_string()),
            name => self.others.push_str(&format!(" {name}={value:?}")),
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        match field.name() {
            "message" => self.message = format!("{value:?}"),
            name => self.others.push_str(&format!(" {name}={value:?}")),
        }
    }
}

struct Stderr;

impl Write for Stderr {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        if stderr_is_ready() {
            let whole = &line[..line.len().min(LONGEST)];
            // A closed stderr is the host's wish.
            write_above_footer(|| drop(io::stderr().lock().write(whole)));
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
