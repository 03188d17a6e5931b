//! Real torture: `regrow wrap` and `regrow serve` in front of servers that die, hang and lie in every way we know, called on and
//! on meanwhile.
//!
//! Real processes and sockets, on Linux. Several *lanes* run side by side, each with a server that misbehaves, and callers; every
//! cycle does one thing from a seeded plan. What callers were told is compared with the servers' journals, what the program says
//! about itself with what is so, and what it holds is watched. See `docs/torture.md`.

mod call;
mod callers;
mod checks;
mod face;
mod far;
mod history;
mod lane;
mod operator;
mod plan;
mod program;
mod rack;
mod report;
mod serve;
mod stalls;
mod system;
mod witness;
mod wrap;

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

pub use self::call::{Call, Delivery, Told, Tool};
pub use self::checks::{Broken, Growth, Promise, growth};
pub use self::plan::{Habit, Kind, Place, Plan, Step};
pub use self::report::Report;
pub use self::stalls::Stall;

use self::history::History;
use self::lane::{LANES, Record, Way};
use self::rack::{Ground, Rack};
use self::stalls::Stalls;

/// What to do.
#[derive(Clone, Debug)]
pub struct Options {
    /// The `regrow` executable: what is tortured, and what plays the servers.
    pub program: PathBuf,
    /// What of it.
    pub target: Target,
    /// So many cycles at most; none: until the time is over.
    pub cycles: Option<u64>,
    /// So long at most.
    pub time: Option<Duration>,
    /// Decides the plan.
    pub seed: u64,
    /// A connection that does not answer so long after a fault has not come back.
    pub patience: Duration,
}

/// What is tortured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Target {
    /// `regrow wrap`, several of them.
    Wrap,
    /// `regrow serve`.
    Serve,
    /// Both, side by side.
    #[default]
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
pub struct Cycle {
    /// Where.
    pub lane: usize,
    /// What was done.
    pub kind: Kind,
    /// How the server lived that it was done to.
    pub life: Habit,
    /// How the server after it lives.
    pub next: Habit,
    /// When, since the run began.
    pub at: Duration,
    /// How long until a call was answered again: from the blow, or from its end where it was mended by hand.
    pub recovery: Option<Duration>,
}

/// What a program under torture holds, at the end of a cycle.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    /// When, since the run began.
    pub at: Duration,
    /// Resident memory.
    pub memory_kib: u64,
    /// Open files.
    pub files: u64,
    /// Threads.
    pub threads: u64,
    /// Tasks, where it tells.
    pub tasks: Option<u64>,
}

/// A program that was tortured.
#[derive(Clone, Debug)]
pub struct Subject {
    /// That of its lane, or its own where it has several.
    pub name: String,
    /// Its lanes.
    pub lanes: Vec<usize>,
    /// What it held, in the order of time.
    pub samples: Vec<Sample>,
    /// How often it was asked about itself, where it can be.
    pub asked: Option<Asked>,
    /// How long it was ready to run, and was not run.
    pub waited: Duration,
    /// The last lines of its log.
    pub log: Vec<String>,
}

/// How often a program was asked about itself.
#[derive(Clone, Copy, Debug)]
pub struct Asked {
    /// So often every page was read.
    pub readings: usize,
    /// In so many of these nothing changed meanwhile, so that all pages had to agree.
    pub steady: usize,
    /// The longest that `/livez` took.
    pub slowest: Duration,
}

/// How far a run has come.
#[derive(Clone, Copy, Debug, Default)]
pub struct Progress {
    /// Cycles gone through.
    pub cycles: u64,
    /// Calls made.
    pub calls: usize,
    /// Calls that were told a fault in place of an answer.
    pub faults: u64,
    /// The longest recovery so far, and from what.
    pub worst: Option<(Duration, Kind)>,
    /// The memory of the largest program under torture.
    pub memory_kib: u64,
    /// Broken promises so far.
    pub broken: usize,
}

/// All that a run has shown.
pub struct Outcome {
    /// What decided the plan.
    pub seed: u64,
    /// What was tortured.
    pub target: Target,
    /// How long it took.
    pub took: Duration,
    /// Whether it was stopped by hand.
    pub stopped: bool,
    /// The cycles, in the order of time.
    pub cycles: Vec<Cycle>,
    /// The programs, and what each held.
    pub subjects: Vec<Subject>,
    /// All calls.
    pub calls: Vec<Call>,
    /// The promises that were broken.
    pub broken: Vec<Broken>,
    /// When the machine stood still.
    pub stalls: Vec<Stall>,
}

/// Tortures until the cycles or the time are over, or `stop` is set. `watch` hears how far it is, now and then.
pub fn run(options: &Options, stop: &AtomicBool, watch: &(dyn Fn(&Progress) + Sync)) -> io::Result<Outcome> {
    let folder = Folder::new()?;
    let began = Instant::now();
    let shared = Shared {
        seed: options.seed,
        patience: options.patience,
        began,
        mark: folder.name(),
        left: AtomicU64::new(options.cycles.unwrap_or(u64::MAX)),
        deadline: options.time.map(|time| began + time),
        stop,
        progress: Mutex::new([Progress::default(); LANES.len()]),
        stalls: Stalls::default(),
        watch,
    };
    let ground = Ground { program: &options.program, folder: &folder.0, shared: &shared };
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
        seed: options.seed,
        target: options.target,
        took: began.elapsed(),
        stopped: stop.load(Ordering::SeqCst),
        cycles: vec![],
        subjects: vec![],
        calls: vec![],
        broken: vec![],
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
    progress: Mutex<[Progress; LANES.len()]>,
    stalls: Stalls,
    watch: &'a (dyn Fn(&Progress) + Sync),
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

    /// Says how far a lane is.
    fn tell(&self, history: &History, lane: usize, record: &Record) {
        let recoveries = record.cycles.iter().filter_map(|cycle| Some((cycle.recovery?, cycle.kind)));
        let own = Progress {
            cycles: record.cycles.len() as u64,
            calls: history.len(),
            faults: history.faults(),
            worst: recoveries.max(),
            memory_kib: record.samples.last().map_or(0, |sample| sample.memory_kib),
            broken: record.broken.len(),
        };
        let mut lanes = self.progress.lock().unwrap_or_else(PoisonError::into_inner);
        lanes[lane] = own;
        let all = lanes.iter().fold(Progress::default(), |all, lane| Progress {
            cycles: all.cycles + lane.cycles,
            calls: all.calls + lane.calls,
            faults: all.faults + lane.faults,
            worst: all.worst.max(lane.worst),
            memory_kib: all.memory_kib.max(lane.memory_kib),
            broken: all.broken + lane.broken,
        });
        (self.watch)(&all);
    }
}

/// The program, without what the user has set for other servers, in a group of its own: Ctrl-C is for us alone.
fn clean(program: &Path) -> Command {
    let mut command = Command::new(program);
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("REGROW_") || text.starts_with("CHAOS") {
            command.env_remove(name);
        }
    }
    command.process_group(0);
    command
}

/// A folder of our own for the journals; it goes when we go.
struct Folder(PathBuf);

impl Folder {
    fn new() -> io::Result<Folder> {
        let since_epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let name = format!("regrow-torture-{}-{}", std::process::id(), since_epoch.as_nanos());
        let path = std::env::temp_dir().join(name);
        DirBuilder::new().mode(0o700).create(&path)?;
        Ok(Folder(path))
    }

    fn name(&self) -> String {
        self.0.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0); // The system clears its temporary files in the end.
    }
}
