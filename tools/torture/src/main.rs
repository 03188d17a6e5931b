//! `cargo run -p torture`: tortures the `regrow` beside this executable, and prints a report.

use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::{fs, thread};

use clap::Parser;
use torture::Options;

static STOP: AtomicBool = AtomicBool::new(false);

fn main() -> ExitCode {
    match run(&Options::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            eprintln!("torture: {error}");
            ExitCode::from(2)
        }
    }
}

fn run(options: &Options) -> io::Result<bool> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    thread::spawn(move || {
        if runtime.block_on(tokio::signal::ctrl_c()).is_ok() {
            eprintln!("torture: interrupted; finishing the cycles in progress");
            STOP.store(true, Ordering::SeqCst);
        }
    });
    let outcome = torture::run(options, &STOP)?;
    let report = outcome.report();
    if let Some(file) = &options.json {
        fs::write(file, format!("{report:#}\n"))?;
    }
    match io::stdout().write_all(torture::text(&report).as_bytes()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error),
        _ => Ok(outcome.broken.is_empty()),
    }
}
