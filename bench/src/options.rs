//! What can be said on the command line.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};

/// Measures what Regrow costs, side by side with a relay without supervision
///
/// Without a command it measures: it builds `regrow` in the profile that it was built in, measures all contestants in shuffled, interleaved
/// rounds, and writes results.md, results.json and plots. See docs/performance.md.
#[derive(Parser)]
#[command(max_term_width = 110, args_conflicts_with_subcommands = true)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) role: Option<Role>,

    #[command(flatten)]
    pub(crate) measure: Measure,
}

/// Another measurement, and the processes that a measurement starts.
#[derive(Subcommand)]
pub(crate) enum Role {
    /// Count the instructions of each call with valgrind, which a busy machine does not change
    Instructions(Instructions),
    /// Measure what more servers, clients, tools, calls in flight and subscriptions cost
    Growth(Growth),
    /// The server that is called
    Echo(Echo),
    /// Copy bytes between standard input and output and a server's
    Pump {
        #[arg(last = true, required = true)]
        server: Vec<String>,
    },
    /// Forward messages without supervision
    Relay(Relay),
    /// Forward messages with Regrow's crate, without the rest of its binary
    Library(Library),
}

#[derive(Args)]
pub(crate) struct Echo {
    /// Listen on a free port and print it
    #[arg(long)]
    pub(crate) http: bool,
    #[arg(long, value_enum, default_value_t = Era::Legacy)]
    pub(crate) era: Era,
    #[arg(long, value_enum, default_value_t = Format::Json)]
    pub(crate) format: Format,
    /// How many tools it lists; they all do the same
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) tools: usize,
}

#[derive(Args)]
pub(crate) struct Growth {
    /// Measure this `regrow` [default: build it]
    #[arg(long, value_name = "PATH")]
    pub(crate) regrow: Option<PathBuf>,

    /// Where growth.md and growth.svg go
    #[arg(long, value_name = "FOLDER", default_value = concat!(env!("CARGO_MANIFEST_DIR")))]
    pub(crate) output: PathBuf,
}

#[derive(Args)]
pub(crate) struct Library {
    /// The server's address
    #[arg(long, conflicts_with = "server")]
    pub(crate) url: Option<String>,
    #[arg(last = true, required_unless_present = "url")]
    pub(crate) server: Vec<String>,
}

#[derive(Args)]
pub(crate) struct Relay {
    /// Listen on a free port and print it
    #[arg(long)]
    pub(crate) http: bool,
    /// The server's address
    #[arg(long, conflicts_with = "server")]
    pub(crate) url: Option<String>,
    #[arg(last = true, required_unless_present = "url")]
    pub(crate) server: Vec<String>,
}

#[derive(Args)]
pub(crate) struct Instructions {
    /// Client and server side of the proxy
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = Shape::ALL)]
    pub(crate) shapes: Vec<Shape>,

    /// Calls in flight
    #[arg(long, value_name = "N", default_value_t = 16)]
    pub(crate) in_flight: usize,

    /// Bytes of text in each call, and in its response
    #[arg(long, value_name = "BYTES", default_value_t = 100)]
    pub(crate) size: usize,

    /// Protocol era of client and server
    #[arg(long, value_enum, default_value_t = Era::Legacy)]
    pub(crate) era: Era,

    /// How a server responds over HTTP
    #[arg(long, value_enum, default_value_t = Format::Json)]
    pub(crate) format: Format,

    /// Calls that count, after those that warm up
    #[arg(long, value_name = "N", default_value_t = 2000)]
    pub(crate) calls: usize,

    /// Measure this `regrow` [default: build it]
    #[arg(long, value_name = "PATH")]
    pub(crate) regrow: Option<PathBuf>,

    /// Measure this `regrow`, too
    #[arg(long, value_name = "PATH")]
    pub(crate) against: Option<PathBuf>,

    /// Keep the profiles here, for callgrind_annotate
    #[arg(long, value_name = "FOLDER")]
    pub(crate) profiles: Option<PathBuf>,
}

#[derive(Args, Clone)]
pub(crate) struct Measure {
    /// About one minute: few cases, ratios against the relay, and failure if one is far off. Writes no files
    #[arg(long)]
    pub(crate) quick: bool,

