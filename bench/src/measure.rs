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
use crate::report;
use crate::results::{Results, Sample};
use crate::system::{self, Meter};

/// A measurement that takes longer has failed.
const LONGEST: Duration = Duration::from_secs(120);

pub(crate) fn run(options: &Measure) -> io::Result<()> {
    allow_many_sockets()?;
    let options = if options.quick { &quick(options) } else { options };
    let (cases, contestants) = (cases(options), contestants(options)?);
    let seed = options.seed.unwrap_or_else(|| fastrand::u64(..1_000_000));
    let mut chance = fastrand::Rng::with_seed(seed);
    let folder = tempfile::tempdir()?;
    let mut results = Results::default();
    let start = Instant::now();
    for round in 1..=options.rounds {
        eprintln!("round {round} of {}, seed {seed}, after {} s", options.rounds, start.elapsed().as_secs());
        let mut order = cases.clone();
        chance.shuffle(&mut order);
        for case in order {
            // Those that are compared follow each other, so that they meet the same machine.
            let mut order: Vec<&Contestant> =
                contestants.iter().filter(|contestant| contestant.takes_part(case.shape)).collect();
            chance.shuffle(&mut order);
            for contestant in order {
                let sample = crate::block_on(sample(contestant, &case, options.time, folder.path()));
                let explain = |error| io::Error::other(format!("{}: {case}: {error}", contestant.name));
                results.add(case, &contestant.name, sample.map_err(explain)?);
            }
        }
    }
    let order = |name: &str| contestants.iter().position(|contestant| contestant.name == name);
    results.rows.sort_by_key(|row| order(&row.contestant));
    let tables = report::tables(&results, &cases);
    println!("{tables}");
    if !options.quick {
        fs::write(options.output.join("results.md"), format!("# Results\n{tables}"))?;
        fs::write(options.output.join("results.json"), format!("{:#}\n", results.json()))?;
    }
    Ok(())
}

fn quick(options: &Measure) -> Measure {
    Measure { rounds: 5, time: Duration::from_millis(250), ..options.clone() }
}

async fn sample(contestant: &Contestant, case: &Case, time: Duration, folder: &Path) -> io::Result<Sample> {
    let folder = folder.join(&contestant.name);
    fs::create_dir_all(&folder)?;
    let mut running = contestant.start(case, &folder)?;
    let pid = running.pid();
    let load =
        Load { calls: Calls::new(case.era, case.size), in_flight: case.in_flight, stop: Stop::After(time) };
    let client = running.client();
    let measured = timeout(LONGEST, async {
        client.greet(&load.calls).await?;
        let meter = if contestant.is_proxy() { Some(Meter::new(pid)?) } else { None };
        client.run(&load, meter).await
    });
    let tally = measured.await.unwrap_or_else(|_| Err(io::Error::other("timed out")));
    let tally = tally.map_err(|error| running.explain(&error))?;
    let peak = contestant.is_proxy().then(|| system::memory(pid, "VmHWM")).transpose()?;
    Ok(Sample::new(&tally, peak))
}

/// A client has one socket for each call in flight, and a proxy two.
fn allow_many_sockets() -> io::Result<()> {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    Ok(setrlimit(Resource::Nofile, limit)?)
}
