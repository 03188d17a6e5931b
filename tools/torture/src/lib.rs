//! Real torture: `regrow wrap` and `regrow serve` in front of servers that die, hang and lie in every way we know, called on and
//! on meanwhile.
//!
//! Real processes and sockets, on Linux. Several *lanes* run side by side, each with a server that misbehaves, and callers; every
//! cycle does one thing from a seeded plan. What callers were told is compared with the servers' journals, what the program says
//! about itself with what is so, and what it holds is watched. See `docs/torture.md`.

mod call;
mod checks;
mod face;
mod far;
mod history;
mod lane;
mod operator;
mod plan;
mod rack;
mod report;
mod serve;
mod stalls;
mod system;
mod witness;
mod wrap;

use std::io;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use clap::{Parser, ValueEnum};
use regrow_chaos::sync::lock;

pub use self::checks::{Broken, Promise};
pub use self::report::text;

use self::call::Call;
use self::lane::{LANES, Way};
use self::plan::{Habit, Kind};
use self::rack::{Ground, Rack};
use self::stalls::{Stall, Stalls};

/// Without a limit there are so many cycles.
const CYCLES: u64 = 1000;
/// How often progress is printed.
const PROGRESS: Duration = Duration::from_secs(10);

/// Break real servers behind `regrow` again and again, and check that every promise is kept. Needs Linux.
///
/// Exits 1 if a promise was broken. Ctrl-C ends it with a report.
#[derive(Clone, Debug, Parser)]
pub struct Options {
    /// The `regrow` executable [default: the one beside this program]
    #[arg(long, value_name = "FILE")]
    pub regrow: Option<PathBuf>,

    /// What is tortured: several `regrow wrap`, one `regrow serve` with several servers, or both
    #[arg(long, value_enum, default_value_t = Target::All)]
    pub target: Target,

    /// How many faults in all [default: 1000, or as many as fit into --minutes]
    #[arg(long, value_name = "N")]
    pub cycles: Option<u64>,

    /// How long at most
    #[arg(long, value_name = "N")]
    pub minutes: Option<u64>,

    /// Decides the plan [default: a random one, which the report names]
    #[arg(long, value_name = "N", default_value_t = fastrand::u64(..1_000_000_007), hide_default_value = true)]
    pub seed: u64,

    /// Also write the report as JSON, with the last lines of each log if a promise was broken
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,

    /// A connection that does not answer for this many seconds after a fault has not recovered
    #[arg(long, value_name = "SECONDS", default_value_t = 45)]
    pub patience: u64,
}

/// What is tortured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Target {
    /// `regrow wrap`, several of them
    Wrap,
    /// `regrow serve`
    Serve,
    /// Both, side by side
    All,
}

impl Target {
    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Target::Wrap => "wrap",
            Target::Serve => "serve",
            Target::All => "all",
        }
    }
}

/// One cycle that was gone through.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cycle {
    /// Where.
    pub(crate) lane: usize,
    /// What was done.
    pub(crate) kind: Kind,
    /// How the server lived that it was done to.
    pub(crate) life: Habit,
    /// How the server after it lives.
    pub(crate) next: Habit,
    /// When, since the run began.
    pub(crate) at: Duration,
    /// How long until a call was answered again: from the blow, or from its end where it was undone by hand.
    pub(crate) recovery: Option<Duration>,
}

/// What a program under torture holds, at the end of a cycle.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    /// When, since the run began.
    pub(crate) at: Duration,
    /// Resident memory.
    pub(crate) memory_kib: u64,
    /// Open files.
    pub(crate) files: u64,
    /// Threads.
    pub(crate) threads: u64,
    /// Tasks, where it tells.
    pub(crate) tasks: Option<u64>,
}

/// A program that was tortured.
#[derive(Clone, Debug)]
pub(crate) struct Subject {
    /// That of its lane, or its own where it has several.
    pub(crate) name: String,
    /// Its lanes.
    pub(crate) lanes: Vec<usize>,
    /// What it held, in the order of time.
    pub(crate) samples: Vec<Sample>,
    /// How often it was asked about itself, where it can be.
    pub(crate) asked: Option<Asked>,
    /// How long it was ready to run, and was not run.
    pub(crate) waited: Duration,
    /// The last lines of its log.
    pub(crate) log: Vec<String>,
}

/// How often a program was asked about itself.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked {
    /// So often every page was read.
    pub(crate) readings: usize,
    /// In so many of these nothing changed meanwhile, so that all pages had to agree.
    pub(crate) steady: usize,
    /// The longest that `/livez` took.
    pub(crate) slowest: Duration,
}

/// All that a run has shown.
pub struct Outcome {
    /// The promises that were broken.
    pub broken: Vec<Broken>,
    /// Whether it was stopped by hand.
    pub stopped: bool,
    pub(crate) seed: u64,
    pub(crate) target: Target,
    pub(crate) took: Duration,
    /// In the order of time.
    pub(crate) cycles: Vec<Cycle>,
    pub(crate) subjects: Vec<Subject>,
    pub(crate) calls: Vec<Call>,
    pub(crate) stalls: Vec<Stall>,
}

