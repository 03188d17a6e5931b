//! A lane: one program under torture, its callers, its far side, and the cycles that it goes through.

use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use fastrand::Rng;

use super::callers::{CALLERS, call_on};
use super::checks::{Broken, Promise, judge_calls, judge_growth, judge_orphans};
use super::face::{Face, Hand};
use super::far::Far;
use super::history::{Begun, Call, History, Told, Tool};
use super::plan::{Habit, Place, Plan, Step};
use super::system::{self, MARK, Process};
use super::wrap::Wrap;
use super::{Cycle, Sample, Shared, clean};

/// The deadline that the program under torture has for a call, and how much later an answer may be seen. That is
/// generous, since the machine is busy with everything else that goes on.
pub(super) const CALL_TIMEOUT: Duration = Duration::from_secs(3);
const GRACE: Duration = Duration::from_secs(4);
/// What is left of a server must be gone so soon after the next one serves.
const TIDY_LIMIT: Duration = Duration::from_secs(5);
/// How long the program may take to end when its client leaves.
const FAREWELL_LIMIT: Duration = Duration::from_secs(6);
/// How often we ask whether it serves again.
const ASK_EVERY: Duration = Duration::from_millis(100);
/// So many of these questions are open at a time.
const MOST_QUESTIONS: usize = 50;
/// No more broken promises are told of one lane; more would only repeat them.
const MOST_BROKEN: usize = 50;

/// What a lane is.
#[derive(Clone, Copy)]
pub(super) struct Setup {
    pub(super) place: Place,
    pub(super) modern_client: bool,
    /// The plan that a remote server has all its life.
    pub(super) server_plan: &'static str,
    pub(super) options: &'static [&'static str],
}

/// The lanes, from the first; they differ in place, era and options.
pub(super) const LANES: [Setup; 6] = [
    Setup { place: Place::Process, modern_client: false, server_plan: "", options: &[] },
    Setup { place: Place::Sessions, modern_client: false, server_plan: "refuse-discover", options: &[] },
    Setup {
        place: Place::Process,
        modern_client: true,
        server_plan: "",
        options: &["--stderr", "keep", "--budget", "1000000/1"],
    },
    Setup { place: Place::Stateless, modern_client: true, server_plan: "modern-only", options: &[] },
    Setup { place: Place::Process, modern_client: false, server_plan: "", options: &["--stderr", "keep"] },
    Setup { place: Place::Stateless, modern_client: false, server_plan: "modern-only", options: &[] },
];

/// What a lane leaves: evidence.
#[derive(Default)]
pub(super) struct Record {
    pub(super) cycles: Vec<Cycle>,
    pub(super) samples: Vec<Sample>,
    pub(super) calls: Vec<Call>,
    pub(super) broken: Vec<Broken>,
    pub(super) log: Vec<String>,
}

pub(super) struct Lane<'a> {
    number: usize,
    shared: &'a Shared<'a>,
    mark: String,
    hand: Hand,
    far: Far,
    /// How the server that runs now lives.
    life: Habit,
    record: Record,
}

impl<'a> Lane<'a> {
    /// Goes through cycles until there are no more.
    pub(super) fn run(
        number: usize,
        program: &Path,
        folder: &Path,
        shared: &'a Shared<'a>,
    ) -> io::Result<Record> {
        let setup = LANES[number % LANES.len()];
        let mut lane = Lane::start(number, setup, program, folder, shared)?;
        let plan = Plan::new(shared.seed, number, setup.place);
        let over = AtomicBool::new(false);
        thread::scope(|scope| {
            for caller in 0..CALLERS {
                let (hand, over) = (lane.hand.clone(), &over);
                let random = Rng::with_seed(shared.seed.wrapping_add(1000 * number as u64 + caller));
                scope.spawn(move || call_on(&hand, random, CALL_TIMEOUT + GRACE, over));
            }
            let gone_through = lane.cycles(plan);
            over.store(true, Ordering::SeqCst);
            gone_through
        })?;
        Ok(lane.end())
    }

