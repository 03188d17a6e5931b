//! What can be said after `regrow chaos`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

#[derive(Args, Debug)]
pub(crate) struct Chaos {
    #[command(subcommand)]
    pub(super) what: What,
}

#[derive(Subcommand, Debug)]
pub(super) enum What {
    /// Test a client: a command that connects to the misbehaving server and is driven over a line protocol
    Client(RunArguments),

    /// Test a proxy: a command that runs between the suite's client and the misbehaving server
    ///
    /// The server is put at the end of the command, or where it says `{}` (the words of the server's command, or its URL),
    /// `{command}` (the same for a shell) or `{url}`.
    Proxy(Proxy),

    /// List the scenarios
    Scenarios,
}

#[derive(Args, Debug)]
pub(super) struct RunArguments {
    /// How the program connects to the misbehaving server
    #[arg(long, value_enum, default_value_t = Over::Stdio)]
    pub(super) transport: Over,

    /// Run only this scenario (repeatable), after a check that the program works at all
    #[arg(long = "scenario", value_name = "NAME")]
    pub(super) scenarios: Vec<String>,

    /// Write report.json, report.xml (JUnit) and report.html into this folder
    #[arg(long, value_name = "DIR")]
    pub(super) report: Option<PathBuf>,

    /// Print the report as JSON
    #[arg(long)]
    pub(super) json: bool,

    /// How many scenarios run at the same time
    #[arg(long, value_name = "N", default_value_t = 4)]
    pub(super) jobs: usize,

    /// Multiply all time limits by this, for a busy machine
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=10))]
    pub(super) patience: u32,

    /// What the program is called in the report [default: its command]
    #[arg(long, value_name = "NAME")]
    pub(super) name: Option<String>,

    /// The program to test
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub(super) command: Vec<String>,
}

#[derive(Args, Debug)]
pub(super) struct Proxy {
    /// Where the proxy listens, if it does not serve its standard input: http://127.0.0.1:{port}/mcp. `{port}` is a free port,
    /// also in the command
    #[arg(long)]
    pub(super) url: Option<String>,

    #[command(flatten)]
    pub(super) run: RunArguments,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Over {
    /// It starts the server
    Stdio,
    /// It gets the URL of the server
    Http,
}

impl From<Over> for regrow_chaos::suite::Transport {
    fn from(over: Over) -> Self {
        match over {
            Over::Stdio => Self::Stdio,
            Over::Http => Self::Http,
        }
    }
}