    /// Client and server side of the proxy
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = Shape::ALL)]
    pub(crate) shapes: Vec<Shape>,

    /// Calls in flight
    #[arg(long, value_name = "N", value_delimiter = ',', default_values_t = [1, 16, 128, 1024])]
    pub(crate) in_flight: Vec<usize>,

    /// Bytes of text in each call, and in its response
    #[arg(long, value_name = "BYTES", value_delimiter = ',', default_values_t = [100, 10_000, 100_000, 1_000_000])]
    pub(crate) sizes: Vec<usize>,

    /// Protocol era of client and server
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Era::Legacy])]
    pub(crate) eras: Vec<Era>,

    /// How a server responds over HTTP
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Format::Json])]
    pub(crate) formats: Vec<Format>,

    /// Each round measures everything once
    #[arg(long, value_name = "N", default_value_t = 7)]
    pub(crate) rounds: usize,

    /// How long each measurement lasts, after half as long of warming up
    #[arg(long, value_name = "MILLISECONDS", default_value = "500", value_parser = milliseconds)]
    pub(crate) time: Duration,

    /// Only these contestants: direct, pump, relay, library, regrow, against, or the name of a peer
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub(crate) only: Vec<String>,

    /// Measure calls only: neither memory at rest nor the time to the first list
    #[arg(long)]
    pub(crate) calls_only: bool,

    /// Measure this `regrow` [default: build it]
    #[arg(long, value_name = "PATH")]
    pub(crate) regrow: Option<PathBuf>,

    /// Measure this `regrow`, too
    #[arg(long, value_name = "PATH")]
    pub(crate) against: Option<PathBuf>,

    /// Measure another proxy, too (repeatable). In its command, {server} is replaced by the server's command, {url} by its address, and
    /// {port} by the port to listen on: 'mcp-proxy=http-stdio:mcp-proxy --port {port} -- {server}'
    #[arg(long, value_name = "NAME=SHAPE:COMMAND", value_parser = peer)]
    pub(crate) peer: Vec<Peer>,

    /// Shuffle with this seed
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,

    /// Where results go
    #[arg(long, value_name = "FOLDER", default_value = concat!(env!("CARGO_MANIFEST_DIR")))]
    pub(crate) output: PathBuf,
}

#[derive(Clone)]
pub(crate) struct Peer {
    pub(crate) name: String,
    pub(crate) shape: Shape,
    pub(crate) command: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Era {
    /// Up to 2025-11-25
    Legacy,
    /// From 2026-07-28
    Modern,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// One JSON document
    Json,
    /// An event stream
    Sse,
}

/// How the client reaches the proxy, and how the proxy reaches the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Shape {
    StdioStdio,
    HttpStdio,
    HttpHttp,
    StdioHttp,
}

impl Shape {
    pub(crate) const ALL: [Shape; 4] =
        [Shape::StdioStdio, Shape::HttpStdio, Shape::HttpHttp, Shape::StdioHttp];

    pub(crate) fn client_is_http(self) -> bool {
        matches!(self, Shape::HttpStdio | Shape::HttpHttp)
    }

    pub(crate) fn server_is_http(self) -> bool {
        matches!(self, Shape::StdioHttp | Shape::HttpHttp)
    }

    pub(crate) fn title(self) -> &'static str {
        match self {
            Shape::StdioStdio => "stdio -> stdio",
            Shape::HttpStdio => "HTTP -> stdio",
            Shape::HttpHttp => "HTTP -> HTTP",
            Shape::StdioHttp => "stdio -> HTTP",
        }
    }
}

macro_rules! display {
    ($($type:ty),*) => {$(
        impl std::fmt::Display for $type {
            fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                out.write_str(self.to_possible_value().expect("no value is hidden").get_name())
            }
        }
    )*};
}
display!(Era, Format, Shape);

fn milliseconds(text: &str) -> Result<Duration, String> {
    text.parse().map(Duration::from_millis).map_err(|error| format!("{error}"))
}

fn peer(text: &str) -> Result<Peer, String> {
    let (name, rest) = text.split_once('=').ok_or("expected NAME=SHAPE:COMMAND")?;
    let (shape, command) = rest.split_once(':').ok_or("expected NAME=SHAPE:COMMAND")?;
    let command = command.split_whitespace().map(str::to_owned).collect();
    Ok(Peer { name: name.to_owned(), shape: Shape::from_str(shape, false)?, command })
}
