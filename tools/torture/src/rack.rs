//! A rack: one program under torture, and the lanes whose servers it stands in front of.

mod start;

use std::collections::{HashMap, HashSet};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use regrow_chaos::processes;
use regrow_chaos::program::Program;
use regrow_chaos::sync::wait_until;
use rustix::process::Signal;

pub(crate) use self::start::Ground;
use super::call::Call;
use super::checks::{Broken, Promise, judge_growth, judge_orphans};
use super::lane::{CALL_TIMEOUT, GRACE, Lane, TIDY_LIMIT, with_commands};
use super::operator::Operator;
use super::stalls::{self, Stalls};
use super::system::{self, Process};
use super::{Cycle, Shared, Subject, side_by_side};

/// How many call a server at the same time.
const CALLERS: u64 = 3;
/// How long the program may take to end when its client leaves, or it is told to.
const FAREWELL_LIMIT: Duration = Duration::from_secs(10);
/// No promise is told to be broken more often by one program; more would only repeat it.
const MOST_BROKEN: usize = 50;

/// A way to end the program under torture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    /// Its client leaves.
    Left,
    /// SIGTERM.
    Told,
    /// SIGKILL; what it started must not outlive it even so.
    Killed,
}

impl Ending {
    /// Ends it so. Returns its exit code; none if a signal ended it, or it had to be killed.
    fn end(self, program: &Program) -> Option<i32> {
        match self {
            Ending::Left => program.close_input(),
            Ending::Told => processes::signal(program.pid, Signal::TERM),
            Ending::Killed => processes::signal(program.pid, Signal::KILL),
        }
        let Some(status) = program.exit_within(FAREWELL_LIMIT) else {
            processes::signal(program.pid, Signal::KILL);
            program.exit_within(FAREWELL_LIMIT);
            return None;
        };
        status.code()
    }
}

/// What a rack leaves: evidence.
pub(crate) struct Record {
    pub(crate) subject: Subject,
    pub(crate) cycles: Vec<Cycle>,
    pub(crate) calls: Vec<Call>,
    pub(crate) broken: Vec<Broken>,
}

pub(crate) struct Rack<'a> {
    name: String,
    shared: &'a Shared<'a>,
    lanes: Vec<Lane<'a>>,
    ending: Ending,
    /// Reads what the program says, where it can be asked.
    operator: Option<Operator>,
    /// When the program was kept from running.
    waits: Stalls,
    broken: Vec<Broken>,
}

impl Rack<'_> {
    /// Goes through cycles until there are no more, and judges all that happened.
    pub(crate) fn run(mut self) -> io::Result<Record> {
        self.torture()?;
        if self.program().exit().is_none() {
            self.calm_down();
        }
        self.end();
        self.judge();
        Ok(self.record())
    }

    fn torture(&mut self) -> io::Result<()> {
        let over = AtomicBool::new(false);
        thread::scope(|scope| {
            let over = &over;
            for lane in &self.lanes {
                for caller in 0..CALLERS {
                    let (hand, random) = lane.caller(caller);
                    scope.spawn(move || hand.call_on(random, CALL_TIMEOUT + GRACE, over));
                }
            }
            if let Some(operator) = &self.operator {
                scope.spawn(move || operator.watch(over));
            }
            let (waits, pid, began) = (&self.waits, self.program().pid, self.shared.began);
            scope.spawn(move || waits.watch_process(pid, began, over));
            let ends = side_by_side(self.lanes.iter_mut().map(|lane| move || lane.cycles()));
            over.store(true, Ordering::SeqCst);
            ends.map(drop)
        })
    }

    /// The faults are over: all must be well again.
    fn calm_down(&mut self) {
        let limit = self.shared.patience;
        self.lanes.iter().for_each(|lane| lane.hand.history.settle(CALL_TIMEOUT + limit));
        let Some(operator) = &self.operator else { return };
        let (pid, expected) = (self.program().pid, operator.children());
        let is_calm = wait_until(limit, || operator.is_calm());
        let is_whole = wait_until(limit, || system::children(pid).0.len() == expected);
        if !is_calm {
            self.breaks(
                Promise::Status,
                "the faults are over, and it does not say that all are ready".into(),
            );
        }
        if !is_whole {
            let alive = system::children(pid).0;
            self.breaks(Promise::OneServer, format!("at the end: children {alive:?}, expected {expected}"));
        }
    }

    /// Ends the program. Nothing may outlive it.
    fn end(&mut self) {
        // The guard carries no mark.
        let children: Vec<Process> =
            system::children(self.program().pid).0.into_iter().filter_map(system::living).collect();
        if self.program().exit().is_none() {
            let code = self.ending.end(self.program());
            if code != Some(0) && self.ending != Ending::Killed {
                self.breaks(Promise::EndsClean, format!("{:?}, its exit code was {code:?}", self.ending));
            }
        }
        self.lanes.iter_mut().for_each(|lane| lane.far.end_site());
        let left = || -> HashSet<Process> {
            let marked = self.lanes.iter().flat_map(|lane| system::marked(&lane.mark));
            marked.chain(children.iter().copied().filter(|child| child.is_alive())).collect()
        };
        wait_until(TIDY_LIMIT.min(self.shared.patience), || left().is_empty());
        let left: Vec<Process> = left().into_iter().collect();
        self.broken.extend(judge_orphans(&self.name, "at the end", &with_commands(&left)));
        for process in left {
            processes::signal(process.pid, Signal::KILL); // Told, so it need not stay.
        }
    }

    fn judge(&mut self) {
        let stalls = stalls::merged(&self.shared.stalls.seen(), &self.waits.seen());
        self.lanes.iter_mut().for_each(|lane| lane.judge(&stalls));
        if let Some(operator) = &self.operator {
            self.broken.extend(operator.judge(&self.name, &self.lanes, &stalls));
        }
    }

    fn record(mut self) -> Record {
        let mut samples: Vec<_> =
            self.lanes.iter_mut().flat_map(|lane| lane.record.samples.drain(..)).collect();
        samples.sort_by_key(|sample| sample.at);
        self.broken.extend(judge_growth(&self.name, self.lanes.len(), &samples));
        self.broken.extend(self.lanes.iter_mut().flat_map(|lane| lane.record.broken.drain(..)));
        let mut told: HashMap<Promise, usize> = HashMap::new();
        self.broken.retain(|broken| {
            let times = told.entry(broken.promise).or_default();
            *times += 1;
            *times <= MOST_BROKEN
        });
        let subject = Subject {
            lanes: self.lanes.iter().map(|lane| lane.number).collect(),
            samples,
            asked: self.operator.as_ref().map(Operator::asked),
            waited: self.waits.seen().iter().map(|stall| stall.to - stall.from).sum(),
            log: self.program().log(),
            name: self.name,
        };
        let records = self.lanes.into_iter().map(|lane| (lane.record.cycles, lane.record.calls));
        let (cycles, calls): (Vec<_>, Vec<_>) = records.unzip();
        Record { subject, cycles: cycles.concat(), calls: calls.concat(), broken: self.broken }
    }

    fn program(&self) -> &Program {
        self.lanes[0].hand.face.program()
    }

    fn breaks(&mut self, promise: Promise, what: String) {
        self.broken.push(Broken { promise, whose: self.name.clone(), what });
    }
}
