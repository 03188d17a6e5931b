//! A lane: one server behind a program under torture, its callers, and the cycles that it goes through.

mod look;
mod setup;

use std::collections::HashSet;
use std::io;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use fastrand::Rng;

pub(crate) use self::look::with_commands;
pub(crate) use self::setup::{LANES, Served, Setup, Way};
use super::call::{Call, Told, Tool};
use super::checks::{Broken, Promise, judge_calls, judge_spared};
use super::face::Hand;
use super::far::Far;
use super::history::Begun;
use super::plan::{Habit, Place, Plan, Step};
use super::system::Process;
use super::{Cycle, Sample, Shared, Stall};

/// The deadline that the program under torture has for a call, and how much later an answer may be seen. That is
/// generous, since the machine is busy with everything else that goes on.
pub(crate) const CALL_TIMEOUT: Duration = Duration::from_secs(3);
pub(crate) const GRACE: Duration = Duration::from_secs(4);
/// What is left of a server must be gone so soon after the next one serves.
pub(crate) const TIDY_LIMIT: Duration = Duration::from_secs(10);
/// How often we ask whether it serves again.
const ASK_EVERY: Duration = Duration::from_millis(100);
/// At most this many of these questions are open at a time.
const MOST_QUESTIONS: usize = 50;
/// No more broken promises are seen in the cycles of one lane; more would only repeat them.
const MOST_BROKEN: usize = 50;

/// What a lane leaves: evidence.
#[derive(Default)]
pub(crate) struct Record {
    pub(crate) cycles: Vec<Cycle>,
    pub(crate) samples: Vec<Sample>,
    pub(crate) calls: Vec<Call>,
    pub(crate) broken: Vec<Broken>,
}

pub(crate) struct Lane<'a> {
    pub(crate) number: usize,
    setup: Setup,
    shared: &'a Shared<'a>,
    pub(crate) mark: String,
    pub(crate) hand: Hand,
    pub(crate) far: Far,
    /// How the server that runs now lives.
    life: Habit,
    /// What carries its mark and stays, whatever is done to the server: the session that keeps the lists.
    stays: HashSet<Process>,
    /// How often the server was seen to be replaced.
    pub(crate) deaths: u64,
    pub(crate) record: Record,
}

impl<'a> Lane<'a> {
    /// Greets the server.
    pub(crate) fn new(
        number: usize,
        setup: Setup,
        mark: String,
        hand: Hand,
        far: Far,
        shared: &'a Shared<'a>,
    ) -> Lane<'a> {
        let mut lane = Lane {
            number,
            setup,
            shared,
            mark,
            hand,
            far,
            life: "",
            stays: HashSet::new(),
            deaths: 0,
            record: Record::default(),
        };
        if setup.place == Place::Private {
            lane.stays = lane.belongings();
        }
        if !lane.hand.greet(shared.patience) {
            lane.breaks(Promise::Recovers, "the first greeting was never answered".into());
        }
        lane
    }

    pub(crate) fn name(&self) -> String {
        format!("lane {}", self.number)
    }

    /// What a caller needs.
    pub(crate) fn caller(&self, caller: u64) -> (Hand, Rng) {
        let seed = self.shared.seed.wrapping_add(1000 * self.number as u64 + caller);
        (self.hand.clone(), Rng::with_seed(seed))
    }

    /// Goes through cycles until there are no more.
    pub(crate) fn cycles(&mut self) -> io::Result<()> {
        if self.setup.is_spared() {
            return Ok(());
        }
        let gone_through = self.go_through(Plan::new(self.shared.seed, self.number, self.setup.place));
        if gone_through.is_err() {
            self.shared.stop.store(true, Ordering::SeqCst); // Without a lane the run is worth nothing.
        }
        gone_through
    }

    fn go_through(&mut self, plan: Plan) -> io::Result<()> {
        self.serves_again(Instant::now()); // So that there is somebody to hit. Whether it does is seen after the first blow.
        for step in plan {
            if self.hand.face.program().exit().is_some() {
                self.breaks(Promise::Recovers, "the program under torture ended on its own".into());
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
        let name = format!("after {:?} at {:.1}s", step.kind, at.as_secs_f64());
        let recovery = self.serves_again(since);
        match recovery {
            None => {
                self.breaks(Promise::Recovers, format!("{name}: no answer within {:?}", self.shared.patience))
            }
            Some(_) if self.replaced(step, lives, old) => {
                self.tidy(&name, before);
                self.life = step.habit;
                self.deaths += 1;
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
        self.shared.cycle_done();
        Ok(recovery.is_some())
    }

    /// Asks until a call that was made after `since` is answered. How long that took; none if it never happens.
    fn serves_again(&mut self, since: Instant) -> Option<Duration> {
        let mut questions: Vec<Begun> = vec![];
        let mut next = Instant::now();
        while since.elapsed() < self.shared.patience && self.hand.face.program().exit().is_none() {
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

    /// Judges all calls; `stalls` is when nobody could do anything about them. No server may run any more.
    pub(crate) fn judge(&mut self, stalls: &[Stall]) {
        self.far.witness.look();
        self.record.calls = self.hand.history.calls();
        let (name, limit) = (self.name(), CALL_TIMEOUT + GRACE);
        let (calls, runs) = (&self.record.calls, &self.far.witness.runs);
        let judged = judge_calls(&name, calls, runs, limit, stalls);
        self.record.broken.extend(judged);
        if self.setup.is_spared() {
            self.record.broken.extend(judge_spared(&name, &self.record.calls));
        }
        if self.hand.history.unasked() > 0 {
            let what = format!("{} messages that nobody asked for", self.hand.history.unasked());
            self.breaks(Promise::OneAnswer, what);
        }
    }

    fn tidy_limit(&self) -> Duration {
        TIDY_LIMIT.min(self.shared.patience)
    }

    fn breaks(&mut self, promise: Promise, what: String) {
        if self.record.broken.len() < MOST_BROKEN {
            let broken = Broken { promise, whose: self.name(), what };
            eprintln!("torture: BROKEN: {broken}");
            self.record.broken.push(broken);
        }
    }
}
