//! `regrow chaos`: how a client or a proxy bears servers that misbehave.

mod arguments;
mod progress;

use std::fs;
use std::io;
use std::path::Path;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use regrow_chaos::suite::{self, Report, Role, Setup, Stopper, Transport};
use regrow_chaos::sync::lock;

pub(crate) use self::arguments::Chaos;
use self::arguments::{RunArguments, What};
use self::progress::ChaosProgress;
use crate::signals::{ENDED_BY_SIGNAL, told_to_end};
use crate::table::print;
use crate::terminal::Screen;
use crate::{DONE, SERVER_FAILED, USAGE, WE_FAILED};

/// How often what is under test is ended again, after a signal.
const STOP_EVERY: Duration = Duration::from_millis(200);

pub(crate) fn run(options: Chaos) -> u8 {
    match options.what {
        What::Client(run) => test(Role::Client, run, None),
        What::Proxy(proxy) => test(Role::Proxy, proxy.run, proxy.url),
        What::Scenarios => list(),
    }
}

fn test(role: Role, run: RunArguments, near: Option<String>) -> u8 {
    let ourselves = match std::env::current_exe() {
        Ok(path) => path.to_string_lossy().into_owned(),
        Err(error) => return failed("our own program cannot be found", &error),
    };
    let server = vec![ourselves, "chaos-server".to_owned()];
    let mut setup = Setup::new(role, run.transport.into(), run.command.clone(), server);
    setup.near = near;
    setup.jobs = run.jobs;
    setup.patience = run.patience;
    if let Some(name) = &run.name {
        setup.name.clone_from(name);
    }
    let report = match play(setup, &run) {
        Ok(Ended::Played(report)) => report,
        Ok(Ended::Told(signal)) => return ENDED_BY_SIGNAL + signal,
        Ok(Ended::Unknown(names)) => {
            let names = names.join(", ");
            eprintln!("regrow: --scenario: none with this transport is called {}", names.escape_debug());
            eprintln!("Try `regrow chaos scenarios`.");
            return USAGE;
        }
        Err(error) => return failed("the suite cannot run", &error),
    };
    if let Some(folder) = &run.report
        && let Err(error) = write(folder, &report)
    {
        return failed("the report cannot be written", &error);
    }
    let text = match run.json {
        true => format!("{:#}\n", report.json()),
        false => report.text(Screen::stdout().colour),
    };
    if let Err(error) = print(&text) {
        return failed("the report cannot be printed", &error);
    }
    if report.score(None).failed > 0 { SERVER_FAILED } else { DONE }
}

/// The report in every form.
fn write(folder: &Path, report: &Report) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    fs::write(folder.join("report.json"), format!("{:#}\n", report.json()))?;
    fs::write(folder.join("report.xml"), report.junit())?;
    fs::write(folder.join("report.html"), report.html())
}

enum Ended {
    Played(Report),
    Unknown(Vec<String>),
    /// A signal told us to end.
    Told(u8),
}

/// Plays in threads of its own while this one shows where that stands. Told to end, what plays is ended first.
fn play(setup: Setup, run: &RunArguments) -> io::Result<Ended> {
    let stop = setup.stopper();
    let (news, hears) = channel();
    let mut progress = ChaosProgress::new(suite::scenarios(setup.transport).count(), &run.scenarios);
    let signal = watch_signals(stop)?;
    let names = run.scenarios.clone();
    let playing = thread::spawn(move || {
        let news: Mutex<Sender<_>> = Mutex::new(news);
        suite::run(&setup, &names, &|event| {
            // The one who shows it may have left; what is found counts.
            let _ = lock(&news).send(event);
        })
    });
    progress.follow(&hears);
    let played = playing.join().map_err(|_| io::Error::other("a scenario panicked"))?;
    if let Some(signal) = *lock(&signal) {
        return Ok(Ended::Told(signal));
    }
    Ok(played.map_or_else(Ended::Unknown, Ended::Played))
}

/// Where the number of the signal stands that told us to end, if one did.
fn watch_signals(stop: Stopper) -> io::Result<Arc<Mutex<Option<u8>>>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let told = {
        let _inside = runtime.enter();
        told_to_end()?
    };
    let seen = Arc::new(Mutex::new(None));
    let noted = Arc::clone(&seen);
    thread::spawn(move || {
        let signal = runtime.block_on(told);
        *lock(&noted) = Some(signal);
        // Until the run is over, and we are.
        loop {
            stop.stop();
            thread::sleep(STOP_EVERY);
        }
    });
    Ok(seen)
}

fn list() -> u8 {
    let mut text = String::new();
    for transport in [Transport::Stdio, Transport::Http] {
        text.push_str(&format!("{}\n", transport.name()));
        for scenario in suite::scenarios(transport) {
            text.push_str(&format!("  {:<22} {:>3}  {}\n", scenario.name, scenario.numbers, scenario.what));
        }
    }
    print(&text).map_or_else(|error| failed("the list cannot be printed", &error), |()| DONE)
}

fn failed(what: &str, error: &io::Error) -> u8 {
    eprintln!("regrow: {what}: {error}");
    WE_FAILED
}