/// Tortures until the cycles or the time are over, or `stop` is set.
pub fn run(options: &Options, stop: &AtomicBool) -> io::Result<Outcome> {
    let folder = tempfile::Builder::new().prefix("regrow-torture-").tempdir()?;
    let program = match &options.regrow {
        Some(program) => program.clone(),
        None => std::env::current_exe()?.with_file_name("regrow"),
    };
    if !program.exists() {
        return Err(io::Error::other(format!(
            "{} does not exist; run `cargo build` first",
            program.display()
        )));
    }
    let began = Instant::now();
    let unlimited = if options.minutes.is_some() { u64::MAX } else { CYCLES };
    let shared = Shared {
        seed: options.seed,
        patience: Duration::from_secs(options.patience),
        began,
        mark: folder.path().file_name().unwrap_or_default().to_string_lossy().into_owned(),
        left: AtomicU64::new(options.cycles.unwrap_or(unlimited)),
        deadline: options.minutes.map(|minutes| began + Duration::from_secs(60 * minutes)),
        stop,
        progress: Mutex::new((0, began)),
        stalls: Stalls::default(),
    };
    let ground = Ground { program: &program, folder: folder.path(), shared: &shared };
    let start = |lane: Option<usize>| {
        move || lane.map_or_else(|| Rack::serve(&ground), |lane| Rack::wrap(lane, &ground))
    };
    let over = AtomicBool::new(false);
    let records = thread::scope(|scope| {
        scope.spawn(|| shared.stalls.watch(began, &over));
        // All stand before the first cycle is taken.
        let racks = side_by_side(racks(options.target).map(start));
        let records = racks.and_then(|racks| side_by_side(racks.into_iter().map(|rack| move || rack.run())));
        over.store(true, Ordering::SeqCst);
        records
    })?;
    let mut outcome = Outcome {
        broken: vec![],
        stopped: stop.load(Ordering::SeqCst),
        seed: options.seed,
        target: options.target,
        took: began.elapsed(),
        cycles: vec![],
        subjects: vec![],
        calls: vec![],
        stalls: shared.stalls.seen(),
    };
    for record in records {
        outcome.cycles.extend(record.cycles);
        outcome.subjects.push(record.subject);
        outcome.broken.extend(record.broken);
        outcome.calls.extend(record.calls);
    }
    outcome.cycles.sort_by_key(|cycle| cycle.at);
    Ok(outcome)
}

/// Does all of this at the same time; what each came to, or the first that failed.
fn side_by_side<T: Send>(
    works: impl Iterator<Item = impl FnOnce() -> io::Result<T> + Send>,
) -> io::Result<Vec<T>> {
    thread::scope(|scope| {
        let running: Vec<_> = works.map(|work| scope.spawn(work)).collect();
        let ended: Vec<_> = running.into_iter().map(|work| work.join()).collect();
        ended
            .into_iter()
            .map(|end| end.unwrap_or_else(|_| Err(io::Error::other("a thread panicked"))))
            .collect()
    })
}

/// The lane of each `regrow wrap`, and none for the one `regrow serve`.
fn racks(target: Target) -> impl Iterator<Item = Option<usize>> {
    let is_wrap = |lane: &usize| matches!(LANES[*lane].way, Way::Wrap(_));
    let wraps = (0..LANES.len()).filter(is_wrap).map(Some).filter(move |_| target != Target::Serve);
    wraps.chain((target != Target::Wrap).then_some(None))
}

/// What the lanes share.
struct Shared<'a> {
    seed: u64,
    patience: Duration,
    began: Instant,
    mark: String,
    /// Cycles that nobody has taken yet.
    left: AtomicU64,
    deadline: Option<Instant>,
    stop: &'a AtomicBool,
    /// Cycles that are done, and when that was last printed.
    progress: Mutex<(u64, Instant)>,
    stalls: Stalls,
}

impl Shared<'_> {
    /// Whether there is another cycle to go through. Each lane follows its own plan; how many cycles each
    /// gets depends on how fast it is.
    fn take_cycle(&self) -> bool {
        let in_time = self.deadline.is_none_or(|deadline| Instant::now() < deadline);
        let goes_on = in_time && !self.stop.load(Ordering::SeqCst);
        let take = |left: u64| left.checked_sub(1);
        goes_on && self.left.try_update(Ordering::SeqCst, Ordering::SeqCst, take).is_ok()
    }

    /// Counts a cycle that is done; prints progress now and then.
    fn cycle_done(&self) {
        let mut progress = lock(&self.progress);
        progress.0 += 1;
        if progress.1.elapsed() >= PROGRESS {
            progress.1 = Instant::now();
            eprintln!(
                "torture: {} cycles in {} s, seed {}",
                progress.0,
                self.began.elapsed().as_secs(),
                self.seed
            );
        }
    }
}
