//! The suite for everyone: plays scenarios with a client or a proxy under test, and says which promises it keeps.
//!
//! A client under test is a command that is driven over a small line protocol (docs/chaos.md); a proxy under test stands
//! between our driver and our misbehaving server. Verdicts come from the server's journal, from the clock with generous
//! bounds, and from `/proc`. Every step is bounded: a program that hangs is killed with its group, and that is its verdict.

mod driver;
mod place;
mod process;
pub mod report;
mod scenario;
mod scenarios;
mod site;
mod stage;
mod stories;
mod verdict;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

pub use self::report::Report;
pub use self::scenario::Scenario;
pub use self::verdict::{Finding, Group, Verdict};
use crate::sync::lock;
use scenarios::{HEALTHY, Staged, staged};

/// What the program under test is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// A client, with an adapter for the line protocol.
    Client,
    /// A proxy between a client and a server.
    Proxy,
}

/// How the misbehaving server is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// It is started as a process.
    Stdio,
    /// It runs, and has a URL.
    Http,
}

impl Role {
    /// Its name for people and machines.
    pub fn name(self) -> &'static str {
        match self {
            Role::Client => "client",
            Role::Proxy => "proxy",
        }
    }
}

impl Transport {
    /// Its name for people and machines.
    pub fn name(self) -> &'static str {
        match self {
            Transport::Stdio => "stdio",
            Transport::Http => "http",
        }
    }
}

/// What to test, and with what.
pub struct Setup {
    /// What the program is.
    pub role: Role,
    /// How the server is reached.
    pub transport: Transport,
    /// The program's command.
    pub command: Vec<String>,
    /// Where a proxy listens, if it does not serve its standard input; `{port}` is any free port.
    pub near: Option<String>,
    /// The command of the misbehaving server, to which `--http ADDRESS` can be added.
    pub server: Vec<String>,
    /// How many scenarios are played side by side.
    pub jobs: usize,
    /// What the program is called in the report.
    pub name: String,
    /// All bounds are so many times as long, for a machine that has much else to do.
    pub patience: u32,
    stopped: Arc<AtomicBool>,
}

impl Setup {
    /// One scenario at a time, on an idle machine; the program is called by its command.
    pub fn new(role: Role, transport: Transport, command: Vec<String>, server: Vec<String>) -> Setup {
        let name = command.join(" ");
        let (near, stopped) = (None, Arc::default());
        Setup { role, transport, command, near, server, jobs: 1, name, patience: 1, stopped }
    }

    /// Ends a run of this setup early.
    pub fn stopper(&self) -> Stopper {
        Stopper(Arc::clone(&self.stopped))
    }

    fn scaled(&self, bound: Duration) -> Duration {
        bound * self.patience.max(1)
    }

    fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::SeqCst)
    }
}

/// Ends a run from another thread.
#[derive(Clone, Debug)]
pub struct Stopper(Arc<AtomicBool>);

impl Stopper {
    /// Begins no scenario any more, and ends what is under test. To be repeated until the run is over: a program may just be starting.
    pub fn stop(&self) {
        self.0.store(true, Ordering::SeqCst);
        process::end_all_marked();
    }
}

/// What happens while the suite runs.
#[derive(Clone, Debug)]
pub enum Event {
    /// A scenario begins.
    Begun(&'static str),
    /// A scenario is over; so many of its promises were broken.
    Done(&'static str, usize),
}

/// The scenarios with servers of this transport.
pub fn scenarios(transport: Transport) -> impl Iterator<Item = &'static Scenario> {
    staged(transport).map(|staged| &staged.scenario)
}

/// Plays the scenarios of these names, or all. Names that no scenario of the transport has are the error.
///
/// A program that does not work with a server that is well is not tried with others.
pub fn run(setup: &Setup, names: &[String], observe: &(dyn Fn(Event) + Sync)) -> Result<Report, Vec<String>> {
    let (date, began) = (SystemTime::now(), Instant::now());
    let known: Vec<&'static Staged> = staged(setup.transport).collect();
    let unknown = |name: &&String| !known.iter().any(|staged| staged.scenario.name == **name);
    let unknown: Vec<String> = names.iter().filter(unknown).cloned().collect();
    if !unknown.is_empty() {
        return Err(unknown);
    }
    let is_wanted = |staged: &&&Staged| {
        let wanted = staged.scenario.name;
        names.is_empty() || wanted == HEALTHY || names.iter().any(|name| name == wanted)
    };
    let wanted: Vec<&'static Staged> = known.iter().filter(is_wanted).copied().collect();
    let (first, others) = wanted.split_at(1.min(wanted.len()));
    let (mut findings, version) = play_all(setup, first, observe);
    let is_broken =
        |finding: &Finding| finding.group == Group::Answers && matches!(finding.verdict, Verdict::Fail(_));
    let is_well = !findings.iter().any(is_broken);
    if is_well {
        findings.extend(play_all(setup, others, observe).0);
    } else {
        let reason = "it does not work with a server that is well".to_owned();
        findings.extend(others.iter().map(|Staged { scenario, .. }| {
            scenario.finding(Group::Answers, scenario.what, Verdict::NotApplicable(reason.clone()))
        }));
    }
    Ok(Report {
        name: setup.name.clone(),
        version,
        command: setup.command.clone(),
        role: setup.role,
        transport: setup.transport,
        date,
        took: began.elapsed(),
        patience: setup.patience.max(1),
        findings,
    })
}

/// Plays scenarios side by side; findings are in the order of the scenarios.
fn play_all(
    setup: &Setup,
    scenarios: &[&'static Staged],
    observe: &(dyn Fn(Event) + Sync),
) -> (Vec<Finding>, Option<String>) {
    let next = AtomicUsize::new(0);
    let results = Mutex::new(BTreeMap::new());
    thread::scope(|scope| {
        for _ in 0..setup.jobs.clamp(1, 16) {
            scope.spawn(|| {
                while !setup.is_stopped() {
                    let number = next.fetch_add(1, Ordering::SeqCst);
                    let Some(Staged { scenario, story }) = scenarios.get(number) else { return };
                    observe(Event::Begun(scenario.name));
                    let played = stage::play(setup, scenario, *story);
                    let broken =
                        played.0.iter().filter(|finding| matches!(finding.verdict, Verdict::Fail(_)));
                    observe(Event::Done(scenario.name, broken.count()));
                    lock(&results).insert(number, played);
                }
            });
        }
    });
    let results = results.into_inner().unwrap_or_else(PoisonError::into_inner);
    let mut findings = vec![];
    let mut version = None;
    for (found, said) in results.into_values() {
        findings.extend(found);
        version = version.or(said);
    }
    (findings, version)
}