    fn start(
        number: usize,
        setup: Setup,
        program: &Path,
        folder: &Path,
        shared: &'a Shared<'a>,
    ) -> io::Result<Lane<'a>> {
        let folder: PathBuf = folder.join(format!("lane-{number}"));
        let mark = format!("{}-{number}", shared.mark);
        let is_process = setup.place == Place::Process;
        let far = match is_process {
            true => Far::process(&folder, &mark)?,
            false => Far::remote(&folder, &mark, program, setup.server_plan)?,
        };
        let mut command = clean(program);
        command.args(["wrap", "--name", &format!("lane-{number}"), "--call-timeout", "3s"]);
        command.args(["--connect-timeout", "10s", "--safe-tool", "lookup"]).args(setup.options);
        match far.url() {
            Some(url) => command.args(["--reach-timeout", "2s", "--no-cache", &url]),
            None => command.arg("--").arg(program).arg("chaos-server"),
        };
        command.env(MARK, &mark).env("CHAOS_DIR", &folder).env("NO_PROXY", "*");
        let history = Arc::new(History::new(shared.began));
        // The guard and the server; a remote server is nobody's child, and needs no guard.
        let children = if is_process { 2 } else { 0 };
        let log_is_whole = !is_process || setup.options.contains(&"keep");
        let face: Arc<dyn Face> = Arc::new(Wrap::start(&mut command, children, log_is_whole, &history)?);
        let hand = Hand { history, face, modern: setup.modern_client };
        let mut lane =
            Lane { number, shared, mark, hand, far, life: Habit::Plain, record: Record::default() };
        if !lane.hand.greet(shared.patience) {
            lane.breaks(Promise::Recovers, "the first greeting was never answered".into());
        }
        Ok(lane)
    }

    fn cycles(&mut self, plan: Plan) -> io::Result<()> {
        for step in plan {
            if self.hand.face.has_ended() {
                self.breaks(Promise::Recovers, "the program under torture ended by itself".into());
                return Ok(());
            }
            if self.hand.history.is_nearly_full() || !self.shared.take_cycle() || !self.cycle(&step)? {
                return Ok(());
            }
        }
        Ok(())
    }

    /// False if the connection did not come back, so that there is nothing left to torture.
    fn cycle(&mut self, step: &Step) -> io::Result<bool> {
        thread::sleep(step.pause);
        for _ in 0..step.burst {
            // Nobody waits for these; they are judged with all others.
            drop(self.hand.call(Tool::Count(step.chance % 200)));
        }
        let (before, old) = (self.belongings(), self.far.server());
        let lives = self.far.witness.lives.len();
        let (at, life) = (self.shared.began.elapsed(), self.life);
        let struck = self.far.strike(step, &self.hand)?;
        let name = format!("after `{}` at {:.1}s", step.kind.name(), at.as_secs_f64());
        let recovery = self.serves_again(struck.since);
        match recovery {
            None => {
                self.breaks(Promise::Recovers, format!("{name}: no answer within {:?}", self.shared.patience))
            }
            Some(_) if self.replaced(step, lives, old) => {
                self.tidy(&name, before);
                self.life = step.habit;
            }
            Some(_) if step.kind.replaces() && self.far.url().is_none() => {
                self.breaks(Promise::Recovers, format!("{name}: no other server took over"));
            }
            Some(_) => {}
        }
        // A planned restart may have begun only after that answer.
        if recovery.is_some() && self.serves_again(Instant::now()).is_some() {
            self.look_around(&name);
        }
        let next = self.life;
        self.record.cycles.push(Cycle { lane: self.number, kind: step.kind, life, next, at, recovery });
        self.shared.tell(&self.hand.history, self.number, &self.record);
        Ok(recovery.is_some())
    }

    /// Asks until a call that was made after `since` is answered. How long that took; none if it never happens.
    fn serves_again(&mut self, since: Instant) -> Option<Duration> {
        let mut questions: Vec<Begun> = vec![];
        let mut next = Instant::now();
        while since.elapsed() < self.shared.patience && !self.hand.face.has_ended() {
            if Instant::now() >= next && questions.len() < MOST_QUESTIONS {
                questions.extend(self.hand.call(Tool::Count(0)));
                next = Instant::now() + ASK_EVERY;
            }
            self.hand.history.wait(ASK_EVERY / 4);
            let answered = |question: &Begun| question.answer.try_recv().ok();
            let mut good = None;
            questions.retain(|question| match answered(question) {
                Some(Told::Right) => {
                    good = good.or(Some(question.key));
                    false
                }
                told => told.is_none(),
            });
            self.one_server();
            if let Some(ended) = good.and_then(|key| self.hand.history.ended(key)) {
                return Some((self.shared.began + ended).saturating_duration_since(since));
            }
        }
        None
    }

    /// Whether another process serves than before. Waits for it where it must come.
    fn replaced(&mut self, step: &Step, lives: usize, old: Option<Process>) -> bool {
        if self.far.url().is_some() {
            return false; // A remote process is ours to replace.
        }
        let wanted = step.kind.replaces();
        let deadline = Instant::now() + self.shared.patience;
        loop {
            self.one_server();
            let new = self.far.witness.lives.len() > lives && old.is_none_or(|old| !old.is_alive());
            if new || !wanted || Instant::now() >= deadline {
                return new;
            }
            self.hand.history.wait(ASK_EVERY / 4);
        }
    }

    /// At most one server may live at any instant.
    fn one_server(&mut self) {
        let servers = self.far.servers();
        if servers.len() > 1 {
            self.breaks(Promise::OneServer, format!("{servers:?} live at the same time"));
        }
    }

    /// What of the old server still lives?
    fn tidy(&mut self, name: &str, before: HashSet<Process>) {
        let left = |before: &HashSet<Process>| -> Vec<Process> {
            before.iter().copied().filter(|process| process.is_alive()).collect()
        };
        wait_until(TIDY_LIMIT, || left(&before).is_empty());
        let left = with_commands(&left(&before));
        self.record.broken.extend(judge_orphans(self.number, name, &left));
    }

    /// The state of the program when it serves again.
    fn look_around(&mut self, name: &str) {
        let (pid, expected) = (self.hand.face.pid(), self.hand.face.children());
        let mut zombies = system::children(pid).1;
        wait_until(TIDY_LIMIT, || {
            let now = system::children(pid).1;
            zombies.retain(|zombie| now.contains(zombie));
            zombies.is_empty()
        });
        if !zombies.is_empty() {
            self.breaks(Promise::NoZombies, format!("{name}: {zombies:?}"));
        }
        if !wait_until(TIDY_LIMIT, || system::children(pid).0.len() == expected) {
            let alive = system::children(pid).0;
            self.breaks(Promise::OneServer, format!("{name}: children {alive:?}, expected {expected}"));
        }
        let face = self.hand.face.clone();
        if !wait_until(TIDY_LIMIT, || face.says_ready() != Some(false)) {
            self.breaks(Promise::Status, format!("{name}: it serves, and says that it is not ready"));
        }
        if let Some(holding) = system::holding(pid) {
            self.record.samples.push(Sample {
                lane: self.number,
                at: self.shared.began.elapsed(),
                memory_kib: holding.memory_kib,
                files: holding.files,
                threads: holding.threads,
            });
        }
    }

    /// The processes of the server and its helpers.
    fn belongings(&self) -> HashSet<Process> {
        let own = self.hand.face.pid();
        system::marked(&self.mark).into_iter().filter(|process| process.pid != own).collect()
    }

    /// Leaves, and judges all that happened.
    fn end(mut self) -> Record {
        if !self.hand.face.has_ended() {
            self.hand.history.settle(CALL_TIMEOUT + GRACE);
            let farewell = self.hand.face.leave(FAREWELL_LIMIT);
            if farewell.code != Some(0) {
                self.breaks(Promise::EndsClean, format!("it ended as {farewell:?} after its client left"));
            }
        }
        self.far.end_site();
        wait_until(TIDY_LIMIT, || system::marked(&self.mark).is_empty());
        let left = system::marked(&self.mark);
        self.record.broken.extend(judge_orphans(self.number, "at the end", &with_commands(&left)));
        for process in left {
            system::signal(process.pid, rustix::process::Signal::KILL); // Told, so it need not stay.
        }
        self.far.witness.look();
        self.record.calls = self.hand.history.calls();
        let limit = CALL_TIMEOUT + GRACE;
        let judged = judge_calls(self.number, &self.record.calls, &self.far.witness.runs, limit);
        self.record.broken.extend(judged);
        self.record.broken.extend(judge_growth(self.number, &self.record.samples));
        if self.hand.history.unasked() > 0 {
            let what = format!("{} messages that nobody asked for", self.hand.history.unasked());
            self.breaks(Promise::OneAnswer, what);
        }
        self.record.broken.truncate(MOST_BROKEN);
        self.record.log = self.hand.face.log();
        self.shared.tell(&self.hand.history, self.number, &self.record);
        self.record
    }

    fn breaks(&mut self, promise: Promise, what: String) {
        if self.record.broken.len() < MOST_BROKEN {
            self.record.broken.push(Broken { promise, lane: self.number, what });
        }
    }
}

fn with_commands(processes: &[Process]) -> Vec<(u32, String)> {
    processes.iter().map(|process| (process.pid, system::command_line(process.pid))).collect()
}

/// Waits for what must come; false if it does not in time.
fn wait_until(limit: Duration, mut holds: impl FnMut() -> bool) -> bool {
    let deadline = Instant::now() + limit;
    while !holds() {
        if Instant::now() >= deadline {
            return false;
        }
        thread::sleep(Duration::from_millis(5));
    }
    true
}
