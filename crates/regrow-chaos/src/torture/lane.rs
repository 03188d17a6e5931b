//! A lane: one program under torture, its callers, its far side, and the cycles that it goes through.

mod look;
mod setup;

use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use fastrand::Rng;

use self::look::{wait_until, with_commands};
pub(super) use self::setup::LANES;
use self::setup::{Setup, Surroundings};
use super::call::{Call, Told, Tool};
use super::callers::{CALLERS, call_on};
use super::checks::{Broken, Promise, judge_calls, judge_growth, judge_orphans};
use super::face::{Ending, Hand};
use super::far::Far;
use super::history::{Begun, History};
use super::plan::{Habit, Plan, Step};
use super::system::{self, Process};
use super::{Cycle, Sample, Shared};

/// The deadline that the program under torture has for a call, and how much later an answer may be seen. That is
/// generous, since the machine is busy with everything else that goes on.
const CALL_TIMEOUT: Duration = Duration::from_secs(3);
const GRACE: Duration = Duration::from_secs(4);
/// What is left of a server must be gone so soon after the next one serves.
const TIDY_LIMIT: Duration = Duration::from_secs(10);
/// How long the program may take to end when its client leaves, or it is told to.
const FAREWELL_LIMIT: Duration = Duration::from_secs(10);
/// How often we ask whether it serves again.
const ASK_EVERY: Duration = Duration::from_millis(100);
/// So many of these questions are open at a time.
const MOST_QUESTIONS: usize = 50;
/// No more broken promises are told of one lane; more would only repeat them.
const MOST_BROKEN: usize = 50;

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
        let setup = LANES[number];
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
        let far = setup.far(&folder, &mark, program)?;
        let history = Arc::new(History::new(shared.began));
        let surroundings = Surroundings { number, program, folder: &folder, mark: &mark };
        let face = setup.wrap(&surroundings, far.url().as_deref(), &history)?;
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
        let since = self.far.strike(step, &self.hand)?;
        let name = format!("after `{}` at {:.1}s", step.kind.name(), at.as_secs_f64());
        let recovery = self.serves_again(since);
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

    /// Leaves, and judges all that happened.
    fn end(mut self) -> Record {
        // The guard carries no mark.
        let children: Vec<Process> =
            system::children(self.hand.face.pid()).0.into_iter().filter_map(system::living).collect();
        if !self.hand.face.has_ended() {
            self.hand.history.settle(CALL_TIMEOUT + self.shared.patience);
            let ending = Ending::of(self.shared.seed, self.number);
            let farewell = self.hand.face.end(ending, FAREWELL_LIMIT);
            if farewell.code != Some(0) && ending != Ending::Killed {
                self.breaks(Promise::EndsClean, format!("{ending:?}, it ended as {farewell:?}"));
            }
        }
        self.far.end_site();
        let left = || -> HashSet<Process> {
            let children = children.iter().copied().filter(|child| child.is_alive());
            system::marked(&self.mark).into_iter().chain(children).collect()
        };
        wait_until(self.tidy_limit(), || left().is_empty());
        let left: Vec<Process> = left().into_iter().collect();
        self.record.broken.extend(judge_orphans(self.number, "at the end", &with_commands(&left)));
        for process in left {
            system::signal(process.pid, rustix::process::Signal::KILL); // Told, so it need not stay.
        }
        self.far.witness.look();
        self.record.calls = self.hand.history.calls();
        let limit = CALL_TIMEOUT + GRACE;
        let judged = judge_calls(
            self.number,
            &self.record.calls,
            &self.far.witness.runs,
            limit,
            &self.shared.stalls.seen(),
        );
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

    fn tidy_limit(&self) -> Duration {
        TIDY_LIMIT.min(self.shared.patience)
    }

    fn breaks(&mut self, promise: Promise, what: String) {
        if self.record.broken.len() < MOST_BROKEN {
            self.record.broken.push(Broken { promise, lane: self.number, what });
        }
    }
}
