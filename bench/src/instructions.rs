//! How many instructions a proxy executes for each call, counted by valgrind: the same on a busy machine as on an idle one.
//!
//! Instructions in the kernel are not counted.

use std::fs;
use std::io;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use tokio::time::timeout;

use crate::case::Case;
use crate::contestant::{Contestant, counted};
use crate::load::call::Calls;
use crate::load::{Load, Stop};
use crate::options::Instructions;
use crate::running::{Running, Server};

/// Each contestant runs twice, once with this many calls and once with those that count on top; the difference is theirs.
const WARM_UP: usize = 500;
/// A run that takes longer has failed. Valgrind is about fifty times slower than the machine.
const LONGEST: Duration = Duration::from_secs(600);

pub(crate) fn run(options: &Instructions) -> io::Result<()> {
    let contestants = counted(options.regrow.as_deref(), options.against.as_deref())?;
    println!("| case | contestant | instructions/call | / relay |\n|---|---|---:|---:|");
    for &shape in &options.shapes {
        let Instructions { size, in_flight, era, format, .. } = *options;
        let case = Case { shape, size, in_flight, era, format };
        let mut relay = None;
        for contestant in &contestants {
            let count = |calls| {
                let counted = crate::block_on(count(contestant, &case, calls, options.profiles.as_deref()));
                counted.map_err(|error| io::Error::other(format!("{}: {case}: {error}", contestant.name)))
            };
            let difference = count(WARM_UP + options.calls)?.saturating_sub(count(WARM_UP)?);
            let each = difference / options.calls as u64;
            let relay = *relay.get_or_insert(each);
            println!("| {case} | {} | {each} | {:.2} |", contestant.name, each as f64 / relay as f64);
        }
    }
    Ok(())
}

/// All instructions of a proxy from its start to its end, with this many calls.
async fn count(
    contestant: &Contestant,
    case: &Case,
    calls: usize,
    profiles: Option<&Path>,
) -> io::Result<u64> {
    let folder = tempfile::tempdir()?;
    let server = Server::start(case)?;
    let (command, address) =
        contestant.command(case, &server, folder.path())?.expect("only proxies are counted");
    let mut running = Running::start(under_valgrind(&command, folder.path()), address)?;
    let load =
        Load { calls: Calls::new(case.era, case.size), in_flight: case.in_flight, stop: Stop::Calls(calls) };
    let client = &mut running.client;
    let called = timeout(LONGEST, async {
        client.greet(&load.calls).await?;
        client.run(&load, None).await
    });
    let called = called.await.unwrap_or_else(|_| Err(io::Error::other("timed out")));
    called.map_err(|error| running.explain(&error))?;
    // Valgrind runs the program in its own process. Children that a program forks write files of their own.
    let pid = running.pid().expect("a proxy is a process");
    drop(running);
    let profile = folder.path().join(format!("callgrind.{pid}"));
    let text = fs::read_to_string(&profile)?;
    if let Some(profiles) = profiles {
        fs::create_dir_all(profiles)?;
        let name = format!("{}-{}-{calls}.callgrind", contestant.name, case.shape);
        fs::write(profiles.join(name), &text)?;
    }
    let total = text.lines().find_map(|line| line.strip_prefix("totals:")?.trim().parse().ok());
    total.ok_or_else(|| io::Error::other("valgrind counted nothing"))
}

fn under_valgrind(command: &Command, folder: &Path) -> Command {
    let mut wrapped = Command::new("valgrind");
    let file = folder.join("callgrind.%p");
    wrapped.args(["--tool=callgrind", "--quiet"]).arg(format!("--callgrind-out-file={}", file.display()));
    wrapped.arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => wrapped.env(name, value),
            None => wrapped.env_remove(name),
        };
    }
    wrapped
}
