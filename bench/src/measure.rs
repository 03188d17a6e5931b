//! Runs all rounds and writes what they gave.

use std::fs;
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::{Resource, getrlimit, setrlimit};
use tokio::time::timeout;

use crate::case::{Case, cases};
use crate::contestant::{Contestant, contestants};
use crate::load::call::Calls;
use crate::load::{Load, Stop};
use crate::options::Measure;
use crate::results::{Results, Sample};
use crate::running::Server;
use crate::system::{self, Meter};
use crate::{plot, report, rest, verdict};

/// A measurement that takes longer has failed.
const LONGEST: Duration = Duration::from_secs(120);

pub(crate) fn run(options: &Measure) -> io::Result<()> {
    if cfg!(debug_assertions) {
        eprintln!(
            "bench: this is a debug build, so its relay is slow and ratios mean nothing; use --release"
        );
    }
    allow_many_sockets()?;
    let options = if options.quick { &quick(options) } else { options };
    if !options.quick {
        fs::create_dir_all(&options.output)?; // Before the measurement, which takes long.
    }
    let (cases, contestants) = (cases(options), contestants(options)?);
    let seed = options.seed.unwrap_or_else(|| fastrand::u64(..1_000_000));
    let mut chance = fastrand::Rng::with_seed(seed);
    eprintln!("seed {seed}");
    let mut results = rounds(options, &cases, &contestants, &mut chance)?;
    if !options.quick && !options.calls_only {
        for round in 1..=options.rounds {
            eprintln!("start and memory: round {round} of {}", options.rounds);
            rest(options, &contestants, &mut chance, &mut results)?;
        }
    }
    let names: Vec<String> = contestants.iter().map(|contestant| contestant.name.clone()).collect();
    results.rows.sort_by_key(|row| names.iter().position(|name| *name == row.contestant));
    let mut text = report::tables(&results, &cases);
    if !results.rests.is_empty() {
        text.push_str(&report::rest_table(&results, &names));
    }
    println!("{text}");
    if options.quick {
        return judge(options, &results, &cases, &contestants, &mut chance);
    }
    let file = |name: &str| options.output.join(name);
    let head =
        format!("# Results\n\n{} rounds, seed {seed}. Columns: docs/performance.md.\n", options.rounds);
    fs::write(file("results.md"), head + &text)?;
    fs::write(file("results.json"), format!("{:#}\n", results.json()))?;
    let chart = |what, of| plot::chart(&results, &cases, &names, what, of);
    fs::write(file("cpu.svg"), chart("CPU µs per call", report::cpu))?;
    fs::write(file("calls.svg"), chart("Calls per second", report::throughput))
}

/// Fails if ratios are out of bounds twice: what the machine was busy with passes, what makes calls expensive does not.
fn judge(
    options: &Measure,
    results: &Results,
    cases: &[Case],
    contestants: &[Contestant],
    chance: &mut fastrand::Rng,
) -> io::Result<()> {
    let complaints = verdict::complaints(results, cases);
    if complaints.is_empty() {
        return Ok(());
    }
    complaints.iter().for_each(|complaint| eprintln!("measured once more: {complaint}"));
    let suspects: Vec<Case> = complaints.iter().map(|complaint| complaint.case).collect();
    let results = rounds(options, &suspects, contestants, chance)?;
    let complaints: Vec<String> =
        verdict::complaints(&results, &suspects).iter().map(ToString::to_string).collect();
    if complaints.is_empty() { Ok(()) } else { Err(io::Error::other(complaints.join("\n"))) }
}

fn rounds(
    options: &Measure,
    cases: &[Case],
    contestants: &[Contestant],
    chance: &mut fastrand::Rng,
) -> io::Result<Results> {
    let folder = tempfile::tempdir()?;
    let mut results = Results::default();
    let start = Instant::now();
    for round in 1..=options.rounds {
        eprintln!("round {round} of {}, after {} s", options.rounds, start.elapsed().as_secs());
        let mut order = cases.to_vec();
        chance.shuffle(&mut order);
        for case in order {
            // Those that are compared follow each other, so that they meet the same machine.
            let mut order: Vec<&Contestant> =
                contestants.iter().filter(|contestant| contestant.takes_part(case.shape)).collect();
            chance.shuffle(&mut order);
            for contestant in order {
                let stop = if options.quick { quick_stop(case) } else { Stop::After(options.time) };
                let sample = crate::block_on(sample(contestant, &case, stop, folder.path()));
                let explain = |error| io::Error::other(format!("{}: {case}: {error}", contestant.name));
                results.add(case, &contestant.name, sample.map_err(explain)?);
            }
        }
    }
    Ok(results)
}

/// Starts each contestant in each shape, in random order.
fn rest(
    options: &Measure,
    contestants: &[Contestant],
    chance: &mut fastrand::Rng,
    results: &mut Results,
) -> io::Result<()> {
    for &shape in &options.shapes {
        let case = Case { shape, size: 100, in_flight: 1, era: options.eras[0], format: options.formats[0] };
        let mut order: Vec<&Contestant> =
            contestants.iter().filter(|contestant| contestant.takes_part(shape)).collect();
        chance.shuffle(&mut order);
        for contestant in order {
            let folder = tempfile::tempdir()?;
            let rest = crate::block_on(async {
                let measured = timeout(LONGEST, rest::measure(contestant, &case, folder.path())).await;
                measured.unwrap_or_else(|_| Err(io::Error::other("timed out")))
            });
            let explain = |error| io::Error::other(format!("{}: {case}: {error}", contestant.name));
            results.rests.push(rest.map_err(explain)?);
        }
    }
    Ok(())
}

fn quick(options: &Measure) -> Measure {
    Measure { rounds: 5, ..options.clone() }
}

/// A number of calls rather than a time: in a short time on a busy machine there are so few calls that what Regrow does beside them would count.
fn quick_stop(case: Case) -> Stop {
    Stop::Calls(match (case.size, case.in_flight) {
        (100, 1) => 1_000,
        (100, _) => 4_000,
        _ => 300,
    })
}

async fn sample(contestant: &Contestant, case: &Case, stop: Stop, folder: &Path) -> io::Result<Sample> {
    let folder = folder.join(&contestant.name);
    fs::create_dir_all(&folder)?;
    let server = Server::start(case)?;
    let mut running = contestant.start(case, &server, &folder)?;
    let proxy = running.pid().filter(|_| contestant.is_proxy());
    let mut load = Load { calls: Calls::new(case.era, case.size), in_flight: case.in_flight, stop };
    let client = &mut running.client;
    let measured = timeout(LONGEST, async {
        client.greet(&load.calls).await?;
        if let Stop::Calls(calls) = stop {
            load.stop = Stop::Calls(calls / 2); // To warm up.
            client.run(&load, None).await?;
            load.stop = stop;
        }
        client.run(&load, proxy.map(Meter::new).transpose()?).await
    });
    let tally = measured.await.unwrap_or_else(|_| Err(io::Error::other("timed out")));
    let tally = tally.map_err(|error| running.explain(&error))?;
    let peak = proxy.map(|pid| system::memory(pid, "VmHWM")).transpose()?;
    Ok(Sample::new(&tally, peak))
}

/// A client has one socket for each call in flight, and a proxy two.
pub(crate) fn allow_many_sockets() -> io::Result<()> {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    Ok(setrlimit(Resource::Nofile, limit)?)
}
