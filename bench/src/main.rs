//! Measures what Regrow costs: `cargo run --release -p bench`. See docs/performance.md.

mod build;
mod case;
mod contestant;
mod echo;
mod frame;
mod growth;
mod http1;
mod instructions;
mod library;
mod load;
mod measure;
mod options;
mod pipes;
mod plot;
mod pump;
mod relay;
mod report;
mod rest;
mod results;
mod running;
mod system;
mod verdict;

use std::io;
use std::process::ExitCode;

use clap::Parser;

use options::{Arguments, Role};

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let done = match &arguments.role {
        None => measure::run(&arguments.measure),
        Some(Role::Instructions(options)) => instructions::run(options),
        Some(Role::Growth(options)) => growth::run(options),
        Some(Role::Echo(echo)) => echo::run(echo),
        Some(Role::Pump { server }) => block_on(pump::run(server)),
        Some(Role::Relay(relay)) => block_on(relay::run(relay)),
        Some(Role::Library(library)) => block_on(library::run(library)),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench: {error}");
            ExitCode::FAILURE
        }
    }
}

/// On this thread alone, as Regrow runs.
fn block_on<T>(future: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(future)
}
